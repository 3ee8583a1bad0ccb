package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/scheduler"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

// script plays answers in order; an entry is an llm.Response, an error, or a func that makes either.
type script struct {
	mu       sync.Mutex
	plays    []any
	requests []llm.Request
}

func (s *script) Provider() string { return "script" }

func (s *script) Stream(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	if err := llm.Check(req); err != nil {
		return llm.Response{}, &llm.Error{Class: td.BadRequest, Err: fmt.Errorf("no provider takes this request: %w", err)}
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	n := len(s.requests) - 1
	s.mu.Unlock()
	if n >= len(s.plays) {
		end := calls("Complete", `{"summary":"the script ended"}`)
		end.Usage = td.Usage{Input: 1, Output: 1} // next to nothing, but said
		return apart(end, req, n), nil
	}
	switch p := s.plays[n].(type) {
	case llm.Response:
		return apart(p, req, n), nil
	case error:
		return llm.Response{}, p
	case func(context.Context) (llm.Response, error):
		r, err := p(ctx)
		return apart(r, req, n), err
	}
	panic(fmt.Sprintf("play %d is a %T", n, s.plays[n]))
}

// apart gives calls an id of their own, as providers do, where an answer is played twice.
func apart(r llm.Response, req llm.Request, n int) llm.Response {
	r.Message.Blocks = slices.Clone(r.Message.Blocks)
	next := 0
	exchange.Renew(&r, req.Messages, func() string { next++; return fmt.Sprintf("u%d-%d", n, next) })
	return r
}

func says(text string, stop td.StopReason) llm.Response {
	return llm.Response{Model: "script", StopReason: stop, Message: td.Message{
		Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: text}},
	}}
}

// calls is an answer with tool calls, given as name, input, name, input…
func calls(pairs ...string) llm.Response {
	r := llm.Response{Model: "script", StopReason: td.StopToolUse, Message: td.Message{Role: td.Assistant}}
	for i := 0; i < len(pairs); i += 2 {
		r.Message.Blocks = append(r.Message.Blocks, td.Block{
			Type: td.ToolUseBlock, ID: fmt.Sprint("u", i/2), Name: pairs[i], Input: json.RawMessage(pairs[i+1]),
		})
	}
	return r
}

// bench is an engine with its scheduler on a journal in memory, inside a synctest bubble.
type bench struct {
	t       *testing.T
	journal *mem.Store
	model   *script
	sched   *scheduler.Scheduler
	done    chan struct{}
	looked  atomic.Int64
	engine  *Engine
}

func play(t *testing.T, plays []any, change func(*td.Spec, *Options), test func(b *bench, task td.TaskID)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, journal: mem.New(nil), model: &script{plays: plays}, done: make(chan struct{})}
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		id := td.NewTaskID()
		spec := td.Spec{
			ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Title: "test", Prompt: "do it",
			Dir: t.TempDir(), Mode: td.Autonomous, Tier: td.Worker, CreatedAt: time.Now().UTC().Round(0),
		}
		o := Options{
			Journal: b.journal, Model: b.model, Tools: tool.NewRegistry(b.tools()...), Spool: noSpool{},
			Models:      map[td.Tier]string{td.Worker: "worker-model", td.Small: "small-model"},
			Environment: func(context.Context, string, string) string { return "git: none" },
			Recent:      func(context.Context, string) []string { return nil },
			Tree:        func(context.Context, string) (string, error) { return "tree", nil },
			MaxTokens:   100, Turns: 20, Reminders: 1, Tool: time.Minute, Permission: 5 * time.Minute,
			Retry: RetryTable{
				Network:     []time.Duration{0, time.Second, 5 * time.Second},
				Overloaded:  []time.Duration{30 * time.Second, 30 * time.Second, 30 * time.Second},
				RateLimited: []time.Duration{time.Second, time.Second},
			},
			Guard: &guard{}, Log: log,
		}
		if change != nil {
			change(&spec, &o)
		}
		keeper := coord.NewKeeper(b.journal, td.Holder{Host: "here"}, log)
		b.engine = New(o)
		b.sched = scheduler.New(scheduler.Options{
			Journal: b.journal, Keeper: keeper, Runner: b.engine, Loops: 4, Log: log, Retry: 30 * time.Second,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = keeper.Run(ctx) })
		wg.Go(func() {
			if err := b.sched.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		task, err := b.journal.Create(ctx, spec, string(id))
		if err != nil {
			t.Fatal(err)
		}
		b.sched.Wake(ctx, task, false)
		test(b, id)
		b.sched.Stop()
		cancel()
		wg.Wait()
	})
}

