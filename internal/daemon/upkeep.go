package daemon

import (
	"context"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var fpTrimmed = failpoint.New("daemon.upkeep.trimmed")

// firstUpkeep is how long after a start the journal is first looked through, when there is less to do.
const firstUpkeep = time.Minute

// upkeep lets old bodies go, soon after the start and then daily, and folds old changes of graphs (S-1).
// Nothing goes that the git mirror does not have.
func (d *Daemon) upkeep(ctx context.Context) error {
	every := d.o.Config.Retention.Every
	timer := time.NewTimer(min(every, firstUpkeep))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := d.trim(ctx); err != nil && ctx.Err() == nil {
			d.o.Log.Error("retention", "err", err)
		}
		if err := d.dropSnapshots(ctx); err != nil && ctx.Err() == nil {
			d.o.Log.Error("retention of snapshots", "err", err)
		}
		d.projects.compact(ctx)
		timer.Reset(every)
	}
}

func (d *Daemon) trim(ctx context.Context) error {
	r := d.o.Config.Retention
	done, err := d.journal.Trim(ctx, store.Retention{
		Now: time.Now(), Completed: r.Completed, Failed: r.Failed, Audit: r.Audit, Mirrored: d.mirror.Mirrored(),
	})
	if err != nil {
		return err
	}
	fpTrimmed.Hit()
	if done.Events == 0 {
		return nil
	}
	d.o.Log.Info("retention", "tasks", done.Tasks, "events", done.Events, "blobs", done.Blobs)
	return d.own.append(ctx, td.Retained{Tasks: done.Tasks, Events: done.Events})
}
