package sandbox

import (
	"os"
	"strings"
	"testing"
)

// TestCheckAgreesWithWhatHappens holds what Check says against a command that requires all of it.
func TestCheckAgreesWithWhatHappens(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	found, err := Check(t.Context(), self)
	if err != nil || len(found) < 5 {
		t.Fatalf("got %+v, %v", found, err)
	}
	all := true
	for _, f := range found {
		if all = all && f.OK; !f.OK && f.Hint == "" {
			t.Errorf("%+v does not say what to do", f)
		}
	}
	s := open(t)
	cmd := command(t, "true")
	cmd.Profile = &Profile{Files: WorkspaceWrite, Network: NetworkOff, Workspace: cmd.Dir, Required: true}
	p, err := s.Start(t.Context(), "cmd", cmd)
	if all != (err == nil) {
		t.Errorf("check says %v, and the command: %v", all, err)
	}
	if err == nil {
		wait(t, p)
	} else if !strings.Contains(err.Error(), "required") {
		t.Errorf("the refusal does not say why: %v", err)
	}
}
