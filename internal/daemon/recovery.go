package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/config"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpSwept   = failpoint.New("daemon.recover.swept")
	fpRescued = failpoint.New("daemon.recover.rescued")
	fpReport  = failpoint.New("daemon.recover.before_report")
)

// rescuers is how many tasks are taken up at once: enough to fill the journal's group commits.
const rescuers = 64

// recover settles what an earlier life left, task by task, and records the report.
func (d *Daemon) recover(ctx context.Context) error {
	began := time.Now()
	report := &d.report
	report.At = began.UTC().Round(0)
	var err error
	if report.Clean, err = d.stoppedCleanly(ctx); err != nil {
		return err
	}
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return err
	}
	own, err := d.journal.Task(ctx, td.DaemonStream)
	if err != nil {
		return err
	}
	found, err := d.sweep(append(slices.Clone(tasks), own))
	if err != nil {
		return err
	}
	d.sweepHooks(tasks)
	report.Orphans = append(found.killed, d.killStrays()...)
	fpSwept.Hit()
	r := &rescuer{Daemon: d, processes: found.processes}
	group, ctx2 := errgroup.WithContext(ctx)
	group.SetLimit(rescuers)
	for _, t := range tasks {
		group.Go(func() error {
			err := r.rescue(ctx2, t)
			if td.IsKind(err, td.Storage) || td.IsKind(err, td.Unknown) || ctx2.Err() != nil {
				return err
			}
			if err != nil {
				d.o.Log.Error("take up task", "task", t.Handle, "err", err) // it stops no other
				r.note(&report.Corrupt, t, "cannot be taken up: "+err.Error())
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	report.Took, report.Checking = time.Since(began), len(d.unread)
	fpReport.Hit()
	return d.own.append(ctx, td.Recovered{Report: *report})
}

// stoppedCleanly reports whether the daemon before this one recorded its stop, with nothing left.
func (d *Daemon) stoppedCleanly(ctx context.Context) (bool, error) {
	before, err := d.own.before(ctx)
	if err != nil || before == nil {
		return err == nil, err // this is the first one
	}
	stopped, ok := before.(td.DaemonStopped)
	return ok && stopped.Left == 0, nil
}

type swept struct {
	processes map[string]sandbox.ProcessState // of steps in flight, by spool name
	killed    []string
}

// sweep looks through the spool: what no live task waits for is ended and removed, and so are processes
// whose shim was killed.
func (d *Daemon) sweep(tasks []td.Task) (swept, error) {
	wanted := map[string]bool{}
	for _, t := range tasks {
		for _, s := range t.InFlight {
			wanted[tool.SpoolName(t.ID, s.Key.Try(s.Attempt))] = true
		}
		for _, j := range t.Jobs {
			wanted[j.Spool] = true
		}
	}
	found := swept{processes: map[string]sandbox.ProcessState{}}
	entries, err := d.spool.List()
	if err != nil {
		return found, err
	}
	for _, e := range entries {
		if wanted[e.Name] {
			found.processes[e.Name] = e.State
			continue
		}
		if err := d.discard(e); err != nil {
			d.o.Log.Warn("clear spool", "name", e.Name, "err", err)
			continue
		}
		if e.State == sandbox.StillRunning {
			found.killed = append(found.killed, fmt.Sprintf("%s (pid %d)", e.Name, e.Shim.Pid))
		}
	}
	killed, err := d.killOrphans()
	found.killed = append(found.killed, killed...)
	return found, err
}

// discard ends what still runs under a spool name and forgets it.
func (d *Daemon) discard(e sandbox.Entry) error {
	if e.State == sandbox.StillRunning {
		p, state, err := d.spool.Find(e.Name)
		if err != nil {
			return err
		}
		if state == sandbox.StillRunning {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := p.Kill(ctx); err != nil {
				return err
			}
		}
	}
	return d.spool.Remove(e.Name)
}

// rescuer takes up tasks at the start and writes the report.
type rescuer struct {
	*Daemon
	processes map[string]sandbox.ProcessState
}

func (r *rescuer) note(list *[]td.ReportLine, t td.Task, what string) {
	r.reportMu.Lock()
	defer r.reportMu.Unlock()
	*list = append(*list, td.ReportLine{Task: t.ID, Handle: t.Handle, Title: t.Title, What: what})
}

// rescue does for one task what its last record calls for.
func (r *rescuer) rescue(ctx context.Context, t td.Task) error {
	switch t.Status.State {
	case td.Queued:
		if t.Run == "" {
			r.note(&r.report.Queued, t, "not started yet")
			return nil
		}
		if r.tooOld(t) {
			return r.askAge(ctx, t)
		}
		r.note(&r.report.Resumed, t, "goes on after "+r.after(t))
		return nil
	case td.Running:
		if r.tooOld(t) {
			return r.askAge(ctx, t)
		}
		return r.takeUp(ctx, t)
	case td.Waiting:
		return r.reask(ctx, t)
	case td.Blocked:
		if len(t.Requests) > 0 {
			return r.reask(ctx, t)
		}
		if b := t.Status.Blocked; b != nil && b.Outage != nil {
			r.note(&r.report.Queued, t, t.Status.Reason+"; retrying at "+b.Outage.RetryAt.Local().Format("2006-01-02 15:04:05"))
			return nil
		}
		r.note(&r.report.Queued, t, "was blocked: "+t.Status.Reason+"; tried again")
	case td.Paused:
		r.note(&r.report.Paused, t, "stays paused; taskdaemon resume "+t.Handle)
	}
	return nil
}

// tooOld reports whether a person must say if the task should go on. A clock that jumped back makes an
// age negative, which counts as fresh.
func (r *rescuer) tooOld(t td.Task) bool {
	c := r.o.Config.Recovery
	return c.Mode == config.RecoverAsk || time.Since(t.UpdatedAt) > c.MaxAge
}

func (r *rescuer) takeUp(ctx context.Context, t td.Task) error {
	err := r.under(ctx, t, func(t td.Task, at time.Time) (td.Move, error) {
		return td.Recover(t, "the daemon crashed; the task goes on", at)
	})
	if err != nil {
		return err
	}
	r.reportMu.Lock()
	r.unread = append(r.unread, t)
	r.reportMu.Unlock()
	if t.Turns == 0 {
		r.note(&r.report.Retried, t, "had done nothing yet: from the start")
		return nil
	}
	r.note(&r.report.Resumed, t, r.after(t))
	return nil
}

// after says in words what was in flight and what is done about it.
func (r *rescuer) after(t td.Task) string {
	if len(t.InFlight) == 0 {
		return fmt.Sprintf("turn %d, nothing in flight", t.Turns)
	}
	s := t.InFlight[len(t.InFlight)-1]
	where := fmt.Sprintf("turn %d, %s", t.Turns, s.Name)
	switch {
	case s.Kind == td.ModelStep:
		return fmt.Sprintf("turn %d, the call of %s is made again", t.Turns+1, s.Name)
	case s.Effect == td.Keyed:
		return where + " was in flight: looked for by its evidence"
	case s.Effect == td.Pure && s.Kind != td.ValidatorStep:
		return where + " was in flight: only looks, run again"
	}
	if s.Kind == td.ToolStep && s.Effect == td.Opaque && !s.Kept {
		return where + " was in flight, and only who was called knows its outcome: you are asked"
	}
	switch state, ok := r.processes[tool.SpoolName(t.ID, s.Key.Try(s.Attempt))]; {
	case ok && state == sandbox.StillRunning:
		return where + " is still running under its shim: adopted, not run again"
	case ok && state == sandbox.Finished:
		return where + " finished meanwhile under its shim: its result is adopted, not run again"
	case ok && state == sandbox.NeverStarted:
		return where + " had not started: run now"
	case s.Effect == td.Pure:
		return where + " left nothing: run again"
	}
	if s.Kind == td.HookStep {
		return where + " was in flight and its answer is lost: it counts as a hook that failed"
	}
	return where + " was in flight and its outcome is not known: you are asked"
}

func (r *rescuer) reask(ctx context.Context, t td.Task) error {
	err := r.under(ctx, t, func(t td.Task, at time.Time) (td.Move, error) {
		m := td.Move{Task: t.ID, From: t.Status.State, To: t.Status.State}
		for _, q := range t.Requests {
			m.Events = append(m.Events, td.Event{Task: t.ID, At: at, Body: td.RequestAskedAgain{ID: q.ID}})
		}
		return m, nil
	})
	if err != nil {
		return err
	}
	for _, q := range t.Requests {
		r.note(&r.report.Reasked, t, fmt.Sprintf("%s %s: %s", q.Kind, q.Handle(), oneLine(q.Prompt, 80)))
	}
	return nil
}

func (r *rescuer) askAge(ctx context.Context, t td.Task) error {
	q := td.Request{
		ID: td.NewRequestID(), Kind: td.AskQuestion, About: td.AboutAge, AskedAt: r.report.At,
		Prompt:  fmt.Sprintf("%s was last at work %s ago. Go on with it?", t.Handle, time.Since(t.UpdatedAt).Round(time.Second)),
		Options: []string{td.Yes, td.No},
	}
	err := r.under(ctx, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Ask(t, q, at) })
	if err != nil {
		return err
	}
	r.note(&r.report.Reasked, t, "too old to go on by itself: taskdaemon task answer "+q.Handle()+" yes, or no")
	return nil
}

// under carries out a move of a task that nobody runs.
func (d *Daemon) under(ctx context.Context, t td.Task, decide func(td.Task, time.Time) (td.Move, error)) error {
	ctx, held, err := d.keeper.Claim(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("take up %s: %w", t.Handle, err)
	}
	defer held.Release(ctx)
	at := time.Now().UTC().Round(0)
	if at.Before(t.UpdatedAt) {
		at = t.UpdatedAt
	}
	m, err := decide(t, at)
	if err != nil {
		return fmt.Errorf("take up %s: %w", t.Handle, err)
	}
	if len(m.Events) == 0 {
		return nil
	}
	if _, err := d.journal.Append(ctx, held.Claim, t.Head, m.Events...); err != nil {
		return fmt.Errorf("take up %s: %w", t.Handle, err)
	}
	fpRescued.Hit()
	return nil
}
