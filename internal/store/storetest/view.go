package storetest

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

func viewTasks(t *testing.T, f *fixture) {
	made := map[string]td.Task{}
	for _, x := range []struct {
		title    string
		priority int
	}{{"late", 4}, {"first", 0}, {"second", 0}, {"middle", 2}} {
		s := spec(x.title, f.tick())
		s.Priority, s.Rehearsal = x.priority, "script"
		task, err := f.Create(f.ctx, s, "")
		must(t, err)
		made[x.title] = task
	}
	run := made["middle"]
	c := f.claim(run.ID, 1)
	f.move(c, run, func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) })

	list := func(filter store.TaskFilter, want ...string) {
		t.Helper()
		got, err := f.Tasks(f.ctx, filter)
		must(t, err)
		var titles []string
		for _, x := range got {
			titles = append(titles, x.Title)
			if filter.Brief != (x.Prompt == "") || filter.Brief != (x.Rehearsal == "") {
				t.Errorf("brief is %v, and the prompt %q", filter.Brief, x.Prompt)
			}
		}
		equal(t, "titles", titles, want)
	}
	list(store.TaskFilter{}, "first", "second", "middle", "late")
	list(store.TaskFilter{Brief: true, Limit: 3}, "first", "second", "middle")
	list(store.TaskFilter{States: []td.State{td.Running}}, "middle")
	list(store.TaskFilter{States: []td.State{td.Queued}, Limit: 1}, "first")
	list(store.TaskFilter{States: store.Live, Dir: "/w/late"}, "late")
	list(store.TaskFilter{States: []td.State{td.Failed}})
	counts, err := f.Counts(f.ctx)
	must(t, err)
	equal(t, "counts", counts, map[td.State]int{td.Queued: 3, td.Running: 1})
	_, err = f.Task(f.ctx, td.NewTaskID())
	wantKind(t, err, td.NotFound)
}

func viewResolve(t *testing.T, f *fixture) {
	a, b := f.create("alpha"), f.create("beta")
	finds := func(ref string, want td.TaskID) {
		t.Helper()
		got, err := f.Resolve(f.ctx, ref)
		must(t, err)
		equal(t, ref, got, want)
	}
	finds(string(a.ID), a.ID)
	finds(b.Handle, b.ID)
	finds(" "+strings.ToUpper(b.Handle)+" ", b.ID)
	finds(b.Handle[2:], b.ID)
	finds(a.Handle[:9], a.ID)
	for _, ref := range []string{"", "   ", "nothing like this", "%", "_", "'; DROP TABLE tasks; --"} {
		_, err := f.Resolve(f.ctx, ref)
		wantKind(t, err, td.NotFound)
	}
	_, err := f.Resolve(f.ctx, "t-")
	wantKind(t, err, td.Ambiguous)
	for _, x := range []td.Task{a, b} {
		if !strings.Contains(err.Error(), x.Handle) || !strings.Contains(err.Error(), x.Title) {
			t.Errorf("the candidates do not name %s (%s): %v", x.Handle, x.Title, err)
		}
	}
	// A whole handle wins over a longer one that contains it.
	s := spec("longer", f.tick())
	s.ID = s.ID[:19] + a.ID[19:]
	s.Handle = a.Handle
	longer, err := f.Create(f.ctx, s, "")
	must(t, err)
	finds(a.Handle[2:], a.ID)
	finds(longer.Handle, longer.ID)
}

func viewResolveRequests(t *testing.T, f *fixture) {
	task, c := f.running("asks")
	r := td.Request{ID: td.NewRequestID(), Kind: td.AskQuestion, Prompt: "which?", AskedAt: f.tick()}
	task = f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Ask(t, r, at) })
	for range 2 {
		for _, ref := range []string{string(r.ID), r.Handle(), r.Handle()[2:], r.Handle()[:8]} {
			got, err := f.Resolve(f.ctx, ref)
			must(t, err)
			equal(t, ref, got, task.ID)
		}
		f.again()
	}
	f.sound()
	task = f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) {
		return td.TakeAnswer(t, td.Answer{Request: r.ID, Choice: "this"}, at)
	})
	_, err := f.Resolve(f.ctx, r.Handle())
	wantKind(t, err, td.NotFound)
	task = f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Ask(t, r, at) })
	f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "no more", at) })
	_, err = f.Resolve(f.ctx, r.Handle())
	wantKind(t, err, td.NotFound)
	f.sound()
}
