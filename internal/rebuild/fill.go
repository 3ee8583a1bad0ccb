package rebuild

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/graph"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/td"
)

// graphCursor is how far the journal was followed for the graphs: those know of everything that is restored.
const graphCursor = "graphs"

// filler puts tasks into the new journal.
type filler struct {
	*builder
	journal store.Journal
	reader  *mirror.Reader
	self    td.Holder
}

func (f *filler) tasks(ctx context.Context) error {
	kept, wrong, err := f.reader.Tasks()
	if err != nil {
		return err
	}
	for _, w := range wrong {
		f.lost("%v", w)
	}
	for _, k := range kept {
		t, err := f.journal.Task(ctx, k.Spec.ID)
		switch {
		case err == nil:
			f.report.There++
			if t.Head < k.Live.Head {
				if err := f.catchUp(ctx, t, k); err != nil {
					return fmt.Errorf("restore %s: %w", t.Handle, err)
				}
			}
			continue
		case !td.IsKind(err, td.NotFound):
			return err
		}
		if err := f.task(ctx, k); err != nil {
			return fmt.Errorf("restore %s: %w", k.Spec.Handle, err)
		}
	}
	return nil
}

// task restores one task.
func (f *filler) task(ctx context.Context, k mirror.Kept) error {
	spec, err := f.reader.Spec(k)
	if err != nil {
		return err
	}
	evs, err := f.reader.Records(k)
	if err != nil {
		return err
	}
	if len(evs) > 0 {
		if c, ok := evs[0].Body.(td.Created); ok {
			spec = c.Spec
		} else {
			evs = nil
		}
	}
	t, err := f.journal.Create(ctx, spec, string(spec.ID))
	if err != nil {
		return err
	}
	claim, err := f.journal.Claim(ctx, t.ID, f.self)
	if err != nil {
		return err
	}
	r := Restored{Task: t.ID, Handle: t.Handle, Title: t.Title, Records: max(1, len(evs))}
	if len(evs) == 0 {
		r.What = "its records are not in the conversation, which can be read with git"
	} else if missing := k.Live.Head - min(k.Live.Head, uint64(len(evs))); missing > 0 {
		r.What = fmt.Sprintf("the last %d of its records are not in the conversation", missing)
	}
	if t, err = f.append(ctx, claim, t, evs); err != nil {
		return err
	}
	if t, err = f.settle(ctx, claim, t, k, &r); err != nil {
		return err
	}
	r.State = t.Status.State
	f.report.Restored = append(f.report.Restored, r)
	return f.journal.Release(ctx, claim)
}

// catchUp gives a task of the journal the records that only its conversation has, and lets it rest.
func (f *filler) catchUp(ctx context.Context, t td.Task, k mirror.Kept) error {
	evs, err := f.reader.Records(k)
	if err != nil {
		return err
	}
	// The first that append is given is the one that it goes on from.
	at := slices.IndexFunc(evs, func(ev td.Event) bool { return ev.Seq == t.Head })
	if at < 0 || !evs[at].At.Equal(t.UpdatedAt) {
		f.lost("%s: the journal has %d of its records, the conversation %d, which do not go on from there; it was left as it is", t.Handle, t.Head, k.Live.Head)
		return nil
	}
	claim, err := f.journal.Claim(ctx, t.ID, f.self)
	if err != nil {
		return err
	}
	r := Restored{Task: t.ID, Handle: t.Handle, Title: t.Title, Records: len(evs) - at - 1, What: fmt.Sprintf("the journal had %d of its records", t.Head)}
	if t, err = f.append(ctx, claim, t, evs[at:]); err != nil {
		return err
	}
	if t, err = f.settle(ctx, claim, t, k, &r); err != nil {
		return err
	}
	r.State = t.Status.State
	f.report.Restored = append(f.report.Restored, r)
	return f.journal.Release(ctx, claim)
}

// halt pauses what has not ended: what it did after the journal's end is not known, and would be done again.
func (f *filler) halt(ctx context.Context) error {
	live, err := f.journal.Tasks(ctx, store.TaskFilter{States: store.Live})
	if err != nil {
		return err
	}
	for _, t := range live {
		if t.ID == td.DaemonStream || t.Status.State == td.Paused {
			continue
		}
		if err := f.pause(ctx, t); err != nil {
			return fmt.Errorf("pause %s: %w", t.Handle, err)
		}
	}
	return nil
}

func (f *filler) pause(ctx context.Context, t td.Task) error {
	claim, err := f.journal.Claim(ctx, t.ID, f.self)
	if err != nil {
		return err
	}
	if t, err = f.rest(ctx, claim, t, "the journal had lost records; what it did after its last record is not known"); err != nil {
		return err
	}
	f.report.Restored = append(f.report.Restored, Restored{
		Task: t.ID, Handle: t.Handle, Title: t.Title, State: t.Status.State, Records: int(t.Head),
		What: "what it did after the journal's end is not known",
	})
	return f.journal.Release(ctx, claim)
}

// rest pauses a task.
func (f *filler) rest(ctx context.Context, c td.Claim, t td.Task, why string) (td.Task, error) {
	m, err := td.Pause(t, "doctor", why, f.after(t))
	if err != nil {
		return t, err
	}
	return f.journal.Append(ctx, c, t.Head, m.Events...)
}

// after is now, or the time of the task's newest record if the clock was set back since.
func (f *filler) after(t td.Task) time.Time {
	at := f.Now().UTC().Round(0)
	if at.Before(t.UpdatedAt) {
		at = t.UpdatedAt
	}
	return at
}

