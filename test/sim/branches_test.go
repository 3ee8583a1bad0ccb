package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// branches are a repository in memory, which outlives every host: its commits, branches and worktrees.
type branches struct {
	mu      sync.Mutex
	commits []commit
	heads   map[string]int // by branch
	trees   map[string]string
	moved   []int // where the integration branch was, one after the other
	told    map[string]bool
	merged  map[string]bool
	// withdrawn are commits of tasks that were cancelled.
	withdrawn map[string]bool

	failing int // one in so many calls finds the disk full
	calls   int
	broken  int // disk faults so far
}

// commit has files, by name, and says whose work it is.
type commit struct {
	of      string // the handle of a task, or empty
	parents []int
	files   map[string]string
}

const (
	simTrunk = "main"
	simInto  = "taskdaemon/into/main"
)

var errFull = td.Errorf(td.Storage, "no space left on device")

func newBranches(failing int) *branches {
	return &branches{
		commits: []commit{{files: map[string]string{}}}, heads: map[string]int{simTrunk: 0}, trees: map[string]string{},
		told: map[string]bool{}, merged: map[string]bool{}, withdrawn: map[string]bool{}, failing: failing,
	}
}

func (b *branches) add(c commit) int {
	b.commits = append(b.commits, c)
	return len(b.commits) - 1
}

func (b *branches) history(of int) map[int]bool {
	seen := map[int]bool{}
	for next := []int{of}; len(next) > 0; next = next[1:] {
		if !seen[next[0]] {
			seen[next[0]] = true
			next = append(next, b.commits[next[0]].parents...)
		}
	}
	return seen
}

// join merges files by name: what both sides changed since the newest commit that both have conflicts.
func (b *branches) join(ours, theirs int) (map[string]string, []string) {
	mine, both := b.history(ours), -1
	for c := range b.history(theirs) {
		if mine[c] {
			both = max(both, c)
		}
	}
	base, files := b.commits[max(both, 0)].files, maps.Clone(b.commits[ours].files)
	var conflicts []string
	for name, text := range b.commits[theirs].files {
		switch {
		case text == base[name] || text == files[name]:
		case files[name] == base[name]:
			files[name] = text
		default:
			conflicts = append(conflicts, name)
		}
	}
	slices.Sort(conflicts)
	return files, conflicts
}

// hands are the branches in the hands of one host, whose death may come before or after each deed.
type hands struct {
	*host
	*branches
}

// do does something to the repository, slowly. A dead host does nothing, and one that dies meanwhile never learns what it did.
func (h hands) do(ctx context.Context, deed func() error) error {
	h.branches.mu.Lock()
	h.calls++
	wait := time.Duration(hash(h.calls)%800) * time.Millisecond
	full := h.failing > 0 && rand.New(rand.NewPCG(uint64(h.failing), uint64(h.calls))).IntN(h.failing) == 0 // not in step with who tries again
	if full {
		h.broken++
	}
	h.branches.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if h.isDead() {
		return errDead
	}
	if full {
		return errFull
	}
	h.branches.mu.Lock()
	err := deed()
	h.branches.mu.Unlock()
	if dies, _ := h.burn(); dies {
		h.die()
	}
	if h.isDead() {
		return errDead
	}
	return err
}

func (h hands) Look(_ context.Context, w td.Worktree) (bool, error) {
	h.branches.mu.Lock()
	defer h.branches.mu.Unlock()
	return h.trees[w.Path] == w.Branch, nil
}

func (h hands) Make(ctx context.Context, w td.Worktree) error {
	return h.do(ctx, func() error {
		if _, there := h.heads[w.Branch]; !there {
			from, ok := h.heads[w.Into]
			if !ok {
				from = h.heads[w.Trunk]
			}
			h.heads[w.Branch] = from
		}
		h.trees[w.Path] = w.Branch
		return os.MkdirAll(w.Path, 0o700)
	})
}

func (h hands) Setup(td.Worktree) (string, error) { return "", nil }

