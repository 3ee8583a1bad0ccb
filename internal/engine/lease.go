package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

var (
	fpLeaseGranted  = failpoint.New("engine.lease.granted")
	fpLeaseBusy     = failpoint.New("engine.lease.before_block")
	fpLeaseBlocked  = failpoint.New("engine.lease.blocked")
	fpLeaseGivenUp  = failpoint.New("engine.lease.before_give_up")
	fpLeaseReturned = failpoint.New("engine.lease.returned")
)

// Leases is how an engine deals with what tasks must not use all at once (G-5).
type Leases struct {
	Resources *coord.Resources // what calls need; nil: nothing is leased
	Wait      time.Duration    // how long a call may wait for what it needs
	// Repo is what all worktrees of the repository around a folder share; nil: not known.
	Repo func(dir string) string
	// Freed is told that something was given back; nil: nobody.
	Freed func()
	// Look has the scheduler look at a task whose background job may have ended; nil: nobody.
	Look func(ctx context.Context, id td.TaskID)
}

// wants is what a tool call must have leased before it runs.
func (r *run) wants(ctx context.Context, c *transcript.Call) ([]td.Want, error) {
	if r.Leases.Resources == nil {
		return nil, nil
	}
	var in struct {
		Command string `json:"command"`
		Path    string `json:"path"`
		URL     string `json:"url"`
	}
	if err := json.Unmarshal(c.Use.Input, &in); err != nil {
		return nil, nil //nolint:nilerr // input of another form names nothing that is leased
	}
	u := coord.Use{Tool: c.Use.Name}
	switch c.Use.Name {
	case "Bash":
		return r.commandWants(in.Command), nil
	case "WebFetch":
		if at, err := url.Parse(in.URL); err == nil && at.Hostname() != "" {
			u.Hosts = []string{at.Hostname()}
		}
	case "Read", "Write", "Edit", "MultiEdit":
		rel, err := r.root.Rel(in.Path)
		if err != nil {
			return nil, nil //nolint:nilerr // the tool says so itself
		}
		path := filepath.Join(r.root.Dir(), rel)
		if c.Use.Name == "Read" {
			u.Reads = []string{path}
		} else {
			u.Writes = []string{path}
		}
		if u.Shared, err = r.sharesFolder(ctx); err != nil {
			return nil, err
		}
	}
	return r.Leases.Resources.Wants(u), nil
}

// commandWants is what a shell command must have leased before it runs.
func (r *run) commandWants(command string) []td.Want {
	if r.Leases.Resources == nil {
		return nil
	}
	u := coord.Use{Tool: "Bash", Command: command}
	if r.Leases.Repo != nil {
		u.Repo = r.Leases.Repo(r.log.Task().Dir)
	}
	return r.Leases.Resources.Wants(u)
}

// sharesFolder reports whether another task that has not ended may touch the same files. One that waits for
// this one, as a parent does for its subtask, touches nothing.
func (r *run) sharesFolder(ctx context.Context) (bool, error) {
	me := r.log.Task()
	near, err := r.Journal.Tasks(ctx, store.TaskFilter{States: store.Live, Near: me.Dir, Brief: true, Limit: 16})
	if err != nil {
		return false, fmt.Errorf("look who shares the folder: %w", err)
	}
	return slices.ContainsFunc(near, func(t td.Task) bool {
		return t.ID != me.ID && (t.Status.Blocked == nil || t.Status.Blocked.Child == "")
	}), nil
}

// busy is for a step that was refused what it wants: the task is laid down until its turn comes. When it
// has waited long enough, or would wait for itself, the words are what the model is told instead.
func (r *run) busy(ctx context.Context, step td.StepKey, wants []td.Want, by *td.BusyError) (words string, err error) {
	now := r.log.Now()
	waited := now.Sub(r.waitingSince(step, now))
	switch {
	case by.Own:
		return fmt.Sprintf("%s is in use by a background job of this task itself. End it with BashKill first.", by.Resource), nil
	case waited >= r.Leases.Wait:
		fpLeaseGivenUp.Hit()
		return fmt.Sprintf("Resource locked by task %s (%s): %s. Waited %s for it. Do something else first and try again later, or do without.",
			by.Handle, by.Title, by.Resource, waited.Round(time.Second)), nil
	}
	lock := hook.Lock{Resource: by.Resource, LockMode: modeOf(wants, by.Resource), Holder: by.Handle, WaitedMS: waited.Milliseconds()}
	if _, _, err := fire(ctx, r, step, hook.ResourceLockWaitPayload{Head: r.head(), Lock: lock}); err != nil {
		return "", err
	}
	fpLeaseBusy.Hit()
	err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		return td.BlockOn(t, td.BlockedData{
			Cause: by.Error(), Resource: by.Resource, Holder: by.Handle, Step: step, Wants: wants,
		}, at)
	})
	fpLeaseBlocked.Hit()
	return "", err
}

