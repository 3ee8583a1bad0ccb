package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

var (
	fpClosing = failpoint.New("daemon.graph.before_close")
	fpClosed  = failpoint.New("daemon.graph.after_close")
)

// projects are the graphs this daemon has opened, and what ties them to the journal: how a task that is
// planned in one ended is written there, once, however often the daemon dies on the way.
type projects struct {
	*Daemon
	following sync.Mutex         // over the next three
	from      uint64             // the journal was followed to here
	inGraph   map[td.TaskID]bool // whether a task is planned in a graph
	seen      int                // records, since the start

	opening sync.Mutex // one graph at a time; those that are open wait for none
	mu      sync.Mutex
	open    map[string]*graph.Store // by the project's folder
	runs    map[td.TaskID]bool      // planned tasks that the journal has, of the graphs that are open
	stale   map[string]int          // how much those graphs missed that could not be told something
	coming  string                  // the project whose graph is being opened
	syncing map[string]int          // projects that somebody syncs, who says what was stopped

	mending sync.Mutex // one stale graph at a time

	touched chan string // projects with something to commit
}

// graphCursor names how far the journal was followed for the graphs.
const graphCursor = "graphs"

func newProjects(d *Daemon) *projects {
	return &projects{
		Daemon: d, open: map[string]*graph.Store{}, inGraph: map[td.TaskID]bool{}, runs: map[td.TaskID]bool{}, stale: map[string]int{}, syncing: map[string]int{},
		touched: make(chan string, 64),
	}
}

func (p *projects) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		s.Close()
	}
	p.open = nil
}

// of is the graph of the project that a folder is in.
func (p *projects) of(ctx context.Context, dir string) (*graph.Store, error) {
	dir, err := workspace(dir)
	if err != nil {
		return nil, err
	}
	root, ok := graph.Find(dir)
	if !ok {
		return nil, td.Errorf(td.NotFound, "%s has no plan", dir).WithHint("taskdaemon init")
	}
	return p.at(ctx, root)
}

// at opens the graph of a project, or finds it open.
func (p *projects) at(ctx context.Context, root string) (*graph.Store, error) {
	if s := p.known(root); s != nil {
		return s, nil
	}
	p.opening.Lock() // it may take long: to read it, or to wait for somebody who has it locked
	defer p.opening.Unlock()
	if s := p.known(root); s != nil {
		return s, nil
	}
	defer p.comes(root)()
	s, err := graph.Open(ctx, graph.Options{
		Root: root, Index: graph.IndexPath(p.indexes(), root), Secrets: p.o.Secrets, Log: p.o.Log,
	})
	if err != nil {
		return nil, err
	}
	if missed, err := p.missed(root), p.reconcile(ctx, s); err == nil {
		p.agrees(root, missed)
	} else if ctx.Err() != nil {
		s.Close()
		return nil, err
	} else {
		p.miss(root, err) // it can be read all the same
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		s.Close()
		return nil, td.Errorf(td.Unavailable, "the daemon is stopping").WithHint("try again in a moment")
	}
	p.open[root] = s
	p.touch(root) // an earlier life may have left something
	return s, nil
}

