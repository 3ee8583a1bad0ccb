package engine

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// hooked is a set of one function at each of the points.
func hooked(t *testing.T, f hook.Func, points ...hook.Point) *hook.Set {
	t.Helper()
	var specs []hook.Spec
	for _, p := range points {
		spec := hook.Spec{Point: p, Name: string(p), Func: "f"}
		if p == hook.PreToolUse {
			spec.Matcher = "Look|Guarded"
		}
		specs = append(specs, spec)
	}
	set, err := hook.New(specs, map[string]hook.Func{"f": f})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func says1(r hook.Result) hook.Func {
	return func(context.Context, hook.Payload, hook.Firing) (hook.Result, error) { return r, nil }
}

func changes(field, value string) hook.Result {
	return hook.Result{Changes: map[string]json.RawMessage{field: json.RawMessage(value)}}
}

var no = hook.Result{Blocked: true, Reason: "the hook says no"}

func TestHooksDecide(t *testing.T) {
	look, guarded := []any{calls("Look", `{"a":1}`)}, []any{calls("Guarded", `{}`)}
	for name, tt := range map[string]struct {
		point hook.Point
		said  hook.Result
		plays []any
		yes   bool
		state td.State
		words []string // of the conversation
		not   string
		check func(t *testing.T, b *bench, task td.Task)
	}{
		"a call is blocked": {
			point: hook.PreToolUse, said: no, plays: look, state: td.Completed,
			words: []string{"the hook says no"}, not: "looked",
		},
		"a call is answered": {
			point: hook.PreToolUse, said: changes("tool_response", `{"content":"canned"}`), plays: look,
			state: td.Completed, words: []string{"canned"}, not: "looked",
		},
		"words with a result": {
			point: hook.PreToolUse, said: hook.Result{Inject: []string{"mind this"}}, plays: look, state: td.Completed, words: []string{`looked\n\nmind this`},
		},
		"a call is allowed": {
			point: hook.PreToolUse, said: hook.Result{Permission: hook.Allow}, plays: guarded, state: td.Completed, words: []string{"let through"},
		},
		"a person is asked after all": {
			point: hook.PreToolUse, said: hook.Result{Permission: hook.Ask}, plays: look, yes: true, state: td.Waiting,
		},
		"a call is blocked and the task pauses": {
			point: hook.PreToolUse, said: hook.Result{Stop: true, Reason: "enough"}, plays: look, state: td.Paused, not: "looked", words: []string{"enough"},
		},
		"a result is changed": {
			point: hook.PostToolUse, said: changes("tool_response", `{"content":"seen","is_error":true}`), plays: look, state: td.Completed,
			words: []string{`"seen"`, `"is_error":true`}, not: "looked",
		},
		"a result is blocked": {point: hook.PostToolUse, said: no, plays: look, state: td.Completed, words: []string{"the hook says no"}, not: "looked"},
		"after a result the task pauses": {
			point: hook.PostToolUse, said: hook.Result{Stop: true, Reason: "enough"}, plays: look, state: td.Paused, words: []string{"enough"},
		},
		"the start is blocked": {
			point: hook.TaskStarted, said: no, state: td.Failed,
			check: func(t *testing.T, b *bench, task td.Task) {
				if !strings.Contains(task.Status.Failed.Error, no.Reason) || len(b.model.requests) > 0 {
					t.Errorf("it failed with %q after %d calls", task.Status.Failed.Error, len(b.model.requests))
				}
			},
		},
		"words at the start":   {point: hook.TaskStarted, said: hook.Result{Inject: []string{"good morning"}}, state: td.Completed, words: []string{"good morning"}},
		"words in the context": {point: hook.PreContextAssembly, said: hook.Result{Inject: []string{"context words"}}, state: td.Completed, words: []string{"context words"}},
		"another model": {
			point: hook.PreContextAssembly, said: changes("tier", `"small"`), state: td.Completed,
			check: func(t *testing.T, b *bench, _ td.Task) { wantModel(t, b, "small-model") },
		},
		"another system prompt": {
			point: hook.PostContextAssembly, said: changes("system", `"be brief"`), state: td.Completed,
			check: func(t *testing.T, b *bench, task td.Task) {
				if got := b.model.requests[0].System; got != "be brief" {
					t.Errorf("system prompt %q", got)
				}
				if got := partsOf(b, task.ID); !slices.Equal(got, []string{"environment", "task", "hook"}) {
					t.Errorf("the context is made of %q", got)
				}
			},
		},
		"another opening": {
			point: hook.PostContextAssembly, said: changes("messages", `[{"role":"user","blocks":[{"type":"text","text":"only this"}]}]`),
			state: td.Completed, words: []string{"only this"}, not: "do it",
		},
		"another model for one call": {
			point: hook.PreLLMCall, said: changes("model", `"other"`), state: td.Completed,
			check: func(t *testing.T, b *bench, _ td.Task) { wantModel(t, b, "other") },
		},
		"a call of the model is blocked": {point: hook.PreLLMCall, said: no, state: td.Paused},
		"a hook answers": {
			point: hook.PreLLMCall, said: changes("answer", `"I am the hook"`), state: td.Failed, words: []string{"I am the hook"},
			check: func(t *testing.T, b *bench, task td.Task) {
				if n := len(b.model.requests); n > 0 || task.LastModel != "" {
					t.Errorf("the model was called %d times; last answered %q", n, task.LastModel)
				}
			},
		},
		"an answer is changed": {
			point: hook.PostLLMCall, said: changes("message", `{"role":"assistant","blocks":[{"type":"tool_use","id":"x","name":"Complete","input":{"summary":"changed"}}]}`),
			plays: look, state: td.Completed, not: "Look",
			check: func(t *testing.T, _ *bench, task td.Task) {
				if got := task.Status.Completed.Summary; got != "changed" {
					t.Errorf("summary %q", got)
				}
			},
		},
		"a turn is the last": {point: hook.LoopIteration, said: no, plays: look, state: td.Paused, words: []string{"looked"}},
		"words after a turn": {point: hook.LoopIteration, said: hook.Result{Inject: []string{"go on"}}, plays: look, state: td.Completed, words: []string{"go on"}},
		"a request is denied": {
			point: hook.PermissionRequest, said: no, plays: guarded, state: td.Completed, words: []string{"the hook says no"}, not: "let through",
		},
		"a request is granted": {
			point: hook.PermissionRequest, said: hook.Result{Permission: hook.Allow}, plays: guarded, state: td.Completed, words: []string{"let through"},
		},
		"a request is denied and the task pauses": {
			point: hook.PermissionRequest, said: hook.Result{Stop: true, Reason: "enough"}, plays: guarded, state: td.Paused, words: []string{"enough"}, not: "let through",
		},
		"what the rules ask about is allowed": {
			point: hook.SecurityPolicyCheck, said: hook.Result{Permission: hook.Allow}, plays: guarded, state: td.Completed, words: []string{"let through"},
		},
		"what the rules allow is asked about": {
			point: hook.SecurityPolicyCheck, said: hook.Result{Permission: hook.Ask}, plays: look, state: td.Waiting,
		},
		"what the rules allow is forbidden": {
			point: hook.SecurityPolicyCheck, said: no, plays: look, state: td.Completed, words: []string{"the hook says no"}, not: "looked",
		},
		"a question in other words": {
			point: hook.PreUserPrompt, said: changes("prompt", `"May I?"`), plays: guarded, state: td.Waiting,
			check: func(t *testing.T, _ *bench, task td.Task) {
				if got := task.Requests[0].Prompt; got != "May I?" {
					t.Errorf("prompt %q", got)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, tt.plays, func(s *td.Spec, o *Options) {
				s.Yes, o.Hooks = tt.yes, hooked(t, says1(tt.said), tt.point)
			}, func(b *bench, id td.TaskID) {
				task := b.until(id, tt.state)
				b.wantSaid(id, tt.words...)
				if said := b.conversation(id); tt.not != "" && strings.Contains(said, tt.not) {
					t.Errorf("the conversation has %q:\n%s", tt.not, said)
				}
				if tt.check != nil {
					tt.check(t, b, task)
				}
			})
		})
	}
}

func wantModel(t *testing.T, b *bench, want string) {
	t.Helper()
	if got := b.model.requests[0].Model; got != want {
		t.Errorf("%s was called, not %s", got, want)
	}
}

// What a hook makes of an input is what is run, what the person is asked about, and what later hooks see.
func TestHookedInputIsJudged(t *testing.T) {
	var seen []string
	set := hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		switch p := p.(type) {
		case hook.PreToolUsePayload:
			return changes("tool_input", `{"command":"changed"}`), nil
		case hook.PermissionRequestPayload:
			seen = append(seen, string(p.ToolInput), p.Prompt)
		case hook.PostToolUsePayload:
			seen = append(seen, string(p.ToolInput))
		}
		return hook.Result{}, nil
	}, hook.PreToolUse, hook.PermissionRequest, hook.PostToolUse)
	play(t, []any{calls("Guarded", `{"command":"original"}`)}, func(_ *td.Spec, o *Options) { o.Hooks = set }, func(b *bench, id td.TaskID) {
		req := b.until(id, td.Waiting).Requests[0]
		if !strings.Contains(req.Prompt, "changed") {
			t.Errorf("the person is asked %q", req.Prompt)
		}
		b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: req.ID, Choice: td.Yes, By: "ada"}})
		b.until(id, td.Completed)
		want := []string{`{"command":"changed"}`, "Allow Guarded changed?", `{"command":"changed"}`}
		if len(seen) < 3 || !slices.Equal(seen[:3], want) {
			t.Errorf("hooks saw %q", seen)
		}
	})
}

