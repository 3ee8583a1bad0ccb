package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// Doctor names what is left of checkouts, also of one that was being made, and removes it.
func TestDoctorOfCheckouts(t *testing.T) {
	state := t.TempDir()
	d := start(t, state, nil)
	left, draft := tool.SpoolName(td.NewTaskID(), "t1.0.verify"), tool.SpoolName(td.NewTaskID(), "t2.0.verify")+git.Draft
	check := func(fix bool) api.Check {
		t.Helper()
		all, err := d.Doctor(t.Context(), api.DoctorRequest{Fix: fix})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all.Checks {
			if c.Name == "checkouts" {
				return c
			}
		}
		t.Fatal("nobody looks at checkouts")
		return api.Check{}
	}
	var c api.Check
	for range 100 { // the daemon sweeps once by itself when it starts
		for _, name := range []string{left, draft} {
			if err := os.MkdirAll(filepath.Join(CheckoutsDir(state), name, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if c = check(false); len(c.Findings) == 2 {
			break
		}
	}
	if c.OK || c.Fixed || len(c.Findings) != 2 || !strings.Contains(c.Findings[0]+c.Findings[1], left) {
		t.Errorf("%+v", c)
	}
	if c = check(true); c.OK || !c.Fixed || len(c.Findings) != 2 {
		t.Errorf("with --fix: %+v", c)
	}
	if c = check(false); !c.OK {
		t.Errorf("after that: %+v", c)
	}
}
