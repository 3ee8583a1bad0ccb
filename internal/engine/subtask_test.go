package engine

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// withSubtasks lets tasks have subtasks, which stay queued for ever. It returns which of them were cancelled.
func withSubtasks(o *Options) *atomic.Pointer[td.TaskID] {
	cancelled := new(atomic.Pointer[td.TaskID])
	o.Tools = o.Tools.With(tool.Tool{Name: "Task", Control: tool.TaskControl, Prepare: func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Call, error) {
		return tool.Call{Input: in}, nil
	}})
	o.Spawn = func(ctx context.Context, s td.Spec) (td.Task, error) { return o.Journal.Create(ctx, s, string(s.ID)) }
	o.CancelChild = func(_ context.Context, id td.TaskID, _ string) error {
		cancelled.Store(&id)
		return nil
	}
	return cancelled
}

// When the answer that asked for a subtask is dropped, nobody waits for the subtask any more.
func TestRetryFreesTheParent(t *testing.T) {
	var cancelled *atomic.Pointer[td.TaskID]
	play(t, []any{calls("Task", `{"prompt":"work"}`)}, func(_ *td.Spec, o *Options) { cancelled = withSubtasks(o) }, func(b *bench, id td.TaskID) {
		child := b.until(id, td.Blocked).Status.Blocked.Child
		b.post(id, td.Command{Type: td.CmdRetry})
		b.until(id, td.Completed)
		if got := cancelled.Load(); got == nil || *got != child {
			t.Errorf("cancelled %v, want %s", got, child)
		}
		if said := b.conversation(id); strings.Contains(said, "Task") {
			t.Errorf("the conversation still has the call: %s", said)
		}
	})
}

// Those who only look are all at work while the parent waits for the first of them; what comes after a change is not sent off before it.
func TestExplorersAreSentOffTogether(t *testing.T) {
	var spawned atomic.Int32
	explore := []string{"Explore", `{"question":"one"}`, "Look", `{}`, "Explore", `{"question":"two"}`, "Write", `{}`, "Explore", `{"question":"three"}`}
	play(t, []any{calls(explore...)}, func(_ *td.Spec, o *Options) {
		withSubtasks(o)
		spawned.Store(0)
		spawn := o.Spawn
		o.Spawn = func(ctx context.Context, s td.Spec) (td.Task, error) {
			spawned.Add(1)
			return spawn(ctx, s)
		}
		o.Tools = o.Tools.With(tool.Tool{Name: "Explore", Control: tool.ExploreControl, Prepare: func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Call, error) {
			return tool.Call{Input: in}, nil
		}})
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Blocked)
		if got := spawned.Load(); got != 2 {
			t.Errorf("%d are at work, want 2", got)
		}
		b.post(id, td.Command{Type: td.CmdCancel})
		b.until(id, td.Cancelled)
	})
}

// A subtask begins with what its parent has read, and its result brings along what it has read itself.
func TestTaintGoesBothWays(t *testing.T) {
	input := json.RawMessage(`{"prompt":"work"}`)
	for _, tainted := range []bool{false, true} {
		parent := td.NewTask(td.Spec{ID: td.NewTaskID(), Tainted: tainted})
		spec, err := childSpec(parent, tool.Tool{}, input, td.NewTaskID())
		if err != nil {
			t.Fatal(err)
		}
		child := td.NewTask(spec)
		if child.Untrusted != tainted {
			t.Errorf("a child of a parent that has read untrusted text (%v) is tainted: %v", tainted, child.Untrusted)
		}
		res := childResult(child)
		if res.Untrusted != tainted {
			t.Errorf("the result of a tainted child (%v) is untrusted: %v", tainted, res.Untrusted)
		}
		reader, err := td.NewTask(td.Spec{}).Apply(td.Event{Seq: 1, Body: td.StepEnded{Outcome: td.Outcome{Key: "1.1", Tool: res}}})
		if err != nil || reader.Untrusted != tainted {
			t.Errorf("who reads the result is tainted: %v, %v", reader.Untrusted, err)
		}
	}
}