// run follows the journal and tells the graphs, until ctx ends.
func (p *projects) run(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := p.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		p.o.Log.Error("the graphs of projects do not follow", "err", err, "again_in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// begin finds out from where on the journal is to be followed. A daemon that never opened a graph has nothing to
// tell of what was before.
func (p *projects) begin(ctx context.Context) error {
	var err error
	if p.from, err = p.journal.Cursor(ctx, graphCursor); err != nil || p.from > 0 {
		return err
	}
	if _, err := os.Stat(p.indexes()); err == nil {
		return nil
	}
	p.from, err = p.journal.Last(ctx)
	return err
}

func (p *projects) indexes() string { return GraphsPath(p.o.StateDir) }

// cursorEvery is how many records may be followed again after a restart.
const cursorEvery = 512

func (p *projects) follow(ctx context.Context) error {
	if err := p.read(ctx, false); err != nil {
		return err
	}
	return ctx.Err()
}

// catchUp returns when the graph of a project knows all that the journal knows now.
func (p *projects) catchUp(ctx context.Context, root string) error {
	if err := p.read(ctx, true); err != nil {
		return fmt.Errorf("tell the graphs how tasks stand: %w", err)
	}
	if err := p.mend(ctx, root); err != nil {
		return fmt.Errorf("tell the graph of %s how its tasks stand: %w", root, err)
	}
	return ctx.Err()
}

// read passes on the records of the journal, those there are or whatever comes.
func (p *projects) read(ctx context.Context, noFuture bool) error {
	p.following.Lock()
	from := p.from
	p.following.Unlock()
	types := []td.EventType{td.Created{}.Type(), td.Moved{}.Type()}
	for ev, err := range p.journal.Follow(ctx, store.EventFilter{Types: types, NoFuture: noFuture}, from) {
		if err != nil {
			return err
		}
		if err := p.take(ctx, ev.Event); err != nil {
			return err
		}
	}
	return nil
}

// take passes on one record, unless somebody else did.
func (p *projects) take(ctx context.Context, ev td.Event) error {
	p.following.Lock()
	defer p.following.Unlock()
	if ev.Cursor <= p.from {
		return nil
	}
	planned, err := p.pass(ctx, ev)
	if err != nil {
		return err
	}
	p.from = ev.Cursor
	// What a graph was told it is not told again by the next daemon: a person may have thought otherwise since.
	if p.seen++; p.seen%cursorEvery == 0 || planned {
		return p.journal.SetCursor(ctx, graphCursor, ev.Cursor)
	}
	return nil
}

// pass passes on one record to the graph of its task, if it has one. A graph that cannot be told is told later.
func (p *projects) pass(ctx context.Context, ev td.Event) (planned bool, err error) {
	if c, ok := ev.Body.(td.Created); ok {
		p.inGraph[ev.Task] = c.Spec.Project != ""
		if c.Spec.Project != "" {
			p.note(ev.Task)
		}
		return c.Spec.Project != "", nil
	}
	m, ok := ev.Body.(td.Moved)
	if !ok {
		return false, nil
	}
	if m.Status.State.Terminal() {
		defer func() {
			if err == nil {
				delete(p.inGraph, ev.Task)
			}
		}()
	}
	if planned, sure := p.inGraph[ev.Task]; sure && !planned {
		return false, nil
	}
	t, err := p.journal.Task(ctx, ev.Task)
	if err != nil {
		return false, err
	}
	if p.inGraph[ev.Task] = t.Project != ""; t.Project == "" {
		return false, nil
	}
	for i, root := range p.having(t) {
		if err := p.tell(ctx, root, t, m, i > 0); ctx.Err() != nil {
			return true, ctx.Err()
		} else if err != nil {
			p.miss(root, fmt.Errorf("tell how %s stands: %w", t.Handle, err))
		}
	}
	return true, nil
}

// errStale is why a graph that missed something is not told more.
var errStale = td.Errorf(td.Unavailable, "it has missed what was before")

// tell passes on what a task moved to, to the graph of its project or to that of another clone, which may not have it.
func (p *projects) tell(ctx context.Context, root string, t td.Task, m td.Moved, another bool) error {
	if p.missed(root) > 0 {
		return errStale // to try it with each record may take long, and all would wait
	}
	s, err := p.at(ctx, root)
	if err != nil {
		return err
	}
	if p.missed(root) > 0 {
		return errStale
	}
	if another {
		switch has, err := s.Has(ctx, t.ID); {
		case td.IsKind(err, td.NotFound):
			p.forget(s) // its folder is away; when it is opened again it is told
			return nil
		case err != nil || !has:
			return err
		}
	}
	if !m.Status.State.Terminal() {
		if m.From.Terminal() && (!another || endedByRun(ctx, s, t.ID)) {
			err = s.Reopen(ctx, t.ID)
		}
		if err == nil && m.Status.Paused != nil && m.Status.Paused.By == td.ByRun {
			err = s.Unclaim(ctx, t.ID, false) // the next run may be another clone's
		}
		s.SetState(t.ID, stateInGraph(m.Status))
		p.touch(root)
		return unlessDeleted(s, err)
	}
	fpClosing.Hit()
	err = s.End(ctx, t.ID, verdictOf(t, m.Status))
	fpClosed.Hit()
	if err = unlessDeleted(s, err); err == nil {
		s.SetState(t.ID, "")
		p.touch(root)
	}
	return err
}

// stateInGraph is how a task stands for the graph. One that a run let go of is there for the next.
func stateInGraph(s td.Status) td.State {
	if s.Paused != nil && s.Paused.By == td.ByRun {
		return td.Queued
	}
	return s.State
}

// verdictOf is how a task ended, for its graph.
func verdictOf(t td.Task, s td.Status) graph.Verdict {
	v := graph.Verdict{State: s.State, Reason: s.Reason, Run: t.Run, At: s.Since}
	if v.Run == "" {
		v.Run = td.RunID(t.ID) // it ended before it ran
	}
	if s.Completed != nil {
		v.Summary = s.Completed.Summary
	}
	if s.Failed != nil {
		v.Reason = s.Failed.Error
	}
	return v
}

// lookEvery is how often it is looked whether somebody else has closed a task that is at work.
const lookEvery = 10 * time.Second

// watch looks for such tasks, and for graphs that are stale, at once and then now and again, until ctx ends.
func (p *projects) watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		p.mendAll(ctx)
		p.stopClosed(ctx, "")
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// stopClosed stops runs of tasks that were closed or deleted while they ran, in another clone or just before the daemon
// died; of one project, or of all that have tasks at work. What they did stays where it is. It says what it stopped, for
// people. What cannot be asked now is left to the next time.
func (p *projects) stopClosed(ctx context.Context, root string) (stopped []string) {
	live, err := p.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		p.o.Log.Error("look for tasks that were closed meanwhile", "err", err)
		return nil
	}
	live = slices.DeleteFunc(live, func(t td.Task) bool { return t.Project == "" || root != "" && t.Project != root })
	if len(live) == 0 || p.read(ctx, true) != nil { // one that was opened again would count as closed; who follows the journal says what is wrong
		return nil
	}
	for _, t := range live {
		s, err := p.at(ctx, t.Project)
		if err != nil || p.missed(t.Project) > 0 {
			continue
		}
		cmd, over := over(ctx, s, t.ID)
		if !over {
			cmd, over = p.outrun(ctx, s, t)
		}
		if !over || root == "" && p.isSyncing(t.Project) { // asked after the graph was read: what it says now may have come with the sync
			continue
		}
		if _, err := p.Command(ctx, string(t.ID), cmd); err != nil {
			p.o.Log.Error("stop a task that was closed meanwhile", "task", t.Handle, "err", err)
			continue
		}
		stopped = append(stopped, fmt.Sprintf("%s (%s), %s; what it did stays in %s", t.Handle, oneLine(t.Title, 60), cmd.Text, t.Dir))
		p.o.Log.Warn("stopped a task that was closed meanwhile", "task", t.Handle, "why", cmd.Text)
	}
	return stopped
}

// syncs marks a project as being synced until done is called.
func (p *projects) syncs(root string) (done func()) {
	add := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.syncing[root] += n; p.syncing[root] == 0 {
			delete(p.syncing, root)
		}
	}
	add(1)
	return func() { add(-1) }
}

