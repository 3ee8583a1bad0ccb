//go:build failpoint

package mirror

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

// crashJournal is the same journal in every process.
func crashJournal(rounds int) *journal {
	j := newJournal()
	for n := range rounds {
		for i := 1; i <= 3; i++ {
			if l := life(task(i), i); n < len(l) {
				j.add(task(i), l[n])
			}
		}
	}
	return j
}

const crashRounds = 16

// TestCrashChild is the process that is killed. It mirrors in several batches.
func TestCrashChild(t *testing.T) {
	path := os.Getenv("MIRROR_CRASH_PATH")
	if path == "" {
		t.Skip("only run by TestKilledAtEveryPoint")
	}
	for r := 4; r <= crashRounds; r += 4 {
		catchUp(t, crashJournal(r), path)
	}
	m := newMirror(t, crashJournal(crashRounds), path)
	repo, err := m.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.tidy(t.Context(), repo, 0); err != nil {
		t.Fatal(err)
	}
}

// Killed at any point, and killed there again while it catches up, the mirror ends with the same commits.
func TestKilledAtEveryPoint(t *testing.T) {
	ref := filepath.Join(t.TempDir(), "whole.git")
	catchUp(t, crashJournal(crashRounds), ref)
	want := refs(t, ref)
	for _, name := range failpoint.Names() {
		path, _, _ := strings.Cut(strings.TrimPrefix(name, "git."), ".")
		if !slices.Contains([]string{"mirror", "import", "open"}, path) || name == "mirror.heal.before_aside" {
			continue // not on this path
		}
		killed := 0
		for n := 1; n <= 6; n++ {
			path := filepath.Join(t.TempDir(), "c.git")
			for range 2 {
				cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
				cmd.Env = append(os.Environ(), "MIRROR_CRASH_PATH="+path, fmt.Sprintf("TASKDAEMON_FAILPOINT=%s:%d", name, n))
				out, err := cmd.CombinedOutput()
				if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() == -1 {
					killed++
				} else if err != nil {
					t.Fatalf("%s:%d: %v\n%s", name, n, err, out)
				}
			}
			catchUp(t, crashJournal(crashRounds), path)
			if got := refs(t, path); got != want {
				t.Errorf("%s:%d: refs\n%s\nwant\n%s", name, n, got, want)
			}
			fsck(t, path)
		}
		if killed == 0 {
			t.Errorf("%s was never reached", name)
		}
		t.Logf("%s: %d kills", name, killed)
	}
}
