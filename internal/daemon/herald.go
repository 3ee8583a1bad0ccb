package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// heraldBack is how long ago a task may have completed for loops to be told of it after a start: the last daemon may have died before it did.
const heraldBack = time.Hour

// herald tells the loops that subscribed to it when a task of their project completes, until ctx ends. Whoever was told before is not told
// again: the letter has the same id.
func (d *Daemon) herald(ctx context.Context) error {
	from, err := d.journal.Last(ctx)
	if err != nil {
		return err
	}
	all, err := d.journal.Tasks(ctx, store.TaskFilter{Brief: true})
	if err != nil {
		return err
	}
	// Where nobody ever listened nobody is looked for: a thousand loops end a thousand times.
	heard := slices.ContainsFunc(all, func(t td.Task) bool { return t.Subscribes(td.TopicCompleted) })
	for _, t := range all {
		if heard && t.Status.State == td.Completed && time.Since(t.Status.Since) < heraldBack {
			d.tellCompleted(ctx, t)
		}
	}
	for ev, err := range d.journal.Follow(ctx, store.EventFilter{Types: []td.EventType{td.Created{}.Type(), td.Moved{}.Type()}}, from) {
		if err != nil {
			if ctx.Err() == nil {
				d.o.Log.Warn("loops are told of completed tasks after the next start", "err", err)
			}
			return nil
		}
		switch b := ev.Body.(type) {
		case td.Created:
			heard = heard || b.Spec.Subscribes(td.TopicCompleted)
		case td.Moved:
			if !heard || b.Status.State != td.Completed {
				continue
			}
			if t, err := d.journal.Task(ctx, ev.Task); err == nil {
				d.tellCompleted(ctx, t)
			}
		}
	}
	return nil
}

// tellCompleted tells of one task.
func (d *Daemon) tellCompleted(ctx context.Context, t td.Task) {
	if t.Source != "" || t.Author != nil {
		return // what it judged or prepared is told of itself
	}
	text := fmt.Sprintf("%s (%s) is completed.", t.Handle, t.Title)
	if t.Worktree != nil {
		text = fmt.Sprintf("%s (%s) is completed, and its work is in %s.", t.Handle, t.Title, t.Worktree.Into)
	}
	d.proclaim(ctx, projectDir(t), t.Status.Since, td.Letter{
		ID: fmt.Sprintf("completed/%s/%d", t.ID, t.Status.Since.UnixNano()), Topic: td.TopicCompleted, Text: text, Untrusted: t.Untrusted,
	})
}

// proclaim hands what happened at a time to the loops of a project that were there and subscribed to it by name: all others have
// their own work to mind. Nobody waits for it, so one that fails is told to the log.
func (d *Daemon) proclaim(ctx context.Context, dir string, at time.Time, l td.Letter) {
	live, err := d.loopsAt(ctx, homeOf(dir))
	if err == nil {
		to := slices.DeleteFunc(live, func(t td.Task) bool { return !t.Subscribes(l.Topic) || t.CreatedAt.After(at) })
		if len(to) > 0 {
			_, err = d.deliver(ctx, sender{by: td.ByTaskdaemon}, l, to)
		}
	}
	if err != nil && ctx.Err() == nil {
		d.o.Log.Warn("tell loops what happened", "what", l.ID, "err", err)
	}
}
