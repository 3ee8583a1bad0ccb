package engine

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// watched is a spool that says when something was removed of which no outcome is on record.
type watched struct {
	noSpool
	early func() bool

	mu      sync.Mutex
	removed int
	wrong   int
}

func (w *watched) Remove(string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed++
	if w.early() {
		w.wrong++
	}
	return nil
}

// What a command left is removed when its outcome is on record, and not before: after a kill in between nobody could say what became of it.
func TestSpoolStaysUntilTheOutcomeIsOnRecord(t *testing.T) {
	spool := &watched{}
	run := tool.Tool{Name: "Bash", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
		return tool.Call{Effect: td.Opaque, Kept: true, Command: "make", Run: func(context.Context) (td.ToolResult, error) {
			return td.ToolResult{Content: "made"}, nil
		}}, nil
	}}
	play(t, []any{calls("Bash", `{}`)}, func(s *td.Spec, o *Options) {
		s.Yes, o.Tools, o.Spool = true, o.Tools.With(run), spool
	}, func(b *bench, id td.TaskID) {
		spool.mu.Lock()
		spool.early = func() bool {
			for _, step := range b.task(id).InFlight {
				if step.Name == "Bash" {
					return true
				}
			}
			return false
		}
		spool.mu.Unlock()
		b.until(id, td.Completed)
		spool.mu.Lock()
		defer spool.mu.Unlock()
		if spool.removed == 0 || spool.wrong > 0 {
			t.Errorf("removed %d times, %d of them too early", spool.removed, spool.wrong)
		}
	})
}
