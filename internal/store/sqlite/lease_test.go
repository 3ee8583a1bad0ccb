package sqlite

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// TestStaleLeases: what is listed and does not follow from a task's records counts as free, is reported, and
// stops nobody; what follows and is not listed is reported.
func TestStaleLeases(t *testing.T) {
	intent := td.Event{At: time.Unix(1e9, 0), Body: td.StepIntended{Intent: td.Intent{
		Key: "s", Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque, Wants: []td.Want{{Resource: "build"}},
	}}}
	for name, c := range map[string]struct {
		sql  string
		free bool
		says string
	}{
		"nothing amiss":       {"SELECT 1", false, ""},
		"its step is unknown": {"UPDATE leases SET step = 'gone'", true, "it counts as free"},
		"the task is unknown": {"UPDATE leases SET task = 4711", true, "others may take it"},
		"it cannot be read":   {"UPDATE lives SET live = x'00' WHERE task = 1", true, "cannot be read"},
		"waits for nothing":   {"INSERT INTO waiters VALUES ('build', 1, 1)", false, "listed as waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openTest(t, Options{Dir: dir})
			w := scribbler{s: s}
			holder, hc := w.begin(t)
			if _, err := s.Append(t.Context(), hc, holder.Head, intent); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tamper(t, dir, c.sql)
			s = openTest(t, Options{Dir: dir})
			w = scribbler{s: s}
			other, oc := w.begin(t)
			_, err := s.Append(t.Context(), oc, other.Head, intent)
			if c.free && err != nil || !c.free && !td.IsKind(err, td.Busy) {
				t.Errorf("the next that wants it gets %v", err)
			}
			if _, err := s.Locks(t.Context()); err != nil {
				t.Error(err)
			}
			found, err := s.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for _, p := range found {
				said.WriteString(p.What + "\n")
			}
			if !strings.Contains(said.String(), c.says) || c.says == "" && len(found) > 0 {
				t.Errorf("check says %q, want %q", said.String(), c.says)
			}
		})
	}
}