func (b *bench) tools() []tool.Tool {
	control := func(name string, c tool.Control) tool.Tool {
		return tool.Tool{Name: name, Control: c, Prepare: func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Call, error) {
			return tool.Call{Input: in}, nil
		}}
	}
	return []tool.Tool{
		{Name: "Look", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
			return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) {
				time.Sleep(time.Second)
				b.looked.Add(1)
				return td.ToolResult{Content: "looked"}, nil
			}}, nil
		}},
		{Name: "Echo", Prepare: func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Call, error) {
			var say struct{ Say, Fail string }
			err := json.Unmarshal(in, &say)
			return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) {
				if say.Fail != "" {
					return td.ToolResult{}, errors.New(say.Fail)
				}
				return td.ToolResult{Content: say.Say}, nil
			}}, err
		}},
		{Name: "Hang", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
			return tool.Call{Effect: td.Pure, Run: func(ctx context.Context) (td.ToolResult, error) {
				<-ctx.Done()
				return td.ToolResult{}, ctx.Err()
			}}, nil
		}},
		{Name: "Panic", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
			return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) { panic("oh") }}, nil
		}},
		{Name: "Guarded", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
			return tool.Call{Effect: td.Opaque, Title: "guarded", Run: func(context.Context) (td.ToolResult, error) {
				return td.ToolResult{Content: "let through"}, nil
			}}, nil
		}},
		control("Ask", tool.AskControl),
		control("Complete", tool.CompleteControl),
		control("Fail", tool.FailControl),
	}
}

type noSpool struct{}

func (noSpool) Start(context.Context, string, sandbox.Command) (sandbox.Process, error) {
	return nil, errors.New("no processes here")
}

func (noSpool) Find(string) (sandbox.Process, sandbox.ProcessState, error) {
	return nil, sandbox.NeverStarted, nil
}
func (noSpool) Remove(string) error { return nil }

func (noSpool) Reserve(string) error { return nil }

func (noSpool) Room(string) func() error { return func() error { return nil } }

