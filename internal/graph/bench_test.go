package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// large is the log of n tasks with three blockers each.
func large(b *testing.B, n int) []byte {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	clock, err := jsonl.NewClock("bench", time.Now)
	if err != nil {
		b.Fatal(err)
	}
	var ids []td.TaskID
	var out []byte
	for i := range n {
		t := Task{
			ID: td.NewTaskID(), Title: fmt.Sprintf("task number %d of the plan", i), Kind: td.KindTask, Priority: r.IntN(5), CreatedBy: "bench",
			Text: "Change what has to be changed so that the thing works as the plan says, with a test that shows it.", Labels: []string{"bench"},
		}
		for range min(i, 3) {
			t.Blockers = append(t.Blockers, ids[r.IntN(i)])
		}
		ids = append(ids, t.ID)
		c, err := created(t)
		if err != nil {
			b.Fatal(err)
		}
		c.Op = clock.Next()
		if out, err = jsonl.Append(out, c.Change); err != nil {
			b.Fatal(err)
		}
	}
	return out
}

// BenchmarkRebuild makes the index of 100,000 tasks anew, by turns with reading and decoding the same bytes. The goal
// is less than four times that.
func BenchmarkRebuild(b *testing.B) {
	text := large(b, 100_000)
	root := project(b)
	path := filepath.Join(root, Folder, LogFile)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		b.Fatal(err)
	}
	var ours, plain time.Duration
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		raw, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			var v map[string]any
			if err := json.Unmarshal(line, &v); err != nil {
				b.Fatal(err)
			}
		}
		plain += time.Since(begun)
		begun = time.Now()
		s, err := Open(b.Context(), Options{Root: root, Index: filepath.Join(b.TempDir(), fmt.Sprint(i))})
		if err != nil {
			b.Fatal(err)
		}
		ours += time.Since(begun)
		s.Close()
	}
	b.ReportMetric(float64(ours)/float64(plain), "/decoding")
	b.ReportMetric(ours.Seconds()/float64(b.N), "s")
}

// BenchmarkReopen opens a graph of 100,000 tasks whose index is there.
func BenchmarkReopen(b *testing.B) {
	root := project(b)
	if err := os.WriteFile(filepath.Join(root, Folder, LogFile), large(b, 100_000), 0o644); err != nil {
		b.Fatal(err)
	}
	index := filepath.Join(b.TempDir(), "index")
	for b.Loop() {
		s, err := Open(b.Context(), Options{Root: root, Index: index})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkAdd adds 1,000 tasks, each waiting for the one before, in one batch and one by one, durably, by turns
// with as many bare appends that are synced.
func BenchmarkAdd(b *testing.B) {
	const n = 1000
	chain := func() []Task {
		tasks := make([]Task, n)
		for i := range tasks {
			tasks[i] = Task{ID: td.NewTaskID(), Title: fmt.Sprint("task ", i)}
			if i > 0 {
				tasks[i].Blockers = []td.TaskID{tasks[i-1].ID}
			}
		}
		return tasks
	}
	var batch, single, bare time.Duration
	for i := 0; b.Loop(); i++ {
		s, _ := fresh(b)
		begun := time.Now()
		add(b, s, chain()...)
		batch += time.Since(begun)
		begun = time.Now()
		for _, t := range chain() {
			add(b, s, t)
		}
		single += time.Since(begun)
		f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
		if err != nil {
			b.Fatal(err)
		}
		begun = time.Now()
		for range n {
			if _, err := f.Write(make([]byte, 256)); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(begun)
		_ = f.Close()
	}
	b.ReportMetric(float64(batch)/float64(bare), "batch/bare")
	b.ReportMetric(float64(single)/float64(bare), "single/bare")
	b.ReportMetric(batch.Seconds()/float64(b.N)*1000, "batch-ms")
	b.ReportMetric(single.Seconds()/float64(b.N)*1000, "single-ms")
}

// BenchmarkEach reads all of 10,000 tasks.
func BenchmarkEach(b *testing.B) {
	root := project(b)
	if err := os.WriteFile(filepath.Join(root, Folder, LogFile), large(b, 10_000), 0o644); err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), Options{Root: root, Index: filepath.Join(b.TempDir(), "index")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var ids []td.TaskID
	if err := s.View(b.Context(), func(g *workgraph.Graph) { ids = g.InOrder("") }); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n := 0
		if err := s.Each(b.Context(), ids, func(*Task, *workgraph.Graph) { n++ }); err != nil || n != len(ids) {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(ids)), "µs/task")
}