// A person who resumes overrules a block: the hook is asked again.
func TestResumeAsksAgain(t *testing.T) {
	asked := 0
	set := hooked(t, func(context.Context, hook.Payload, hook.Firing) (hook.Result, error) {
		asked++
		if asked == 1 {
			return no, nil
		}
		return hook.Result{}, nil
	}, hook.PreLLMCall)
	play(t, nil, func(_ *td.Spec, o *Options) { o.Hooks = set }, func(b *bench, id td.TaskID) {
		b.until(id, td.Paused)
		b.post(id, td.Command{Type: td.CmdResume, By: "ada"})
		b.until(id, td.Completed)
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// What a person says passes a hook, which may refuse or change it.
func TestHookHearsThePerson(t *testing.T) {
	set := hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		if strings.Contains(p.(hook.PostUserInputPayload).Message, "password") {
			return no, nil
		}
		return hook.Result{Changes: map[string]json.RawMessage{"message": []byte(`"politely put"`)}, Inject: []string{"and a note"}}, nil
	}, hook.PostUserInput)
	play(t, []any{says("hello", td.EndTurn)}, func(s *td.Spec, o *Options) { s.Mode, o.Hooks = td.Interactive, set }, func(b *bench, id td.TaskID) {
		b.until(id, td.Waiting)
		b.post(id, td.Command{Type: td.CmdMessage, Text: "my password is", By: "ada"}, td.Command{Type: td.CmdMessage, Text: "rude", By: "ada"})
		b.until(id, td.Completed)
		b.wantSaid(id, "politely put", "and a note")
		if said := b.conversation(id); strings.Contains(said, "password") || strings.Contains(said, "rude") {
			t.Errorf("the model heard %s", said)
		}
	})
}

// A hook that is asked about a command is not cut short by the next command, but by a daemon that leaves.
func TestHookLetsTheDaemonLeave(t *testing.T) {
	var asked, ended chan error
	set := hooked(t, func(ctx context.Context, _ hook.Payload, _ hook.Firing) (hook.Result, error) {
		asked <- nil
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return hook.Result{}, ctx.Err()
	}, hook.TaskPaused)
	play(t, []any{calls("Look", `{}`)}, func(_ *td.Spec, o *Options) {
		o.Hooks = set
		asked, ended = make(chan error, 1), make(chan error, 1)
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Running)
		b.post(id, td.Command{Type: td.CmdPause, By: "ada"})
		<-asked
		b.post(id, td.Command{Type: td.CmdCancel, By: "ada"})
		select {
		case cause := <-ended:
			t.Errorf("a command ended it: %v", cause)
		case <-time.After(time.Second):
		}
		b.sched.Kill()
		if cause := <-ended; !errors.Is(cause, tool.ErrDetach) {
			t.Errorf("it ended by %v", cause)
		}
	})
}

