package git

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The stages of a graph's life in which a process is killed. Each can be run again.
var graphStages = map[string]func(t *testing.T, dir string){
	"setup": func(t *testing.T, dir string) {
		if _, _, err := SetupGraph(t.Context(), dir, graphOptions); err != nil {
			t.Fatal(err)
		}
	},
	"commit": func(t *testing.T, dir string) {
		g, err := OpenGraph(t.Context(), dir, graphOptions)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := g.Commit(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
	},
	"sync": func(t *testing.T, dir string) {
		g, err := OpenGraph(t.Context(), dir, graphOptions)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	},
}

// TestGraphCrashChild is the process that is killed.
func TestGraphCrashChild(t *testing.T) {
	stage := graphStages[os.Getenv("GRAPH_CRASH_STAGE")]
	if stage == nil {
		stage = runStages[os.Getenv("GRAPH_CRASH_STAGE")]
	}
	if stage == nil {
		t.Skip("only run by the tests that kill it")
	}
	stage(t, os.Getenv("GRAPH_CRASH_DIR"))
}

// scene is a clone with a plain folder, whose remote has a graph with other files, merged in part and in part torn.
func scene(t *testing.T) (bare, dir string) {
	t.Helper()
	bare = bareRemote(t)
	a := cloneOf(t, bare)
	write(t, a.Dir()+"/"+GraphFile, "1\n")
	write(t, a.Dir()+"/config.yaml", "team: 1\n")
	write(t, a.Dir()+"/knowledge/a.md", "a")
	write(t, a.Dir()+"/knowledge/old.md", "old")
	write(t, a.Dir()+"/becomes", "a folder")
	share(t, a)
	dir = filepath.Join(t.TempDir(), "clone")
	user(t, "/", "clone", "-q", bare, dir)
	// The remote goes on after the clone was made.
	write(t, a.Dir()+"/"+GraphFile, "1\n4\n")
	write(t, a.Dir()+"/knowledge/a.md", "a of a")
	write(t, a.Dir()+"/knowledge/new.md", "new")
	_ = os.Remove(a.Dir() + "/knowledge/old.md")
	_ = os.Remove(a.Dir() + "/becomes")
	write(t, a.Dir()+"/becomes/file", "in it")
	share(t, a)
	write(t, dir+"/.taskdaemon/"+GraphFile, "2\n")
	write(t, dir+"/.taskdaemon/config.yaml", "mine: 1\n")
	write(t, dir+"/.taskdaemon/knowledge/b.md", "b")
	write(t, dir+"/.taskdaemon/prds/x/spec.md", "spec")
	return bare, dir
}

// again is a copy of a scene: making one takes long.
func again(t *testing.T, bare, dir string) (string, string) {
	t.Helper()
	to := t.TempDir()
	for name, from := range map[string]string{"shared.git": bare, "clone": dir} {
		if err := os.CopyFS(filepath.Join(to, name), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	user(t, to+"/clone", "remote", "set-url", "origin", to+"/shared.git")
	return to + "/shared.git", to + "/clone"
}

// settled is what a folder holds. Which of two versions has the file's own name hangs on the second in which each
// was committed, so it does not count.
func settled(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for name, content := range files(t, dir+"/.taskdaemon") {
		stem, mark, _ := strings.Cut(name, ".conflict-")
		all = append(all, fmt.Sprintf("%s%s: %q", strings.TrimSuffix(stem, filepath.Ext(stem)), filepath.Ext(stem+mark), content))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// appendOnce appends a line that is not there.
func appendOnce(t *testing.T, dir, line string) {
	t.Helper()
	raw, err := os.ReadFile(dir + "/.taskdaemon/" + GraphFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), line) {
		appendTo(t, dir+"/.taskdaemon/"+GraphFile, line)
	}
}

// edit is what happens in the folder between the stages.
func edit(t *testing.T, dir string) {
	t.Helper()
	appendOnce(t, dir, "3\n")
	write(t, dir+"/.taskdaemon/knowledge/a.md", "a of b")
}

// live leads a graph through its stages. Each is disturbed twice before it is left to end.
func live(t *testing.T, dir string, disturb func(stage string) (killed bool)) (kills int) {
	t.Helper()
	for _, stage := range []string{"setup", "commit", "sync"} {
		if stage == "commit" {
			edit(t, dir)
		}
		for range 2 {
			if disturb(stage) {
				kills++
			}
			if stage == "sync" { // a line that the daemon writes after the crash, before it syncs again
				appendOnce(t, dir, "5\n")
			}
		}
		graphStages[stage](t, dir)
	}
	graphStages["sync"](t, dir)
	return kills
}

// inChild runs a stage in a process of its own and reports whether that was killed.
func inChild(t *testing.T, stage, dir string, env ...string) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestGraphCrashChild$")
	cmd.Env = append(append(os.Environ(), "GRAPH_CRASH_STAGE="+stage, "GRAPH_CRASH_DIR="+dir), env...)
	out, err := cmd.CombinedOutput()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() == -1 {
		return true
	}
	if err != nil {
		t.Fatalf("%s with %v: %v\n%s", stage, env, err, out)
	}
	return false
}

// audit checks that a graph has ended as one that nobody disturbed.
func audit(t *testing.T, what, bare, dir, want string) {
	t.Helper()
	if got := settled(t, dir); got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
	if got := user(t, dir+"/.taskdaemon", "status", "--porcelain", "--branch"); strings.Contains(got, "\n") {
		t.Errorf("%s: status %q", what, got)
	}
	if got := user(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("%s: the user's status %q", what, got)
	}
	if got, here := user(t, bare, "rev-parse", graphBranch), user(t, dir, "rev-parse", graphBranch); got != here {
		t.Errorf("%s: the remote is at %s, the clone at %s", what, got, here)
	}
	if left, _ := filepath.Glob(dir + "/.taskdaemon?*"); len(left) > 0 {
		t.Errorf("%s: left behind: %v", what, left)
	}
	if out := user(t, dir, "for-each-ref", "refs/taskdaemon"); out != "" {
		t.Errorf("%s: refs left behind: %s", what, out)
	}
	user(t, dir, "fsck", "--strict")
}

// gitKills is how many runs of git are chosen to kill their caller at; there are about a hundred, twice.
const gitKills = 6

// fakeGit gives a PATH with a git that counts its runs and kills its caller around the n-th.
func fakeGit(t *testing.T) func(t *testing.T, n int, when string) (path, count string) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	// The script is written once: a file that is still open for writing anywhere cannot be run.
	script := filepath.Join(t.TempDir(), "git")
	write(t, script, `#!/bin/sh
here=$(dirname "$0")
read -r at when < "$here/plan"
echo >> "$here/count"
n=$(wc -l < "$here/count")
[ "$n" = "$at" ] && [ "$when" = before ] && kill -9 $PPID && exit 1
`+real+` "$@"
rc=$?
[ "$n" = "$at" ] && kill -9 $PPID
exit $rc
`)
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, n int, when string) (path, count string) {
		bin := t.TempDir()
		write(t, bin+"/plan", fmt.Sprintf("%d %s\n", n, when))
		if err := os.Symlink(script, bin+"/git"); err != nil {
			t.Fatal(err)
		}
		return testGit + "=" + bin + "/git", bin + "/count"
	}
}

// Killed before or after any run of git, in any stage, it ends as if nothing had happened.
func TestGraphKilledAroundAnyGit(t *testing.T) {
	t.Parallel()
	bare, dir := scene(t)
	fake := fakeGit(t)
	runs := map[string]int{}
	wholeBare, whole := again(t, bare, dir)
	live(t, whole, func(stage string) bool {
		path, count := fake(t, 0, "never")
		killed := inChild(t, stage, whole, path)
		raw, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		runs[stage] = max(runs[stage], len(raw))
		return killed
	})
	want := settled(t, whole)
	audit(t, "undisturbed", wholeBare, whole, want)
	type shot struct {
		stage, when string
		n           int
	}
	var shots []shot
	for _, stage := range []string{"setup", "commit", "sync"} {
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
			bare, dir := again(t, bare, dir)
			kills := live(t, dir, func(stage string) bool {
				if stage != s.stage {
					return false
				}
				path, _ := fake(t, s.n, s.when)
				return inChild(t, stage, dir, path)
			})
			if kills == 0 {
				t.Error("nothing was killed")
			}
			audit(t, "killed", bare, dir, want)
		})
	}
}
