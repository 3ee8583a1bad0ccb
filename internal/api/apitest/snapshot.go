package apitest

import (
	"context"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Steps gives what the fake's tasks did to files: nothing.
func (f *Fake) Steps(ctx context.Context, ref string) (api.Steps, error) {
	t, err := f.Task(ctx, ref)
	return api.Steps{Task: t, Ref: "refs/taskdaemon/steps/" + t.Handle, Steps: []api.Step{}}, err
}

// Rewind finds no step to go to.
func (f *Fake) Rewind(ctx context.Context, ref string, in api.Rewind) (api.Rewound, error) {
	t, err := f.Task(ctx, ref)
	if err != nil {
		return api.Rewound{}, err
	}
	return api.Rewound{}, td.Errorf(td.NotFound, "%s has no step %q", t.Handle, in.To).WithHint("taskdaemon loop steps %s", t.Handle)
}

// Fork finds no step to go on from.
func (f *Fake) Fork(ctx context.Context, ref string, in api.Fork) (td.Task, error) {
	t, err := f.Task(ctx, ref)
	if err != nil {
		return td.Task{}, err
	}
	return td.Task{}, td.Errorf(td.NotFound, "%s has no step %q", t.Handle, in.At).WithHint("taskdaemon loop steps %s", t.Handle)
}

func testSnapshots(t *testing.T, s suite) {
	task := s.asking(t)
	got, err := s.svc.Steps(s.ctx, task.Handle)
	if err != nil || got.Task.ID != task.ID || got.Ref == "" || got.Steps == nil {
		t.Errorf("steps: %+v, %v", got, err)
	}
	_, err = s.svc.Rewind(s.ctx, task.Handle, api.Rewind{To: "t99.0"})
	wantKind(t, "Rewind to no step", err, td.NotFound)
	_, err = s.svc.Rewind(s.ctx, "t-iiiiiiii", api.Rewind{To: "t1.0"})
	wantKind(t, "Rewind of no task", err, td.NotFound)
	_, err = s.svc.Fork(s.ctx, task.Handle, api.Fork{At: "t99.0"})
	wantKind(t, "Fork at no step", err, td.NotFound)
	_, err = s.svc.Fork(s.ctx, "t-iiiiiiii", api.Fork{At: "t1.0"})
	wantKind(t, "Fork of no task", err, td.NotFound)
	_, err = s.svc.Steps(s.ctx, "t-iiiiiiii")
	wantKind(t, "Steps of no task", err, td.NotFound)
}