// Commit makes one commit of a task's work: a file of its own, and one that it shares with a few others. After a conflict that the
// agent was told of it merges what others did.
func (h hands) Commit(ctx context.Context, w td.Worktree, _ string) (head string, err error) {
	err = h.do(ctx, func() error {
		at := h.heads[w.Branch]
		if !h.has(at, w.Branch) {
			files := maps.Clone(h.commits[at].files)
			files[w.Branch] = "done"
			if n := hash(w.Branch) % 3; n > 0 {
				files[fmt.Sprint("shared", n)] = w.Branch
			}
			at = h.add(commit{of: w.Branch, parents: []int{at}, files: files})
		}
		for _, branch := range []string{w.Into, w.Trunk} {
			other, there := h.heads[branch]
			if !there || !h.told[w.Branch] || h.history(at)[other] {
				continue
			}
			files, conflicts := h.join(at, other)
			for _, name := range conflicts {
				files[name] += "+" + h.commits[other].files[name]
			}
			at = h.add(commit{parents: []int{at, other}, files: files})
		}
		h.told[w.Branch] = false
		h.heads[w.Branch] = at
		head = fmt.Sprint(at)
		return nil
	})
	return head, err
}

// has reports whether the history of a commit has work of the branch.
func (b *branches) has(at int, branch string) bool {
	for c := range b.history(at) {
		if b.commits[c].of == branch {
			return true
		}
	}
	return false
}

// base is what is merged, brought together with the trunk; or what conflicts.
func (h hands) base(w td.Worktree) (at int, conflicts []string) {
	into, is := h.heads[w.Into]
	trunk := h.heads[w.Trunk]
	switch {
	case !is || h.history(trunk)[into]:
		return trunk, nil
	case h.history(into)[trunk]:
		return into, nil
	}
	files, conflicts := h.join(into, trunk)
	if len(conflicts) > 0 {
		return 0, conflicts
	}
	return h.add(commit{parents: []int{into, trunk}, files: files}), nil
}

func (h hands) Rebase(ctx context.Context, w td.Worktree) (changed, conflicts []string, err error) {
	err = h.do(ctx, func() error {
		at := h.heads[w.Branch]
		to, both := h.base(w)
		if conflicts = both; len(conflicts) > 0 || h.history(at)[to] {
			return nil
		}
		if h.history(to)[at] {
			h.heads[w.Branch] = to
			return nil
		}
		var files map[string]string
		if files, conflicts = h.join(to, at); len(conflicts) > 0 {
			return nil
		}
		h.heads[w.Branch] = h.add(commit{of: h.commits[at].of, parents: []int{to}, files: files})
		return nil
	})
	return nil, conflicts, err
}

func number(id string) (n int) {
	if _, err := fmt.Sscan(id, &n); err != nil {
		panic(err)
	}
	return n
}

func (h hands) Rebased(_ context.Context, w td.Worktree) (bool, error) {
	h.branches.mu.Lock()
	defer h.branches.mu.Unlock()
	has := h.history(h.heads[w.Branch])
	for _, base := range []string{w.Into, w.Trunk} {
		if at, is := h.heads[base]; is && !has[at] {
			return false, nil
		}
	}
	return true, nil
}

func (h hands) Holds(_ context.Context, w td.Worktree, commit string) (bool, error) {
	h.branches.mu.Lock()
	defer h.branches.mu.Unlock()
	return h.history(h.heads[w.Branch])[number(commit)], nil
}

func (h hands) Follows(_ context.Context, _ td.Worktree, commit, earlier string) (bool, error) {
	h.branches.mu.Lock()
	defer h.branches.mu.Unlock()
	return h.history(number(commit))[number(earlier)], nil
}

func (h hands) In(_ context.Context, w td.Worktree, commit string) (bool, error) {
	h.branches.mu.Lock()
	defer h.branches.mu.Unlock()
	for _, branch := range []string{w.Into, w.Trunk} {
		if at, is := h.heads[branch]; is && h.history(at)[number(commit)] {
			return true, nil
		}
	}
	return false, nil
}