func (b *bench) task(id td.TaskID) td.Task {
	b.t.Helper()
	t, err := b.journal.Task(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

func (b *bench) until(id td.TaskID, want td.State) td.Task {
	b.t.Helper()
	for range 600_000 {
		if t := b.task(id); t.Status.State == want {
			return t
		}
		time.Sleep(100 * time.Millisecond)
	}
	t := b.task(id)
	b.t.Fatalf("the task is %s (%+v %+v), want %s", t.Status.State, t.Status.Failed, t.Retrying, want)
	return t
}

// post puts commands into the inbox, all before anyone looks.
func (b *bench) post(id td.TaskID, cmds ...td.Command) {
	b.t.Helper()
	for _, c := range cmds {
		c.Key, c.At = string(td.NewRequestID()), time.Now().UTC().Round(0)
		if err := b.journal.Post(b.t.Context(), id, c); err != nil {
			b.t.Fatal(err)
		}
	}
	b.sched.Wake(b.t.Context(), b.task(id), cmds[0].Type == td.CmdCancel)
}

func (b *bench) conversation(id td.TaskID) string {
	b.t.Helper()
	var evs []td.Event
	for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		evs = append(evs, ev)
	}
	raw, err := json.Marshal(transcript.Of(evs).Messages)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

func (b *bench) wantSaid(id td.TaskID, words ...string) {
	b.t.Helper()
	said := b.conversation(id)
	for _, w := range words {
		if !strings.Contains(said, w) {
			b.t.Errorf("the conversation lacks %q:\n%s", w, said)
		}
	}
}

func TestStopReasons(t *testing.T) {
	half := calls("Look", `{}`, "Look", `{}`)
	half.Message.Blocks[1].Malformed = `{"pa`
	half.StopReason = td.MaxTokens
	cut := says("half a sen", "")
	cut.Cut = true
	for _, tc := range []struct {
		name  string
		plays []any
		state td.State
		said  []string
		err   string
	}{
		{
			"no nomination: one reminder, then the end",
			[]any{says("hm", td.EndTurn), says("hm", td.EndTurn)},
			td.Failed,
			[]string{"call Complete"},
			"without saying whether",
		},
		{"a reminder helps", []any{says("hm", td.EndTurn), calls("Complete", `{"summary":"ok"}`)}, td.Completed, nil, ""},
		{"max_tokens: what is whole runs, then on", []any{half, calls("Complete", `{"summary":"ok"}`)}, td.Completed, []string{"looked"}, ""},
		{"max_tokens in words: asked to go on", []any{says("long", td.MaxTokens), calls("Complete", `{"summary":"ok"}`)}, td.Completed, []string{"cut short"}, ""},
		{"a cut stream with words: kept and continued", []any{cut, calls("Complete", `{"summary":"ok"}`)}, td.Completed, []string{"half a sen", "cut short"}, ""},
		{"pause_turn: simply continued", []any{says("…", td.PauseTurn), calls("Complete", `{"summary":"ok"}`)}, td.Completed, nil, ""},
		{"a reason nobody knows fails", []any{says("hm", "bored")}, td.Failed, nil, `not known: "bored"`},
		{"refusal fails", []any{says("I will not", td.Refusal)}, td.Failed, nil, "refused"},
		{"window exceeded: compacted, then on", []any{calls("Look", `{}`), says("\n\n", td.WindowExceeded)}, td.Completed, []string{"cut short"}, ""},
		{"window exceeded again fails, saying so", []any{says("a", td.WindowExceeded), says("b", td.WindowExceeded)}, td.Failed, nil, "window"},
		{"blanks before a call", []any{blanks()}, td.Completed, []string{"looked"}, ""},
		{"an empty answer is no endless loop", []any{llm.Response{StopReason: td.EndTurn}, llm.Response{StopReason: td.EndTurn}}, td.Failed, nil, "without saying"},
		{"an unknown tool is a result", []any{calls("Nope", `{}`)}, td.Completed, []string{"Unknown tool"}, ""},
		{"a tool that panics is a result", []any{calls("Panic", `{}`)}, td.Completed, []string{"crashed"}, ""},
		{"a tool that hangs is a result", []any{calls("Hang", `{}`)}, td.Completed, []string{"timed out"}, ""},
		{"Fail fails", []any{calls("Fail", `{"reason":"cannot"}`)}, td.Failed, nil, "cannot"},
		{"malformed input is a result", []any{malformed()}, td.Completed, []string{"not valid JSON"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, tc.plays, nil, func(b *bench, id td.TaskID) {
				task := b.until(id, tc.state)
				b.wantSaid(id, tc.said...)
				if strings.Contains(tc.name, "max_tokens") && strings.Contains(b.conversation(id), "not valid JSON") {
					t.Error("a call that the limit cut in two is nobody's mistake")
				}
				if tc.err != "" && !strings.Contains(task.Status.Failed.Error, tc.err) {
					t.Errorf("failed with %q, want %q", task.Status.Failed.Error, tc.err)
				}
			})
		})
	}
}

// blanks is a call as models like to make it.
func blanks() llm.Response {
	r := calls("Look", `{}`)
	r.Message.Blocks = append([]td.Block{{Type: td.TextBlock, Text: "\n\n"}}, r.Message.Blocks...)
	return r
}

func malformed() llm.Response {
	r := calls("Look", `{}`)
	r.Message.Blocks[0].Malformed = `{"broken`
	return r
}

func TestRetryTable(t *testing.T) {
	network := &llm.Error{Class: td.Network, Err: errors.New("reset")}
	overloaded := &llm.Error{Class: td.Overloaded, Status: 529, Err: errors.New("overloaded")}
	limited := &llm.Error{Class: td.RateLimited, Status: 429, RetryAfter: 90 * time.Second, Err: errors.New("slow down")}
	bad := &llm.Error{Class: td.BadRequest, Status: 400, Err: errors.New("bad")}
	long := &llm.Error{Class: td.TooLong, Status: 400, Hint: "say less", Err: errors.New("prompt is too long")}
	auth := &llm.Error{Class: td.AuthFailed, Status: 401, Hint: "set the key", Err: errors.New("who are you")}
	done := calls("Complete", `{"summary":"ok"}`)
	for _, tc := range []struct {
		name     string
		plays    []any
		state    td.State
		atLeast  time.Duration
		atMost   time.Duration
		requests int
	}{
		{"network: 0, 1 s, 5 s", []any{network, network, network, done}, td.Completed, 6 * time.Second, 8 * time.Second, 4},
		{"network: the fourth failure is the last", []any{network, network, network, network}, td.Failed, 6 * time.Second, 8 * time.Second, 4},
		{"529: 30 s, three times", []any{overloaded, overloaded, overloaded, done}, td.Completed, 90 * time.Second, 100 * time.Second, 4},
		{"429 honours Retry-After", []any{limited, done}, td.Completed, 90 * time.Second, 100 * time.Second, 2},
		{"classes are counted apart", []any{network, overloaded, network, done}, td.Completed, 31 * time.Second, 36 * time.Second, 4},
		{"400 is not retried", []any{bad}, td.Failed, 0, time.Second, 1},
		{"too long: made smaller, then on", []any{long, done}, td.Completed, 0, time.Second, 2},
		{"too long for good", []any{long, long, long}, td.Failed, 0, time.Second, 3},
		{"401 is not retried", []any{auth}, td.Failed, 0, time.Second, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, tc.plays, nil, func(b *bench, id td.TaskID) {
				began := time.Now()
				task := b.until(id, tc.state)
				if took := time.Since(began); took < tc.atLeast || took > tc.atMost {
					t.Errorf("took %s, want %s to %s", took, tc.atLeast, tc.atMost)
				}
				if n := len(b.model.requests); n != tc.requests {
					t.Errorf("%d calls, want %d", n, tc.requests)
				}
				if f := task.Status.Failed; f != nil && tc.name == "401 is not retried" && f.Hint != "set the key" {
					t.Errorf("the hint is %q", f.Hint)
				}
			})
		})
	}
}

