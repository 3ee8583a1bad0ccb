package cli

import (
	"context"
	"io"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// watch follows one task and shows it.
type watch struct {
	app     *app
	service api.Service
	task    td.Task // as it was when watching began
	out     io.Writer
	style   style
	skip    uint64 // events up to this one are not shown
	json    bool   // items as JSON lines instead of text
	desk    *desk  // hands what is typed to the task; nil: nothing is
	// untilPerson ends the watch when the task cannot go on without one.
	untilPerson bool
	// untilRest ends it when the task does not go on by itself, though a person who is asked may yet answer.
	untilRest bool
	thoughts  bool // what the model thinks is shown, too
	quiet     bool // only what a person is asked is shown

	named    uint64           // cursor of the record that named the last verifier
	verifier *watchedVerifier // that is shown below the task, or was
}

// run returns the task as it stands when it has ended, when it needs a person and that is an end, or
// when ctx ends. The stream begins with the task's first event, so that the fold of it is the task.
func (w *watch) run(ctx context.Context) (td.Task, error) {
	v := newView(w.app, w.out, w.style)
	v.thoughts, v.quiet, v.found = w.thoughts, w.quiet, w.task
	if w.desk != nil {
		defer w.desk.seat(w, v)()
	}
	t := td.Task{}
	q := api.EventQuery{Refs: []string{string(w.task.ID)}, Live: true, Follow: true}
	for {
		over, err := w.stream(ctx, v, &t, q)
		switch {
		case err == nil && (over || ctx.Err() != nil):
			return t, nil
		case err == nil:
			q.Refs, q.After = []string{string(w.task.ID), string(w.verifier.id)}, w.named
		case len(q.Refs) > 1 && td.IsKind(err, td.NotFound):
			q.Refs = q.Refs[:1] // a verifier of long ago is not kept
		default:
			return t, err
		}
	}
}

// stream shows what comes until the task is over, ctx ends, or there is a verifier to be shown with it.
func (w *watch) stream(ctx context.Context, v *view, t *td.Task, q api.EventQuery) (over bool, err error) {
	for it, err := range w.service.Events(ctx, q) {
		if err != nil {
			return false, err
		}
		if w.verifiers(v, it) {
			continue
		}
		ev := it.Event
		if ev != nil && ev.Seq <= t.Head {
			continue // it was shown before the stream was opened for a verifier
		}
		if err := w.show(v, t, it); err != nil {
			return false, err
		}
		if ev == nil {
			continue
		}
		if t.Head >= w.task.Head && w.over(*t) {
			v.close(*t)
			return true, nil
		}
		if w.verifies(v, *t, *ev) {
			return false, nil
		}
	}
	if ctx.Err() == nil {
		return false, td.Errorf(td.Unavailable, "the daemon ended the stream").WithHint("taskdaemon loop attach %s", w.task.Handle)
	}
	return false, nil
}

func (w *watch) over(t td.Task) bool {
	if t.Status.Blocked.Passes() {
		return false // its subtask works for it, or another task will be through
	}
	switch t.Status.State {
	case td.Waiting:
		return w.untilPerson
	case td.Paused, td.Blocked:
		return w.untilPerson || w.untilRest
	default:
		return t.Status.State.Terminal()
	}
}

// show folds an item into the task and prints it.
func (w *watch) show(v *view, t *td.Task, it api.Item) error {
	shown := true
	if ev := it.Event; ev != nil {
		*t = fold(*t, *ev)
		if in, is := ev.Body.(td.StepIntended); is && verifierOf(in.Intent) != "" {
			w.named = ev.Cursor
		}
		if ev.Seq == w.task.Head {
			*t = w.task // what retention trimmed on the way is in here
		}
		shown = ev.Seq > w.skip
	}
	switch {
	case w.json:
		if !shown {
			return nil
		}
		return encodeJSON(w.out, it, "")
	case it.Live != nil:
		v.live(*it.Live)
	case it.Event != nil:
		v.event(*it.Event, *t, shown)
		if it.Event.Seq >= max(w.skip, w.task.Head) {
			v.remind(*t)
		}
	}
	return nil
}

// fold is the task after a record. One that does not fold is shown as it is, and the next one follows it.
func fold(t td.Task, ev td.Event) td.Task {
	next, err := t.Apply(ev)
	if err != nil {
		t.Head = ev.Seq
		return t
	}
	return next
}
