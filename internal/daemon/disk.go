package daemon

import (
	"context"
	"time"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var fpDiskTold = failpoint.New("daemon.disk.recorded")

// diskUse looks how full the disk of the state folder is, and whether people should know.
func (d *Daemon) diskUse() (td.DiskUse, error) {
	use, err := disk.UseOf(d.o.StateDir)
	return td.DiskUse{Dir: d.o.StateDir, Room: use.Room, Inodes: use.Inodes, Warn: d.o.Config.Disk.Warn}, err
}

// diskWarning says that the disk of the state folder fills up; empty: there is room.
func (d *Daemon) diskWarning() string {
	if use, err := d.diskUse(); err == nil && use.Level() > 0 {
		return use.String()
	}
	return ""
}

// watchDisk warns before the disk of the state folder is full, when there is still room to record what happens: nothing goes on
// without it. Each level is told once, and again only if there was room in between, in whichever life of the daemon.
func (d *Daemon) watchDisk(ctx context.Context) error {
	told, err := d.diskTold(ctx)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(d.o.Config.Disk.Every)
	defer ticker.Stop()
	for {
		told = d.lookAtDisk(ctx, told)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// lookAtDisk tells of a level that was not told yet, and returns what is told now.
func (d *Daemon) lookAtDisk(ctx context.Context, told int) int {
	use, err := d.diskUse()
	if err != nil {
		d.o.Log.Warn("look at the disk", "err", err)
		return told
	}
	level := use.Level()
	if level == told || level < told && use.Near(told) || d.stopping.Load() {
		return told
	}
	if level > told {
		d.o.Log.Warn("the disk fills up", "dir", use.Dir, "percent", use.Room, "inodes_percent", use.Inodes)
	} else {
		d.o.Log.Info("the disk has room again", "dir", use.Dir, "percent", use.Room, "inodes_percent", use.Inodes)
	}
	if err := d.own.append(context.WithoutCancel(ctx), td.DiskFilled{DiskUse: use, Level: level}); err != nil {
		d.o.Log.Error("record how full the disk is", "err", err) // it is tried again
		return told
	}
	fpDiskTold.Hit()
	return level
}

// diskTold is the level that people were last told of.
func (d *Daemon) diskTold(ctx context.Context) (level int, err error) {
	for ev, err := range d.journal.Read(ctx, td.DaemonStream, 0) {
		if err != nil {
			return 0, err
		}
		if b, is := ev.Body.(td.DiskFilled); is {
			level = b.Level
		}
	}
	return level, nil
}
