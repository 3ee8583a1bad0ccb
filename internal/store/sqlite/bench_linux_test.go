package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

// fdatasyncRate is how many times a second this disk makes one written page durable, overwriting a
// file in place: the fastest that any journal on it could acknowledge one writer.
func fdatasyncRate(b *testing.B, dir string) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	const pages = 1000
	for i := range pages {
		if _, err := f.WriteAt(page, int64(i)*4096); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	n := 0
	for ; time.Since(start) < time.Second; n++ {
		if _, err := f.WriteAt(page, int64(n%pages)*4096); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(start).Seconds()
}

// BenchmarkAppend measures durable appends of one event of half a KiB, each writer to a task of its own,
// beside the raw rate of the same disk in the same run. "of_raw" is appends per raw fdatasync, "of_one"
// appends per append of a single writer.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	s, err := sqlite.Open(b.Context(), sqlite.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	text := strings.Repeat("0123456789abcdef", 32)
	var one float64
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			raw := fdatasyncRate(b, dir)
			claims, heads := make([]td.Claim, writers), make([]uint64, writers)
			for i := range writers {
				claims[i], heads[i] = startTask(b, s)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for i := range writers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						t, err := s.Append(b.Context(), claims[i], heads[i], td.Event{At: time.Now(), Body: td.Said{Text: text, By: "bench"}})
						if err != nil {
							b.Error(err)
							return
						}
						heads[i] = t.Head
					}
				})
			}
			wg.Wait()
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.StopTimer()
			raw = (raw + fdatasyncRate(b, dir)) / 2 // before and after: the disk may be shared
			if writers == 1 {
				one = rate
			}
			b.ReportMetric(rate, "appends/s")
			b.ReportMetric(raw, "raw/s")
			b.ReportMetric(rate/raw, "of_raw")
			if one > 0 {
				b.ReportMetric(rate/one, "of_one")
			}
		})
	}
}

func startTask(t testing.TB, s *sqlite.Store) (td.Claim, uint64) {
	t.Helper()
	id := td.NewTaskID()
	task, err := s.Create(t.Context(), td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength),
		Title: "a task", Prompt: "do it", Dir: "/tmp", CreatedAt: time.Now(),
	}, string(id))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), id, td.Holder{Host: "here", Pid: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := td.Start(task, td.NewRunID(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if task, err = s.Append(t.Context(), c, task.Head, m.Events...); err != nil {
		t.Fatal(err)
	}
	return c, task.Head
}
