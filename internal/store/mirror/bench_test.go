package mirror

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// BenchmarkThousandStart mirrors a thousand tasks that start at once and run three turns each, their
// events mixed as a daemon writes them.
func BenchmarkThousandStart(b *testing.B) {
	const tasks = 1000
	for b.Loop() {
		j := newJournal()
		lives := make([][]td.Body, tasks)
		for i := range lives {
			lives[i] = life(task(i+1), 3)
		}
		for n := range lives[0] {
			for i := range lives {
				j.add(task(i+1), lives[i][n])
			}
		}
		m := New(Options{Journal: j, Path: filepath.Join(b.TempDir(), "c.git")})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error)
		began := time.Now()
		go func() { done <- m.Run(ctx) }()
		for m.Mirrored() < j.last() {
			runtime.Gosched()
			<-time.After(time.Millisecond)
		}
		took := time.Since(began)
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(j.last())/took.Seconds(), "events/s")
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		b.ReportMetric(float64(mem.HeapAlloc)/(1<<20), "MiB")
	}
}

// BenchmarkCheckpoint is the cost of one task's next checkpoint, flushed at once.
func BenchmarkCheckpoint(b *testing.B) {
	j := newJournal()
	m := New(Options{Journal: j, Path: filepath.Join(b.TempDir(), "c.git")})
	j.add(task(1), life(task(1), 0)[:3]...)
	for b.Loop() {
		j.add(task(1), td.Said{Text: "go on", By: "ann"})
		if _, err := m.Flush(b.Context(), task(1)); err != nil {
			b.Fatal(err)
		}
	}
}
