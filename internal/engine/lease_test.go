package engine

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// leasing lets Look need the one build there is.
func leasing(_ *td.Spec, o *Options) {
	r, err := coord.NewResources([]coord.Resource{{Name: "build", Capacity: 1, Match: "Look"}}, 0)
	if err != nil {
		panic(err)
	}
	o.Leases = Leases{Resources: r, Wait: time.Minute}
}

// later is an answer that takes a second, so that others come first.
func later(r llm.Response) any {
	return func(context.Context) (llm.Response, error) {
		time.Sleep(time.Second)
		return r, nil
	}
}

// holder is another task, with a step in flight that has what it wants.
func (b *bench) holder(dir string, wants ...td.Want) (td.Task, td.Claim) {
	b.t.Helper()
	id, now := td.NewTaskID(), time.Now().UTC().Round(0)
	must := func(err error) {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	t, err := b.journal.Create(b.t.Context(), td.Spec{ID: id, Title: "the other", Dir: dir, CreatedAt: now}, string(id))
	must(err)
	c, err := b.journal.Claim(b.t.Context(), id, td.Holder{Host: "elsewhere"})
	must(err)
	m, err := td.Start(t, td.NewRunID(), now)
	must(err)
	t, err = b.journal.Append(b.t.Context(), c, t.Head, append(m.Events, td.Event{At: now, Body: td.StepIntended{Intent: td.Intent{
		Key: "s", Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque, Wants: wants,
	}}})...)
	must(err)
	return t, c
}

func (b *bench) give(t td.Task, c td.Claim) {
	b.t.Helper()
	_, err := b.journal.Append(b.t.Context(), c, t.Head, td.Event{At: time.Now().UTC().Round(0), Body: td.StepEnded{Outcome: td.Outcome{
		Key: "s", Via: td.Ran, Tool: &td.ToolResult{},
	}}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.sched.Freed()
}

// TestLeaseWaits: a call whose resource is taken lays its task down, says who is in the way, and goes on when
// it is free; a second one of the same answer keeps its order.
func TestLeaseWaits(t *testing.T) {
	play(t, []any{later(calls("Look", `{}`, "Look", `{}`))}, leasing, func(b *bench, id td.TaskID) {
		other, claim := b.holder("/elsewhere", td.Want{Resource: "build"})
		task := b.until(id, td.Blocked)
		on := task.Status.Blocked
		if on.Resource != "build" || on.Holder != other.Handle || len(on.Wants) != 1 || task.Place == nil {
			t.Errorf("blocked on %+v, place %+v", on, task.Place)
		}
		free := false
		for range 100 { // it is looked at now and then
			_, held, err := b.journal.HolderOf(b.t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			free = free || !held
			time.Sleep(3 * time.Millisecond)
		}
		if !free {
			t.Error("it is claimed while it waits")
		}
		b.give(other, claim)
		b.until(id, td.Completed)
		if n := b.looked.Load(); n != 2 {
			t.Errorf("looked %d times", n)
		}
	})
}

// TestLeaseGivesUp: after its time the model reads who has the resource, and goes on without it.
func TestLeaseGivesUp(t *testing.T) {
	play(t, []any{later(calls("Look", `{}`))}, leasing, func(b *bench, id td.TaskID) {
		other, _ := b.holder("/elsewhere", td.Want{Resource: "build"})
		began := time.Now()
		task := b.until(id, td.Completed)
		want := "Resource locked by task " + other.Handle + " (the other): build. Waited 1m0s"
		if said := b.conversation(id); !strings.Contains(said, want) {
			t.Errorf("the model was told:\n%s", said)
		}
		if waited := time.Since(began); b.looked.Load() > 0 || task.Place != nil || waited < time.Minute || waited > 2*time.Minute {
			t.Errorf("looked %d times after %s, place %+v", b.looked.Load(), waited, task.Place)
		}
	})
}

// TestLeaseLeaves: cancelled or paused while it waits, a task leaves the queue.
func TestLeaseLeaves(t *testing.T) {
	for cmd, state := range map[td.CommandType]td.State{td.CmdCancel: td.Cancelled, td.CmdPause: td.Paused} {
		play(t, []any{later(calls("Look", `{}`))}, leasing, func(b *bench, id td.TaskID) {
			b.holder("/elsewhere", td.Want{Resource: "build"})
			b.until(id, td.Blocked)
			b.post(id, td.Command{Type: cmd})
			b.until(id, state)
			if l, err := b.journal.Locks(b.t.Context()); err != nil || len(l.Waiters) > 0 {
				t.Errorf("after %s the queue is %+v, %v", cmd, l.Waiters, err)
			}
		})
	}
}

// TestFileLocks: files are leased only where another task works in the same folder, above or below.
func TestFileLocks(t *testing.T) {
	file := func(b *Options) {
		read := func(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Call, error) {
			return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) {
				return td.ToolResult{Content: "read"}, nil
			}}, nil
		}
		b.Tools = b.Tools.With(tool.Tool{Name: "Read", Prepare: read}, tool.Tool{Name: "Write", Prepare: read})
	}
	for name, c := range map[string]struct {
		dir  func(mine string) string
		want string
	}{
		"alone":  {func(string) string { return "/elsewhere" }, ""},
		"beside": {func(mine string) string { return mine + "-more" }, ""},
		"above":  {filepath.Dir, "shared"},
		"below":  {func(mine string) string { return filepath.Join(mine, "sub") }, "shared"},
	} {
		t.Run(name, func(t *testing.T) {
			plays := []any{later(calls("Read", `{"path":"a.txt"}`)), calls("Write", `{"path":"a.txt"}`)}
			play(t, plays, func(s *td.Spec, o *Options) { s.Yes = true; leasing(s, o); file(o) }, func(b *bench, id td.TaskID) {
				dir := b.task(id).Dir
				b.holder(c.dir(dir))
				b.until(id, td.Completed)
				var modes []string
				for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
					if err != nil {
						t.Fatal(err)
					}
					if in, is := ev.Body.(td.StepIntended); is && len(in.Wants) > 0 {
						if in.Wants[0].Resource != "file:"+filepath.Join(dir, "a.txt") {
							t.Errorf("it leased %+v", in.Wants)
						}
						modes = append(modes, in.Wants[0].Mode())
					}
				}
				want := ""
				if c.want != "" {
					want = "shared exclusive"
				}
				if got := strings.Join(modes, " "); got != want {
					t.Errorf("leased %q, want %q", got, want)
				}
			})
		})
	}
}

// ended is a spool in which every process has ended.
type ended struct{ noSpool }

func (ended) Find(string) (sandbox.Process, sandbox.ProcessState, error) {
	return nil, sandbox.Finished, nil
}

// TestJobReturnsLease: a job that ended while nobody looked gives back what it had; one of the task's own that
// still runs is named at once.
func TestJobReturnsLease(t *testing.T) {
	job := func(s *td.Spec, o *Options) {
		s.Yes = true
		start := func(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Call, error) {
			return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) {
				return td.ToolResult{Content: "started", Job: &td.Job{ID: "j1", Spool: "x", Since: env.Now()}}, nil
			}}, nil
		}
		o.Tools = tool.NewRegistry(tool.Tool{Name: "Bash", Prepare: start}).With(
			func() []tool.Tool {
				var rest []tool.Tool
				for _, n := range []string{"Complete", "Ask"} {
					one, _ := o.Tools.Get(n)
					rest = append(rest, one)
				}
				return rest
			}()...)
		r, err := coord.NewResources([]coord.Resource{{Name: "build", Capacity: 1, Match: "Bash"}}, 0)
		if err != nil {
			panic(err)
		}
		o.Leases = Leases{Resources: r, Wait: time.Minute}
	}
	plays := []any{calls("Bash", `{"command":"one"}`), calls("Bash", `{"command":"two"}`)}
	play(t, plays, func(s *td.Spec, o *Options) { job(s, o); o.Spool = ended{} }, func(b *bench, id td.TaskID) {
		if said := b.conversation(b.until(id, td.Completed).ID); strings.Contains(said, "in use") {
			t.Errorf("the model was told:\n%s", said)
		}
	})
	play(t, plays, func(s *td.Spec, o *Options) { job(s, o); o.Spool = running{} }, func(b *bench, id td.TaskID) {
		if said := b.conversation(b.until(id, td.Completed).ID); !strings.Contains(said, "build is in use by a background job of this task itself") {
			t.Errorf("the model was told:\n%s", said)
		}
	})
}

// running is a spool in which every process runs until it is killed.
type running struct{ noSpool }

func (running) Find(string) (sandbox.Process, sandbox.ProcessState, error) {
	return endless{}, sandbox.StillRunning, nil
}

type endless struct{ sandbox.Process }

func (endless) Kill(context.Context) error { return nil }
