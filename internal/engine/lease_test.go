package engine

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// leasing lets Look need the one build there is.
func leasing(s *td.Spec, o *Options) { leasingFor("Look", "build")(s, o) }

// leasingFor has calls of a tool want things of which there is one.
func leasingFor(match string, names ...string) func(*td.Spec, *Options) {
	return func(_ *td.Spec, o *Options) {
		var all []coord.Resource
		for _, name := range names {
			all = append(all, coord.Resource{Name: name, Capacity: 1, Match: match})
		}
		r, err := coord.NewResources(all, 0)
		if err != nil {
			panic(err)
		}
		o.Leases = Leases{Resources: r, Wait: time.Minute}
	}
}

// atOnce starts processes that have ended.
type atOnce struct{ noSpool }

func (atOnce) Start(context.Context, string, sandbox.Command) (sandbox.Process, error) {
	return succeeded{}, nil
}

type succeeded struct{ endless }

func (succeeded) Wait(context.Context, func([]byte)) (sandbox.ProcessResult, error) {
	return sandbox.ProcessResult{}, nil
}

// later is an answer that takes a second, so that others come first.
func later(r llm.Response) any {
	return func(context.Context) (llm.Response, error) {
		time.Sleep(time.Second)
		return r, nil
	}
}

// holder is another task, with a step in flight that has what it wants. It comes when the first task has done
// all it can do at once.
func (b *bench) holder(dir string, wants ...td.Want) (td.Task, td.Claim) {
	b.t.Helper()
	synctest.Wait()
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

// TestFileLocks: files are leased only where another task may touch them. What is read is shared, and several
// reads go at once; where one of them must wait, the others do not wait with it for ever.
func TestFileLocks(t *testing.T) {
	file := func(o *Options, shared bool) {
		uses := func(access policy.Access) func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
			return func(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Call, error) {
				var in struct{ Path string }
				if err := json.Unmarshal(input, &in); err != nil {
					return tool.Call{}, err
				}
				path := policy.PathUse{Path: filepath.Join(env.Root.Dir(), in.Path), Access: access}
				return tool.Call{Effect: td.Pure, Paths: []policy.PathUse{path}, Run: func(context.Context) (td.ToolResult, error) {
					time.Sleep(time.Second)
					return td.ToolResult{Content: "done"}, nil
				}}, nil
			}
		}
		o.Tools = o.Tools.With(tool.Tool{Name: "Read", Prepare: uses(policy.Read)}, tool.Tool{Name: "Write", Prepare: uses(policy.Write)})
		o.Leases.Shares = func(td.TaskID, string) bool { return shared }
	}
	reads := []string{"Read", `{"path":"a"}`, "Read", `{"path":"b"}`, "Read", `{"path":"c"}`}
	for name, c := range map[string]struct {
		shared bool
		taken  bool // b is, by another task, for a while
		want   string
		most   time.Duration
	}{
		"alone":  {want: "", most: 3 * time.Second},
		"shared": {shared: true, want: "a shared, b shared, c shared, a exclusive", most: 3 * time.Second},
		"taken":  {shared: true, taken: true, want: "a shared, b shared, c shared, a exclusive", most: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			plays := []any{later(calls(reads...)), calls("Write", `{"path":"a"}`)}
			play(t, plays, func(s *td.Spec, o *Options) { s.Yes = true; leasing(s, o); file(o, c.shared) }, func(b *bench, id td.TaskID) {
				began, dir := time.Now(), b.task(id).Dir
				if c.taken {
					other, claim := b.holder("/elsewhere", td.Want{Resource: "file:" + filepath.Join(dir, "b")})
					b.until(id, td.Blocked)
					b.give(other, claim)
				}
				b.until(id, td.Completed)
				if took := time.Since(began); took > c.most+500*time.Millisecond {
					t.Errorf("it took %s: reads go one by one", took)
				}
				var got []string
				for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
					if err != nil {
						t.Fatal(err)
					}
					if in, is := ev.Body.(td.StepIntended); is && len(in.Wants) > 0 {
						got = append(got, strings.TrimPrefix(in.Wants[0].Resource, "file:"+dir+"/")+" "+in.Wants[0].Mode())
					}
				}
				if got := strings.Join(got, ", "); got != c.want {
					t.Errorf("leased %q, want %q", got, c.want)
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

// jobs lets Bash start background jobs that need these resources.
func jobs(spool tool.Spool, match ...coord.Resource) func(*td.Spec, *Options) {
	return func(s *td.Spec, o *Options) {
		s.Yes = true
		start := func(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Call, error) {
			var in struct{ Command string }
			if err := json.Unmarshal(input, &in); err != nil {
				return tool.Call{}, err
			}
			return tool.Call{Effect: td.Pure, Command: in.Command, Run: func(context.Context) (td.ToolResult, error) {
				return td.ToolResult{Content: "started", Job: &td.Job{ID: "j1", Spool: "x", Since: env.Now()}}, nil
			}}, nil
		}
		o.Tools, o.Spool = o.Tools.With(tool.Tool{Name: "Bash", Prepare: start}), spool
		r, err := coord.NewResources(match, 0)
		if err != nil {
			panic(err)
		}
		o.Leases = Leases{Resources: r, Wait: time.Minute}
	}
}

// TestJobReturnsLease: a job that ended while nobody looked gives back what it had; one of the task's own that
// still runs is named at once.
func TestJobReturnsLease(t *testing.T) {
	plays := []any{calls("Bash", `{"command":"one"}`), calls("Bash", `{"command":"two"}`)}
	build := coord.Resource{Name: "build", Capacity: 1, Match: "Bash"}
	play(t, plays, jobs(ended{}, build), func(b *bench, id td.TaskID) {
		if said := b.conversation(b.until(id, td.Completed).ID); strings.Contains(said, "in use") {
			t.Errorf("the model was told:\n%s", said)
		}
	})
	play(t, plays, jobs(running{}, build), func(b *bench, id td.TaskID) {
		if said := b.conversation(b.until(id, td.Completed).ID); !strings.Contains(said, "build is in use by a background job of this task itself") {
			t.Errorf("the model was told:\n%s", said)
		}
	})
}

// TestJobsWaitForEachOther: of two tasks whose jobs have what the other wants each is told, after its time, which
// job of its own is in the way.
func TestJobsWaitForEachOther(t *testing.T) {
	plays := []any{calls("Bash", `{"command":"one"}`), later(calls("Bash", `{"command":"two"}`))}
	port, build := coord.Resource{Name: "port", Capacity: 1, Match: "Bash(one)"}, coord.Resource{Name: "build", Capacity: 1, Match: "Bash(two)"}
	play(t, plays, jobs(running{}, port, build), func(b *bench, id td.TaskID) {
		other, claim := b.holder("/elsewhere", td.Want{Resource: "build"})
		now := time.Now().UTC().Round(0)
		m, err := td.BlockOn(other, td.BlockedData{Cause: "it waits", Resource: "port", Step: "next", Wants: []td.Want{{Resource: "port"}}}, now)
		if err != nil {
			t.Fatal(err)
		}
		evs := append([]td.Event{{At: now, Body: td.StepEnded{Outcome: td.Outcome{
			Key: "s", Via: td.Ran, Tool: &td.ToolResult{Job: &td.Job{ID: "j9", Spool: "y", Since: now}},
		}}}}, m.Events...)
		if _, err := b.journal.Append(b.t.Context(), claim, other.Head, evs...); err != nil {
			t.Fatal(err)
		}
		task := b.until(id, td.Blocked)
		if cause := task.Status.Blocked.Cause; !strings.Contains(cause, "waits for port of this task's background job j1") || !strings.Contains(cause, "leases.wait: 1m0s") {
			t.Errorf("it is blocked because %s", cause)
		}
		b.until(id, td.Completed)
		b.wantSaid(id, "Waited 1m0s for it. That task in turn waits for port, which the background job j1 of this task has", "End it with BashKill")
	})
}

// TestHooksHearOfWhatIsGivenBack: whatever it is that ends a lease, hooks are told once.
func TestHooksHearOfWhatIsGivenBack(t *testing.T) {
	build := coord.Resource{Name: "build", Capacity: 1, Match: "Bash"}
	bash := calls("Bash", `{"command":"one"}`)
	cancel := func(b *bench, id td.TaskID) {
		b.until(id, td.Waiting)
		b.post(id, td.Command{Type: td.CmdCancel})
		b.until(id, td.Cancelled)
	}
	end := func(s td.State) func(*bench, td.TaskID) {
		return func(b *bench, id td.TaskID) { b.until(id, s) }
	}
	for name, c := range map[string]struct {
		plays  []any
		change func(*td.Spec, *Options)
		test   func(*bench, td.TaskID)
	}{
		"a call ends":        {[]any{calls("Look", `{}`)}, leasing, end(td.Completed)},
		"a job ends":         {[]any{bash, calls("Ask", `{}`)}, jobs(ended{}, build), end(td.Waiting)},
		"the task completes": {[]any{bash}, jobs(running{}, build), end(td.Completed)},
		"the task fails":     {[]any{bash, calls("Fail", `{"reason":"no"}`)}, jobs(running{}, build), end(td.Failed)},
		"it is cancelled":    {[]any{bash, calls("Ask", `{}`)}, jobs(running{}, build), cancel},
		"a call is cut off": {[]any{calls("Hang", `{}`)}, leasingFor("Hang", "build"), func(b *bench, id td.TaskID) {
			time.Sleep(time.Second) // until it hangs
			b.post(id, td.Command{Type: td.CmdCancel})
			b.until(id, td.Cancelled)
		}},
		"a call ends, another is asked about": {[]any{calls("Look", `{}`, "Guarded", `{}`)}, leasing, end(td.Waiting)},
		"a call that had three things ends":   {[]any{calls("Look", `{}`)}, leasingFor("Look", "anvil", "build", "chisel"), end(td.Completed)},
		"the validator ends": {[]any{calls("Complete", `{"summary":"ok"}`)}, func(s *td.Spec, o *Options) {
			leasingFor("Bash", "build")(s, o)
			s.Validator, o.Spool = "make test", atOnce{}
		}, end(td.Completed)},
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int64
			hear := func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
				if g, is := p.(hook.ResourceLockReleasedPayload); is && g.Resource == "build" {
					told.Add(1)
				}
				return hook.Result{}, nil
			}
			play(t, c.plays, func(s *td.Spec, o *Options) {
				c.change(s, o)
				o.Hooks = hooked(t, hear, hook.ResourceLockReleased)
			}, func(b *bench, id td.TaskID) {
				c.test(b, id)
				if l, err := b.journal.Locks(b.t.Context()); err != nil || len(l.Held) > 0 || told.Load() != 1 {
					t.Errorf("told %d times; %+v, %v", told.Load(), l, err)
				}
			})
		})
	}
}

// TestHooksHearOfWhatADeadDaemonGaveBack: the record that gives a lease back is the last that a daemon made. The next one
// tells hooks, once, and tells nothing of what was given back before the steps that followed.
func TestHooksHearOfWhatADeadDaemonGaveBack(t *testing.T) {
	var told []string
	hear := func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
		told = append(told, p.(hook.ResourceLockReleasedPayload).Resource)
		return hook.Result{}, nil
	}
	play(t, []any{calls("Ask", `{}`)}, func(s *td.Spec, o *Options) {
		leasing(s, o)
		o.Hooks = hooked(t, hear, hook.ResourceLockReleased)
	}, func(b *bench, id td.TaskID) {
		other, claim := b.holder("/elsewhere", td.Want{Resource: "anvil"})
		add := func(body td.Body) {
			t.Helper()
			var err error
			if other, err = b.journal.Append(b.t.Context(), claim, other.Head, td.Event{At: time.Now().UTC().Round(0), Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		ended := func(key td.StepKey) td.StepEnded {
			return td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Tool: &td.ToolResult{}}}
		}
		add(ended("s"))
		add(td.StepIntended{Intent: td.Intent{Key: "next", Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque, Wants: []td.Want{{Resource: "build"}}}})
		add(ended("next"))
		if err := b.journal.Release(b.t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second look finds it told
			b.sched.Wake(b.t.Context(), other, true)
			synctest.Wait()
		}
		if len(told) != 1 || told[0] != "build" {
			t.Errorf("told of %q", told)
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
