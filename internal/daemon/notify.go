package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/notify"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpTelling = failpoint.New("daemon.notify.intended")
	fpTold    = failpoint.New("daemon.notify.ran")
	fpNoted   = failpoint.New("daemon.notify.recorded")
)

const (
	tellLimit  = 30 * time.Second // how long the command may take
	quietLimit = 5 * time.Second  // how long a stop waits for it; after that the next daemon does
)

// telling is the evidence of a notification: what it tells, and of which record.
type telling struct {
	Cursor uint64   `json:"cursor"`
	Dir    string   `json:"dir"`
	Env    []string `json:"env"`
}

// notifier tells people, by a command of theirs, that a task has ended or needs them (L-13), what a start found, and that the disk fills up. Each time is
// an opaque step in the daemon's own stream, recorded before the command starts, and in the order of the
// records it tells of: so each is told once, whatever dies on the way.
type notifier struct {
	*Daemon
	follow, carry context.Context
	done          chan struct{}
	quiet         func()
}

// newNotifier makes one that ends with ctx, or when quiet is called.
func newNotifier(ctx context.Context, d *Daemon) *notifier {
	n := &notifier{Daemon: d, done: make(chan struct{})}
	var stopFollow, stopCarry context.CancelFunc
	n.carry, stopCarry = context.WithCancel(ctx)
	n.follow, stopFollow = context.WithCancel(n.carry)
	n.quiet = func() {
		stopFollow()
		select {
		case <-n.done:
		case <-time.After(quietLimit):
		}
		stopCarry() // a command that runs is left to the next daemon
		<-n.done
	}
	return n
}

// run tells of what happens until it is stopped. Whoever cannot be told keeps nothing else from working.
func (n *notifier) run() {
	defer close(n.done)
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := n.tell() // from where the daemon's own stream says that people were told
		if err == nil || n.follow.Err() != nil {
			return
		}
		n.o.Log.Error("notifications are held up", "err", err, "again_in", wait)
		select {
		case <-time.After(wait):
		case <-n.follow.Done():
			return
		}
	}
}

func (n *notifier) tell() error {
	after, left, err := n.toldUpTo(n.follow)
	if err != nil {
		return err
	}
	for _, in := range left {
		if err := n.settle(in); err != nil {
			return err
		}
	}
	if n.o.Config.Notify.Command == "" {
		return nil
	}
	for ev, err := range n.journal.Follow(n.follow, store.EventFilter{Types: []td.EventType{td.Moved{}.Type(), td.BudgetWarned{}.Type(), td.Recovered{}.Type(), td.DiskFilled{}.Type()}}, after) {
		if err != nil {
			return err
		}
		if r, is := ev.Body.(td.Recovered); is {
			if err := n.tellEvent(ev.Cursor, n.o.StateDir, notify.OfReport(r.Report)); err != nil {
				return err
			}
			continue
		}
		if b, is := ev.Body.(td.DiskFilled); is {
			if b.Level == 0 {
				continue
			}
			if err := n.tellEvent(ev.Cursor, n.o.StateDir, notify.OfDisk(b.DiskUse)); err != nil {
				return err
			}
			continue
		}
		if w, is := ev.Body.(td.BudgetWarned); is {
			if err := n.tellOfBudget(ev.Event, w); err != nil {
				return err
			}
			continue
		}
		m, ok := ev.Body.(td.Moved)
		if !ok || !news(m.Status) {
			continue
		}
		t, err := n.journal.Task(n.follow, ev.Task)
		if err != nil {
			return err
		}
		if t.Parent != "" && m.Status.State.Terminal() {
			continue // its parent is told, and tells
		}
		t.Status = m.Status
		if err := n.tellOf(ev.Cursor, t); err != nil {
			return err
		}
	}
	return nil
}

// tellOfBudget tells how much of a budget is spent, in the name of the task that found it out.
func (n *notifier) tellOfBudget(ev td.Event, w td.BudgetWarned) error {
	t, err := n.journal.Task(n.follow, ev.Task)
	if err != nil {
		return err
	}
	t.Status = td.Status{State: t.Status.State, Reason: w.String()}
	return n.tellOf(ev.Cursor, t)
}

// news reports whether a person wants to hear that a task came into this state.
func news(s td.Status) bool {
	switch s.State {
	case td.Waiting:
		return true
	case td.Paused:
		// Whoever paused it by hand knows.
		return s.Paused != nil && (s.Paused.Unasked() || s.Paused.By == td.ByForecast || strings.HasPrefix(s.Paused.By, "hook "))
	case td.Blocked:
		// That everybody's budget is used up is told once, not of each task.
		return !s.Blocked.Passes() && (s.Blocked == nil || s.Blocked.Budget == nil)
	}
	return s.State.Terminal()
}

