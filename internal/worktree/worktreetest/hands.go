package worktreetest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
)

// Hands is a repository in the hands of one daemon.
type Hands struct {
	*Repo
	// Do lets something be done that changes the repository or does not, in its time, or says why it is not done. What was done
	// by a daemon that is dead when it is, it does not learn of.
	Do func(ctx context.Context, changes bool, deed func()) error
}

var _ worktree.Git = Hands{}

func (h Hands) look(ctx context.Context, deed func() error) error  { return h.do(ctx, false, deed) }
func (h Hands) apply(ctx context.Context, deed func() error) error { return h.do(ctx, true, deed) }

func (h Hands) do(ctx context.Context, changes bool, deed func() error) error {
	var failed error
	err := h.Do(ctx, changes, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		failed = deed()
	})
	if err != nil {
		return err
	}
	return failed
}

func (h Hands) RefAt(ctx context.Context, _, ref string) (id string, err error) {
	err = h.look(ctx, func() error {
		if id = h.refs[ref]; id == "" && h.order[ref] > 0 {
			id = ref
		}
		return nil
	})
	return id, err
}

func (h Hands) MoveRef(ctx context.Context, _, ref, to, from string) error {
	return h.apply(ctx, func() error { return h.move(ref, to, from) })
}

func (h Hands) MoveRefUnless(ctx context.Context, _, ref, to, from string, others ...string) error {
	return h.apply(ctx, func() error {
		for _, other := range others {
			if h.refs[other] != "" {
				return td.Errorf(td.Conflict, "there is %s", other)
			}
		}
		return h.move(ref, to, from)
	})
}

func (h Hands) IsAncestor(ctx context.Context, _, old, young string) (is bool, err error) {
	err = h.look(ctx, func() error {
		is = h.history(young)[old]
		return nil
	})
	return is, err
}

func (h Hands) MergeBase(ctx context.Context, _, a, b string) (base string, err error) {
	err = h.look(ctx, func() error {
		theirs := h.history(b)
		for id := range h.history(a) {
			if theirs[id] && (base == "" || h.order[id] > h.order[base]) {
				base = id
			}
		}
		return nil
	})
	return base, err
}

func (h Hands) LineageOf(ctx context.Context, _, base string, commits ...string) (of *git.Lineage, err error) {
	err = h.look(ctx, func() error {
		parents, has := map[string][]string{}, h.history(base)
		for id := range h.history(commits...) {
			if !has[id] {
				parents[id] = h.commits[id].parents
			}
		}
		of = git.NewLineage(base, commits, parents)
		return nil
	})
	return of, err
}

// Free finds every name free: people make no branches beside those of tasks.
func (h Hands) Free(context.Context, string, string) error { return nil }

func (h Hands) TrunkOf(ctx context.Context, _ string) (t git.Trunk, err error) {
	err = h.look(ctx, func() error {
		if m := h.midst; m != nil && m.kind != Merge {
			return td.Errorf(td.Refused, "HEAD of %s is detached", h.Root).WithHint("git -C %s switch <branch>", h.Root)
		}
		t = git.Trunk{Root: h.Root, Branch: h.Trunk, Commit: h.refs[heads+h.Trunk]}
		return nil
	})
	return t, err
}

func (h Hands) TrunksOf(ctx context.Context, _, feature string) (of map[string]string, err error) {
	err = h.look(ctx, func() error {
		of = map[string]string{}
		for ref, at := range h.refs {
			if trunk := git.TrunkOfInto(strings.TrimPrefix(ref, heads), feature); trunk != "" {
				of[trunk] = at
			}
		}
		return nil
	})
	return of, err
}

func (h Hands) Refs(ctx context.Context, _ string, prefixes ...string) (found map[string]string, err error) {
	err = h.look(ctx, func() error {
		found = map[string]string{}
		for ref, at := range h.refs {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(ref, p) }) {
				found[ref] = at
			}
		}
		return nil
	})
	return found, err
}

