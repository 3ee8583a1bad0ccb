package scheduler

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// family is a runner whose parent lies down until its child has ended.
type family struct {
	journal *mem.Store
	child   td.TaskID
}

func (f *family) move(ctx context.Context, held *coord.Held, moves ...func(td.Task, time.Time) (td.Move, error)) (*td.Task, error) {
	t, err := f.journal.Task(ctx, held.Task)
	for _, decide := range moves {
		var m td.Move
		if err == nil {
			m, err = decide(t, time.Now().UTC().Round(0))
		}
		if err == nil {
			t, err = f.journal.Append(ctx, held.Claim, t.Head, m.Events...)
		}
	}
	return &t, err
}

func (f *family) Attend(ctx context.Context, held *coord.Held) (*td.Task, error) {
	child, err := f.journal.Task(ctx, f.child)
	if err != nil {
		return nil, err
	}
	if held.Task == f.child || !child.Status.State.Terminal() {
		return f.move(ctx, held)
	}
	return f.move(ctx, held, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "its child has ended", at) })
}

func (f *family) Run(ctx context.Context, held *coord.Held, _ *Control) (*td.Task, error) {
	start := func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) }
	if held.Task != f.child {
		return f.move(ctx, held, start, func(t td.Task, at time.Time) (td.Move, error) {
			return td.BlockOn(t, td.BlockedData{Cause: "waits for its child", Child: f.child}, at)
		})
	}
	time.Sleep(time.Minute)
	return f.move(ctx, held, start, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "done", at) })
}

func (f *family) Crashed(ctx context.Context, held *coord.Held, why string) (*td.Task, error) {
	return f.move(ctx, held, func(t td.Task, at time.Time) (td.Move, error) { return td.Fail(t, td.FailedData{Error: why}, at) })
}

// A parent goes on the moment its child has ended, not when it is looked at next.
func TestParentIsWokenByItsChildsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{journal: mem.New(nil)}
		create := func(title string, parent td.TaskID) td.TaskID {
			spec := td.Spec{
				ID: td.NewTaskID(), Title: title, Parent: parent, Dir: "/" + title, Prompt: "p", Mode: td.Autonomous, Tier: td.Worker, CreatedAt: time.Now().UTC().Round(0),
			}
			spec.Handle = td.Handle(td.TaskHandle, string(spec.ID), td.HandleLength)
			if _, err := f.journal.Create(t.Context(), spec, string(spec.ID)); err != nil {
				t.Fatal(err)
			}
			return spec.ID
		}
		parent := create("parent", "")
		f.child = create("child", parent)
		log := slog.New(slog.DiscardHandler)
		s := New(Options{
			Journal: f.journal, Keeper: coord.NewKeeper(f.journal, td.Holder{Host: "h"}, log), Runner: f,
			Loops: 2, Project: func(string) int { return 0 }, Log: log, Retry: time.Hour, Wait: time.Hour,
		})
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		for _, id := range []td.TaskID{f.child, parent} {
			if task, err := f.journal.Task(t.Context(), id); err != nil || task.Status.State != td.Cancelled {
				t.Errorf("%s is %s, %v", task.Title, task.Status.State, err)
			}
		}
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