func TestCancelDoesNotWait(t *testing.T) {
	silent := func(ctx context.Context) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{}, context.Cause(ctx)
	}
	overloaded := &llm.Error{Class: td.Overloaded, Err: errors.New("overloaded")}
	for name, plays := range map[string][]any{
		"in a silent stream": {silent},
		"in a tool":          {calls("Hang", `{}`)},
		"in a retry's wait":  {overloaded, overloaded},
		"while asking":       {calls("Guarded", `{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, plays, nil, func(b *bench, id td.TaskID) {
				time.Sleep(10 * time.Second)
				began := time.Now()
				b.post(id, td.Command{Type: td.CmdCancel, Text: "enough"})
				task := b.until(id, td.Cancelled)
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %s", took)
				}
				if task.Status.Reason != "enough" || len(task.InFlight) != 0 {
					t.Errorf("%+v", task.Live)
				}
			})
		})
	}
}

func TestPermission(t *testing.T) {
	plays := []any{calls("Guarded", `{}`), calls("Complete", `{"summary":"ok"}`)}
	t.Run("expires as no", func(t *testing.T) {
		play(t, plays, nil, func(b *bench, id td.TaskID) {
			b.until(id, td.Waiting)
			began := time.Now()
			b.until(id, td.Completed)
			if took := time.Since(began); took < 4*time.Minute || took > 6*time.Minute {
				t.Errorf("expired after %s", took)
			}
			b.wantSaid(id, "Nobody answered")
		})
	})
	t.Run("an answer that comes twice counts once", func(t *testing.T) {
		play(t, plays, nil, func(b *bench, id td.TaskID) {
			r := b.until(id, td.Waiting).Requests[0]
			b.post(id,
				td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: r.ID, Choice: td.No, Words: "not today"}},
				td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: r.ID, Choice: td.Yes}})
			b.until(id, td.Completed)
			b.wantSaid(id, "not today")
			if strings.Contains(b.conversation(id), "allowed\"") {
				t.Error("the second answer counted")
			}
		})
	})
	t.Run("with --yes nobody is asked", func(t *testing.T) {
		play(t, plays, func(s *td.Spec, _ *Options) { s.Yes = true }, func(b *bench, id td.TaskID) {
			b.until(id, td.Completed)
			b.wantSaid(id, "let through")
		})
	})
	t.Run("a task may have its own limit", func(t *testing.T) {
		play(t, plays, func(s *td.Spec, _ *Options) { s.PermissionLimit = time.Second }, func(b *bench, id td.TaskID) {
			began := time.Now()
			b.until(id, td.Completed)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("expired after %s", took)
			}
		})
	})
}

func TestLooksRunTogether(t *testing.T) {
	play(t, []any{calls("Look", `{}`, "Look", `{}`, "Look", `{}`)}, nil, func(b *bench, id td.TaskID) {
		began := time.Now()
		b.until(id, td.Completed)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("three looks of a second took %s", took)
		}
	})
}

// So do those that a person would be asked about, if the task was added with --yes.
func TestGrantedLooksRunTogether(t *testing.T) {
	fetch := tool.Tool{Name: "WebFetch", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
		return tool.Call{Effect: td.Pure, Hosts: []string{"example.org"}, Run: func(context.Context) (td.ToolResult, error) {
			time.Sleep(time.Second)
			return td.ToolResult{Content: "fetched", Untrusted: true}, nil
		}}, nil
	}}
	play(t, []any{calls("WebFetch", `{}`, "WebFetch", `{"a":1}`, "WebFetch", `{"a":2}`)}, func(s *td.Spec, o *Options) {
		s.Yes, o.Tools = true, o.Tools.With(fetch)
	}, func(b *bench, id td.TaskID) {
		began := time.Now()
		b.until(id, td.Completed)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("three fetches of a second took %s", took)
		}
	})
}

// A daemon that stops does not wait for a model: the call is cut, and the task is given back as at any other safe point.
func TestStopCutsAModelCall(t *testing.T) {
	hangs := func(ctx context.Context) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}
	play(t, []any{hangs}, nil, func(b *bench, id td.TaskID) {
		for len(b.task(id).InFlight) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		began := time.Now()
		b.sched.Stop()
		got := b.until(id, td.Queued)
		if took := time.Since(began); took > time.Second || got.Status.Reason != "the daemon stopped" {
			t.Errorf("it is queued after %s: %s", took, got.Status.Reason)
		}
	})
}

func TestSteering(t *testing.T) {
	t.Run("pause waits for the step, resume goes on", func(t *testing.T) {
		play(t, []any{calls("Look", `{}`), calls("Look", `{}`)}, nil, func(b *bench, id td.TaskID) {
			time.Sleep(500 * time.Millisecond)
			b.post(id, td.Command{Type: td.CmdPause})
			b.until(id, td.Paused)
			if n := b.looked.Load(); n != 1 {
				t.Errorf("paused after %d looks", n)
			}
			time.Sleep(time.Hour)
			if b.task(id).Status.State != td.Paused {
				t.Error("a paused task moved by itself")
			}
			b.post(id, td.Command{Type: td.CmdMessage, Text: "use blue", By: "me"})
			b.post(id, td.Command{Type: td.CmdResume})
			b.until(id, td.Completed)
			b.wantSaid(id, "use blue")
		})
	})
	t.Run("retry drops the last answer", func(t *testing.T) {
		play(t, []any{says("wrong", td.EndTurn), says("right", td.EndTurn)},
			func(s *td.Spec, _ *Options) { s.Mode = td.Interactive }, func(b *bench, id td.TaskID) {
				b.until(id, td.Waiting)
				b.post(id, td.Command{Type: td.CmdRetry})
				time.Sleep(time.Second)
				b.until(id, td.Waiting)
				if said := b.conversation(id); strings.Contains(said, "wrong") || !strings.Contains(said, "right") {
					t.Errorf("conversation: %s", said)
				}
			})
	})
	t.Run("model changes from the next call on", func(t *testing.T) {
		play(t, []any{calls("Look", `{}`), calls("Look", `{}`)}, nil, func(b *bench, id td.TaskID) {
			time.Sleep(500 * time.Millisecond)
			b.post(id, td.Command{Type: td.CmdModel, Text: "small"})
			b.until(id, td.Completed)
			if first, last := b.model.requests[0].Model, b.model.requests[2].Model; first != "worker-model" || last != "small-model" {
				t.Errorf("models %s, then %s", first, last)
			}
		})
	})
	t.Run("turns run out: paused, and as many again", func(t *testing.T) {
		play(t, []any{calls("Look", `{}`), calls("Look", `{}`), calls("Look", `{}`)},
			func(s *td.Spec, _ *Options) { s.MaxTurns = 2 }, func(b *bench, id td.TaskID) {
				if p := b.until(id, td.Paused); p.Turns != 2 {
					t.Errorf("paused after %d turns", p.Turns)
				}
				b.post(id, td.Command{Type: td.CmdResume})
				b.until(id, td.Completed)
			})
	})
	t.Run("resume of a failed task tries with all its attempts", func(t *testing.T) {
		bad := &llm.Error{Class: td.AuthFailed, Status: 401, Err: errors.New("no")}
		play(t, []any{bad}, nil, func(b *bench, id td.TaskID) {
			b.until(id, td.Failed)
			b.post(id, td.Command{Type: td.CmdResume})
			b.until(id, td.Completed)
		})
	})
}

// The window is that of the model in use, and what one model counts says nothing about another.
func TestWindowOfTheModelInUse(t *testing.T) {
	counted := calls("Look", `{}`)
	counted.Usage = td.Usage{Input: 1 << 40} // as much as can be believed
	play(t, []any{counted, calls("Look", `{}`)}, func(_ *td.Spec, o *Options) {
		o.Windows = llm.Windows{"small": 700}
	}, func(b *bench, id td.TaskID) {
		time.Sleep(500 * time.Millisecond)
		b.post(id, td.Command{Type: td.CmdModel, Text: "small"})
		if f := b.until(id, td.Failed).Status.Failed; !strings.Contains(f.Error, "of 600 tokens") {
			t.Errorf("failed with %q", f.Error)
		}
	})
}

// TestPrefixIsTheSameBytes holds every request against the one before it: system, tools and history so
// far must not change, also not through a restart in between (L-2).
func TestPrefixIsTheSameBytes(t *testing.T) {
	odd := calls("Look", "{ \"a\" :  \"<b> & \u2028\" }")
	play(t, []any{odd, says("broken \xff text", td.MaxTokens), odd}, nil, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		var last string
		var head []byte
		for i, r := range b.model.requests {
			raw, err := json.Marshal(r.Messages)
			if err != nil {
				t.Fatal(err)
			}
			before, err := json.Marshal(struct {
				System string
				Tools  []llm.Tool
			}{r.System, r.Tools})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case i == 0 && (r.System == "" || len(r.Tools) == 0):
				t.Error("nothing comes before the messages")
			case i > 0 && !bytes.Equal(before, head):
				t.Errorf("system and tools of request %d are\n%s\nthose of the one before\n%s", i, before, head)
			}
			head = before
			now := strings.TrimSuffix(string(raw), "]")
			if !strings.HasPrefix(now, last) {
				t.Errorf("request %d does not begin with request %d", i, i-1)
			}
			last = now
		}
		// What a later life folds from the journal is what this life sent.
		if later := b.conversation(id); !strings.HasPrefix(later, last) {
			t.Errorf("a later life sees\n%s\nthis one sent\n%s", later, last)
		}
		for i, r := range b.model.requests {
			for j, m := range r.Messages {
				for _, blk := range m.Blocks {
					if len(blk.Input) > 0 && strings.Contains(string(blk.Input), " :") {
						t.Errorf("request %d, message %d: input %s is not as the journal has it", i, j, blk.Input)
					}
				}
			}
		}
	})
}