func (p *projects) isSyncing(root string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.syncing[root] > 0
}

// over is the command to a task that is at work and not open any more by its graph, if that is so.
func over(ctx context.Context, s *graph.Store, id td.TaskID) (api.Command, bool) {
	planned, err := s.Task(ctx, id)
	if err == nil && planned.Verdict != nil {
		return closing(*planned.Verdict), true
	}
	if !td.IsKind(err, td.NotFound) {
		return api.Command{}, false
	}
	actor, deleted, err := s.Deleted(ctx, id)
	return api.Command{Type: td.CmdCancel, By: actor, Text: "deleted from the plan by " + actor}, err == nil && deleted
}

// outrun is the command to a task that a run here works on, and another clone claimed first, if that is so: both may have
// started it before they knew of each other. The clone that it works for is that of the run.
func (p *projects) outrun(ctx context.Context, s *graph.Store, t td.Task) (api.Command, bool) {
	if t.Ordered == nil || !works(t) {
		return api.Command{}, false
	}
	c, is, err := s.Elsewhere(ctx, t.ID)
	if err != nil || !is {
		return api.Command{}, false
	}
	if g, err := p.Daemon.runs.named(ctx, t.Ordered.Run); err == nil && g.Project != s.Root() {
		if s, err = p.at(ctx, g.Project); err != nil {
			return api.Command{}, false
		}
		if c, is, err = s.Elsewhere(ctx, t.ID); err != nil || !is {
			return api.Command{}, false
		}
	}
	return api.Command{
		Key: "claim/" + c.Clone + "/" + c.At.Format(time.RFC3339Nano), Type: td.CmdPause, By: td.ByRun, Text: "claimed before by " + c.Words(),
	}, true
}

// closing is the command to a task that somebody closed.
func closing(v graph.Verdict) api.Command {
	return api.Command{Type: td.CmdCancel, By: v.By, Text: "closed by hand: " + string(v.State)}
}

