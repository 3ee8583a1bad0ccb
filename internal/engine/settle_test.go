package engine

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// forgetful is a tool whose calls are lost on the way, as in a crash, and how often one was run.
func forgetful(effect td.Effect, resolve func(context.Context, *tool.Env, json.RawMessage, td.Intent) (tool.Resolution, error)) (tool.Tool, *atomic.Int64) {
	ran := new(atomic.Int64)
	return tool.Tool{Name: "Forgetful", Resolve: resolve, Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
		return tool.Call{Effect: effect, Run: func(context.Context) (td.ToolResult, error) {
			if ran.Add(1) == 1 {
				return td.ToolResult{}, sandbox.ErrLost
			}
			return td.ToolResult{Content: "ran again"}, nil
		}}, nil
	}}, ran
}

func allowAll(o *Options, s *td.Spec, tools ...tool.Tool) {
	s.Yes = true
	o.Tools = tool.NewRegistry(append(tools, tool.Tool{Name: "Complete", Control: tool.CompleteControl, Prepare: func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Call, error) {
		return tool.Call{Input: in}, nil
	}})...)
}

// A call that may have taken effect is not run a second time because its tool cannot say whether it has.
func TestCallThatCannotBeResolvedIsNotRunAgain(t *testing.T) {
	for effect, again := range map[td.Effect]bool{td.Pure: true, td.Keyed: false, td.Opaque: false} {
		lost, ran := forgetful(effect, nil)
		play(t, []any{calls("Forgetful", `{}`), calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) { allowAll(o, s, lost) }, func(b *bench, id td.TaskID) {
			time.Sleep(5 * time.Minute) // it is tried each 30 s
			switch state := b.task(id).Status.State; {
			case ran.Load() == 0:
				t.Errorf("%s: it did not run at all", effect)
			case again && (ran.Load() != 2 || state != td.Completed):
				t.Errorf("%s: it ran %d times, and the task is %s", effect, ran.Load(), state)
			case !again && ran.Load() != 1:
				t.Errorf("%s: it ran %d times", effect, ran.Load())
			}
		})
	}
}

// What a call said that was found done after a crash holds no secret either when hooks hear of it.
func TestHooksHearNoSecretsOfWhatIsFoundDone(t *testing.T) {
	key := "ghp" + "_abcdefghijklmnopqrst0123456789"
	lost, _ := forgetful(td.Opaque, func(context.Context, *tool.Env, json.RawMessage, td.Intent) (tool.Resolution, error) {
		return tool.Resolution{State: tool.Done, Via: td.Adopted, Result: td.ToolResult{Content: "the key is " + key}}, nil
	})
	var mu sync.Mutex
	heard := ""
	set := hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		raw, err := hook.Encode(p)
		mu.Lock()
		defer mu.Unlock()
		heard += string(raw)
		return hook.Result{}, err
	}, hook.PostToolUse)
	play(t, []any{calls("Forgetful", `{}`), calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) {
		allowAll(o, s, lost)
		o.Hooks, o.Redact = set, redact.New()
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(heard, "the key is ") || strings.Contains(heard, key) {
			t.Errorf("hooks heard %s", heard)
		}
	})
}
