package cli

import (
	"bytes"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// Whatever a branch lacks, it is said what to type.
func TestUnlandedSaysWhatToType(t *testing.T) {
	for _, c := range []struct{ reason, hint, want string }{
		{"", "", "taskdaemon status"},
		{"your folder has uncommitted changes", "git stash", "git stash"},
	} {
		var out bytes.Buffer
		a := &app{stdout: &out}
		a.printUnlanded([]td.Unlanded{{Trunk: "main", Tasks: []string{"t-1"}, Obstacle: td.Obstacle{Reason: c.reason, Hint: c.hint}}})
		if !strings.Contains(out.String(), "main lacks the work of t-1") || !strings.Contains(out.String(), c.want) {
			t.Errorf("said %q, want %q", out.String(), c.want)
		}
	}
}
