package daemon

import (
	"context"

	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/td"
)

// trimmed counts the records of a task that are not among the events, or only without what they said.
func trimmed(t td.Task, events []td.Event) int {
	n := int(t.Head) - len(events)
	for _, ev := range events {
		if _, gone := ev.Body.(td.Trimmed); gone {
			n++
		}
	}
	return max(0, n) // more may have come since the task was read
}

// records are those of a task, from the git mirror where retention has let them go, and how many are in neither place.
func (d *Daemon) records(ctx context.Context, t td.Task) (events []td.Event, gone int, err error) {
	for ev, err := range d.journal.Read(ctx, t.ID, 0) {
		if err != nil {
			return nil, 0, err
		}
		events = append(events, ev)
	}
	if gone = trimmed(t, events); gone > 0 {
		kept, err := d.mirrored(ctx, t)
		if err != nil {
			d.o.Log.Warn("read a conversation from its git mirror", "task", t.Handle, "err", err)
		}
		events = fill(events, kept)
		gone = trimmed(t, events)
	}
	return events, gone, nil
}

// whole are all records of a task, or an error that says that some are nowhere any more.
func (d *Daemon) whole(ctx context.Context, t td.Task) ([]td.Event, error) {
	events, gone, err := d.records(ctx, t)
	if err == nil && gone > 0 {
		err = td.Errorf(td.NotFound, "records of %s are lost: retention removed them from the journal, and conversations.git does not have them", t.Handle).
			WithHint("taskdaemon doctor")
	}
	return events, err
}

// mirrored are the records of a task that its git mirror has.
func (d *Daemon) mirrored(ctx context.Context, t td.Task) ([]td.Event, error) {
	r, err := mirror.OpenReader(ctx, d.repo())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	kept, err := r.Task(t.Spec)
	if err != nil {
		return nil, err
	}
	return r.Records(kept)
}

// fill puts the records that are kept in the place of those that the journal has let go. Both are in order.
func fill(events, kept []td.Event) []td.Event {
	var out []td.Event
	for _, ev := range events {
		for len(kept) > 0 && kept[0].Seq < ev.Seq {
			out, kept = append(out, kept[0]), kept[1:]
		}
		if len(kept) > 0 && kept[0].Seq == ev.Seq {
			if _, gone := ev.Body.(td.Trimmed); gone {
				ev.Body = kept[0].Body
			}
			kept = kept[1:]
		}
		out = append(out, ev)
	}
	return append(out, kept...)
}
