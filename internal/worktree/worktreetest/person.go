package worktreetest

import (
	"fmt"
	"maps"

	"taskdaemon/internal/td"
)

// Midst is what a person is in the middle of in their checkout.
type Midst string

const (
	Rebase Midst = "rebase"
	Merge  Midst = "merge"
	Bisect Midst = "bisection"
)

// begun is what a person began on a branch and has not ended. Git comes back to the branch then, and expects it where it was.
type begun struct {
	kind   Midst
	branch string
	at     string
}

// taking is a commit that a person took from a branch.
type taking struct{ branch, commit string }

const byHand = "by hand"

// Dirty has the person leave changes in their folder, or none. Whoever is in the middle of something has other worries.
func (r *Repo) Dirty(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirty = is && r.midst == nil
}

// CommitByHand is a person's commit to the branch that they have checked out, and says which that is. It is left alone if they are in the middle of something.
func (r *Repo) CommitByHand(name, text string) (branch string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.midst != nil {
		return ""
	}
	r.byHand(r.Trunk, name, text)
	return r.Trunk
}

func (r *Repo) byHand(branch, name, text string) {
	at := r.refs[heads+branch]
	files := maps.Clone(r.files(at))
	files[name] = text
	r.refs[heads+branch] = r.commit(byHand, r.tree(files), at)
}

// Switch has a person check out another branch, which is made if it is not there. They do so with nothing in the way.
func (r *Repo) Switch(branch string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.midst != nil || r.dirty || r.Trunk == branch {
		return false
	}
	if r.refs[heads+branch] == "" {
		r.refs[heads+branch] = r.refs[heads+r.Trunk]
	}
	r.Trunk = branch
	return true
}

// Begin has a person begin something on the branch that they have checked out.
func (r *Repo) Begin(what Midst) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.midst != nil || r.dirty {
		return false
	}
	r.midst = &begun{what, r.Trunk, r.refs[heads+r.Trunk]}
	return true
}

// End has them end it: give it up, or bring it to its end as git does.
func (r *Repo) End(giveUp bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.midst
	if m == nil {
		return false
	}
	r.trespassed()
	r.midst = nil
	ref := heads + m.branch
	switch {
	case m.kind == Bisect:
	case giveUp:
		r.refs[ref] = m.at
	case m.kind == Merge:
		files := maps.Clone(r.files(m.at))
		files[fmt.Sprint("merged by hand ", len(r.commits))] = "x"
		side := r.commit("of another", r.tree(files), m.at)
		r.refs[ref] = r.commit("merge by hand", r.tree(files), m.at, side)
	case r.commits[m.at].message == byHand && len(r.commits[m.at].parents) == 1:
		// Their newest commit is made anew.
		parent := r.commits[m.at].parents[0]
		r.refs[ref] = r.commit(byHand, r.commits[m.at].tree, parent)
		r.taken = append(r.taken, taking{m.branch, m.at})
	default:
		r.refs[ref] = m.at
		r.byHand(m.branch, fmt.Sprint("rebased by hand ", len(r.commits)), "x")
	}
	return true
}

// returnsTo is Refused while a person is in the middle of something on a branch.
func (r *Repo) returnsTo(branch string) error {
	if m := r.midst; m != nil && m.branch == branch {
		return td.Errorf(td.Refused, "%s is in the midst of a %s of %s", r.Root, m.kind, branch)
	}
	return nil
}

// trespassed notes that the branch of a person who is in the middle of something was moved. The repository is locked.
func (r *Repo) trespassed() {
	if m := r.midst; m != nil && r.refs[heads+m.branch] != m.at && r.trespass == "" {
		r.trespass = fmt.Sprintf("%s was moved from %.40s to %.40s in the midst of a %s", m.branch, m.at, r.refs[heads+m.branch], m.kind)
	}
}

// Trespass says which branch was moved while a person was in the middle of something there; empty: none ever was.
func (r *Repo) Trespass() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trespassed()
	return r.trespass
}

// InTheWay is what of the person's keeps a branch from being moved now: whether they have changes, and what they are in the middle of.
func (r *Repo) InTheWay(branch string) (dirty bool, in Midst) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.midst; m != nil && m.branch == branch {
		in = m.kind
	}
	return r.dirty && r.Trunk == branch, in
}

// TakeBack has a person take their newest commit from the branch that they have checked out again, if that is its tip.
func (r *Repo) TakeBack() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	tip := r.refs[heads+r.Trunk]
	c := r.commits[tip]
	if c.message != byHand || len(c.parents) != 1 || r.midst != nil {
		return false
	}
	r.refs[heads+r.Trunk], r.taken = c.parents[0], append(r.taken, taking{r.Trunk, tip})
	return true
}

// BringBack has a person undo all of that, unless they are in the middle of something.
func (r *Repo) BringBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.midst != nil {
		return
	}
	for _, t := range r.taken {
		at := r.refs[heads+t.branch]
		switch {
		case r.history(at)[t.commit]:
		case r.history(t.commit)[at]:
			r.refs[heads+t.branch] = t.commit
		default:
			if files, conflicts := r.join(at, t.commit); len(conflicts) == 0 {
				r.refs[heads+t.branch] = r.commit("bring back", r.tree(files), at, t.commit)
			}
		}
	}
}
