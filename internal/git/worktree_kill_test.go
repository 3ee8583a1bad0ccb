package git

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// runTree is the worktree that the stages lead through its life.
func runTree(dir string) Worktree {
	return Worktree{Repo: dir, Path: dir + "/.worktrees/t-1", Branch: BranchName("t-1", "work")}
}

const runKept = "refs/taskdaemon/kept/t-1"

// runStages are the stages of a worktree's life in which a process is killed. Each can be run again.
var runStages = map[string]func(t *testing.T, dir string){
	"wt make": func(t *testing.T, dir string) {
		if err := runTree(dir).Make(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
	},
	"wt commit": func(t *testing.T, dir string) {
		if _, err := runTree(dir).Commit(t.Context(), "work\n"); err != nil {
			t.Fatal(err)
		}
	},
	"wt rebase": func(t *testing.T, dir string) {
		if r, err := runTree(dir).Rebase(t.Context(), "main", ""); err != nil || len(r.Conflicts) > 0 {
			t.Fatal(r, err)
		}
	},
	"wt forward": func(t *testing.T, dir string) {
		head, err := runTree(dir).Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := FastForward(t.Context(), dir, "main", head, nil); err != nil {
			t.Fatal(err)
		}
	},
	"wt keep": func(t *testing.T, dir string) {
		if _, err := runTree(dir).Keep(t.Context(), runKept); err != nil {
			t.Fatal(err)
		}
	},
	"wt remove": func(t *testing.T, dir string) {
		if err := runTree(dir).Remove(t.Context(), runKept, nil); err != nil {
			t.Fatal(err)
		}
	},
	"wt restore": func(t *testing.T, dir string) {
		if err := runTree(dir).Restore(t.Context(), runKept); err != nil {
			t.Fatal(err)
		}
	},
	"wt retire": func(t *testing.T, dir string) {
		if _, err := RetireBranches(t.Context(), dir, staleBranches, nil); err != nil {
			t.Fatal(err)
		}
	},
	"wt aside": func(t *testing.T, dir string) {
		if err := SetAside(t.Context(), dir, runKept, KeptBranch(runTree(dir).Branch)); err != nil {
			t.Fatal(err)
		}
	},
}

// runOrder is how a worktree lives.
var runOrder = []string{"wt make", "wt commit", "wt rebase", "wt forward", "wt keep", "wt remove", "wt restore", "wt aside", "wt retire"}

// staleBranches are of runs that are over; nothing else has what the first one has.
var staleBranches = []string{BranchName("t-2", "alone"), BranchName("t-3", "merged")}

// runLife leads a worktree through its stages. Each is disturbed twice before it is left to end.
func runLife(t *testing.T, dir string, disturb func(stage string) (killed bool)) (kills int) {
	t.Helper()
	w := runTree(dir)
	for _, stage := range runOrder {
		switch stage {
		case "wt commit":
			write(t, w.Path+"/main.go", "package main // work\n")
			for _, gone := range []string{"/pkg", "/becomes"} {
				if err := os.RemoveAll(w.Path + gone); err != nil {
					t.Fatal(err)
				}
			}
			write(t, w.Path+"/becomes", "a file\n")
			write(t, w.Path+"/sub/new", "new\n")
		case "wt rebase":
			for i := range 20 {
				write(t, fmt.Sprintf("%s/more/%d", dir, i), strconv.Itoa(i))
			}
			if err := os.Remove(dir + "/goes"); err != nil {
				t.Fatal(err)
			}
			write(t, dir+"/goes/file", "in a folder")
			user(t, dir, "add", "-A")
			user(t, dir, "commit", "-qm", "onward")
		case "wt keep":
			write(t, w.Path+"/main.go", "package main // staged\n")
			user(t, w.Path, "add", "-A")
			write(t, w.Path+"/untracked", "1\n")
			if err := os.Remove(w.Path + "/sub/new"); err != nil {
				t.Fatal(err)
			}
		case "wt retire":
			user(t, dir, "branch", staleBranches[0], user(t, dir, "commit-tree", "-p", "main", "-m", "alone", "main~^{tree}"))
			user(t, dir, "branch", staleBranches[1], "main~")
		}
		for range 2 {
			if disturb(stage) {
				kills++
			}
		}
		runStages[stage](t, dir)
		user(t, dir, "fsck", "--strict", "--no-dangling")
	}
	return kills
}

// runResult is what has come of a life.
func runResult(t *testing.T, dir string) string {
	t.Helper()
	w := runTree(dir)
	noLeftovers(t, dir)
	if out := user(t, dir, "worktree", "list", "--porcelain"); strings.Contains(out, "prunable") || strings.Contains(out, "locked") {
		t.Error(out)
	}
	if left, _ := os.ReadDir(dir + "/.git/worktrees"); len(left) != 1 {
		t.Errorf("worktrees %v", left)
	}
	var b strings.Builder
	for _, at := range []string{dir, w.Path} {
		fmt.Fprintln(&b, user(t, at, "status", "--porcelain", "--branch"))
		fmt.Fprintln(&b, user(t, at, "log", "--topo-order", "--format=%s %T"))
		fmt.Fprintln(&b, user(t, at, "ls-files", "--stage"))
		tree, err := TreeHash(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, tree)
	}
	refs := strings.Fields(user(t, dir, "for-each-ref", "--format=%(refname)"))
	for i, ref := range refs {
		if strings.HasPrefix(ref, keptBefore) {
			fmt.Fprintln(&b, user(t, dir, "log", "--topo-order", "--format=%s %T", ref))
			refs[i] = ref[:len(ref)-12] // the commit is of another time
		}
	}
	fmt.Fprintln(&b, refs)
	return b.String()
}

// sameLines compares two texts and shows the lines that only one has.
func sameLines(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	for _, side := range []struct{ mark, in, other string }{{"+ ", got, want}, {"- ", want, got}} {
		for l := range strings.Lines(side.in) {
			if !strings.Contains("\n"+side.other, "\n"+l) {
				t.Error(side.mark + l)
			}
		}
	}
	t.Error("they differ")
}

// runScene is a repository for a life.
func runScene(t *testing.T) string {
	t.Helper()
	dir := checkout(t)
	write(t, dir+"/becomes/file", "in it\n")
	write(t, dir+"/goes", "goes\n")
	user(t, dir, "add", "-A")
	user(t, dir, "commit", "-qm", "second")
	return dir
}

// sceneAgain is a copy of a repository.
func sceneAgain(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir() + "/copy"
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// Killed before or after any run of git, in any stage, it ends as if nothing had happened.
func TestWorktreeKilledAroundAnyGit(t *testing.T) {
	t.Parallel()
	dir := runScene(t)
	fake := fakeGit(t)
	whole := sceneAgain(t, dir)
	runs := map[string]int{}
	runLife(t, whole, func(stage string) bool {
		path, count := fake(t, 0, "never")
		killed := inChild(t, stage, whole, path)
		raw, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		runs[stage] = max(runs[stage], len(raw))
		return killed
	})
	want := runResult(t, whole)
	type shot struct {
		stage, when string
		n           int
	}
	var shots []shot
	for _, stage := range runOrder {
		for n := range runs[stage] {
			shots = append(shots, shot{stage, "before", n + 1}, shot{stage, "after", n + 1})
		}
	}
	if len(shots) < 100 {
		t.Fatalf("only %d instants: the test is blind", len(shots))
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d instants", seed, len(shots))
	rnd := rand.New(rand.NewPCG(seed, 0))
	rnd.Shuffle(len(shots), func(i, j int) { shots[i], shots[j] = shots[j], shots[i] })
	for _, s := range shots[:min(gitKills, len(shots))] {
		t.Run(s.stage+"/"+s.when+"/"+strconv.Itoa(s.n), func(t *testing.T) {
			t.Parallel()
			dir := sceneAgain(t, dir)
			kills := runLife(t, dir, func(stage string) bool {
				if stage != s.stage {
					return false
				}
				path, _ := fake(t, s.n, s.when)
				return inChild(t, stage, dir, path)
			})
			if kills == 0 {
				t.Error("nothing was killed")
			}
			sameLines(t, runResult(t, dir), want)
		})
	}
}
