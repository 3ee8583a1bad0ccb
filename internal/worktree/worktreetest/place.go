package worktreetest

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// place is a worktree, or where one may be.
type place struct {
	h Hands
	w git.Worktree
}

func (p place) ref() string { return heads + p.w.Branch }

// condition is what stands there. The repository is locked.
func (p place) condition() git.Condition {
	switch f := p.h.folders[p.w.Path]; {
	case f == nil:
		return git.Missing
	case f.branch != p.w.Branch:
		return git.Foreign
	}
	return git.Good
}

// open is the worktree, which has to be there.
func (p place) open() (*folder, error) {
	if c := p.condition(); c != git.Good {
		return nil, td.Errorf(td.NotFound, "the worktree %s is %s", p.w.Path, c)
	}
	return p.h.folders[p.w.Path], nil
}

func (p place) Look(ctx context.Context) (c git.Condition, err error) {
	err = p.h.look(ctx, func() error {
		c = p.condition()
		return nil
	})
	return c, err
}

func (p place) Head(ctx context.Context) (id string, err error) {
	err = p.h.look(ctx, func() error {
		if id = p.h.refs[p.ref()]; id == "" {
			return td.Errorf(td.NotFound, "the branch %s is gone", p.w.Branch)
		}
		return nil
	})
	return id, err
}

// build makes the branch, then its folder, and says whether there was no branch.
func (p place) build(ctx context.Context, start string, files func() Files) (made Files, born bool, err error) {
	err = p.h.apply(ctx, func() error {
		if born = p.h.refs[p.ref()] == ""; born {
			p.h.refs[p.ref()] = start
		}
		return nil
	})
	if err != nil {
		return nil, born, err
	}
	err = p.h.apply(ctx, func() error {
		made = files()
		p.h.folders[p.w.Path] = &folder{branch: p.w.Branch, files: made}
		return os.MkdirAll(p.w.Path, 0o700)
	})
	return made, born, err
}

func (p place) Make(ctx context.Context, base string) error {
	kept := false
	err := p.h.look(ctx, func() error {
		kept = p.h.refs[git.KeptBranch(p.w.Branch)] == base
		if p.condition() == git.Foreign {
			return td.Errorf(td.Conflict, "something else is in %s", p.w.Path)
		}
		return nil
	})
	if c, lerr := p.Look(ctx); err != nil || lerr != nil || c == git.Good {
		return errors.Join(err, lerr)
	}
	made, born, err := p.build(ctx, base, func() Files { return p.h.files(p.h.refs[p.ref()]) })
	if born && !kept && made != nil && p.h.Made != nil {
		p.h.Made(p.w, made)
	}
	return err
}

func (p place) Commit(ctx context.Context, message string) (id string, err error) {
	err = p.h.apply(ctx, func() error {
		f, err := p.open()
		if err != nil {
			return err
		}
		id = p.h.refs[p.ref()]
		if tree := p.h.tree(f.files); tree != p.h.commits[id].tree {
			id = p.h.commit(message, tree, id)
		}
		p.h.refs[p.ref()] = id
		return nil
	})
	return id, err
}

func (p place) Rebase(ctx context.Context, onto, without string) (done git.Rebased, err error) {
	err = p.h.apply(ctx, func() error {
		f, err := p.open()
		if err != nil {
			return err
		}
		head := p.h.refs[p.ref()]
		done.Head = head
		if p.h.history(head)[onto] && without == "" {
			return nil
		}
		if !maps.Equal(f.files, p.h.files(head)) {
			return td.Errorf(td.Refused, "%s has uncommitted changes", p.w.Path)
		}
		to, conflicts, err := p.h.onto(head, onto, without)
		if err != nil {
			return err
		}
		if len(conflicts) > 0 {
			done.Conflicts = conflicts
			return nil
		}
		p.h.refs[p.ref()], f.files, done.Head = to, p.h.files(to), to
		if without != "" {
			p.h.shed++
		}
		return nil
	})
	return done, err
}

// own are the commits that head has and neither onto nor without, parents first.
func (r *Repo) own(head, onto, without string) (own []string) {
	others := r.history(onto, without)
	for id := range r.history(head) {
		if !others[id] {
			own = append(own, id)
		}
	}
	slices.SortFunc(own, func(a, b string) int { return r.order[a] - r.order[b] })
	return own
}

// onto makes commits of what head has and neither onto nor without, on top of onto, or a merge where there are merges among them and nothing is to go.
func (r *Repo) onto(head, onto, without string) (string, []string, error) {
	own := r.own(head, onto, without)
	if without == "" && slices.ContainsFunc(own, func(id string) bool { return len(r.commits[id].parents) != 1 }) {
		files, conflicts := r.join(head, onto)
		if len(conflicts) > 0 {
			return "", conflicts, nil
		}
		return r.commit("merge of "+onto, r.tree(files), head, onto), nil, nil
	}
	return r.replay(own, onto)
}