// plan has a task created that is to run at once, and writes it into the graph of its project, if it is in one: both or
// neither. What a person was refused must not be found there by the next run.
func (p *projects) plan(ctx context.Context, spec td.Spec, key string, create func(td.Spec) error) error {
	root, ok := graph.Find(spec.Dir)
	if !ok {
		return create(spec)
	}
	s, err := p.at(ctx, root)
	if err != nil {
		return err
	}
	p.vouch(ctx, root, spec.CreatedBy, spec.Validator)
	err = s.AddWith(ctx, graph.Task{
		ID: spec.ID, Key: key, Title: spec.Title, Text: spec.Prompt, Labels: spec.Labels, Priority: spec.Priority,
		Validator: spec.Validator, Tier: spec.Tier, CreatedBy: spec.CreatedBy,
	}, func(id td.TaskID, handle string) error {
		spec.ID, spec.Handle, spec.Project = id, handle, root
		return create(spec)
	})
	p.touch(root)
	switch {
	case err == nil:
		return nil
	case !td.IsKind(err, td.Unknown):
		err = errors.Join(err, p.unplan(context.WithoutCancel(ctx), s, key))
	}
	return fmt.Errorf("plan it in %s: %w", root, err)
}

// unplan takes a task out of a graph that an earlier try left there, if the journal never heard of it.
func (p *projects) unplan(ctx context.Context, s *graph.Store, key string) error {
	ids, planned, err := s.Known(ctx, []string{key})
	if err != nil || !planned {
		return err
	}
	if _, err := p.journal.Task(ctx, ids[0]); !td.IsKind(err, td.NotFound) {
		return err
	}
	return s.Delete(ctx, ids[0])
}

// note says that the journal has records of a planned task.
func (p *projects) note(id td.TaskID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[id] = true
}

// markRan says of planned tasks whether the journal has records of them.
func (p *projects) markRan(tasks []api.Planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range tasks {
		tasks[i].Ran = p.runs[tasks[i].ID]
	}
}

// known is the graph of a project if it is open.
func (p *projects) known(root string) *graph.Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[root]
}

// all are the graphs that are open.
func (p *projects) all() []*graph.Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.open))
}

// openAll opens the graphs of all projects that the state folder has an index of, and says which cannot be opened. One
// whose project is gone is left alone.
func (p *projects) openAll(ctx context.Context, failed func(root string, err error)) error {
	entries, err := os.ReadDir(p.indexes())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "look for graphs: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".db") {
			continue
		}
		root, ok := graph.ProjectOf(filepath.Join(p.indexes(), e.Name()))
		if !ok {
			continue
		}
		if _, err := p.at(ctx, root); err != nil {
			failed(root, err)
		}
	}
	return ctx.Err()
}

// forget lets go of a graph.
func (p *projects) forget(s *graph.Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[s.Root()] == s {
		delete(p.open, s.Root())
		s.Close()
	}
}

// disagree are tasks that have ended by the journal, which was followed beyond that, and not by their graph.
func (p *projects) disagree(ctx context.Context) (found []string, err error) {
	ended, err := p.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Completed, td.Failed, td.Cancelled, td.Abandoned}, Brief: true})
	if err != nil {
		return nil, err
	}
	tasks := map[td.TaskID]td.Task{}
	for _, t := range ended {
		if t.Project != "" && time.Since(t.UpdatedAt) >= time.Minute { // else it may be on its way
			tasks[t.ID] = t
		}
	}
	for _, s := range p.all() {
		differ, err := differing(ctx, s, tasks)
		if err != nil {
			continue // what is wrong with it was found before
		}
		_ = s.Each(ctx, differ, func(planned *graph.Task, _ *workgraph.Graph) {
			if t := tasks[planned.ID]; untold(planned, t) {
				found = append(found, fmt.Sprintf("%s is %s by the journal and open in the graph of %s", t.Handle, t.Status.State, s.Root()))
			}
		})
	}
	return found, nil
}

// compactAfter is how long each change of a graph stays a line of its own.
const compactAfter = 90 * 24 * time.Hour

// compact folds the old changes of the graphs that are open.
func (p *projects) compact(ctx context.Context) {
	for _, s := range p.all() {
		was, is, err := s.Compact(ctx, time.Now().Add(-compactAfter))
		if err != nil && ctx.Err() == nil {
			p.o.Log.Error("compact a graph", "project", s.Root(), "err", err)
		} else if is < was {
			p.o.Log.Info("compacted a graph", "project", s.Root(), "was", was, "is", is)
		}
	}
}
