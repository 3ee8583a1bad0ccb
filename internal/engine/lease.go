package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
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
	// Home is the person's, for patterns that name it.
	Home string
	// Shares reports whether another task that has not ended may touch the files of a task's folder; nil: none
	// does. It is asked before each call that touches files.
	Shares func(id td.TaskID, dir string) bool
	// Freed is told that something was given back; nil: nobody.
	Freed func()
	// Look has the scheduler look at a task whose background job may have ended; nil: nobody.
	Look func(ctx context.Context, id td.TaskID)
}

// wants is what a tool call must have leased before it runs.
func (r *run) wants(c *transcript.Call, call tool.Call) []td.Want {
	return r.wantsOf(policy.Action{Tool: c.Use.Name, Paths: call.Paths, Command: call.Command, Hosts: call.Hosts})
}

// commandWants is what a shell command must have leased before it runs.
func (r *run) commandWants(command string) []td.Want {
	return r.wantsOf(policy.Action{Tool: "Bash", Command: command})
}

func (r *run) wantsOf(a policy.Action) []td.Want {
	if r.Leases.Resources == nil {
		return nil
	}
	task := r.log.Task()
	a.Dir = r.root.Dir()
	u := coord.Use{Action: a, Home: r.Leases.Home, Own: task.Worktree != nil}
	if a.Command != "" && r.Leases.Repo != nil {
		u.Repo = r.Leases.Repo(task.Dir)
	}
	if len(a.Paths) > 0 && r.Leases.Shares != nil {
		u.Shared = r.Leases.Shares(task.ID, task.Dir)
	}
	return r.Leases.Resources.Wants(u)
}

// busy is for a step that was refused what it wants: the task is laid down until its turn comes. When it
// has waited long enough, or would wait for itself, the words are what the model is told instead.
func (r *run) busy(ctx context.Context, step td.StepKey, wants []td.Want, by *td.BusyError) (words string, err error) {
	now := r.log.Now()
	waited := now.Sub(r.waitingSince(step, now))
	if by.Own {
		return fmt.Sprintf("%s is in use by a background job of this task itself. End it with BashKill first.", by.Resource), nil
	}
	cause := by.Error()
	ours, err := r.waitedFor(ctx, by.Task)
	switch {
	case err != nil:
		return "", err
	case waited >= r.Leases.Wait && !td.Patient(wants):
		fpLeaseGivenUp.Hit()
		words = fmt.Sprintf("Resource locked by task %s (%s): %s. Waited %s for it.", by.Handle, by.Title, by.Resource, waited.Round(time.Second))
		if ours != nil {
			return fmt.Sprintf("%s That task in turn waits for %s, which the background job %s of this task has: while it runs, neither gets on. "+
				"End it with BashKill if you can do without it.", words, ours.Resource, ours.Job), nil
		}
		return words + " Do something else first and try again later, or do without.", nil
	case ours != nil:
		cause += fmt.Sprintf(", which in turn waits for %s of this task's background job %s: unless a job ends, only the time limit ends this (leases.wait: %s)",
			ours.Resource, ours.Job, r.Leases.Wait)
	}
	lock := hook.Lock{Resource: by.Resource, LockMode: modeOf(wants, by.Resource), Holder: by.Handle, WaitedMS: waited.Milliseconds()}
	if _, _, err := fire(ctx, r, step, hook.ResourceLockWaitPayload{Head: r.head(), Lock: lock}); err != nil {
		return "", err
	}
	fpLeaseBusy.Hit()
	err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		return td.BlockOn(t, td.BlockedData{
			Cause: cause, Resource: by.Resource, Holder: by.Handle, Step: step, Wants: wants,
		}, at)
	})
	fpLeaseBlocked.Hit()
	return "", err
}

// waitedFor is the lease of a background job of this task that the other one waits for, or nil.
func (r *run) waitedFor(ctx context.Context, other td.TaskID) (*td.Lease, error) {
	jobs := slices.DeleteFunc(r.log.Task().Leases(), func(l td.Lease) bool { return l.Job == "" })
	if len(jobs) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	locks, err := r.Journal.Locks(ctx)
	if err != nil {
		return nil, fmt.Errorf("look who waits: %w", err)
	}
	for _, w := range locks.Waiters {
		i := slices.IndexFunc(jobs, func(l td.Lease) bool { return w.Task == other && modeOf(w.Wants, l.Resource) != "" })
		if i >= 0 {
			return &jobs[i], nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
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

// givenBack is a lease that is no more, with the occasion on which hooks are told.
type givenBack struct {
	key  td.StepKey
	lock hook.Lock
}

// gaveBack is called when leases were given back on disk, whatever it was that ended them.
func (r *run) gaveBack(leases []td.Lease) {
	if r.Leases.Freed != nil {
		r.Leases.Freed()
	}
	if r.Hooks.Has(hook.ResourceLockReleased) {
		r.given = append(r.given, toTell(leases)...)
	}
}

func toTell(leases []td.Lease) []givenBack {
	var given []givenBack
	nth := map[td.StepKey]int{} // as leased counts them
	for _, l := range leases {
		given = append(given, givenBack{leaseKey(l.Step, nth[l.Step]), hook.Lock{Resource: l.Resource, LockMode: l.Mode()}})
		nth[l.Step]++
	}
	return given
}

// untold finds the leases that an earlier life gave back and may have died before it told hooks. It told them before it
// did anything else, so they are those after which no step but that of a hook was begun. Hooks that were told say so in the
// records, and are not told again.
func (r *run) untold(ctx context.Context) error {
	if !r.Hooks.Has(hook.ResourceLockReleased) || r.log.Damaged() != nil {
		return nil
	}
	var t td.Task
	for ev, err := range r.Journal.Read(ctx, r.held.Task, 0) {
		if err != nil {
			return fmt.Errorf("read what was given back: %w", err)
		}
		if b, begun := ev.Body.(td.StepIntended); begun && b.Kind != td.HookStep {
			r.given = nil
		}
		next, err := t.Apply(ev)
		if err != nil {
			return fmt.Errorf("read what was given back: %w", err)
		}
		r.given = append(r.given, toTell(t.GivesBack(next))...)
		t = next
	}
	return nil
}

// released tells hooks of leases that were given back. Whoever ends the task calls it before that.
func (r *run) released(ctx context.Context) error {
	if !r.Hooks.Has(hook.ResourceLockReleased) || r.log.Task().Status.State.Terminal() {
		return nil
	}
	if r.log.Frees() {
		if err := r.log.Flush(ctx); err != nil {
			return err
		}
	}
	for len(r.given) > 0 {
		g := r.given[0]
		if _, _, err := fire(ctx, r, g.key, hook.ResourceLockReleasedPayload{Head: r.head(), Lock: g.lock}); err != nil {
			return err
		}
		r.given = r.given[1:]
	}
	return nil
}

// returnLeases gives back what background jobs have that ended while nobody looked, and has hooks told of
// all that was given back.
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
	if len(ended) > 0 {
		if err := r.log.Append(ctx, td.LeasesReturned{Jobs: ended}); err != nil {
			return err
		}
		fpLeaseReturned.Hit()
	}
	return r.released(ctx)
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
	case !td.Patient(t.Place.Wants) && !e.Now().Before(t.Place.Since.Add(e.Leases.Wait)):
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
