package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// TestTempIsTheTasks checks that commands of a task share a temp folder, that no other task sees it, and that it
// goes with its task, whatever was made in it.
func TestTempIsTheTasks(t *testing.T) {
	y := newYard(t)
	mine, other := y.command(`mkdir -p "$TMPDIR/a/b" && echo kept > "$TMPDIR/a/b/x" && chmod 500 "$TMPDIR/a/b" "$TMPDIR/a"`), y.command(`cat "$TMPDIR/a/b/x"`)
	if res := wait(t, start(t, y.s, "one", mine)); res.Exit != 0 {
		t.Fatalf("%s", res.Head)
	}
	if res := wait(t, start(t, y.s, "two", other)); res.Exit == 0 {
		t.Errorf("another task read %q", res.Head)
	}
	mine.Shell = other.Shell
	if res := wait(t, start(t, y.s, "three", mine)); strings.TrimSpace(string(res.Head)) != "kept" {
		t.Errorf("the task's next command read %q", res.Head)
	}
	if err := y.s.Forget(func(id td.TaskID) bool { return id == other.Task }); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(y.s.temps())
	if err != nil || len(left) != 1 || left[0].Name() != string(other.Task) {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestProfileThatMakesNoSenseRunsNothing covers profiles by hand and profiles from a damaged disk.
func TestProfileThatMakesNoSenseRunsNothing(t *testing.T) {
	s := open(t)
	for name, p := range map[string]Profile{
		"files":      {Files: "some", Network: NetworkFull, Workspace: "/w"},
		"network":    {Files: Full, Network: "slow"},
		"workspace":  {Files: WorkspaceWrite, Network: NetworkFull},
		"relative":   {Files: ReadOnly, Network: NetworkFull, Hide: []string{"x"}},
		"no proxy":   {Files: Full, Network: NetworkProxy},
		"small file": {Files: Full, Network: NetworkFull, Limits: Limits{FileSize: 10}},
	} {
		cmd := command(t, "touch ran")
		cmd.Profile = &p
		if _, err := s.Start(t.Context(), strings.ReplaceAll(name, " ", "-"), cmd); !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if exists(cmd.Dir, "ran") {
			t.Errorf("%s: it ran", name)
		}
		if _, err := decodeSpec([]byte(`{"id":"i","boot":"b","shell":"/bin/sh","timeout":1,"profile":{"files":"?"}}`)); !td.IsKind(err, td.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrivateTemps checks that what is said to be a command's own is: it finds there nothing of others, and leaves nothing.
func TestPrivateTemps(t *testing.T) {
	for _, base := range []string{"/tmp", "/var/tmp"} {
		y := newYardIn(t, base)
		private := y.p.PrivateTemps()
		if slices.Contains(private, base) {
			t.Errorf("%s, in which the workspace lies, is said to be private", base)
		}
		for _, dir := range private {
			theirs, err := os.MkdirTemp(dir, "theirs-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(theirs) })
			y.works("test ! -e " + theirs + " && echo x > " + theirs + ".new && cat " + theirs + ".new")
			if _, err := os.Stat(theirs + ".new"); err == nil {
				t.Errorf("%s is everybody's", dir)
			}
		}
	}
	full := Profile{Files: Full, Network: NetworkFull}
	if got := full.PrivateTemps(); len(got) > 0 {
		t.Errorf("without a sandbox: %q", got)
	}
}
