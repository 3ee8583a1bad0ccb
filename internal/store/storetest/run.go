package storetest

import (
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// runNames are the runs over graphs that a query finds, in its order.
func (f *fixture) runNames(q store.RunFilter) (out []string) {
	f.t.Helper()
	found, err := f.Runs(f.ctx, q)
	must(f.t, err)
	for _, g := range found {
		out = append(out, g.Run)
	}
	return out
}

func runsFolded(t *testing.T, f *fixture) {
	equal(t, "of nothing", f.runNames(store.RunFilter{}), nil)
	c := f.claim(td.DaemonStream, 1)
	head := uint64(0)
	write := func(at time.Time, bodies ...td.Body) {
		t.Helper()
		var evs []td.Event
		for _, b := range bodies {
			evs = append(evs, td.Event{At: at, Body: b})
		}
		head = f.append(c, head, evs...).Head
	}
	order := td.GraphOrder{
		Run: "r1", Key: "k", Project: "/p", Target: td.NewTaskID(), By: "ann", Parallel: 3, Limit: 7, Strategy: td.Escalate, Verify: true,
		Model: "m", Yes: true, Permissions: td.PermissionModes[0], Budget: 5, Rehearsal: "turns: []",
	}
	began := f.tick()
	write(began, td.GraphRunOrdered{Order: order}, td.GraphRunOrdered{Order: td.GraphOrder{Run: "r2", Project: "/p", Parallel: 1}})
	write(f.tick(), td.GraphRunOrdered{Order: td.GraphOrder{Run: "r3", Project: "/q", Parallel: 1}})
	first := f.all(store.EventFilter{Types: []td.EventType{"graph_run_ordered"}}, 0)[0].Cursor
	ended := f.tick()
	write(ended, td.GraphRunStopped{Run: "r1", Stop: td.GraphStop{Outcome: td.RunInterrupted, By: "bob"}},
		td.GraphRunEnded{Run: "r2", End: td.GraphEnd{Outcome: td.RunComplete, Completed: 2, Iterations: 3}})
	for range 2 {
		equal(t, "all", f.runNames(store.RunFilter{}), []string{"r3", "r2", "r1"})
		equal(t, "newest", f.runNames(store.RunFilter{Limit: 1}), []string{"r3"})
		equal(t, "open", f.runNames(store.RunFilter{Open: true}), []string{"r3", "r1"})
		equal(t, "of a project", f.runNames(store.RunFilter{Project: "/p"}), []string{"r2", "r1"})
		found, err := f.Runs(f.ctx, store.RunFilter{Run: "r1"})
		must(t, err)
		want := td.GraphRun{
			GraphOrder: order, From: first, StartedAt: began, Stop: &td.GraphStop{Outcome: td.RunInterrupted, By: "bob", At: first + 3},
		}
		equal(t, "one that is to stop", found, []td.GraphRun{want})
		found, err = f.Runs(f.ctx, store.RunFilter{Run: "r2"})
		must(t, err)
		equal(t, "an end", *found[0].End, td.GraphEnd{Outcome: td.RunComplete, At: ended, Completed: 2, Iterations: 3})
		f.again()
	}
	c = f.claim(td.DaemonStream, 1)
	order.Parallel = 1
	write(f.tick(), td.GraphRunEnded{Run: "r1", End: td.GraphEnd{Outcome: td.RunInterrupted}})
	equal(t, "open", f.runNames(store.RunFilter{Open: true}), []string{"r3"})
	write(f.tick(), td.GraphRunOrdered{Order: order})
	found, err := f.Runs(f.ctx, store.RunFilter{Run: "r1", Open: true})
	must(t, err)
	equal(t, "ordered again", found, []td.GraphRun{{GraphOrder: order, From: first, StartedAt: began}})
	f.sound()
}

func runsTrimmed(t *testing.T, f *fixture) {
	c := f.claim(td.DaemonStream, 1)
	at := f.tick()
	f.append(c, 0,
		td.Event{At: at, Body: td.GraphRunOrdered{Order: td.GraphOrder{Run: "open", Project: "/p", Parallel: 1}}},
		td.Event{At: at, Body: td.GraphRunOrdered{Order: td.GraphOrder{Run: "over", Project: "/p", Parallel: 1}}},
		td.Event{At: at, Body: td.GraphRunEnded{Run: "over", End: td.GraphEnd{Outcome: td.RunBlocked}}},
		td.Event{At: f.tick(), Body: td.DaemonStopped{}})
	_, err := f.Trim(f.ctx, store.Retention{Now: at.Add(100 * day), Completed: day, Failed: day, Audit: 90 * day, Mirrored: 1 << 60})
	must(t, err)
	for range 2 {
		equal(t, "what is left", f.runNames(store.RunFilter{}), []string{"open"})
		f.again()
	}
	f.sound()
}
