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
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// bustle is people at work until ctx ends: one asks for the next task again and again, one changes the plan.
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
	each(3*time.Second, rand.New(rand.NewPCG(rnd.Uint64(), 1)), func(*rand.Rand) { l.next(ctx) })
	each(4*time.Second, rand.New(rand.NewPCG(rnd.Uint64(), 2)), func(rnd *rand.Rand) { l.edit(ctx, rnd) })
	wg.Wait()
}

func (l *life) next(ctx context.Context) api.RunStep {
	step, err := l.d.RunNext(ctx, api.RunNext{Dir: l.root, Run: "r", Yes: true})
	if err != nil && !l.isDead() && ctx.Err() == nil && !td.IsKind(err, td.Conflict) {
		l.faultf("run: %v", err)
	}
	return step
}

// mostTasks bounds a plan.
const mostTasks = 25

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
	case len(all) < 3 || n < 5 && len(all) < mostTasks:
		t := api.PlanTask{Title: fmt.Sprint("task ", len(all))}
		for range rnd.IntN(3) {
			if b := some(); b != "" {
				t.Blockers = append(t.Blockers, b)
			}
		}
		if rnd.IntN(3) == 0 {
			t.Parent = some()
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
	for range 2000 {
		if step := l.next(l.ctx); step.Outcome != "" {
			<-time.After(3 * lookEvery)
			if step := l.next(l.ctx); step.Outcome != "" {
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

// changes are all that the log holds.
func (w *world) changes() (out []jsonl.Change) {
	f, err := os.Open(filepath.Join(w.root, graph.Folder, graph.LogFile))
	if err != nil {
		w.faultf("read the log: %v", err)
		return nil
	}
	defer f.Close()
	for e, err := range jsonl.Read(f, jsonl.Place{}) {
		if err != nil {
			w.faultf("read the log: %v", err)
		}
		if e.Bad != nil {
			w.faultf("a bad line: %v", e.Bad)
		} else if !e.Torn {
			out = append(out, e.Change)
		}
	}
	return out
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
	for up, steps := id, 0; up != "" && steps <= len(before); up, steps = td.TaskID(before[up].parent), steps+1 {
		for _, b := range before[up].blockers {
			if slices.Contains(all[up].blockers, b) && !satisfied(before, td.TaskID(b)) && !satisfied(all, td.TaskID(b)) {
				l.faultf("%s begins although %s waits for %s, which is %q", id, up, b, stateIn(all, td.TaskID(b), 0))
			}
		}
	}
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