// A hook that fails and is closed blocks; one that is open is as if it had not been asked.
// cut loses what is recorded behind the first word of a hook, as a kill does after one was adopted: the next life
// of the run finds the one record without the other.
type cut struct {
	store.Journal
	done bool
}

func (c *cut) Append(ctx context.Context, claim td.Claim, head uint64, evs ...td.Event) (td.Task, error) {
	for i, ev := range evs {
		body := ev.Body
		if sealed, is := body.(td.Sealed); is {
			body = sealed.Body
		}
		if e, is := body.(td.StepEnded); is && e.Hook != nil && !c.done {
			c.done = true
			t, err := c.Journal.Append(ctx, claim, head, evs[:i+1]...)
			return t, errors.Join(err, td.Errorf(td.Storage, "no space left"))
		}
	}
	return c.Journal.Append(ctx, claim, head, evs...)
}

// A pause that a hook asks for follows from the records, and comes behind the result of the call it is about.
func TestHookStopsInTheNextLife(t *testing.T) {
	asked := 0
	set := hooked(t, func(context.Context, hook.Payload, hook.Firing) (hook.Result, error) {
		asked++
		return hook.Result{Blocked: true, Stop: true, Reason: "enough"}, nil
	}, hook.PreToolUse)
	j := &cut{}
	play(t, []any{calls("Look", `{}`)}, func(_ *td.Spec, o *Options) {
		j.Journal, o.Hooks, o.Journal = o.Journal, set, j
	}, func(b *bench, id td.TaskID) {
		task := b.until(id, td.Paused)
		b.wantSaid(id, "enough")
		if asked != 1 || !j.done || b.looked.Load() > 0 {
			t.Errorf("asked %d times, cut off: %v, looked %d times, %+v", asked, j.done, b.looked.Load(), task.Status)
		}
	})
}