// Kept: no merge of the simulation leaves out content.
func (h hands) Kept(context.Context, td.Worktree, string) error { return nil }

func (h hands) Merging(context.Context, td.Worktree) (bool, error) { return false, nil }

func (h hands) Merge(ctx context.Context, w td.Worktree, own merge.Work, beside []merge.Work, check merge.Check) (merge.Result, error) {
	res, err := merge.Merge(ctx, simRepo{h, w}, w.Into, own, beside, check)
	if err == nil && len(res.Conflicts) > 0 {
		h.branches.mu.Lock()
		h.told[w.Branch] = true
		h.branches.mu.Unlock()
	}
	return res, err
}

func (h hands) Merged(_ context.Context, w td.Worktree, id string) (*td.Merged, error) {
	h.branches.mu.Lock()
	defer h.branches.mu.Unlock()
	into, ok := h.heads[w.Into]
	if !ok || !h.history(into)[number(id)] {
		return nil, nil //nolint:nilnil // it is not in
	}
	return &td.Merged{Into: w.Into, Commit: fmt.Sprint(into), Tree: "tree"}, nil
}

func (h hands) Withdraw(ctx context.Context, w td.Worktree, id string) (*td.Merged, error) {
	if err := h.do(ctx, func() error { h.withdrawn[id] = true; return nil }); err != nil {
		return nil, err
	}
	return h.Merged(ctx, w, id)
}

func (h hands) Checkout(context.Context, td.Worktree, string, string) (string, error) {
	return "", fmt.Errorf("tasks of the simulation have no validators")
}

func (h hands) Altered(context.Context, string, string) ([]string, error) { return nil, nil }

func (h hands) Resolves(td.Worktree) bool { return false }

func (h hands) Asks(context.Context, td.Worktree) (bool, string, error) { return false, "", nil }

// NotFollowed is nothing that is looked at here: the work is in the integration branch.
func (h hands) ByHand(context.Context, td.Worktree, ...td.Words) string { return "git merge" }

func (h hands) NotFollowed(context.Context, td.Worktree, string) error { return nil }

func (h hands) Follow(ctx context.Context, w td.Worktree, own merge.Work, check merge.Check) (in td.Obstacle, err error) {
	res, err := merge.CatchUp(ctx, simRepo{h, w}, []merge.Work{own}, check)
	if err != nil || len(res.Conflicts) > 0 {
		return td.Obstacle{Reason: strings.Join(res.Conflicts, ", ")}, err
	}
	err = h.do(ctx, func() error {
		if !h.history(h.heads[w.Into])[h.heads[w.Trunk]] {
			in.Reason = "it has commits of its own"
			return nil
		}
		h.heads[w.Trunk] = h.heads[w.Into]
		return nil
	})
	return in, err
}

// simRepo is the repository as merging sees it.
type simRepo struct {
	hands
	w td.Worktree
}

func (r simRepo) Heads(ctx context.Context) (into, trunk string, err error) {
	err = r.do(ctx, func() error {
		if at, ok := r.heads[r.w.Into]; ok {
			into = fmt.Sprint(at)
		}
		trunk = fmt.Sprint(r.heads[r.w.Trunk])
		return nil
	})
	return into, trunk, err
}

func (r simRepo) Contains(_ context.Context, young, old string) (bool, error) {
	r.branches.mu.Lock()
	defer r.branches.mu.Unlock()
	return r.history(number(young))[number(old)], nil
}

// Reserved has none: no work of the simulation changes what is.
func (r simRepo) Reserved(context.Context, string, string, merge.Work) ([]merge.Reserved, error) {
	return nil, nil
}

func (r simRepo) Tree(_ context.Context, id string) (string, error) { return "tree of " + id, nil }