// toldUpTo reads in the daemon's own stream up to which record people were told, and which steps were in
// flight when the last daemon ended. What happened while nobody wanted to be told is not told later.
func (n *notifier) toldUpTo(ctx context.Context) (after uint64, left []td.Intent, err error) {
	wanted := false
	open := map[td.StepKey]bool{}
	for ev, err := range n.journal.Read(ctx, td.DaemonStream, 0) {
		if err != nil {
			return 0, nil, err
		}
		switch b := ev.Body.(type) {
		case td.DaemonStarted:
			if !wanted {
				after = ev.Cursor
			}
			wanted = b.Notifies
		case td.StepIntended:
			var told telling
			if b.Kind == td.NotifyStep && json.Unmarshal(b.Evidence, &told) == nil {
				after = max(after, told.Cursor)
				left = append(left, b.Intent)
				open[b.Key] = true
			}
		case td.StepEnded:
			open[b.Key] = false
		}
	}
	var flying []td.Intent
	for _, in := range left {
		if open[in.Key] {
			flying = append(flying, in)
		}
	}
	return after, flying, nil
}

// tellOf runs the command for one task, once.
func (n *notifier) tellOf(cursor uint64, t td.Task) error {
	t, err := n.withSubtasks(n.follow, t)
	if err != nil {
		return err
	}
	return n.tellEvent(cursor, t.Home(), notify.Of(t))
}

// tellEvent runs the command for what one record says, once.
func (n *notifier) tellEvent(cursor uint64, dir string, e notify.Event) error {
	told := telling{Cursor: cursor, Dir: dir, Env: e.Env()}
	evidence, err := json.Marshal(told)
	if err != nil {
		return fmt.Errorf("encode evidence: %w", err)
	}
	in := td.Intent{
		Key: td.StepKey(fmt.Sprintf("notify.%d", cursor)), Kind: td.NotifyStep, Name: e.Handle, Effect: td.Opaque, Evidence: evidence,
	}
	if in.Boot, err = sandbox.BootID(); err != nil {
		return err
	}
	spool := tool.SpoolName(td.DaemonStream, in.Key)
	if err := n.spool.Reserve(spool); err != nil {
		return err
	}
	if err := n.own.append(context.WithoutCancel(n.carry), td.StepIntended{Intent: in}); err != nil {
		return errors.Join(err, n.spool.Remove(spool))
	}
	fpTelling.Hit()
	return n.start(in, told)
}

// start runs the command under a shim.
func (n *notifier) start(in td.Intent, told telling) error {
	dir := told.Dir
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		dir = n.o.StateDir
	}
	env := told.Env
	for _, name := range []string{"DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "PULSE_SERVER"} {
		if v := n.o.Getenv(name); v != "" {
			env = append(env, name+"="+v) // what a person's desktop needs to say something
		}
	}
	p, err := n.spool.Start(n.carry, tool.SpoolName(td.DaemonStream, in.Key), sandbox.Command{
		Shell: n.o.Config.Notify.Command, Dir: dir, Env: env, Timeout: tellLimit, Task: td.DaemonStream, Step: in.Key, Own: true,
	})
	if err != nil {
		if n.carry.Err() != nil {
			return err
		}
		return n.ended(in, td.Ran, td.ToolResult{Content: err.Error(), IsError: true})
	}
	return n.wait(in, td.Ran, p)
}

func (n *notifier) wait(in td.Intent, via td.Via, p sandbox.Process) error {
	res, err := p.Wait(n.carry, nil)
	switch {
	case err != nil && n.carry.Err() != nil:
		return err
	case errors.Is(err, sandbox.ErrLost):
		return n.ended(in, via, td.ToolResult{Content: "it is not known how it ended", IsError: true})
	case err != nil:
		return n.ended(in, via, td.ToolResult{Content: err.Error(), IsError: true})
	}
	fpTold.Hit()
	exit := res.Exit
	return n.ended(in, via, td.ToolResult{Content: oneLine(tool.Output(n.o.Secrets, res), 500), IsError: exit != 0, Exit: &exit})
}

// settle sees to a notification that was in flight when the last daemon ended. One that began is not
// begun again: people are told once or, when the host was lost, not at all.
func (n *notifier) settle(in td.Intent) error {
	var told telling
	if err := json.Unmarshal(in.Evidence, &told); err != nil {
		return n.ended(in, td.Ran, td.ToolResult{Content: err.Error(), IsError: true})
	}
	p, state, err := n.spool.Find(tool.SpoolName(td.DaemonStream, in.Key))
	switch {
	case state == sandbox.StillRunning && err == nil, state == sandbox.Finished && err == nil:
		return n.wait(in, td.Adopted, p)
	case state == sandbox.NeverStarted && err == nil && n.o.Config.Notify.Command != "":
		return n.start(in, told)
	}
	return n.ended(in, td.Probed, td.ToolResult{Content: fmt.Sprintf("%s: %v", state, err), IsError: true})
}

// ended records how a notification came out. One that failed is told to nobody but the log.
func (n *notifier) ended(in td.Intent, via td.Via, res td.ToolResult) error {
	if res.IsError {
		n.o.Log.Warn("the notification command failed", "task", in.Name, "err", res.Content)
	}
	if err := n.own.append(context.WithoutCancel(n.carry), td.StepEnded{Outcome: td.Outcome{Key: in.Key, Via: via, Tool: &res}}); err != nil {
		return err
	}
	fpNoted.Hit()
	if err := n.spool.Remove(tool.SpoolName(td.DaemonStream, in.Key)); err != nil {
		n.o.Log.Warn("remove spool", "step", in.Key, "err", err)
	}
	return nil
}
