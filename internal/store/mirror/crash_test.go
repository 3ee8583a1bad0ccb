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

// damageIndexes changes a byte in the index of every pack.
func damageIndexes(t *testing.T, path string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(path, "objects/pack/*.idx"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no index: %v", err)
	}
	for _, name := range found {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw[1100]++
		if err := errors.Join(os.Remove(name), os.WriteFile(name, raw, 0o400)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRepairChild is the process that is killed while it repairs.
func TestRepairChild(t *testing.T) {
	path := os.Getenv("MIRROR_REPAIR_PATH")
	if path == "" {
		t.Skip("only run by TestKilledInRepair")
	}
	if _, _, err := newMirror(t, crashJournal(crashRounds), path).Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Killed while it makes indexes again, the mirror has all conversations after the next repair, and puts nothing aside.
func TestKilledInRepair(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.git")
	for r := 4; r <= crashRounds; r += 4 { // several packs
		catchUp(t, crashJournal(r), path)
	}
	want := refs(t, path)
	for n := 1; n <= 2; n++ {
		damageIndexes(t, path)
		cmd := exec.Command(os.Args[0], "-test.run=^TestRepairChild$")
		cmd.Env = append(os.Environ(), "MIRROR_REPAIR_PATH="+path, fmt.Sprintf("TASKDAEMON_FAILPOINT=git.reindex.before_rename:%d", n))
		out, err := cmd.CombinedOutput()
		if ee, ok := errors.AsType[*exec.ExitError](err); !ok || ee.ExitCode() != -1 {
			t.Fatalf("it was not killed: %v\n%s", err, out)
		}
		aside, lost, err := newMirror(t, crashJournal(crashRounds), path).Repair(t.Context())
		if err != nil || aside != "" || len(lost) > 0 {
			t.Fatalf("repair: aside %q, lost %q, %v", aside, lost, err)
		}
		if got := refs(t, path); got != want {
			t.Errorf("refs\n%s\nwant\n%s", got, want)
		}
		fsck(t, path)
	}
}