func (r *run) waitingSince(step td.StepKey, now time.Time) time.Time {
	if p := r.log.Task().Place; p != nil && p.Step == step {
		return p.Since
	}
	return now
}

func modeOf(wants []td.Want, resource string) string {
	for _, w := range wants {
		if w.Resource == resource {
			return w.Mode()
		}
	}
	return ""
}

// leased runs a step that has what it wants, and tells hooks so first.
func (r *run) leased(step td.StepKey, wants []td.Want, do func(context.Context) (td.Outcome, error)) func(context.Context) (td.Outcome, error) {
	if len(wants) == 0 {
		return do
	}
	now := r.log.Now()
	since := r.waitingSince(step, now) // the place is left when it is granted
	return func(ctx context.Context) (td.Outcome, error) {
		fpLeaseGranted.Hit()
		if r.Hooks.Has(hook.ResourceLockAcquired) {
			waited := r.log.Now().Sub(since).Milliseconds()
			for i, w := range wants {
				lock := hook.Lock{Resource: w.Resource, LockMode: w.Mode(), Holder: r.log.Task().Handle, WaitedMS: waited}
				if _, _, err := fireWithin(ctx, r, leaseKey(step, i), hook.ResourceLockAcquiredPayload{Head: r.head(), Lock: lock}); err != nil {
					return td.Outcome{}, err
				}
			}
		}
		return do(ctx)
	}
}

// leaseKey is the occasion of getting or giving back what a step wants.
func leaseKey(step td.StepKey, i int) td.StepKey { return td.StepKey(fmt.Sprintf("%s.l%d", step, i)) }

// released tells hooks of what the task had before and has no more. It is on disk by then.
func (r *run) released(ctx context.Context, before []td.Lease) error {
	if len(before) == 0 || !r.Hooks.Has(hook.ResourceLockReleased) {
		return nil
	}
	has := r.log.Task().Leases()
	if err := r.log.Flush(ctx); err != nil {
		return err
	}
	for i, l := range before {
		if slices.ContainsFunc(has, func(h td.Lease) bool { return h.Resource == l.Resource && h.Step == l.Step }) {
			continue
		}
		lock := hook.Lock{Resource: l.Resource, LockMode: l.Mode()}
		if _, _, err := fire(ctx, r, leaseKey(l.Step, i), hook.ResourceLockReleasedPayload{Head: r.head(), Lock: lock}); err != nil {
			return err
		}
	}
	return nil
}

// returnLeases gives back what background jobs have that ended while nobody looked.
func (r *run) returnLeases(ctx context.Context) error {
	var ended []td.JobID
	for _, j := range r.log.Task().Jobs {
		if len(j.Wants) == 0 {
			continue
		}
		_, state, err := r.Spool.Find(j.Spool)
		if err != nil {
			return fmt.Errorf("find process %s: %w", j.Spool, err)
		}
		if state != sandbox.StillRunning {
			ended = append(ended, j.ID)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	err := r.log.Append(ctx, td.LeasesReturned{Jobs: ended})
	fpLeaseReturned.Hit()
	return err
}

// leaseFree says why a task that is blocked on leases may go on, or nothing.
func (e *Engine) leaseFree(ctx context.Context, t td.Task) (string, error) {
	if t.Place == nil {
		return "it waits for nothing any more", nil
	}
	locks, err := e.Journal.Locks(ctx)
	if err != nil {
		return "", err
	}
	err = locks.Free(t.ID, t.Place.Step, t.Place.Wants)
	by, busy := errors.AsType[*td.BusyError](err)
	switch {
	case !busy:
		return fmt.Sprintf("%s is free", t.Status.Blocked.Resource), err
	case by.Own:
		return "only it is in its own way", nil
	case !e.Now().Before(t.Place.Since.Add(e.Leases.Wait)):
		return fmt.Sprintf("it waited %s for %s", e.Leases.Wait, by.Resource), nil
	}
	for _, h := range locks.Held {
		wanted := slices.ContainsFunc(t.Place.Wants, func(w td.Want) bool { return w.Resource == h.Resource })
		if wanted && h.Job != "" && h.Task != t.ID && e.Leases.Look != nil {
			e.Leases.Look(ctx, h.Task)
		}
	}
	return "", nil
}
