package worktreetest

import (
	"maps"
	"slices"
	"strings"
)

// Lost reports whether a text that was written is nowhere any more: in no commit that a ref leads to, and in no worktree.
func (r *Repo) Lost(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.folders {
		if has(f.files, text) {
			return false
		}
	}
	for id := range r.history(slices.Collect(maps.Values(r.refs))...) {
		if has(r.files(id), text) {
			return false
		}
	}
	return true
}

func has(files Files, text string) bool {
	for _, t := range files {
		if strings.Contains(t, text) {
			return true
		}
	}
	return false
}

// Brought counts the commits that brought a text into a history: that have it, while none of their parents does.
func (r *Repo) Brought(text string, branches ...string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var of []string
	for _, b := range branches {
		of = append(of, r.refs[heads+b])
	}
	for id := range r.history(of...) {
		if has(r.files(id), text) && !slices.ContainsFunc(r.commits[id].parents, func(p string) bool { return has(r.files(p), text) }) {
			n++
		}
	}
	return n
}

// Holds reports whether the newest commit of a branch has the text.
func (r *Repo) Holds(branch, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return has(r.files(r.refs[heads+branch]), text)
}

// Files are those in a worktree, or nil if it is not there. They are not to be changed.
func (r *Repo) Files(path string) Files {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.folders[path]; f != nil {
		return f.files
	}
	return nil
}

// There are the folders of the worktrees that there are.
func (r *Repo) There() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.folders))
}

// Shed is how many branches were rid of what a person took from the trunk.
func (r *Repo) Shed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shed
}
