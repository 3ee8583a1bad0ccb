// Package worktreetest is a model of a git repository in memory, for simulations: no process runs, so that the clock of a simulation
// goes on, and thousands of lives of a daemon take seconds.
//
// A Repo outlives every daemon. Each daemon has its Hands on it, which are slow, fail and die as the simulation wants. What they
// do is what package git says that it does, in as many steps that a crash can come between. A file is a text, and a merge
// is by whole files.
package worktreetest

import (
	"crypto/sha1"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// Files are texts by name.
type Files map[string]string

// Repo is a repository.
type Repo struct {
	Root  string
	Trunk string // short name of the branch that the person has checked out
	// Made, if set, is called when a worktree was made whose branch begins, with what it begins with; not when it was kept and is
	// brought back.
	Made func(w git.Worktree, files Files)

	mu      sync.Mutex
	commits map[string]commit
	order   map[string]int // how many commits were there before
	trees   map[string]Files
	refs    map[string]string // by full name
	folders map[string]*folder
	dirty   bool     // the person has changes in the way of whoever moves the branch that they have checked out
	midst   *begun   // what the person is in the middle of
	taken   []taking // what a person took from their branches
	shed    int      // branches that were rid of such

	trespass string // which branch was moved all the same while the person was in the middle of something
}

type commit struct {
	message string
	parents []string
	tree    string
}

// folder is a worktree.
type folder struct {
	branch string
	files  Files
	locked string
}

const heads = "refs/heads/"

// New is a repository with one commit on its trunk.
func New(root, trunk string) *Repo {
	r := &Repo{
		Root: root, Trunk: trunk, commits: map[string]commit{}, order: map[string]int{}, trees: map[string]Files{}, refs: map[string]string{},
		folders: map[string]*folder{},
	}
	r.refs[heads+trunk] = r.commit("first", r.tree(Files{"README": "x"}))
	return r
}

// tree is the name of what files are. The repository is locked, as for all below.
func (r *Repo) tree(files Files) string {
	h := sha1.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %q\n", name, files[name])
	}
	id := fmt.Sprintf("%x", h.Sum(nil))
	r.trees[id] = files
	return id
}

func (r *Repo) commit(message, tree string, parents ...string) string {
	n := len(r.commits) + 1
	id := fmt.Sprintf("%040x", n)
	r.commits[id], r.order[id] = commit{message, parents, tree}, n
	return id
}

// files are those of a commit. They are not to be changed.
func (r *Repo) files(id string) Files { return r.trees[r.commits[id].tree] }

// history is all commits that some commits lead to, and they themselves.
func (r *Repo) history(of ...string) map[string]bool {
	seen := map[string]bool{}
	for next := slices.Clone(of); len(next) > 0; next = next[1:] {
		if id := next[0]; id != "" && !seen[id] {
			seen[id] = true
			next = append(next, r.commits[id].parents...)
		}
	}
	return seen
}

// merge is what both did to base.
func merge(base, ours, theirs Files) (Files, []string) {
	files := maps.Clone(ours)
	var conflicts []string
	for name := range theirs {
		switch was, mine, other := base[name], ours[name], theirs[name]; {
		case other == was || other == mine:
		case mine == was:
			files[name] = other
		default:
			conflicts = append(conflicts, name)
			files[name] = mine + other
		}
	}
	slices.Sort(conflicts)
	return files, conflicts
}

// join merges two commits by the newest one that both lead to.
func (r *Repo) join(ours, theirs string) (Files, []string) {
	mine, both := r.history(ours), ""
	for id := range r.history(theirs) {
		if mine[id] && r.order[id] > r.order[both] {
			both = id
		}
	}
	return merge(r.files(both), r.files(ours), r.files(theirs))
}

// retained are the commits that may be relied on.
func (r *Repo) retained() map[string]bool {
	var of []string
	for ref, id := range r.refs {
		if git.Retained(ref) {
			of = append(of, id)
		}
	}
	return r.history(of...)
}

func (r *Repo) move(ref, to, from string) error {
	if r.refs[ref] != from {
		return td.Errorf(td.Conflict, "%s is at %.12s and not at %.12s", ref, r.refs[ref], from)
	}
	if r.refs[ref] = to; to == "" {
		delete(r.refs, ref)
	}
	r.trespassed()
	return nil
}

// Delete has a person delete the folder of a worktree, if all that is in it is committed.
func (r *Repo) Delete(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.folders[path]
	if f == nil || !maps.Equal(f.files, r.files(r.refs[heads+f.branch])) {
		return false
	}
	delete(r.folders, path)
	return os.RemoveAll(path) == nil
}

// Write is an agent that adds to a file in a worktree. NotFound when the worktree is gone.
func (r *Repo) Write(path, name, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.folders[path]
	if f == nil {
		return td.Errorf(td.NotFound, "%s is gone", path)
	}
	f.files = maps.Clone(f.files)
	f.files[name] += text
	return nil
}

// Merge is an agent that commits all in its worktree, merges a branch and keeps both sides of what conflicts.
func (r *Repo) Merge(path, branch string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.folders[path]
	if f == nil {
		return td.Errorf(td.NotFound, "%s is gone", path)
	}
	at, with := r.refs[heads+f.branch], r.refs[heads+branch]
	if tree := r.tree(f.files); tree != r.commits[at].tree {
		at = r.commit("before a merge", tree, at)
	}
	if with != "" && !r.history(at)[with] {
		files, _ := r.join(at, with)
		f.files = files
		at = r.commit("merge of the agent", r.tree(files), at, with)
	}
	r.refs[heads+f.branch] = at
	return nil
}