// atOnce is how many records are appended together.
const atOnce = 256

// append appends all records but the first, which made the task. One that does not follow from those before ends it.
func (f *filler) append(ctx context.Context, c td.Claim, t td.Task, evs []td.Event) (td.Task, error) {
	for len(evs) > 1 {
		n := min(len(evs)-1, atOnce)
		batch := make([]td.Event, n)
		for i, ev := range evs[1 : n+1] {
			batch[i] = td.Event{Task: ev.Task, At: ev.At, Body: unbound(ev.Body)}
		}
		next, err := f.journal.Append(ctx, c, t.Head, batch...)
		if td.IsKind(err, td.Conflict) || td.IsKind(err, td.Invalid) {
			return f.oneByOne(ctx, c, t, batch)
		}
		if err != nil {
			return t, err
		}
		t, evs = next, evs[n:]
	}
	return t, nil
}

// oneByOne appends records as far as they follow from each other.
func (f *filler) oneByOne(ctx context.Context, c td.Claim, t td.Task, evs []td.Event) (td.Task, error) {
	for _, ev := range evs {
		next, err := f.journal.Append(ctx, c, t.Head, ev)
		if td.IsKind(err, td.Conflict) || td.IsKind(err, td.Invalid) {
			f.lost("%s: its records from %d on: %v", t.Handle, t.Head+1, err)
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t = next
	}
	return t, nil
}

// unbound is a record without what tied it to its time: leases and caps are not asked for again. What was no record
// any more leaves its number to a word that it is gone, so that the mirror finds the others under theirs.
func unbound(b td.Body) td.Body {
	switch b := b.(type) {
	case td.StepIntended:
		b.Wants = nil
		if b.Reserve != nil {
			free := *b.Reserve
			free.Caps = nil
			b.Reserve = &free
		}
		return b
	case td.Trimmed, td.Unreadable:
		return td.Ignored{Why: fmt.Sprintf("a record of type %s that could not be restored", b.Type())}
	}
	return b
}

// settle brings a task that had not ended by its records to rest: to how it ended by the graph or by its newest commit, if
// one of them says so, else to a pause.
func (f *filler) settle(ctx context.Context, c td.Claim, t td.Task, k mirror.Kept, r *Restored) (td.Task, error) {
	if t.Status.State.Terminal() || t.Status.State == td.Paused {
		return t, nil
	}
	at := f.after(t)
	v, err := f.graphs.verdict(ctx, t.Spec)
	if err != nil {
		return t, err
	}
	switch st := k.Live.Status; {
	case v != nil:
		r.What = fmt.Sprintf("by the graph it is %s; the last of its records are not known", v.State)
		return f.end(ctx, c, t, *v, at)
	case st.State.Terminal():
		v = &graph.Verdict{State: st.State, Reason: st.Reason}
		if st.Completed != nil {
			v.Summary = st.Completed.Summary
		}
		if st.Failed != nil {
			v.Reason = st.Failed.Error
		}
		return f.end(ctx, c, t, *v, at)
	}
	r.What = fmt.Sprintf("it was %s at record %d; what it did after that is not known", t.Status.State, t.Head)
	return f.rest(ctx, c, t, "restored from its conversation; what it did after that is not known")
}

// end brings a task to how it ended. From where there is no way but a cancellation it is one, which says how it was.
func (f *filler) end(ctx context.Context, c td.Claim, t td.Task, v graph.Verdict, at time.Time) (td.Task, error) {
	moved := func(m td.Move, err error) error {
		if err != nil {
			return err
		}
		t, err = f.journal.Append(ctx, c, t.Head, m.Events...)
		return err
	}
	won := v.State == td.Completed || v.State == td.Failed
	if won && t.Status.State == td.Queued {
		if err := moved(td.Start(t, cmp.Or(v.Run, t.Run, td.RunID(t.ID)), at)); err != nil {
			return t, err
		}
	}
	switch {
	case v.State == td.Completed && t.Status.State == td.Running:
		err := moved(td.Complete(t, v.Summary, nil, at))
		return t, err
	case v.State == td.Failed && t.Status.State == td.Running:
		err := moved(td.Fail(t, td.FailedData{Error: v.Reason, Recoverable: true}, at))
		return t, err
	case v.State == td.Abandoned:
		err := moved(td.Abandon(t, v.Reason, at))
		return t, err
	case won:
		v.Reason = "it was " + string(v.State)
	}
	err := moved(td.Cancel(t, v.Reason, at))
	return t, err
}

// sign records in the daemon's own stream what was done, so that nobody is told of what is long past, and lets the graphs
// be: they know.
func (f *filler) sign(ctx context.Context) error {
	c, err := f.journal.Claim(ctx, td.DaemonStream, f.self)
	if err != nil {
		return err
	}
	own, err := f.journal.Task(ctx, td.DaemonStream)
	if err != nil {
		return err
	}
	at := f.Now().UTC().Round(0)
	if _, err := f.journal.Append(ctx, c, own.Head,
		td.Event{Task: td.DaemonStream, At: at, Body: td.DaemonStarted{Version: f.Version, Holder: f.self}},
		td.Event{Task: td.DaemonStream, At: at, Body: td.DaemonStopped{}}); err != nil {
		return fmt.Errorf("record what was done: %w", err)
	}
	if err := f.journal.Release(ctx, c); err != nil {
		return err
	}
	last, err := f.journal.Last(ctx)
	if err != nil {
		return err
	}
	return f.journal.SetCursor(ctx, graphCursor, last)
}
