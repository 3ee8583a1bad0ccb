package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// bustle is people at work until ctx ends: one starts and stops runs, one changes the plan.
func (l *life) bustle(ctx context.Context, rnd *rand.Rand) {
	var wg sync.WaitGroup
	each := func(longest time.Duration, rnd *rand.Rand, do func(*rand.Rand)) {
		wg.Go(func() {
			for {
				select {
				case <-time.After(time.Duration(rnd.Int64N(int64(longest)))):
				case <-ctx.Done():
					return
				}
				select {
				case l.turn <- struct{}{}:
					do(rnd)
					<-l.turn
				case <-ctx.Done():
					return
				}
			}
		})
	}
	each(3*time.Second, rand.New(rand.NewPCG(rnd.Uint64(), 1)), func(rnd *rand.Rand) { l.order(ctx, rnd) })
	each(4*time.Second, rand.New(rand.NewPCG(rnd.Uint64(), 2)), func(rnd *rand.Rand) { l.edit(ctx, rnd) })
	if l.trees != nil {
		each(5*time.Second, rand.New(rand.NewPCG(rnd.Uint64(), 3)), func(rnd *rand.Rand) { l.meddle(ctx, rnd) })
		each(3*time.Second, rand.New(rand.NewPCG(rnd.Uint64(), 4)), func(rnd *rand.Rand) { l.answer(ctx, rnd) })
	}
	wg.Wait()
}

// start has the daemon work through the plan, or through a part of it.
func (l *life) start(ctx context.Context, in api.StartRun) api.Run {
	in.Dir, in.Yes = l.root, true
	run, err := l.d.StartRun(ctx, in)
	if err != nil && !l.isDead() && ctx.Err() == nil && !td.IsKind(err, td.Conflict) && !td.IsKind(err, td.NotFound) && !l.detached(err) {
		l.faultf("run: %v", err)
	}
	return run
}

// detached reports whether something was refused to a person who is in the middle of a rebase or a bisection, or was a moment ago.
func (l *life) detached(err error) bool {
	return l.trees != nil && td.IsKind(err, td.Refused) && strings.Contains(err.Error(), "is detached")
}

// order starts a run over some of the plan, or stops one.
func (l *life) order(ctx context.Context, rnd *rand.Rand) {
	if rnd.IntN(6) == 0 {
		l.stop(ctx, rnd)
		return
	}
	in := api.StartRun{Parallel: 1 + rnd.IntN(4)}
	if all := slices.Sorted(maps.Keys(l.fold(func(jsonl.Stamp) bool { return true }))); len(all) > 0 && rnd.IntN(3) == 0 {
		in.Target = string(all[rnd.IntN(len(all))])
	}
	if rnd.IntN(4) == 0 {
		in.Limit = 1 + rnd.IntN(5)
	}
	l.start(ctx, in)
}

// stop stops one of the runs that are open.
func (l *life) stop(ctx context.Context, rnd *rand.Rand) {
	open, err := l.d.journal.Runs(ctx, store.RunFilter{Open: true})
	if err != nil || len(open) == 0 {
		return
	}
	_, err = l.d.StopRun(ctx, api.StopRun{Run: open[rnd.IntN(len(open))].Run, By: "ann"})
	if err != nil && !l.isDead() && ctx.Err() == nil {
		l.faultf("stop a run: %v", err)
	}
}

// edit changes the plan in one way. What makes no sense is refused, which is fine.
func (l *life) edit(ctx context.Context, rnd *rand.Rand) {
	all := slices.Sorted(maps.Keys(l.fold(func(jsonl.Stamp) bool { return true })))
	some := func() string {
		if len(all) == 0 {
			return ""
		}
		return string(all[rnd.IntN(len(all))])
	}
	change := api.ChangePlan{Dir: l.root, Ref: some(), By: "ann"}
	var err error
	switch n := rnd.IntN(12); {
	case len(l.features) < l.shape.features && n < 8:
		var prd api.PRD
		if prd, err = l.d.CreatePRD(ctx, api.CreatePRD{Dir: l.root, Name: fmt.Sprint("feature ", len(l.features)), By: "ann"}); err == nil {
			l.features = append(l.features, string(prd.Task.ID))
		}
	case len(all) < 3 || n < 5 && len(all) < l.shape.tasks:
		t := api.PlanTask{Title: fmt.Sprint("task ", len(all))}
		for range rnd.IntN(3) {
			if b := some(); b != "" {
				t.Blockers = append(t.Blockers, b)
			}
		}
		switch n := rnd.IntN(6); {
		case n < 2:
			t.Parent = some()
		case n < 5 && len(l.features) > 0:
			t.Parent = l.features[rnd.IntN(len(l.features))]
		}
		_, err = l.d.Plan(ctx, api.Plan{Dir: l.root, Tasks: []api.PlanTask{t}})
	case n < 8:
		change.Verb, change.AddBlockers = api.PlanUpdate, []string{some()}
		_, err = l.d.ChangePlan(ctx, change)
	default:
		change.Verb = []api.PlanVerb{api.PlanDone, api.PlanFail, api.PlanReset, api.PlanDelete}[n-8]
		if change.Verb == api.PlanDelete && rnd.IntN(3) > 0 {
			return
		}
		_, err = l.d.ChangePlan(ctx, change)
	}
	switch td.KindOf(err) {
	case "", td.Conflict, td.NotFound, td.Unavailable, td.Interrupted, td.Invalid:
	default:
		if err != nil && ctx.Err() == nil && !l.isDead() {
			l.faultf("change the plan: %v", err)
		}
	}
}

