//go:build failpoint

package rebuild

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"taskdaemon/internal/failpoint"
)

// TestCrashChild is the process that is killed.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv("REBUILD_CRASH_STATE")
	if dir == "" {
		t.Skip("only run by TestKilledAtEveryPoint")
	}
	if _, err := Run(t.Context(), (&state{dir: dir}).options()); err != nil {
		t.Fatal(err)
	}
}

// Killed at any of its own points, twice over, it ends as if nobody had killed it.
func TestKilledAtEveryPoint(t *testing.T) {
	for _, name := range failpoint.Names() {
		if !strings.HasPrefix(name, "rebuild.") {
			continue
		}
		for kind, harm := range map[string]func(testing.TB, *state){"deleted": remove, "damaged": damage, "rolled back": rollBack} {
			t.Run(name+" "+kind, func(t *testing.T) {
				s := lost(t)
				harm(t, s)
				killed := 0
				for range 2 {
					cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
					cmd.Env = append(os.Environ(), "REBUILD_CRASH_STATE="+s.dir, fmt.Sprintf("TASKDAEMON_FAILPOINT=%s:1", name))
					out, err := cmd.CombinedOutput()
					if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() == -1 {
						killed++
					} else if err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
				}
				if killed == 0 {
					t.Error("it was not reached")
				}
				if _, err := Run(t.Context(), s.options()); err != nil {
					t.Fatal(err)
				}
				s.check(t)
			})
		}
	}
}
