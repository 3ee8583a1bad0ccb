package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// journal is the part of a store the mirror uses, with faults that can be switched on.
type journal struct {
	store.Journal // nil: any other method is a mistake
	mu            sync.Mutex
	more          chan struct{}
	events        []td.Event
	byTask        map[td.TaskID][]int // places in events
	specs         map[td.TaskID]td.Spec
	heads         map[td.TaskID]uint64
	cursor        uint64
	noCursor      bool // SetCursor fails
}

func newJournal() *journal {
	return &journal{more: make(chan struct{}), specs: map[td.TaskID]td.Spec{}, heads: map[td.TaskID]uint64{}, byTask: map[td.TaskID][]int{}}
}

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func (j *journal) add(task td.TaskID, bodies ...td.Body) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range bodies {
		if c, ok := b.(td.Created); ok {
			j.specs[task] = c.Spec
		}
		j.heads[task]++
		at := start.Add(time.Duration(j.heads[task]) * time.Second)
		j.byTask[task] = append(j.byTask[task], len(j.events))
		j.events = append(j.events, td.Event{Cursor: uint64(len(j.events) + 1), Seq: j.heads[task], Task: task, At: at, Body: b})
	}
	close(j.more)
	j.more = make(chan struct{})
}

func (j *journal) Follow(ctx context.Context, _ store.EventFilter, after uint64) iter.Seq2[td.Record, error] {
	return func(yield func(td.Record, error) bool) {
		for at := after; ; {
			j.mu.Lock()
			fresh, more := j.events[min(int(at), len(j.events)):], j.more
			j.mu.Unlock()
			for _, ev := range fresh {
				r := td.Record{Event: ev}
				if ev.Cursor%2 == 0 { // of the others it is not at hand
					r.Raw, _ = td.EncodeBody(ev.Body)
				}
				if !yield(r, nil) {
					return
				}
				at = ev.Cursor
			}
			if len(fresh) > 0 {
				continue
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(td.Record{}, ctx.Err())
				return
			}
		}
	}
}

func (j *journal) Read(_ context.Context, task td.TaskID, after uint64) iter.Seq2[td.Event, error] {
	return func(yield func(td.Event, error) bool) {
		j.mu.Lock()
		var evs []td.Event
		for _, i := range j.byTask[task] {
			if ev := j.events[i]; ev.Seq > after {
				evs = append(evs, ev)
			}
		}
		j.mu.Unlock()
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func (j *journal) Task(_ context.Context, id td.TaskID) (td.Task, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, ok := j.specs[id]
	if !ok {
		return td.Task{}, td.Errorf(td.NotFound, "no task %s", id)
	}
	return td.NewTask(s), nil
}

func (j *journal) SetCursor(_ context.Context, _ string, at uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.noCursor {
		return td.Errorf(td.Storage, "no space")
	}
	j.cursor = max(j.cursor, at)
	return nil
}

func (j *journal) Last(context.Context) (uint64, error) { return j.last(), nil }

func (j *journal) last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return uint64(len(j.events))
}

// life is the events of a task that runs n turns, each with one Bash call, and completes.
func life(id td.TaskID, n int) []td.Body {
	spec := td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask,
		Title: "make the test pass", Prompt: "The test fails.\nMake it pass.", Dir: "/home/ann/prog",
		Mode: td.Autonomous, CreatedAt: start, CreatedBy: "ann",
	}
	t := td.NewTask(spec)
	moved := func(m td.Move, err error) td.Body {
		if err != nil {
			panic(err)
		}
		return m.Events[len(m.Events)-1].Body
	}
	out := []td.Body{td.Created{Spec: spec}, moved(td.Start(t, "run", start)), td.ContextSet{
		Iteration: 1, Provider: "rehearsal", System: "You are careful.", Tools: json.RawMessage(`[{"name":"Bash"}]`),
		Opening: td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: spec.Prompt}}},
	}}
	for i := range n {
		model, use, tool := td.StepKey(fmt.Sprintf("t%d.model", i+1)), fmt.Sprintf("toolu_%d", i), td.StepKey(fmt.Sprintf("t%d.0", i+1))
		exit := 0
		out = append(out,
			td.StepIntended{Intent: td.Intent{Key: model, Kind: td.ModelStep, Name: "model", Effect: td.Pure}},
			td.StepEnded{Outcome: td.Outcome{Key: model, Via: td.Ran, Model: &td.ModelResult{
				Message: td.Message{Role: td.Assistant, Blocks: []td.Block{
					{Type: td.TextBlock, Text: "I run the tests."},
					{Type: td.ToolUseBlock, ID: use, Name: "Bash", Input: json.RawMessage(`{"command":"go test ./..."}`)},
				}},
				StopReason: td.StopToolUse, Model: "rehearsal", Cost: 1500,
			}}},
			td.StepIntended{Intent: td.Intent{Key: tool, Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque}},
			td.StepEnded{Outcome: td.Outcome{Key: tool, Via: td.Ran, Tool: &td.ToolResult{Content: "ok  \tprog\t0.01s\n", Exit: &exit}}},
		)
	}
	t.Status = td.Status{State: td.Running, Running: &td.RunningData{}}
	return append(out, moved(td.Complete(t, "the test passes", nil, start)))
}