func TestHookFails(t *testing.T) {
	for on, want := range map[hook.OnError]td.State{hook.Open: td.Completed, hook.Closed: td.Failed} {
		set, err := hook.New([]hook.Spec{{Point: hook.TaskStarted, Command: "true", OnError: on}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		play(t, nil, func(_ *td.Spec, o *Options) { o.Hooks, o.HookDir = set, t.TempDir() }, func(b *bench, id td.TaskID) {
			b.until(id, want) // no processes can be started here
		})
	}
}

// Each point that is said to fire does, once for its occasion, in a task that passes all of them.
func TestPointsFire(t *testing.T) {
	var mu sync.Mutex
	passed := map[hook.Point]int{}
	var points []hook.Point
	elsewhere := []hook.Point{hook.SubtaskSpawned, hook.LearningExtracted, hook.KnowledgeQuery, hook.KnowledgeInjected,
		hook.SecurityViolation, hook.AnomalyDetected, hook.ResourceLockWait, hook.ResourceLockAcquired, hook.ResourceLockReleased} // other tests and scripts pass them
	for _, trait := range hook.Traits {
		points = append(points, trait.Point)
	}
	record := func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		passed[p.Point()]++
		return hook.Result{}, nil
	}
	set := hooked(t, record, points...)
	plays := []any{
		calls("Guarded", `{}`),
		calls("Guarded", `{}`),
		calls("Fail", `{"reason":"first"}`),
		calls("Look", `{}`),
	}
	answer := func(b *bench, id td.TaskID, choice string) {
		req := b.until(id, td.Waiting).Requests[0]
		b.post(id, td.Command{Type: td.CmdAnswer, By: "ada", Answer: &td.Answer{Request: req.ID, Choice: choice, By: "ada"}})
	}
	play(t, plays, func(_ *td.Spec, o *Options) { o.Hooks = set }, func(b *bench, id td.TaskID) {
		answer(b, id, td.Yes)
		for b.task(id).Turns < 2 {
			b.until(id, td.Waiting)
		}
		answer(b, id, td.No)
		b.until(id, td.Failed)
		b.post(id, td.Command{Type: td.CmdResume, By: "ada"})
		b.until(id, td.Running)
		synctest.Wait() // a pause that comes before its hooks have run is obeyed first
		b.post(id, td.Command{Type: td.CmdPause, By: "ada"})
		b.until(id, td.Paused)
		b.post(id, td.Command{Type: td.CmdResume, By: "ada"})
		b.until(id, td.Completed)
	})
	play(t, []any{calls("Hang", `{}`)}, func(_ *td.Spec, o *Options) { o.Hooks = hooked(t, record, hook.TaskCancelled) }, func(b *bench, id td.TaskID) {
		b.until(id, td.Running)
		b.post(id, td.Command{Type: td.CmdCancel, By: "ada"})
		b.until(id, td.Cancelled)
	})
	mu.Lock()
	defer mu.Unlock()
	want := map[hook.Point]int{
		hook.TaskCreated: 1, hook.TaskScheduled: 3, hook.TaskStarted: 3, hook.TaskFailed: 1, hook.TaskCompleted: 1, hook.TaskPaused: 1,
		hook.TaskResumed: 2, hook.TaskCancelled: 1,
		hook.PermissionRequest: 2, hook.PermissionGranted: 1, hook.PermissionDenied: 1, hook.PreUserPrompt: 2, hook.PostUserInput: 2,
		hook.PreContextAssembly: 1, hook.PostContextAssembly: 1,
	}
	for _, trait := range hook.Traits {
		n := passed[trait.Point]
		switch {
		case slices.Contains(elsewhere, trait.Point):
		case n == 0:
			t.Errorf("%s did not fire", trait.Point)
		case want[trait.Point] > 0 && n != want[trait.Point]:
			t.Errorf("%s fired %d times, want %d", trait.Point, n, want[trait.Point])
		}
	}
}

// A secret that a hook prints is neither told nor recorded, and what runs is what is recorded.
func TestHookSecretsAreTakenOut(t *testing.T) {
	const secret = "hunter2hunter2"
	set := hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		switch p.Point() {
		case hook.PreToolUse:
			return changes("tool_input", `{"command":["use `+secret+`"],"n":12345678901234567890}`), nil
		case hook.PermissionRequest:
			return hook.Result{Blocked: true, Reason: "not with " + secret}, nil
		case hook.LoopIteration:
			return hook.Result{}, errors.New("it cannot log in with " + secret)
		}
		return hook.Result{Inject: []string{"the key is " + secret}}, nil
	}, hook.PreToolUse, hook.PostToolUse, hook.PermissionRequest, hook.LoopIteration)
	play(t, []any{calls("Look", `{}`), calls("Guarded", `{}`)}, func(_ *td.Spec, o *Options) { o.Hooks, o.Redact = set, redact.New(secret) }, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		b.wantSaid(id, "the key is [redacted]", "not with [redacted]")
		found := false
		for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			raw, err := td.EncodeBody(ev.Body)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), secret) {
				t.Errorf("record %d has it: %s", ev.Seq, raw)
			}
			found = found || strings.Contains(string(raw), `{"command":["use [redacted]"],"n":12345678901234567890}`)
		}
		if !found {
			t.Error("the changed input is not recorded as it ran")
		}
	})
}

