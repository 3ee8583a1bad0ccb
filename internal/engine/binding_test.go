package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/td"
)

// A permission is for the input it was given for: when hooks make another one of the call, the person is
// asked again.
func TestPermissionIsForOneInput(t *testing.T) {
	play(t, []any{calls("Guarded", `{"command":"harmless"}`)}, func(_ *td.Spec, o *Options) {
		o.Hooks = hooked(t, says1(hook.Result{}), hook.PostToolUse)
	}, func(b *bench, id td.TaskID) {
		first := b.until(id, td.Waiting).Requests[0]
		b.engine.Hooks = hooked(t, says1(changes("tool_input", `{"command":"harmful"}`)), hook.PreToolUse)
		yes := func(r td.Request) {
			b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: r.ID, Choice: td.Yes}})
		}
		yes(first)
		time.Sleep(time.Minute)
		second := b.until(id, td.Waiting).Requests
		if len(second) != 1 || second[0].ID == first.ID || !strings.Contains(second[0].Prompt, "harmful") {
			t.Fatalf("the person is asked %+v", second)
		}
		yes(second[0])
		b.until(id, td.Completed)
		b.wantSaid(id, "let through")
	})
}

// What hooks made of a call before it began holds until it has ended, also when they are not configured
// any more.
func TestBegunCallKeepsWhatHooksSaid(t *testing.T) {
	var seen string
	set := func(point hook.Point, f hook.Func) *hook.Set {
		set, err := hook.New([]hook.Spec{{Point: point, Func: "f", Matcher: "Hang"}}, map[string]hook.Func{"f": f})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	play(t, []any{calls("Hang", `{"a":1}`)}, func(_ *td.Spec, o *Options) {
		o.Hooks = set(hook.PreToolUse, says1(changes("tool_input", `{"a":2}`)))
	}, func(b *bench, id td.TaskID) {
		time.Sleep(time.Second)
		err := b.journal.Post(b.t.Context(), id, td.Command{Type: td.CmdPause, Key: "pause", At: time.Now().UTC().Round(0)})
		if err != nil {
			t.Fatal(err)
		}
		b.sched.Wake(b.t.Context(), b.task(id), true)
		b.until(id, td.Paused)
		b.engine.Hooks = set(hook.PostToolUse, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
			seen = string(p.(hook.PostToolUsePayload).ToolInput)
			return hook.Result{}, nil
		})
		b.post(id, td.Command{Type: td.CmdResume})
		b.until(id, td.Completed)
		if seen != `{"a":2}` {
			t.Errorf("it went on with %s", seen)
		}
	})
}

// A hook's ask holds for every tool, also for those that do nothing to the workspace.
func TestHookAsksForControls(t *testing.T) {
	for name, plays := range map[string][]any{
		"Complete": {calls("Complete", `{"summary":"ok"}`)},
		"Fail":     {calls("Fail", `{"reason":"no"}`)},
		"Task":     {calls("Task", `{"prompt":"work"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := hook.New([]hook.Spec{{Point: hook.PreToolUse, Func: "f", Matcher: name}},
				map[string]hook.Func{"f": says1(hook.Result{Permission: hook.Ask})})
			if err != nil {
				t.Fatal(err)
			}
			play(t, plays, func(s *td.Spec, o *Options) { s.Yes, o.Hooks = true, set; withSubtasks(o) }, func(b *bench, id td.TaskID) {
				req := b.until(id, td.Waiting).Requests[0]
				if req.Tool != name || req.Kind != td.AskPermission {
					t.Errorf("asked %+v", req)
				}
				b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: req.ID, Choice: td.Yes}})
				b.until(id, map[string]td.State{"Complete": td.Completed, "Fail": td.Failed, "Task": td.Blocked}[name])
			})
		})
	}
}

// A task that is cancelled before its first run was added all the same.
func TestCancelledBeforeItBegan(t *testing.T) {
	var told []hook.Point
	set := hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		told = append(told, p.Point())
		return hook.Result{}, nil
	}, hook.TaskCreated, hook.TaskCancelled)
	play(t, nil, func(s *td.Spec, o *Options) { s.Dir, o.Hooks = s.Dir+"/missing", set }, func(b *bench, id td.TaskID) {
		b.until(id, td.Blocked)
		b.post(id, td.Command{Type: td.CmdCancel, By: "ada"})
		b.until(id, td.Cancelled)
		if len(told) != 2 || told[0] != hook.TaskCreated || told[1] != hook.TaskCancelled {
			t.Errorf("told %v", told)
		}
	})
}