// toTheEnd works on until the plan is through, or blocked.
func (l *life) toTheEnd() {
	rnd := rand.New(rand.NewPCG(l.seed, 9))
	for range 2000 {
		if l.trees != nil {
			l.trees.room.Store(true)
			l.trees.repo.Dirty(false)
			l.trees.repo.End(rnd.IntN(2) == 0)
			if l.answer(l.ctx, rnd) > 0 {
				<-time.After(time.Second)
				l.start(l.ctx, api.StartRun{Parallel: 2})
				continue
			}
		}
		if run := l.start(l.ctx, api.StartRun{Parallel: 2}); run.End != nil {
			<-time.After(3 * lookEvery)
			// What this run had start may need a person by now.
			if run := l.start(l.ctx, api.StartRun{Parallel: 2}); run.End != nil && (l.trees == nil || l.answer(l.ctx, rnd) == 0) {
				return
			}
		}
		<-time.After(time.Second)
		if l.t.Failed() {
			return
		}
	}
	l.faultf("the plan never comes to an end")
}

// told is a task as the log has it, folded the slow way.
type told struct {
	parent   string
	blockers []string
	verdict  *graph.Verdict
	deleted  bool
}

// changes are all that the log holds. It only grows.
func (w *world) changes() []jsonl.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := os.Open(filepath.Join(w.root, graph.Folder, graph.LogFile))
	if err != nil {
		w.faultf("read the log: %v", err)
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() == w.logSize {
		return w.log
	} else if err == nil {
		w.logSize = info.Size()
	}
	w.log = nil
	for e, err := range jsonl.Read(f, jsonl.Place{}) {
		if err != nil {
			w.faultf("read the log: %v", err)
		}
		if e.Bad != nil {
			w.faultf("a bad line: %v", e.Bad)
		} else if !e.Torn {
			w.log = append(w.log, e.Change)
		}
	}
	return w.log
}

// fold is what the chosen changes of the log add up to.
func (w *world) fold(chosen func(jsonl.Stamp) bool) map[td.TaskID]told {
	f := jsonl.NewFold()
	for _, c := range w.changes() {
		if chosen(c.Op) {
			f.Apply(c)
		}
	}
	out := map[td.TaskID]told{}
	for _, r := range f.Records() {
		t := told{blockers: r.Members("blockers"), deleted: r.Deleted()}
		if raw, ok := r.Field("parent"); ok {
			_ = json.Unmarshal(raw, &t.parent)
		}
		if raw, ok := r.Field("verdict"); ok {
			_ = json.Unmarshal(raw, &t.verdict)
		}
		out[r.ID] = t
	}
	return out
}

// stateIn is how a task ended by a fold, that of a container by those in it; empty: it has not.
func stateIn(all map[td.TaskID]told, id td.TaskID, deep int) td.State {
	counts, kids := map[td.State]int{}, 0
	for k, t := range all {
		if t.parent == string(id) && !t.deleted && deep < len(all) {
			counts[stateIn(all, k, deep+1)]++
			kids++
		}
	}
	switch {
	case kids == 0 && all[id].verdict == nil:
		return ""
	case kids == 0:
		return all[id].verdict.State
	case counts[td.Failed]+counts[td.Abandoned] > 0:
		return td.Failed
	case counts[td.Cancelled] == kids:
		return td.Cancelled
	case counts[td.Cancelled]+counts[td.Completed] == kids:
		return td.Completed
	}
	return ""
}

func satisfied(all map[td.TaskID]told, id td.TaskID) bool {
	t, known := all[id]
	return known && t.deleted || stateIn(all, id, 0) == td.Completed
}

