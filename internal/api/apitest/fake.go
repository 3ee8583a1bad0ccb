package apitest

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Fake is an api.Service in memory, for tests of everything that only talks to one. Its tasks move by
// the real table of moves, but nothing works on them: a task added with a rehearsal script asks one
// question and completes when it is answered, the others stay queued until the test appends events.
type Fake struct {
	mu      sync.Mutex
	changed chan struct{} // closed and made anew at every change
	tasks   []td.Task
	keys    map[string]td.TaskID
	used    map[string]bool
	events  []td.Event
	live    []livePiece
	graphs  []*fakeGraph
	runs    []*td.GraphRun
	stopped bool

	// Info is what Status says, apart from the counts.
	Info api.Status
	// Servers is what MCPServers says.
	Servers []api.MCPServer
	// Bill is what Cost says, whatever way it is asked for.
	Bill api.Cost
	// Leased is what Locks says.
	Leased td.Locks
	// Report is what Recovery says.
	Report td.Report
	// Synced is what SyncPlan says.
	Synced api.PlanSynced
	// Trees is what Worktrees says.
	Trees []api.Worktree
	// Diagnosis is what Doctor says.
	Diagnosis api.Diagnosis
}

type livePiece struct {
	after uint64 // cursor it follows
	api.Live
}

var _ api.Service = (*Fake)(nil)

// NewFake makes a service without tasks.
func NewFake() *Fake {
	return &Fake{
		changed:   make(chan struct{}),
		keys:      map[string]td.TaskID{},
		used:      map[string]bool{},
		Info:      api.Status{Version: "test", Pid: 4711, StartedAt: now(), Provider: "rehearsal", Rehearsal: true},
		Leased:    td.Locks{Held: []td.Lease{}, Waiters: []td.Waiter{}},
		Report:    td.Report{At: now(), Clean: true},
		Diagnosis: api.Diagnosis{Checks: []api.Check{{Name: "journal", OK: true}}},
	}
}

func now() time.Time { return time.Now().UTC().Round(0) }

// Status says Info with counts.
func (f *Fake) Status(context.Context) (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.Info
	st.Tasks = map[td.State]int{}
	for _, t := range f.tasks {
		st.Tasks[t.Status.State]++
		switch t.Status.State {
		case td.Running:
			st.Running = append(st.Running, t)
		case td.Waiting:
			st.Waiting = append(st.Waiting, t)
		}
	}
	return st, nil
}

// AddTask queues a task, and plays it if it brings a script.
func (f *Fake) AddTask(_ context.Context, in api.AddTask) (td.Task, error) {
	switch {
	case strings.TrimSpace(in.Prompt) == "":
		return td.Task{}, td.Errorf(td.Invalid, "the prompt is empty").WithHint("taskdaemon task add \"what to do\"")
	case !filepath.IsAbs(in.Dir):
		return td.Task{}, td.Errorf(td.Invalid, "the folder %q is not an absolute path", in.Dir).WithHint("--dir /some/where")
	case in.Priority != nil && (*in.Priority < 0 || *in.Priority > 4):
		return td.Task{}, td.Errorf(td.Invalid, "priority %d is not 0 to 4", *in.Priority).WithHint("--priority 2")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if id, ok := f.keys[in.Key]; ok && in.Key != "" {
		return *f.task(id), nil
	}
	id := td.NewTaskID()
	spec := td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask,
		Title: in.Title, Prompt: in.Prompt, Dir: in.Dir, Mode: in.Mode, Tier: in.Tier, Model: in.Model,
		Validator: in.Validator, Yes: in.Yes, Priority: 2, Labels: in.Labels, MaxTurns: in.MaxTurns,
		CreatedAt: now(), CreatedBy: in.By, PermissionLimit: in.Permission, Rehearsal: in.Rehearsal, Budget: in.Budget, TokenBudget: in.TokenBudget,
	}
	if in.Priority != nil {
		spec.Priority = *in.Priority
	}
	if spec.Title == "" {
		spec.Title, _, _ = strings.Cut(in.Prompt, "\n")
	}
	f.tasks = append(f.tasks, td.Task{Spec: td.Spec{ID: id}})
	f.append(id, "", td.Created{Spec: spec})
	f.keys[in.Key] = id
	if in.Rehearsal != "" {
		f.ask(id)
	}
	return *f.task(id), nil
}