// Hooks write to files and to addresses: they hear of no secret, known or by its shape, in any field of what they are
// told, and in no encoding.
func TestHooksHearNoSecrets(t *testing.T) {
	const secret = "hunter2hunter2/x"
	key := "ghp" + "_abcdefghijklmnopqrst0123456789"
	forms := []string{secret, base64.StdEncoding.EncodeToString([]byte("a:" + secret)), hex.EncodeToString([]byte(secret)), url.QueryEscape(secret)}
	var mu sync.Mutex
	heard, posts := "", 0
	set := hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		raw, err := hook.Encode(p)
		mu.Lock()
		defer mu.Unlock()
		heard += string(raw)
		if p.Point() == hook.PostToolUse {
			posts++
		}
		return hook.Result{}, err
	}, hook.PreToolUse, hook.PostToolUse, hook.LoopIteration, hook.PreContextAssembly, hook.PostContextAssembly)
	say := func(field string) string {
		raw, err := json.Marshal(map[string]string{field: "got " + strings.Join(forms, " and ")})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	// The model itself does not know the key: only the result of the tool holds it.
	plays := []any{calls("Echo", say("say")), calls("Echo", say("fail"))}
	for _, field := range []string{"say", "fail"} {
		plays = append(plays, calls("Echo", `{"`+field+`":"\u0067hp_abcdefghijklmnopqrst0123456789"}`))
	}
	play(t, plays,
		func(s *td.Spec, o *Options) {
			o.Hooks, o.Redact, s.Title = set, redact.New(secret), "with "+secret
		}, func(b *bench, id td.TaskID) {
			b.until(id, td.Completed)
			mu.Lock()
			defer mu.Unlock()
			if posts < len(plays) || !strings.Contains(heard, "got [redacted]") {
				t.Errorf("%d results were told: %s", posts, heard)
			}
			for _, form := range forms {
				if strings.Contains(heard, form) {
					t.Errorf("hooks heard %q", form)
				}
			}
			for _, line := range strings.Split(heard, `"tool_response"`)[1:] {
				if answer, _, _ := strings.Cut(line, "}"); strings.Contains(answer, key) {
					t.Errorf("hooks heard the key in a result: %s", answer)
				}
			}
		})
}
