package bench

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

const (
	appendRounds = 7
	appendSlice  = 300 * time.Millisecond
)

// text is the event's: with what goes around it in the journal it makes about half a KiB.
var text = strings.Repeat("0123456789abcdef", 24)

// BenchmarkAppend counts durable appends of one event, each writer to a task of its own, and raw appends
// of the same bytes with an fdatasync each, in short slices by turns.
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
	inPlace, growing := newRaw(b, dir, "in-place", true), newRaw(b, dir, "growing", false)
	counts := []int{1, 16, 256}
	writers := make([]*streams, len(counts))
	for i, n := range counts {
		writers[i] = newStreams(b, s, n)
		writers[i].rate(b, s, appendSlice) // the first of everything is slow
	}
	var place, grow, ofRaw, ofOne, work []float64
	rates := make([][]float64, len(counts))
	for range appendRounds {
		raw := inPlace.rate(b, appendSlice)
		place, grow = append(place, raw), append(grow, growing.rate(b, appendSlice))
		for i, w := range writers {
			rate, each := w.rate(b, s, appendSlice)
			rates[i] = append(rates[i], rate)
			if i == len(writers)-1 {
				work = append(work, float64(each)/float64(time.Microsecond))
			}
		}
		last := len(place) - 1
		ofRaw = append(ofRaw, rates[0][last]/raw)
		ofOne = append(ofOne, rates[2][last]/rates[0][last])
	}
	raws := fmt.Sprintf("raw fdatasync %.0f/s in place, %.0f/s on a growing file", median(place), median(grow))
	figures.add("durable appends, 1 writer", fmt.Sprintf("%.2f of raw", median(ofRaw)),
		goal("≥ 0.25", median(ofRaw) >= 0.25), fmt.Sprintf("%.0f/s; %s", median(rates[0]), raws))
	figures.add("durable appends, 16 writers", fmt.Sprintf("%.1f × 1 writer", median(rates[1])/median(rates[0])), "",
		fmt.Sprintf("%.0f/s", median(rates[1])))
	figures.add("durable appends, 256 writers", fmt.Sprintf("%.1f × 1 writer", median(ofOne)),
		goal("≥ 8", median(ofOne) >= 8), fmt.Sprintf("%.0f/s; %.1f µs of processor each", median(rates[2]), median(work)))
	report(b, map[string]float64{
		"/raw": median(ofRaw), "/1-writer": median(ofOne), "raw/s": median(place),
		"w1/s": median(rates[0]), "w16/s": median(rates[1]), "w256/s": median(rates[2]), "w256-cpu-µs": median(work),
	})
}

// raw is a file that is written and synced with nothing around it. In place is the harder rival: a file
// that grows has its size to write as well, and the journal's log seldom grows.
type raw struct {
	f    *os.File
	size int64
	at   int64
	wrap bool
}

func newRaw(b *testing.B, dir, name string, inPlace bool) *raw {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	r := &raw{f: f, size: 4 << 20, wrap: inPlace}
	if inPlace {
		if _, err := f.Write(make([]byte, r.size)); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return r
}

func (r *raw) rate(b *testing.B, d time.Duration) float64 {
	b.Helper()
	record := make([]byte, 512)
	n, begun := 0, time.Now()
	for ; time.Since(begun) < d; n++ {
		if r.wrap && r.at >= r.size {
			r.at = 0
		}
		if _, err := r.f.WriteAt(record, r.at); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(r.f.Fd())); err != nil {
			b.Fatal(err)
		}
		r.at += int64(len(record))
	}
	return float64(n) / time.Since(begun).Seconds()
}

// streams are running tasks, one for each writer.
type streams struct {
	claims []td.Claim
	heads  []uint64
}

func newStreams(b *testing.B, s *sqlite.Store, n int) *streams {
	b.Helper()
	w := &streams{claims: make([]td.Claim, n), heads: make([]uint64, n)}
	for i := range n {
		id := td.NewTaskID()
		task, err := s.Create(b.Context(), td.Spec{ID: id, Title: "a task", Prompt: "do it", Dir: "/tmp", CreatedAt: time.Now()}, string(id))
		if err != nil {
			b.Fatal(err)
		}
		if w.claims[i], err = s.Claim(b.Context(), id, td.Holder{Host: "here", Pid: os.Getpid()}); err != nil {
			b.Fatal(err)
		}
		m, err := td.Start(task, td.NewRunID(), time.Now())
		if err != nil {
			b.Fatal(err)
		}
		if task, err = s.Append(b.Context(), w.claims[i], task.Head, m.Events...); err != nil {
			b.Fatal(err)
		}
		w.heads[i] = task.Head
	}
	return w
}

// rate is how many appends a second there were, and how much of the processor each took, its caller's part
// included: with many writers that is what bounds them, not the disk.
func (w *streams) rate(b *testing.B, s *sqlite.Store, d time.Duration) (perSecond float64, each time.Duration) {
	b.Helper()
	used := processorTime(b)
	var n atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range w.claims {
		wg.Go(func() {
			for time.Since(begun) < d {
				t, err := s.Append(b.Context(), w.claims[i], w.heads[i], td.Event{At: time.Now(), Body: td.Said{Text: text, By: "bench"}})
				if err != nil {
					b.Error(err)
					return
				}
				w.heads[i] = t.Head
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(begun).Seconds(), (processorTime(b) - used) / time.Duration(max(n.Load(), 1))
}

// processorTime is what this process has used of all cores.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
