package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// runner shows a run over a graph that the daemon carries out.
type runner struct {
	runOptions
	svc    api.Service
	run    api.Run
	desk   *desk
	screen sync.Mutex // one line at a time

	begun int // iterations that it had begun when it was first seen

	mu      sync.Mutex
	tasks   []ranTask
	watched map[td.TaskID]td.Task // that are being shown
	seen    map[td.TaskID]uint64  // up to which record tasks were shown
	next    map[td.TaskID]news    // of tasks that are being shown
}

// news is something that a run did: it started a task, was held or released, or ended.
type news struct {
	task     td.TaskID
	seq      uint64 // of the record that says so
	how      string
	held     *td.GraphHold
	released bool
	ended    bool
	err      error
}

// atWork is how a task stands that was not started now.
const atWork = "at work"

// loop starts the run, or finds it under way, and shows it until it has ended.
func (r *runner) loop(ctx context.Context) error {
	for first := true; ; first = false {
		run, err := r.svc.StartRun(context.WithoutCancel(ctx), r.in) // what it starts must be known
		if err != nil {
			return err
		}
		if r.run = run; first {
			r.begun = run.Iterations
			r.app.notePeer(r.svc)
			r.sayAttached(": it is shown")
			r.app.sayLater(run)
		}
		r.in.Run, r.in.Key = "", ""
		if run.Open() {
			if err := r.show(ctx); err != nil {
				return err
			}
		}
		if ctx.Err() == nil {
			return r.end(ctx)
		}
		again, err := r.interrupted(context.WithoutCancel(ctx))
		if err != nil || !again {
			return err
		}
		ctx = r.app.rearm(ctx)
	}
}

// sayAttached says that the run was under way, and that what was typed cannot change it.
func (r *runner) sayAttached(how string) {
	if !r.run.Attached || !r.run.Open() {
		return
	}
	r.app.say("%s", r.app.talk.dim("run "+r.run.Run+" is under way"+how))
	if len(r.given) > 0 {
		r.app.say("%s", r.app.talk.warn(strings.Join(r.given, " and ")+" cannot change it")+r.app.typeable("; to begin anew: taskdaemon run stop "+r.run.Run))
	}
}

// show shows the tasks of the run as they are started, one after the other or all at once, until it has ended or ctx ends.
func (r *runner) show(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var listening, watching sync.WaitGroup
	var closeDesk func()
	r.desk, closeDesk = r.app.openDesk(ctx, r.svc)
	defer closeDesk()
	defer r.app.callForInput(ctx, r.svc)()
	defer listening.Wait()
	defer watching.Wait()
	defer cancel()
	heard := make(chan news)
	listening.Go(func() { r.listen(ctx, heard) })
	failed := make(chan error, 1)
	follow := func(n news) error {
		if r.run.Parallel <= 1 {
			return r.follow(ctx, n)
		}
		watching.Go(func() {
			if err := r.follow(ctx, n); err != nil {
				select {
				case failed <- err:
				default: // the first is told
				}
			}
		})
		return nil
	}
	r.watched, r.seen, r.next = map[td.TaskID]td.Task{}, map[td.TaskID]uint64{}, map[td.TaskID]news{}
	for _, t := range r.run.AtWork {
		if err := follow(news{task: t.ID, seq: t.Head, how: atWork}); err != nil {
			return err
		}
	}
	if r.run.Held != nil {
		r.sayHeld(*r.run.Held)
	}
	for {
		select {
		case n, open := <-heard:
			switch {
			case !open:
				return nil // ctx has ended
			case n.err != nil:
				return n.err
			case n.ended:
				watching.Wait() // each comes to its rest
				return nil
			case n.held != nil:
				r.sayHeld(*n.held)
				continue
			case n.released:
				now, err := r.svc.Runs(ctx, api.RunQuery{Run: r.run.Run})
				if err != nil {
					return err
				}
				for _, t := range now[0].AtWork {
					if err := follow(news{task: t.ID, seq: t.Head, how: "goes on"}); err != nil {
						return err
					}
				}
				continue
			}
			if err := follow(n); err != nil {
				return err
			}
		case err := <-failed:
			return err
		}
	}
}

// listen tells what the run does, in order, until it has ended or ctx ends.
func (r *runner) listen(ctx context.Context, tell chan<- news) {
	defer close(tell)
	q := api.EventQuery{
		Types: []td.EventType{td.Created{}.Type(), td.Ordered{}.Type(), td.GraphRunHeld{}.Type(), td.GraphRunReleased{}.Type(), td.GraphRunEnded{}.Type()}, After: r.run.Cursor, Follow: true,
	}
	for it, err := range r.svc.Events(ctx, q) {
		n := news{err: err}
		if err == nil {
			var of string
			if n, of = newsOf(it); of != r.run.Run {
				continue
			}
		}
		select {
		case tell <- n:
		case <-ctx.Done():
			return
		}
		if n.err != nil || n.ended {
			return
		}
	}
}

