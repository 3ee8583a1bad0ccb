package cli

import (
	"context"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/client"
	"taskdaemon/internal/td"
)

// returnLimit is how long a viewer waits for a daemon that went away.
const returnLimit = 10 * time.Minute

// reviving is the service for who wants the work to go on whatever becomes of the daemon: one that died is started again.
// One that was stopped stays so, like for any viewer.
func (a *app) reviving(ctx context.Context) (api.Service, error) {
	if a.address() != "" {
		return a.service(ctx)
	}
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	wait := a.redial(dir)
	var one sync.Mutex // many streams may lose the daemon at once: one starts it again, and says so
	return a.sessionWith(dir, func(ctx context.Context, cause error) error {
		one.Lock()
		defer one.Unlock()
		c := client.New(client.Options{Socket: socketPath(dir)})
		defer c.Close()
		st, err := c.Status(ctx)
		if err == nil && !st.Stopping {
			return nil
		}
		if td.IsKind(cause, td.Interrupted) {
			return wait(ctx, cause)
		}
		if td.IsKind(err, td.Timeout) {
			return wait(ctx, err)
		}
		a.say("%s", a.talk.warn("the daemon is gone; it is started again"))
		return a.ensureDaemon(ctx, dir)
	}), nil
}

// redial lets a stream outlive its daemon: it says so once, waits until one answers again, and says
// that too. It does not start one itself: whoever stopped the daemon may have meant it.
func (a *app) redial(dir string) func(context.Context, error) error {
	return a.waits(client.Options{Socket: socketPath(dir)})
}

// waits waits until the daemon that is reached so answers again.
func (a *app) waits(at client.Options) func(context.Context, error) error {
	return func(ctx context.Context, cause error) error {
		what, then := "the daemon is gone", "taskdaemon daemon start"
		switch td.KindOf(cause) {
		case td.Interrupted:
			what = "the daemon was stopped"
		case td.Timeout: // it is there, and does nothing
			what, then = cause.Error(), td.HintOf(cause)
		}
		a.say("%s", a.talk.warn(what+"; the task goes on when it is back")+" "+a.talk.dim(a.typeable("("+then+")")))
		c := client.New(at)
		defer c.Close()
		deadline := a.now().Add(returnLimit)
		for a.now().Before(deadline) {
			st, err := c.Status(ctx)
			if err == nil && !st.Stopping {
				a.say("%s", a.talk.warn("the daemon is back"))
				return nil
			}
			if err != nil && !td.IsKind(err, td.Unavailable) && !td.IsKind(err, td.Timeout) {
				return err
			}
			if !pause(ctx, 100*time.Millisecond) {
				return ctx.Err()
			}
		}
		return td.Errorf(td.Unavailable, "the daemon did not come back in %s", returnLimit).
			WithHint("taskdaemon daemon start")
	}
}
