//go:build failpoint

package git

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/failpoint"
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
		t.Skip("only run by TestGraphKilledAtEveryPoint")
	}
	stage(t, os.Getenv("GRAPH_CRASH_DIR"))
}

// killAt runs a stage in a process that dies at the n-th hit of a point, and reports whether it did.
func killAt(t *testing.T, stage, dir, point string, n int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestGraphCrashChild$")
	cmd.Env = append(os.Environ(), "GRAPH_CRASH_STAGE="+stage, "GRAPH_CRASH_DIR="+dir, fmt.Sprintf("TASKDAEMON_FAILPOINT=%s:%d", point, n))
	out, err := cmd.CombinedOutput()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() == -1 {
		return true
	}
	if err != nil {
		t.Fatalf("%s, %s:%d: %v\n%s", stage, point, n, err, out)
	}
	return false
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

// Killed at any point of any stage, and there again, it ends as if nothing had happened.
func TestGraphKilledAtEveryPoint(t *testing.T) {
	live := func(t *testing.T, dir string, disturb func(stage string) bool) (killed int) {
		t.Helper()
		for _, stage := range []string{"setup", "commit", "sync"} {
			if stage == "commit" {
				edit(t, dir)
			}
			for range 2 {
				if disturb(stage) {
					killed++
				}
				if stage == "sync" { // a line that the daemon writes after the crash, before it syncs again
					appendOnce(t, dir, "5\n")
				}
			}
			graphStages[stage](t, dir)
		}
		graphStages["sync"](t, dir)
		return killed
	}
	bare, dir := scene(t)
	_, whole := again(t, bare, dir)
	live(t, whole, func(string) bool { return false })
	want := settled(t, whole)
	for _, point := range failpoint.Names() {
		if !strings.HasPrefix(point, "git.graph.") {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killed := 0
			for _, n := range []int{1, 3, 6} {
				bare, dir := again(t, bare, dir)
				k := live(t, dir, func(stage string) bool { return killAt(t, stage, dir, point, n) })
				killed += k
				if k == 0 {
					break
				}
				if got := settled(t, dir); got != want {
					t.Errorf("hit %d:\n%s\nwant\n%s", n, got, want)
				}
				if got := user(t, dir+"/.taskdaemon", "status", "--porcelain", "--branch"); strings.Contains(got, "\n") {
					t.Errorf("hit %d: status %q", n, got)
				}
				if got := user(t, dir, "status", "--porcelain"); got != "" {
					t.Errorf("hit %d: the user's status %q", n, got)
				}
				if got, here := user(t, bare, "rev-parse", graphBranch), user(t, dir, "rev-parse", graphBranch); got != here {
					t.Errorf("hit %d: the remote is at %s, the clone at %s", n, got, here)
				}
				if left, _ := filepath.Glob(dir + "/.taskdaemon?*"); len(left) > 0 {
					t.Errorf("hit %d: left behind: %v", n, left)
				}
				if out := user(t, dir, "for-each-ref", "refs/taskdaemon"); out != "" {
					t.Errorf("hit %d: refs left behind: %s", n, out)
				}
				user(t, dir, "fsck", "--strict")
			}
			if killed == 0 {
				t.Error("nothing came by here")
			}
			t.Logf("%d kills", killed)
		})
	}
}
