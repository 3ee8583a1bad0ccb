package daemon

import (
	"context"
	"slices"
	"time"

	"taskdaemon/internal/durable"
	"taskdaemon/internal/td"
)

// verify reads the records of the tasks that were taken up, one task after the other beside the daily
// work, and sets aside those of which a record cannot be read. A run looks at its own records before it
// acts; this is for those whose turn comes late, and for the report.
func (d *Daemon) verify(ctx context.Context) error {
	for _, t := range d.unread {
		if ctx.Err() != nil {
			return nil
		}
		damage := d.damaged(ctx, t)
		if damage != nil && ctx.Err() == nil {
			d.o.Log.Error("a record cannot be read", "task", t.Handle, "err", damage)
			d.quarantine(ctx, t.ID, damage)
		}
		d.verified(ctx, t, damage)
	}
	d.unread = nil
	return nil
}

// damaged says what is wrong with a task's records, or nil.
func (d *Daemon) damaged(ctx context.Context, t td.Task) error {
	log, err := durable.Open(ctx, d.journal, t, td.Claim{}, time.Now)
	if err != nil {
		return err
	}
	return log.Damaged()
}

// quarantine blocks a task, unless its run has done so.
func (d *Daemon) quarantine(ctx context.Context, id td.TaskID, damage error) {
	t, err := d.journal.Task(ctx, id)
	if err == nil && t.Status.State == td.Queued {
		err = d.under(ctx, t, func(t td.Task, at time.Time) (td.Move, error) {
			return td.BlockOn(t, td.BlockedData{Cause: damage.Error()}, at)
		})
	}
	if err != nil && !td.IsKind(err, td.Conflict) {
		d.o.Log.Warn("set a task aside", "task", t.Handle, "err", err)
	}
}

// verified takes a task off the list of those still to be read, and into the report if it is damaged.
func (d *Daemon) verified(ctx context.Context, t td.Task, damage error) {
	d.reportMu.Lock()
	d.report.Checking--
	if damage != nil {
		named := func(l td.ReportLine) bool { return l.Task == t.ID }
		d.report.Resumed = slices.DeleteFunc(slices.Clone(d.report.Resumed), named)
		d.report.Retried = slices.DeleteFunc(slices.Clone(d.report.Retried), named)
		d.report.Corrupt = append(slices.Clone(d.report.Corrupt), td.ReportLine{
			Task: t.ID, Handle: t.Handle, Title: t.Title,
			What: damage.Error() + "; nothing is done about it before you say so",
		})
	}
	report := d.report
	d.reportMu.Unlock()
	if damage == nil {
		return
	}
	if err := d.own.append(ctx, td.Recovered{Report: report}); err != nil {
		d.o.Log.Error("record the report", "err", err)
	}
}