func (r simRepo) Join(ctx context.Context, ours, theirs, _ string) (id string, conflicts []string, err error) {
	err = r.do(ctx, func() error {
		var files map[string]string
		if files, conflicts = r.join(number(ours), number(theirs)); len(conflicts) == 0 {
			id = fmt.Sprint(r.add(commit{parents: []int{number(ours), number(theirs)}, files: files}))
		}
		return nil
	})
	return id, conflicts, err
}

func (r simRepo) Withdrawn(_ context.Context, w merge.Work) (bool, error) {
	r.branches.mu.Lock()
	defer r.branches.mu.Unlock()
	return r.withdrawn[w.Commit], nil
}

func (r simRepo) Move(ctx context.Context, to, from string, works []merge.Work) error {
	return r.do(ctx, func() error {
		for _, w := range works {
			if r.withdrawn[w.Commit] {
				return td.Errorf(td.Conflict, "%s was withdrawn", w.Handle)
			}
		}
		at, ok := r.heads[r.w.Into]
		if ok != (from != "") || ok && at != number(from) {
			return td.Errorf(td.Conflict, "it is at %d", at)
		}
		r.heads[r.w.Into] = number(to)
		r.moved = append(r.moved, number(to))
		return nil
	})
}

// commitByHand is a person who commits to the trunk now and then, and a watcher who tells the tasks.
func (w *world) commitByHand(ctx context.Context, t *testing.T, some func() *host, ids []td.TaskID, times int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range times {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(2+n*3) * time.Second):
			}
			b := w.branches
			b.mu.Lock()
			at := b.heads[simTrunk]
			files := maps.Clone(b.commits[at].files)
			files[fmt.Sprint("by hand ", n)] = "x"
			b.heads[simTrunk] = b.add(commit{parents: []int{at}, files: files})
			onto := fmt.Sprint(b.heads[simTrunk])
			b.mu.Unlock()
			for _, id := range ids {
				task, err := w.journal.Task(ctx, id)
				if err != nil || task.Status.State.Terminal() {
					continue
				}
				err = w.journal.Post(ctx, id, td.Command{Key: "rebase/" + onto, Type: td.CmdRebase, At: time.Now().UTC().Round(0), Text: onto})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				some().sched.Wake(ctx, task, false)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// worktree is where a task works, if this seed has branches.
func (w *world) worktree(spec td.Spec) td.Spec {
	if w.branches == nil {
		return spec
	}
	path := fmt.Sprintf("%s/wt/%s", w.dir, spec.Handle)
	spec.Dir = path
	spec.Worktree = &td.Worktree{Repo: w.dir, Path: path, Branch: "run/" + spec.Handle, Into: simInto, Trunk: simTrunk}
	return spec
}

// checkBranches: the work of every task is in the integration branch, once, and the branch only ever went forward.
func (w *world) checkBranches(t *testing.T, seed uint64, tasks []td.Task) {
	b := w.branches
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.moved[1:] {
		if !b.history(c)[b.moved[i]] {
			t.Errorf("seed %d: the integration branch went from %d to %d, which does not build on it", seed, b.moved[i], c)
		}
	}
	into := b.heads[simInto]
	if !b.history(into)[b.heads[simTrunk]] && !b.history(b.heads[simTrunk])[into] {
		// A commit by hand after the last merge leaves both with something of their own; it must be that alone.
		for c := range b.history(b.heads[simTrunk]) {
			if b.commits[c].of != "" && !b.history(into)[c] {
				t.Errorf("seed %d: the trunk has work of %s that is not merged", seed, b.commits[c].of)
			}
		}
	}
	for _, task := range tasks {
		n := 0
		for c := range b.history(into) {
			if b.commits[c].of == task.Worktree.Branch {
				n++
			}
		}
		if n != 1 {
			t.Errorf("seed %d: the integration branch has the work of %s %d times", seed, task.Handle, n)
		}
		if text := b.commits[into].files[task.Worktree.Branch]; text != "done" {
			t.Errorf("seed %d: %s is completed, and its file says %q", seed, task.Handle, text)
		}
	}
}
