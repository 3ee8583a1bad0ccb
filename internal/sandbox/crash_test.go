//go:build failpoint

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/failpoint"
)

// TestKilledAtEveryPoint kills the daemon or the shim at each point of this package that a command
// reaches, and lets the next daemon find out. The command ran at most once; a state that says it ran or
// never will tells the truth; and only the death of the shim itself may leave it lost.
func TestKilledAtEveryPoint(t *testing.T) {
	reached := 0
	for _, point := range failpoint.Names() {
		if !strings.HasPrefix(point, "sandbox.") {
			continue
		}
		t.Run(point, func(t *testing.T) {
			spool, work := t.TempDir(), t.TempDir()
			trace := filepath.Join(t.TempDir(), "trace")
			d := daemon(t, spool, work, "echo once >> count; echo out; sleep 0.05")
			d.Env = append(os.Environ(), "TASKDAEMON_FAILPOINT="+point+":1", "TASKDAEMON_FAILPOINT_TRACE="+trace)
			err := d.Run()
			if raw, rerr := os.ReadFile(trace); rerr != nil || !strings.Contains(string(raw), point+"\n") {
				t.Logf("not reached by this scenario (%v)", err)
				return
			}
			reached++
			byShim := strings.HasPrefix(point, "sandbox.shim.")
			s := openAt(t, spool)
			p, state := settled(t, s, "cmd")
			switch state {
			case Finished:
				if res := wait(t, p); res.Exit != 0 || string(res.Head) != "out\n" {
					t.Errorf("got %+v", res)
				}
				want(t, work, "once\n")
			case NeverStarted:
				want(t, work, "")
				wait(t, start(t, s, "cmd", Command{Shell: "echo once >> count", Dir: work, Timeout: command(t, "").Timeout, Task: "task", Step: "step"}))
				want(t, work, "once\n")
			case Lost:
				if err == nil || strings.HasPrefix(point, "sandbox.remove.") { // it was forgotten after its end
					want(t, work, "once\n")
					break
				}
				if !byShim {
					t.Error("lost, though its shim was not killed")
				}
				if c := count(t, work); c != "" && c != "once\n" {
					t.Errorf("it ran %q", c)
				}
			}
			orphans, err := Orphans(spool)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range orphans { // a shim that is killed may leave some: they must be found
				if !byShim {
					t.Errorf("orphan: %+v", o)
				}
				if err := KillOrphan(o); err != nil {
					t.Error(err)
				}
			}
			eventually(t, "no orphan is left", func() bool { o, err := Orphans(spool); return err == nil && len(o) == 0 })
		})
	}
	if reached < 16 { // the others are of folders that nobody has reserved
		t.Errorf("only %d points were reached", reached)
	}
}

func count(t *testing.T, work string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(work, "count"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(raw)
}

func want(t *testing.T, work, text string) {
	t.Helper()
	if got := count(t, work); got != text {
		t.Errorf("it ran %q, want %q", got, text)
	}
}