// newsOf is what a record tells of a run, and of which.
func newsOf(it api.Item) (n news, run string) {
	if it.Event == nil {
		return n, ""
	}
	n = news{task: it.Event.Task, seq: it.Event.Seq}
	switch b := it.Event.Body.(type) {
	case td.Created:
		if b.Spec.Order != nil {
			n.how = "started"
			return n, b.Spec.Order.Run
		}
	case td.Ordered:
		n.how = "taken up again"
		n.seq++ // the move that goes with it says the same
		return n, b.Order.Run
	case td.GraphRunHeld:
		n.held = &b.Hold
		return n, b.Run
	case td.GraphRunReleased:
		n.released = true
		return n, b.Run
	case td.GraphRunEnded:
		n.ended = true
		return n, b.Run
	}
	return n, ""
}

// follow shows a task until it rests, unless that is being done, or was.
func (r *runner) follow(ctx context.Context, n news) error {
	for more := r.begins(n); more; n, more = r.rests(n) {
		last, err := r.watch(ctx, n)
		if err != nil || ctx.Err() != nil {
			return err
		}
		r.mu.Lock()
		r.seen[n.task] = last.Head
		r.tasks = append(r.tasks, ranTask{last.Handle, last.Title, last.Status.State})
		r.mu.Unlock()
	}
	return nil
}

// begins reports whether a task is to be shown now. If it is being shown, whoever does it goes on with the news.
func (r *runner) begins(n news) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.watched[n.task]; is {
		r.next[n.task] = n
		return false
	}
	if n.how != atWork && n.seq <= r.seen[n.task] {
		return false
	}
	r.watched[n.task] = td.Task{}
	return true
}

// rests notes that a task is shown no more, unless it was taken up again meanwhile.
func (r *runner) rests(n news) (news, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, is := r.next[n.task]
	delete(r.next, n.task)
	if is && next.seq > r.seen[n.task] {
		return next, true
	}
	delete(r.watched, n.task)
	return n, false
}

// watch shows a task until it rests.
func (r *runner) watch(ctx context.Context, n news) (td.Task, error) {
	a := r.app
	t, err := r.svc.Task(ctx, string(n.task))
	if err != nil {
		if ctx.Err() != nil {
			err = nil
		}
		return t, err
	}
	r.mu.Lock()
	r.watched[t.ID] = t
	r.mu.Unlock()
	r.say("%s %s %s", a.talk.bold(t.Handle), plainLine(t.Title, 100), a.talk.dim("("+n.how+")"))
	w := watch{
		app: a, service: r.svc, task: t, out: a.stderr, style: a.talk, desk: r.desk, untilRest: true, thoughts: true,
		quiet: r.quiet || a.json, skip: n.seq, // a record of its creation would say the same again
	}
	if r.run.Parallel > 1 {
		out := &marked{screen: &r.screen, w: a.stderr, mark: a.talk.dim(t.Handle+" │") + " "}
		defer out.flush()
		w.out = out
	}
	last, err := w.run(ctx)
	if err != nil || ctx.Err() != nil {
		return last, err
	}
	if r.quiet {
		r.say("%s %s", last.Handle, a.talk.state(last.Status.State, string(last.Status.State)))
	}
	a.notify(last)
	return last, nil
}

// sayHeld says why the run starts nothing, and what lets it go on.
func (r *runner) sayHeld(h td.GraphHold) {
	a := r.app
	r.say("%s %s; its tasks are paused, too", a.talk.warn("the run is paused:"), h.Why)
	r.say("%s", a.typeable("look at "+h.Trunk+", then let everything go on: taskdaemon resume --trunk "+h.Trunk))
}

// say says something between the lines of tasks.
func (r *runner) say(format string, args ...any) {
	r.screen.Lock()
	defer r.screen.Unlock()
	r.app.say(format, args...)
}

// end says how the run ended.
func (r *runner) end(ctx context.Context) error {
	found, err := r.svc.Runs(ctx, api.RunQuery{Run: r.run.Run})
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].Open() {
		return td.Errorf(td.Internal, "the run %s has not ended", r.run.Run).WithHint("taskdaemon run")
	}
	found[0].Iterations -= r.begun
	return r.app.endRun(found[0], r.tasks)
}

// marked writes whole lines, each with a mark in front, so that many may write to one screen.
type marked struct {
	screen *sync.Mutex
	w      io.Writer
	mark   string
	line   []byte // that is not whole yet
}

// Write takes any piece of text.
func (m *marked) Write(p []byte) (int, error) {
	m.line = append(m.line, p...)
	end := bytes.LastIndexByte(m.line, '\n')
	if end < 0 {
		return len(p), nil
	}
	var out []byte
	for line := range bytes.Lines(m.line[:end+1]) {
		out = append(append(out, m.mark...), line...)
	}
	m.line = append(m.line[:0], m.line[end+1:]...)
	m.screen.Lock()
	defer m.screen.Unlock()
	if _, err := m.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush ends the last line.
func (m *marked) flush() {
	if len(m.line) > 0 {
		_, _ = m.Write([]byte("\n")) // a screen that is gone needs no more lines
	}
}
