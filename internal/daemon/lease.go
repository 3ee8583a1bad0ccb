package daemon

import (
	"context"

	"taskdaemon/internal/config"
	"taskdaemon/internal/coord"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// Resources are what the config says that calls must not use all at once.
func Resources(c config.Config) (*coord.Resources, error) {
	list := make([]coord.Resource, len(c.Resources))
	for i, r := range c.Resources {
		list[i] = coord.Resource{Name: r.Name, Capacity: r.Capacity, Match: r.Match, Where: r.Where}
	}
	return coord.NewResources(list, c.Leases.Hosts)
}

func (d *Daemon) leases() engine.Leases {
	return engine.Leases{
		Resources: d.resources,
		Wait:      d.o.Config.Leases.Wait,
		Repo:      git.CommonDir,
		Home:      d.o.Home,
		Shares:    func(id td.TaskID, dir string) bool { return d.sched.Shares(id, dir) },
		Freed:     func() { d.sched.Freed() },
		Look: func(ctx context.Context, id td.TaskID) {
			t, err := d.journal.Task(ctx, id)
			if err != nil {
				d.o.Log.Warn("look at a task with a job", "task", id, "err", err)
				return
			}
			d.sched.Wake(ctx, t, false)
		},
	}
}

// Locks are what tasks have leased, and who waits for it.
func (d *Daemon) Locks(ctx context.Context) (td.Locks, error) {
	l, err := d.journal.Locks(ctx)
	if l.Held == nil {
		l.Held = []td.Lease{}
	}
	if l.Waiters == nil {
		l.Waiters = []td.Waiter{}
	}
	return l, err
}