// mayBegin holds against the log that a task begins an iteration. What others write at the same instant may have come before
// or after.
func (l *life) mayBegin(id td.TaskID) {
	now := time.Now().UnixMilli()
	before := l.fold(func(op jsonl.Stamp) bool { return op.Time().UnixMilli() < now })
	all := l.fold(func(jsonl.Stamp) bool { return true })
	if was, is := before[id].verdict, all[id].verdict; was != nil && is != nil && was.Run != "" && was.State == td.Completed {
		l.faultf("%s begins again: it was completed by a run, and nobody opened it", id)
	}
	// What is in a task that was deleted is in nothing any more.
	for up, steps := id, 0; up != "" && !all[up].deleted && steps <= len(before); up, steps = td.TaskID(before[up].parent), steps+1 {
		for _, b := range before[up].blockers {
			if slices.Contains(all[up].blockers, b) && !satisfied(before, td.TaskID(b)) && !satisfied(all, td.TaskID(b)) {
				l.faultf("%s begins although %s waits for %s, which is %q", id, up, b, stateIn(all, td.TaskID(b), 0))
			}
		}
	}
}

// mayReset holds against the log that a task which had ended begins anew: each time somebody has to have opened it.
func (l *life) mayReset(id td.TaskID) {
	opened := l.opened(id)
	l.world.mu.Lock()
	l.resets[id]++
	resets := l.resets[id]
	l.world.mu.Unlock()
	if resets > opened {
		l.story(id)
		l.faultf("%s begins anew for the %d. time, and was opened %d times", id, resets, opened)
	}
}

// story is what happened to a task by the log of its graph and by the journal, for whoever looks for the cause of a fault.
func (w *world) story(id td.TaskID) {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, c := range w.changes() {
		if c.Task == id {
			raw, _ := json.Marshal(map[string]any{"set": c.Set, "add": c.Add, "remove": c.Remove})
			lines = append(lines, line{c.Op.Time(), "graph " + string(raw)})
		}
	}
	for ev, err := range w.journal.Follow(w.t.Context(), store.EventFilter{Tasks: []td.TaskID{id}, NoFuture: true}, 0) {
		if err != nil {
			break
		}
		raw, _ := json.Marshal(ev.Body)
		lines = append(lines, line{ev.At, fmt.Sprintf("journal %s %s %.300s", ev.Body.Type(), ev.Takes, raw)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		w.t.Logf("%s %s", l.at.UTC().Format("04:05.000"), l.text)
	}
}

// opened is how often the end of a task was taken back.
func (w *world) opened(id td.TaskID) (n int) {
	for _, c := range w.changes() {
		if raw, ok := c.Set["verdict"]; ok && c.Task == id && string(raw) == "null" {
			n++
		}
	}
	return n
}

// agree holds journal, log and what the daemon says against each other when all is done.
func (w *world) agree(l *life) {
	closed := map[td.TaskID]bool{}
	for _, c := range w.changes() { // the log is in the order of its ops: one clone wrote it
		raw, ok := c.Set["verdict"]
		if !ok {
			continue
		}
		var v *graph.Verdict
		if err := json.Unmarshal(raw, &v); err != nil {
			w.faultf("a verdict: %v", err)
		}
		if v != nil && v.Run != "" && closed[c.Task] {
			w.faultf("%s was closed twice: %s", c.Task, raw)
		}
		closed[c.Task] = v != nil
	}
	all := w.fold(func(jsonl.Stamp) bool { return true })
	w.planned = len(all)
	for id, t := range all {
		if t.deleted {
			continue
		}
		p, err := l.d.PlannedTask(l.ctx, w.root, string(id))
		if err != nil {
			w.faultf("look at %s: %v", id, err)
			continue
		}
		if want := stateIn(all, id, 0); want != p.State && (want != "" || p.State.Terminal()) {
			w.faultf("%s is %s, by its log %q", id, p.State, want)
		}
		j, err := w.journal.Task(l.ctx, id)
		if err != nil || p.Container {
			continue // never started, or a container by now
		}
		switch v := t.verdict; {
		case v == nil && j.Status.State.Terminal() && !w.reopened(id):
			w.faultf("%s is %s in the journal and open in the graph", id, j.Status.State)
		case v != nil && v.Run != "" && v.State != j.Status.State:
			w.faultf("%s is %s in the journal and %s in the graph", id, j.Status.State, v.State)
		case v != nil && !j.Status.State.Terminal():
			w.faultf("%s is %s in the journal and was closed as %s", id, j.Status.State, v.State)
		}
	}
}

// reopened reports whether the end of a task was taken back.
func (w *world) reopened(id td.TaskID) (open bool) {
	for _, c := range w.changes() {
		if raw, ok := c.Set["verdict"]; ok && c.Task == id {
			open = string(raw) == "null"
		}
	}
	return open
}