// Tasks lists by priority and then age.
func (f *Fake) Tasks(_ context.Context, q api.TaskQuery) ([]td.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []td.Task{}
	for _, t := range f.tasks {
		if (len(q.States) == 0 || slices.Contains(q.States, t.Status.State)) && (q.Dir == "" || q.Dir == t.Dir) {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b td.Task) int { return a.Priority - b.Priority })
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[:q.Limit]
	}
	return out, nil
}

// Task resolves a ref.
func (f *Fake) Task(_ context.Context, ref string) (td.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.resolve(ref)
	if err != nil {
		return td.Task{}, err
	}
	return *t, nil
}

// History gives every event; the conversation is what was said.
func (f *Fake) History(_ context.Context, ref string) (api.History, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.resolve(ref)
	if err != nil {
		return api.History{}, err
	}
	h := api.History{Task: *t, Messages: []td.Message{}, Events: []td.Event{}}
	for _, ev := range f.events {
		if ev.Task != t.ID {
			continue
		}
		h.Events = append(h.Events, ev)
		switch b := ev.Body.(type) {
		case td.ContextSet:
			h.Messages = append(h.Messages, b.Opening)
		case td.Said:
			h.Messages = append(h.Messages, td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: b.Text}}})
		case td.StepEnded:
			if b.Model != nil {
				h.Messages = append(h.Messages, b.Model.Message)
			}
		}
	}
	return h, nil
}

// Locks gives Leased.
func (f *Fake) Locks(context.Context) (td.Locks, error) { return f.Leased, nil }

// Recovery gives Report.
func (f *Fake) Recovery(context.Context) (td.Report, error) { return f.Report, nil }

// Context invents a conversation.
func (f *Fake) Context(ctx context.Context, ref string) (api.Context, error) {
	t, err := f.Task(ctx, ref)
	if err != nil {
		return api.Context{}, err
	}
	return api.Context{Task: t.Handle, Window: 200_000, Limit: 180_000, Tokens: 10, Parts: []api.ContextPart{{Name: "base prompt", Tokens: 10}}}, nil
}

// MCPServers gives Servers.
func (f *Fake) MCPServers(context.Context) ([]api.MCPServer, error) {
	return append([]api.MCPServer{}, f.Servers...), nil
}

// TestMCPServer gives the one of this name, as it is.
func (f *Fake) TestMCPServer(_ context.Context, name string) (api.MCPServer, error) {
	for _, s := range f.Servers {
		if s.Name == name {
			return s, nil
		}
	}
	return api.MCPServer{}, td.Errorf(td.NotFound, "no MCP server is called %s", name).WithHint("taskdaemon mcp list")
}

// Checkpoint invents a commit.
func (f *Fake) Checkpoint(ctx context.Context, ref string) (api.Checkpoint, error) {
	t, err := f.Task(ctx, ref)
	if err != nil {
		return api.Checkpoint{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return api.Checkpoint{
		Task: t, Seq: t.Head, Cursor: uint64(len(f.events)), Branch: "task/" + t.Handle,
		Commit: "0123456789abcdef", Repo: "/state/conversations.git",
	}, nil
}

// Doctor gives Diagnosis.
func (f *Fake) Doctor(context.Context, api.DoctorRequest) (api.Diagnosis, error) {
	return f.Diagnosis, nil
}

// Stop is remembered.
func (f *Fake) Stop(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	return nil
}

// Stopped reports whether Stop was called.
func (f *Fake) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// Append journals events of a task on the test's behalf.
func (f *Fake) Append(id td.TaskID, bodies ...td.Body) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range bodies {
		f.append(id, "", b)
	}
}

// Say publishes a live piece.
func (f *Fake) Say(l api.Live) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live = append(f.live, livePiece{uint64(len(f.events)), l})
	f.announce()
}