// replay is git.Replay.
func (r *Repo) replay(own []string, onto string) (string, []string, error) {
	made, to := map[string]string{}, onto
	for _, id := range own {
		c := r.commits[id]
		from, at := c.parents[0], onto
		if i := slices.IndexFunc(c.parents, func(p string) bool { return made[p] == "" }); i >= 0 {
			from = c.parents[i]
		} else {
			at = made[from]
		}
		var parents []string
		for _, p := range c.parents {
			if n := made[p]; n != "" && n != onto && !slices.Contains(parents, n) {
				parents = append(parents, n)
			}
		}
		if len(parents) == 0 {
			parents = []string{onto}
		}
		files, conflicts := merge(r.files(from), r.files(at), r.files(id))
		if len(conflicts) > 0 {
			return "", conflicts, nil
		}
		if tree := r.tree(files); len(parents) == 1 && tree == r.commits[parents[0]].tree {
			to = parents[0]
		} else {
			to = r.commit(c.message, tree, parents...)
		}
		made[id] = to
	}
	return to, nil, nil
}

func (p place) Keep(ctx context.Context, ref string) (id string, err error) {
	err = p.h.apply(ctx, func() error {
		f, err := p.open()
		if err != nil {
			return err
		}
		head, last := p.h.refs[p.ref()], p.h.refs[ref]
		if last != "" && p.h.keeps(last, head, f.files) {
			id = last
			return nil
		}
		parents := []string{head}
		if last != "" {
			parents = append(parents, last)
		}
		id = p.h.commit("kept", p.h.tree(f.files), parents...)
		p.h.refs[ref] = id
		return nil
	})
	return id, err
}

// keeps reports whether Keep made the commit of a branch at head that held just that.
func (r *Repo) keeps(id, head string, files Files) bool {
	c := r.commits[id]
	return len(c.parents) > 0 && c.parents[0] == head && maps.Equal(r.files(id), files)
}

func (p place) Restore(ctx context.Context, ref string) error {
	var kept, head string
	err := p.h.look(ctx, func() error {
		switch c := p.condition(); {
		case c == git.Good:
			return nil
		case c == git.Foreign:
			return td.Errorf(td.Conflict, "something else is in %s", p.w.Path)
		}
		if kept = p.h.refs[ref]; kept == "" {
			return td.Errorf(td.NotFound, "there is no %s", ref)
		}
		head = p.h.commits[kept].parents[0]
		if is := p.h.refs[p.ref()]; is != "" && is != head {
			return td.Errorf(td.Conflict, "the branch %s has gone on", p.w.Branch)
		}
		return nil
	})
	if err != nil || kept == "" {
		return err
	}
	_, _, err = p.build(ctx, head, func() Files { return p.h.files(kept) })
	return err
}

// Remove refuses what the proof does not have. The folder goes first.
func (p place) Remove(ctx context.Context, proof string, before func(head string) error) error {
	head, there := "", false
	err := p.h.look(ctx, func() error {
		head, there = p.h.refs[p.ref()], p.h.folders[p.w.Path] != nil
		return p.proven(head, proof)
	})
	if err == nil && before != nil && (there || head != "") {
		err = before(head)
	}
	if err != nil {
		return err
	}
	err = p.h.apply(ctx, func() error {
		if err := p.proven(head, proof); err != nil {
			return err
		}
		delete(p.h.folders, p.w.Path)
		return os.RemoveAll(p.w.Path)
	})
	if err != nil || head == "" {
		return err
	}
	return p.h.apply(ctx, func() error {
		if p.h.refs[p.ref()] != head {
			return td.Errorf(td.Conflict, "the branch has moved")
		}
		delete(p.h.refs, p.ref())
		return nil
	})
}

// proven fails unless the proof has all that the worktree and its branch hold.
func (p place) proven(head, proof string) error {
	if !p.h.retained()[proof] {
		return td.Errorf(td.Refused, "nothing that is retained leads to %s", proof)
	}
	if head != "" && !p.h.history(proof)[head] {
		return td.Errorf(td.Refused, "the branch is not part of %s", proof)
	}
	switch f := p.h.folders[p.w.Path]; {
	case f == nil:
		return nil
	case f.branch != p.w.Branch:
		return td.Errorf(td.Conflict, "something else is in %s", p.w.Path)
	case f.locked != "":
		return td.Errorf(td.Refused, "%s is locked", p.w.Path)
	case !p.h.keeps(proof, head, f.files) && !maps.Equal(f.files, p.h.files(head)) && !maps.Equal(f.files, p.h.files(proof)):
		return td.Errorf(td.Refused, "%s holds what %s does not", p.w.Path, proof)
	}
	return nil
}

// Merging: whoever works here merges in one go.
func (p place) Merging(context.Context) (bool, error) { return false, nil }

func (p place) Locked(ctx context.Context) (why string, is bool, err error) {
	err = p.h.look(ctx, func() error {
		if f := p.h.folders[p.w.Path]; f != nil {
			why, is = f.locked, f.locked != ""
		}
		return nil
	})
	return why, is, err
}

func (p place) lock(ctx context.Context, why string) error {
	return p.h.apply(ctx, func() error {
		f, err := p.open()
		if err == nil {
			f.locked = why
		}
		return err
	})
}

func (p place) Lock(ctx context.Context, why string) error { return p.lock(ctx, why) }
func (p place) Unlock(ctx context.Context) error           { return p.lock(ctx, "") }
