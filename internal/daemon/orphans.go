package daemon

import (
	"context"
	"fmt"
	"time"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// orphans ends, from time to time, the processes of tasks whose shim was killed while this daemon ran: the shim of
// a background job that was taken over from an earlier daemon is nobody's child, and what the job runs would go on unseen until the next
// start. Killing one again is harmless, so that it is recorded afterwards.
func (d *Daemon) orphans(ctx context.Context) error {
	ticker := time.NewTicker(d.o.Config.Recovery.Orphans)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		killed, err := d.killOrphans()
		if err != nil {
			d.o.Log.Warn("look for orphans", "err", err)
		}
		if len(killed) == 0 {
			continue
		}
		d.o.Log.Warn("processes without a shim were ended", "processes", killed)
		if d.stopping.Load() {
			return nil // the record of a clean stop is the last one
		}
		if err := d.own.append(context.WithoutCancel(ctx), td.OrphansKilled{Processes: killed}); err != nil {
			return err
		}
	}
}

// killOrphans ends the processes of tasks that no shim stands above, and names them.
func (d *Daemon) killOrphans() (killed []string, err error) {
	found, err := sandbox.Orphans(d.spool.Dir)
	for _, o := range found {
		if err := sandbox.KillOrphan(o); err != nil {
			d.o.Log.Warn("kill orphan", "pid", o.Process.Pid, "err", err)
			continue
		}
		killed = append(killed, fmt.Sprintf("%s (pid %d)", o.Command, o.Process.Pid))
	}
	return killed, err
}