// Events yields events, live pieces in their place between them.
func (f *Fake) Events(ctx context.Context, q api.EventQuery) iter.Seq2[api.Item, error] {
	return func(yield func(api.Item, error) bool) {
		want, err := f.wanted(q.Refs)
		if err != nil {
			yield(api.Item{}, err)
			return
		}
		f.mu.Lock()
		at, liveAt := q.After, len(f.live)
		if q.Tail {
			at = uint64(len(f.events))
		}
		f.mu.Unlock()
		for {
			if q.Pauses && !yield(api.Item{}, nil) {
				return
			}
			items, nextLive, changed := f.after(at, liveAt)
			liveAt = nextLive
			for _, it := range items {
				if it.Event != nil {
					at = it.Event.Cursor
				}
				if matches(it, q, want) && !yield(it, nil) {
					return
				}
			}
			if !q.Follow || q.Pauses && !yield(api.Item{}, nil) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (f *Fake) wanted(refs []string) ([]td.TaskID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []td.TaskID
	for _, ref := range refs {
		t, err := f.resolve(ref)
		if err != nil {
			return nil, err
		}
		ids = append(ids, t.ID)
	}
	return ids, nil
}

func matches(it api.Item, q api.EventQuery, want []td.TaskID) bool {
	if it.Live != nil {
		return q.Live && (len(want) == 0 || slices.Contains(want, it.Live.Task))
	}
	ev := it.Event
	return (len(want) == 0 || slices.Contains(want, ev.Task)) &&
		(len(q.Types) == 0 || slices.Contains(q.Types, ev.Body.Type())) && !ev.At.Before(q.Since)
}

func (f *Fake) after(cursor uint64, liveAt int) ([]api.Item, int, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []api.Item
	for i := cursor; i <= uint64(len(f.events)); i++ {
		if i > cursor {
			ev := f.events[i-1]
			out = append(out, api.Item{Event: &ev})
		}
		for ; liveAt < len(f.live) && f.live[liveAt].after <= i; liveAt++ {
			l := f.live[liveAt].Live
			out = append(out, api.Item{Live: &l})
		}
	}
	return out, liveAt, f.changed
}

func (f *Fake) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *Fake) task(id td.TaskID) *td.Task {
	i := slices.IndexFunc(f.tasks, func(t td.Task) bool { return t.ID == id })
	return &f.tasks[i]
}

func (f *Fake) append(id td.TaskID, takes string, b td.Body) {
	t := f.task(id)
	ev := td.Event{Cursor: uint64(len(f.events) + 1), Seq: t.Head + 1, Task: id, At: now(), Takes: takes, Body: b}
	next, err := t.Apply(ev)
	if err != nil {
		panic(fmt.Sprintf("apitest: %s: %v", b.Type(), err))
	}
	*t = next
	f.events = append(f.events, ev)
	f.announce()
}

func (f *Fake) resolve(ref string) (*td.Task, error) {
	var partial []*td.Task
	for i := range f.tasks {
		t := &f.tasks[i]
		exact, part := td.MatchesRef(ref, string(t.ID), t.Handle)
		for _, r := range t.Requests {
			e, p := td.MatchesRef(ref, string(r.ID), r.Handle())
			exact, part = exact || e, part || p
		}
		if exact {
			return t, nil
		}
		if part {
			partial = append(partial, t)
		}
	}
	switch len(partial) {
	case 0:
		for _, g := range f.graphs {
			if id, err := g.resolve(ref, nil); err == nil {
				return nil, td.Errorf(td.NotFound, "%s is planned and was not started", g.tasks[id].Handle).WithHint("taskdaemon run %s", g.tasks[id].Handle)
			}
		}
		return nil, td.Errorf(td.NotFound, "no task matches %q", ref).WithHint("taskdaemon task list --all")
	case 1:
		return partial[0], nil
	}
	names := make([]string, len(partial))
	for i, t := range partial {
		names[i] = t.Handle + " (" + t.Title + ")"
	}
	return nil, td.Errorf(td.Ambiguous, "%q is ambiguous: %s", ref, strings.Join(names, ", ")).WithHint("type more of it")
}
