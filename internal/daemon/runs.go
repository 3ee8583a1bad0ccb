package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// runs carries out the runs over graphs that the journal has open: one goroutine each, which looks again whenever something
// of its project changes. What it knows it reads from the journal and the graph, so that a restart changes nothing.
type runs struct {
	*Daemon
	fresh chan struct{} // a run was ordered

	mu      sync.Mutex
	driven  map[string]*driven // by name
	tallies map[string]*tally
	later   map[string][]td.Obstacle // why runs could not start what is ready at the last attempt
}

// driven is a run that somebody looks after.
type driven struct {
	project string
	poke    chan struct{}
}

func newRuns(d *Daemon) *runs {
	return &runs{Daemon: d, fresh: make(chan struct{}, 1), driven: map[string]*driven{}, tallies: map[string]*tally{}, later: map[string][]td.Obstacle{}}
}

// run drives what is open, and what is ordered meanwhile, until ctx ends, and returns when all its goroutines have.
func (r *runs) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		open, err := r.journal.Runs(ctx, store.RunFilter{Open: true})
		var again <-chan time.Time
		if err != nil && ctx.Err() == nil {
			r.o.Log.Error("look for runs to go on with", "err", err, "again_in", shortestRetry)
			again = time.After(shortestRetry)
		}
		for _, g := range open {
			if d := r.undriven(g); d != nil {
				wg.Go(func() { r.drive(ctx, g.Run, d) })
			}
		}
		select {
		case <-r.fresh:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

// undriven notes that a run is driven from now on, unless it is.
func (r *runs) undriven(g td.GraphRun) *driven {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.driven[g.Run] != nil {
		return nil
	}
	d := &driven{project: g.Project, poke: make(chan struct{}, 1)}
	r.driven[g.Run] = d
	return d
}

// look has runs that nobody drives yet driven.
func (r *runs) look() {
	select {
	case r.fresh <- struct{}{}:
	default: // it will look anyway
	}
}

// poke says that something of a project changed. It does not block.
func (r *runs) poke(project string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.driven {
		if d.project != project {
			continue
		}
		select {
		case d.poke <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// How long a run waits after something went wrong with it, from the first time on.
const (
	shortestRetry = time.Second
	longestRetry  = time.Minute
)

// drive takes a run from step to step until it has ended.
func (r *runs) drive(ctx context.Context, name string, d *driven) {
	defer func() {
		r.mu.Lock()
		delete(r.driven, name)
		r.mu.Unlock()
		r.look() // it may have been ordered again this very moment
	}()
	for wait := shortestRetry; ; {
		out, err := r.advance(ctx, name)
		changed, again := (<-chan struct{})(d.poke), (<-chan time.Time)(nil)
		switch {
		case ctx.Err() != nil || err == nil && !out.Open():
			return
		case err != nil:
			r.o.Log.Error("go on with a run", "run", name, "project", d.project, "err", err, "again_in", wait)
			// What was changed may be what this very try changed before it failed.
			changed, again = nil, time.After(wait)
			wait = min(2*wait, longestRetry)
		default:
			wait = shortestRetry
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// noted remembers why a run could not be taken further, each reason once; nil: it was.
func (r *runs) noted(run string, err error) {
	var all []td.Obstacle
	for _, one := range split(err) {
		o := td.Obstacle{Reason: one.Error(), Hint: td.HintOf(one)}
		var known *td.Error
		if errors.As(one, &known) {
			o.Reason = known.Error() // whichever task met it
		}
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.later[run] = all; len(all) == 0 {
		delete(r.later, run)
	}
}

// obstacles are why a run could not start what is ready at the last attempt.
func (r *runs) obstacles(run string) []td.Obstacle {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.later[run]
}

// split takes apart what errors.Join brought together.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if many, is := err.(interface{ Unwrap() []error }); is { //nolint:errorlint // it is the outermost alone
		var all []error
		for _, one := range many.Unwrap() {
			all = append(all, split(one)...)
		}
		return all
	}
	return []error{err}
}

// tally is how many iterations a run began, as far as its records were read.
type tally struct {
	at    uint64
	tasks map[td.TaskID]bool // that work for it
	begun int
	// vain counts the orders to a task that may have led to nothing: after an end, and since its last iteration began.
	vain map[td.TaskID]vain
}

// vain are orders of one run to one task.
type vain struct{ ended, idle int }

// mostVain is how often a run starts a task that has ended, or that begins no iteration. Nobody resets a task so often in one
// run: something takes back what the run brings about, and each start may cost money.
const mostVain = 10

// exhausted reports whether a run has started a task so often in vain that it is not to go on so.
func (v vain) exhausted() bool { return max(v.ended, v.idle) >= mostVain }

// counted reads on what a run began. Who calls holds the lock of its project, as long as the tally is looked at.
func (r *runs) counted(ctx context.Context, g td.GraphRun) (*tally, error) {
	r.mu.Lock()
	n := r.tallies[g.Run]
	if n == nil {
		n = &tally{at: g.From, tasks: map[td.TaskID]bool{}, vain: map[td.TaskID]vain{}}
		r.tallies[g.Run] = n
	}
	r.mu.Unlock()
	types := []td.EventType{td.Created{}.Type(), td.Ordered{}.Type(), td.ContextSet{}.Type()}
	for ev, err := range r.journal.Follow(ctx, store.EventFilter{Types: types, NoFuture: true}, n.at) {
		if err != nil {
			return nil, err
		}
		n.at = ev.Cursor
		n.count(ev.Event, g.Run)
	}
	return n, ctx.Err()
}

// count counts one record.
func (n *tally) count(ev td.Event, run string) {
	name, is := orderedBy(ev.Body)
	v := n.vain[ev.Task]
	switch {
	case is && name != run:
		delete(n.tasks, ev.Task)
	case is:
		n.tasks[ev.Task] = true
		v.idle++
		if o, again := ev.Body.(td.Ordered); again && o.Fresh {
			v.ended++
		}
		n.vain[ev.Task] = v
	case ev.Body.Type() == (td.ContextSet{}).Type() && n.tasks[ev.Task]:
		n.begun++ // whatever is left of the record
		v.idle = 0
		n.vain[ev.Task] = v
	}
}

// orderedBy is the run that a record gives a task to.
func orderedBy(b td.Body) (run string, is bool) {
	switch b := b.(type) {
	case td.Created:
		if b.Spec.Order != nil {
			return b.Spec.Order.Run, true
		}
	case td.Ordered:
		return b.Order.Run, true
	}
	return "", false
}
