package daemon

import (
	"context"
	"time"

	"taskdaemon/internal/td"
)

// tempsEvery is how often the temp folders and checkouts of tasks that have ended are removed.
const tempsEvery = 10 * time.Minute

// temps removes the temp folders and checkouts of tasks that have ended, at the start and from time to time.
func (d *Daemon) temps(ctx context.Context) error {
	ticker := time.NewTicker(tempsEvery)
	defer ticker.Stop()
	for {
		if err := d.spool.Forget(func(id td.TaskID) bool { return d.needsTemp(ctx, id) }); err != nil {
			d.o.Log.Warn("remove temp folders", "err", err)
		}
		if err := d.sweepCheckouts(ctx); err != nil && ctx.Err() == nil {
			d.o.Log.Warn("remove checkouts", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// needsTemp reports whether a task may run another command, as far as is known.
func (d *Daemon) needsTemp(ctx context.Context, id td.TaskID) bool {
	t, err := d.journal.Task(ctx, id)
	if err != nil {
		return !td.IsKind(err, td.NotFound)
	}
	return !t.Status.State.Terminal()
}