func (h Hands) FastForward(ctx context.Context, _, branch, to string, before func() error) error {
	may := func() (done bool, err error) {
		if err := h.returnsTo(branch); err != nil {
			return false, err
		}
		switch from := h.refs[heads+branch]; {
		case h.history(from)[to]:
			return true, nil
		case !h.history(to)[from]:
			return false, td.Errorf(td.Conflict, "%s is at %.12s, from which %.12s does not descend", branch, from, to)
		case h.dirty && h.Trunk == branch:
			return false, td.Errorf(td.Refused, "the person has changes in the way")
		}
		return false, nil
	}
	if before != nil {
		done := false
		if err := h.look(ctx, func() (err error) { done, err = may(); return err }); err != nil || done {
			return err
		}
		if err := before(); err != nil {
			return err
		}
	}
	return h.apply(ctx, func() error {
		done, err := may()
		if err == nil && !done {
			h.refs[heads+branch] = to
			h.trespassed()
		}
		return err
	})
}

// CheckoutOf is the repository itself.
func (h Hands) CheckoutOf(context.Context, string, string) (string, error) { return h.Root, nil }

// DemandsOf has none: the person has no hooks.
func (h Hands) DemandsOf(context.Context, string) (git.Demands, error) { return git.Demands{}, nil }

func (h Hands) TreeOf(ctx context.Context, _, id string) (tree string, err error) {
	err = h.look(ctx, func() error {
		tree = h.commits[id].tree
		return nil
	})
	return tree, err
}

func (h Hands) CommitTree(ctx context.Context, _, tree, message string, parents ...string) (id string, err error) {
	err = h.apply(ctx, func() error {
		id = h.commit(message, tree, parents...)
		return nil
	})
	return id, err
}

func (h Hands) MergeTree(ctx context.Context, _, ours, theirs string) (m git.Merged, err error) {
	err = h.apply(ctx, func() error {
		var files Files
		files, m.Conflicts = h.join(ours, theirs)
		m.Tree = h.tree(files)
		return nil
	})
	return m, err
}

// Replay is git.Replay.
func (h Hands) Replay(ctx context.Context, _, head, onto, without string) (to string, conflicts []string, err error) {
	err = h.apply(ctx, func() (err error) {
		to, conflicts, err = h.replay(h.own(head, onto, without), onto)
		return err
	})
	return to, conflicts, err
}

func (h Hands) Log(ctx context.Context, _, head string, n int) (log []git.Past, err error) {
	err = h.look(ctx, func() error {
		for id := head; id != "" && len(log) < n; {
			c := h.commits[id]
			subject, _, _ := strings.Cut(c.message, "\n")
			log = append(log, git.Past{ID: id, Parents: c.parents, Subject: subject})
			if id = ""; len(c.parents) > 0 {
				id = c.parents[0]
			}
		}
		return nil
	})
	return log, err
}

