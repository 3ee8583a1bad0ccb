package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/td"
)

const (
	graphAsks = 200
	// published is what beads says its ready set takes at 10,000 issues.
	published = 30.0 // ms
)

// planned gives a house a project with n tasks that wait for so many others each; if there are any, the first half is completed.
func (h *house) planned(n, edges int) string {
	h.b.Helper()
	dir := h.path(fmt.Sprintf("plan-%d-%d", n, edges))
	if err := graph.Make(dir); err != nil {
		h.b.Fatal(err)
	}
	clock, err := jsonl.NewClock("bench", time.Now)
	if err != nil {
		h.b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]td.TaskID, n)
	var log []byte
	for i := range n {
		ids[i] = td.NewTaskID()
		c := jsonl.Change{Op: clock.Next(), Task: ids[i], Set: map[string]json.RawMessage{
			"title": json.RawMessage(fmt.Sprintf(`"task number %d of the plan"`, i)), "priority": json.RawMessage(fmt.Sprint(r.IntN(5))),
			"text": json.RawMessage(`"Change what has to be changed so that the thing works as the plan says, with a test that shows it."`),
		}}
		if edges > 0 && i < n/2 {
			c.Set["verdict"] = json.RawMessage(`{"state":"completed","at":"2026-01-02T03:04:05Z"}`)
		}
		if i >= edges && edges > 0 {
			blockers := map[string]bool{}
			for range edges {
				blockers[string(ids[r.IntN(i)])] = true
			}
			for id := range blockers {
				c.Add = map[string][]string{"blockers": append(c.Add["blockers"], id)}
			}
		}
		if log, err = jsonl.Append(log, c); err != nil {
			h.b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, graph.Folder, graph.LogFile), log, 0o644); err != nil {
		h.b.Fatal(err)
	}
	return dir
}

// ask asks for what may run now.
func (h *house) ask(dir string, limit int) ([]api.Planned, time.Duration) {
	h.b.Helper()
	begun := time.Now()
	ready, err := h.svc.Planned(h.b.Context(), api.PlanQuery{Dir: dir, Ready: true, Limit: limit})
	if err != nil {
		h.b.Fatal(err)
	}
	return ready, time.Since(begun)
}

// BenchmarkGraph measures planned tasks through the socket: what may run now, after a task has been closed each time, and
// adding a thousand that wait for each other.
func BenchmarkGraph(b *testing.B) {
	h := newHouse(b, "turns: [{tools: [{name: Ask, input: {question: what now?}}]}]", llmtest.Options{})
	h.start().answers()
	for _, c := range []struct {
		n, edges, limit int
		most            float64 // ms
	}{{10_000, 3, 10, published / 20}, {100_000, 3, 10, 5}, {10_000, 0, 0, 0}} {
		name := fmt.Sprintf("ready/%d-%d", c.n, c.edges)
		b.Run(name, func(b *testing.B) {
			h.b = b
			dir := h.planned(c.n, c.edges)
			found, _ := h.ask(dir, c.limit)
			asks := graphAsks
			if c.limit == 0 {
				asks = 10
			}
			var ours sample
			for i := range asks {
				change := api.ChangePlan{Dir: dir, Ref: string(found[0].ID), Verb: api.PlanDone}
				if i%2 == 1 {
					change.Verb = api.PlanReset
				}
				if _, err := h.svc.ChangePlan(b.Context(), change); err != nil {
					b.Fatal(err)
				}
				_, took := h.ask(dir, c.limit)
				ours = append(ours, took)
			}
			if c.limit == 0 {
				figures.add(fmt.Sprintf("all of %d planned tasks, which may run", len(found)), fmt.Sprintf("%.0f µs a task", ours.at(0.5)*1000/float64(len(found))), "",
					"p50 / p95 "+ours.both())
			} else {
				figures.add(fmt.Sprintf("of %d planned tasks with %d edges each, %d that may run", c.n, c.edges, len(found)), fmt.Sprintf("%.0f × as fast as 30 ms", published/ours.at(0.5)),
					goal(fmt.Sprintf("≤ %.1f ms", c.most), ours.at(0.5) <= c.most), "p50 / p95 "+ours.both())
			}
			report(b, map[string]float64{"p50-ms": ours.at(0.5), "p95-ms": ours.at(0.95), "tasks": float64(len(found))})
		})
	}
	b.Run("add", func(b *testing.B) {
		h.b = b
		const n = 1000
		tasks := make([]api.PlanTask, n)
		for i := range tasks {
			tasks[i] = api.PlanTask{Title: fmt.Sprint("task ", i)}
			if i > 0 {
				tasks[i].Blockers = []string{fmt.Sprint("@", i)}
			}
		}
		dir := h.planned(1, 0)
		begun := time.Now()
		if _, err := h.svc.Plan(b.Context(), api.Plan{Dir: dir, Tasks: tasks}); err != nil {
			b.Fatal(err)
		}
		batch := time.Since(begun).Seconds() * 1000
		begun = time.Now()
		var last string
		for i := range n {
			t := api.PlanTask{Title: fmt.Sprint("task ", i)}
			if last != "" {
				t.Blockers = []string{last}
			}
			added, err := h.svc.Plan(b.Context(), api.Plan{Dir: dir, Tasks: []api.PlanTask{t}})
			if err != nil {
				b.Fatal(err)
			}
			last = string(added[0].ID)
		}
		single := time.Since(begun).Seconds() * 1000
		bare := syncedAppends(b, n).Seconds() * 1000
		figures.add("1,000 planned tasks in one batch / one by one", fmt.Sprintf("%.1f / %.1f × synced appends", batch/bare, single/bare), "",
			fmt.Sprintf("%.0f / %.0f ms; bare %.0f ms", batch, single, bare))
		report(b, map[string]float64{"batch-ms": batch, "single-ms": single, "bare-ms": bare})
	})
}

// syncedAppends is how long so many small appends take that are synced one by one.
func syncedAppends(b *testing.B, n int) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	begun := time.Now()
	for range n {
		if _, err := f.Write(make([]byte, 256)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begun)
}
