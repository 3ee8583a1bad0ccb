//go:build failpoint

package sqlite

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

// TestFailpoints kills a process that does one of everything at each named point, at its first hit and
// at a later one, and audits what it left. Run it with -tags failpoint.
func TestFailpoints(t *testing.T) {
	for _, name := range failpoint.Names() {
		if !strings.HasPrefix(name, "sqlite.") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, hit := range []int{1, 2, 5} {
				dir := t.TempDir()
				acks, err := child{Dir: dir, Tour: true, Failpoint: fmt.Sprintf("%s:%d", name, hit)}.run(t, nil)
				killed := false
				if e, ok := errors.AsType[*exec.ExitError](err); ok {
					killed = e.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
				}
				switch {
				case err != nil && !killed:
					t.Fatalf("hit %d: %v", hit, err)
				case !killed && hit == 1:
					t.Fatal("nothing on the tour comes by here")
				}
				auditFolder(t, dir, acks)
				if _, err := (child{Dir: dir, Tour: true}).run(t, nil); err != nil {
					t.Fatalf("hit %d: does not go on afterwards: %v", hit, err)
				}
				s := openTest(t, Options{Dir: dir, Alive: func(td.Holder) bool { return false }})
				if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
					t.Fatalf("hit %d: %+v %v", hit, found, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