func (h Hands) Changed(ctx context.Context, _, from, to string) (names []string, err error) {
	err = h.look(ctx, func() error {
		was, is := h.files(from), h.files(to)
		for name := range is {
			if is[name] != was[name] {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

func (h Hands) Differing(ctx context.Context, _, from, to, name string) (n git.Notable, err error) {
	err = h.look(ctx, func() error {
		was, is := h.files(from), h.files(to)
		if is[name] != was[name] {
			_, had := was[name]
			n.Files = append(n.Files, git.Difference{Path: name, Added: !had})
		}
		return nil
	})
	return n, err
}

// UntakableOf is nothing: the model's checkout has no other files.
func (h Hands) UntakableOf(context.Context, string, string, string, git.Notable) (git.Untakable, error) {
	return git.Untakable{}, nil
}

// Altered: there are no checkouts.
func (h Hands) Altered(context.Context, string, string) ([]string, error) { return nil, nil }

func (h Hands) CheckoutCommit(context.Context, string, string, string) error {
	return td.Errorf(td.Unavailable, "the model makes no checkouts: tasks of a simulation have no validators")
}

// Whole: the model loses no objects.
func (h Hands) Whole(context.Context, string, string, ...string) error { return nil }

// Sound: nor does it have malformed ones.
func (h Hands) Sound(context.Context, string, string, ...string) error { return nil }

// Borrowed: agents of the model merge no branch of another task.
func (h Hands) Borrowed(context.Context, string, string, string, ...string) (found, of string, err error) {
	return "", "", nil
}

// Emptied: nor a person's.
func (h Hands) Emptied(context.Context, string, string, string, ...string) (found, of string, lost []string, err error) {
	return "", "", nil, nil
}

// Undone: nor does a merge of the model's leave out content.
func (h Hands) Undone(context.Context, string, string, string, string) ([]string, error) {
	return nil, nil
}

func (h Hands) At(w git.Worktree) worktree.Folder { return place{h, w} }

func (h Hands) Worktrees(ctx context.Context, repo string) (all []git.WorktreeInfo, err error) {
	err = h.look(ctx, func() error {
		for _, path := range slices.Sorted(maps.Keys(h.folders)) {
			f := h.folders[path]
			all = append(all, git.WorktreeInfo{
				Worktree: git.Worktree{Repo: repo, Path: path, Branch: f.branch}, Head: h.refs[heads+f.branch], Condition: git.Good, Locked: f.locked != "",
			})
		}
		return nil
	})
	return all, err
}

func (h Hands) branches() (all []git.RunBranch) {
	kept := h.retained()
	for _, ref := range slices.Sorted(maps.Keys(h.refs)) {
		if strings.HasPrefix(ref, heads+"taskdaemon/run/") {
			all = append(all, git.RunBranch{Name: strings.TrimPrefix(ref, heads), Head: h.refs[ref], Merged: kept[h.refs[ref]]})
		}
	}
	return all
}

func (h Hands) RunBranches(ctx context.Context, _ string) (all []git.RunBranch, err error) {
	err = h.look(ctx, func() error {
		all = h.branches()
		return nil
	})
	return all, err
}

// RetireBranches finds out which branches go, and then lets them go at one instant.
func (h Hands) RetireBranches(ctx context.Context, _ string, names []string, before func([]git.Retired) error) (done []git.Retired, err error) {
	err = h.look(ctx, func() error {
		used := map[string]bool{}
		for _, f := range h.folders {
			used[f.branch] = true
		}
		for _, b := range h.branches() {
			if !slices.Contains(names, b.Name) || used[b.Name] {
				continue
			}
			r := git.Retired{Branch: b.Name, Head: b.Head}
			if !b.Merged {
				if r.Kept = git.KeptBranch(b.Name); h.refs[r.Kept] != "" {
					r.Kept += "-" + b.Head[len(b.Head)-12:]
				}
			}
			done = append(done, r)
		}
		return nil
	})
	if err == nil && len(done) > 0 && before != nil {
		err = before(done)
	}
	if err != nil || len(done) == 0 {
		return nil, err
	}
	return done, h.apply(ctx, func() error {
		for _, r := range done {
			if h.refs[heads+r.Branch] != r.Head {
				return td.Errorf(td.Conflict, "the branch %s has moved", r.Branch)
			}
		}
		for _, r := range done {
			if r.Kept != "" {
				h.refs[r.Kept] = r.Head
			}
			delete(h.refs, heads+r.Branch)
		}
		return nil
	})
}

func (h Hands) KeptOf(ctx context.Context, _ string) (all []git.Kept, err error) {
	err = h.look(ctx, func() error {
		for _, ref := range slices.Sorted(maps.Keys(h.refs)) {
			if strings.HasPrefix(ref, git.KeptRef("")) {
				all = append(all, git.Kept{Ref: ref, Commit: h.refs[ref]})
			}
		}
		return nil
	})
	return all, err
}

func (h Hands) SetAside(ctx context.Context, _ string, refs ...string) error {
	return h.apply(ctx, func() error {
		for _, ref := range refs {
			if id := h.refs[ref]; id != "" {
				h.refs[git.AsideRef(ref, id)+id[28:]] = id // the numbers of the model differ at their end
				delete(h.refs, ref)
			}
		}
		return nil
	})
}

func (h Hands) Tidy(ctx context.Context, _ string) error {
	return h.apply(ctx, func() error { return nil })
}
