package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

const (
	lookedAt    = 200 // loops
	lookTurns   = 40
	lookRounds  = 3
	subscribers = 200
	followEach  = 5
	// lookEvery is how long the model takes for an answer: 200 loops with four records a turn make 5,000 of them a second.
	lookEvery = 160 * time.Millisecond
	// lookNoise is how much slower a turn may be for it to count as unchanged.
	lookNoise = 1.2
)

// BenchmarkSubscribers measures turns while 200 subscribers follow them, each five of 200 loops, and one of them never reads, against
// the same loops with nobody looking on. The loops make 5,000 durable events a second, or as many as the machine can.
func BenchmarkSubscribers(b *testing.B) {
	script := fmt.Sprintf(`
turns:
  - {text: not yet, latency: 5s, tools: [{name: Read, input: {path: %[1]s}}]}
  - {repeat: %[2]d, latency: %[3]s, tools: [{name: Read, input: {path: %[1]s}}]}
  - tools: [{name: Complete, input: {summary: done}}]
`, smallFile, lookTurns, lookEvery)
	h := furnish(b, "provider: rehearsal", fmt.Sprintf("limits: {loops: %d, turns: 1000}", lookedAt), "drift: {repeats: 0}")
	d := h.start()
	d.answers()
	var alone, watched [][]td.TaskID
	var told atomic.Int64
	nobody := func([]td.TaskID) func() { return func() {} }
	everybody := func(ids []td.TaskID) func() { return h.follow(ids, &told) }
	var needed [2]time.Duration // of the processor, with nobody and with everybody
	for range lookRounds {
		begun := d.processor()
		alone = append(alone, h.crowd(d, script, nobody))
		between := d.processor()
		watched = append(watched, h.crowd(d, script, everybody))
		needed[0] += between - begun
		needed[1] += d.processor() - between
	}
	d.kill()
	s := h.journal()
	turnsOf := func(ids []td.TaskID) (out sample, rate float64) {
		var first, last time.Time
		n := 0
		for _, id := range ids {
			evs := events(b, s, id)
			out = append(out, overheads(evs)[1:]...) // the first came after a pause
			steps := slices.IndexFunc(evs, func(ev td.Event) bool { return ev.Body.Type() == td.StepEnded{}.Type() })
			n += len(evs) - steps
			if at := evs[steps].At; first.IsZero() || at.Before(first) {
				first = at
			}
			if at := evs[len(evs)-1].At; at.After(last) {
				last = at
			}
		}
		return out, float64(n) / last.Sub(first).Seconds()
	}
	var quiet, busy sample
	var ratios, quiets, rates []float64
	for i := range lookRounds {
		without, _ := turnsOf(alone[i])
		with, rate := turnsOf(watched[i])
		quiet, busy = append(quiet, without...), append(busy, with...)
		quiets, rates = append(quiets, without.at(0.95)), append(rates, rate)
		ratios = append(ratios, with.at(0.95)/without.at(0.95))
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	each := func(d time.Duration) float64 {
		return float64(d.Microseconds()) / 1000 / (lookRounds * lookedAt * lookTurns)
	}
	figures.add(fmt.Sprintf("overhead per turn with %d subscribers, one stuck", subscribers), fmt.Sprintf("p95 %.2f × with none", median(ratios)),
		goal(fmt.Sprintf("≤ %.1f ×", lookNoise), median(ratios) <= lookNoise),
		fmt.Sprintf("p50 / p95 %s; with none %s, p95 of rounds %.0f to %.0f; processor %.2f and %.2f ms a turn; %.0f events/s, %.0f MiB told",
			busy.both(), quiet.both(), slices.Min(quiets), slices.Max(quiets), each(needed[1]), each(needed[0]), median(rates),
			float64(told.Load())/(1<<20)))
	report(b, map[string]float64{
		"/none": median(ratios), "p95-ms": busy.at(0.95), "none-p95-ms": quiet.at(0.95), "events/s": median(rates),
		"cpu-ms/turn": each(needed[1]), "none-cpu-ms/turn": each(needed[0]),
	})
}

// crowd adds loops, lets look follow them before their first answer comes, and waits for their ends.
func (h *house) crowd(d *daemon, script string, look func([]td.TaskID) (stop func())) []td.TaskID {
	h.b.Helper()
	before, err := h.svc.Status(h.b.Context())
	if err != nil {
		h.b.Fatal(err)
	}
	ids := h.addEach(lookedAt, api.AddTask{Rehearsal: script})
	stop := look(ids)
	d.until("every loop has completed", time.Second, func(ctx context.Context) bool {
		st, err := h.svc.Status(ctx)
		return err == nil && st.Tasks[td.Completed] == before.Tasks[td.Completed]+lookedAt
	})
	stop()
	return ids
}

// follow lets all subscribers follow, and counts the bytes that they are told. They only count: what it costs to read
// an event is not the daemon's.
func (h *house) follow(ids []td.TaskID, told *atomic.Int64) (stop func()) {
	h.b.Helper()
	var wg sync.WaitGroup
	var conns []net.Conn
	for n := range subscribers {
		addr, done, err := wire.Address(h.path("state/run/sock"))
		if err != nil {
			h.b.Fatal(err)
		}
		conn, err := net.Dial("unix", addr)
		done()
		if err != nil {
			h.b.Fatal(err)
		}
		conns = append(conns, conn)
		var refs []string
		for _, i := range rand.Perm(len(ids))[:followEach] {
			refs = append(refs, string(ids[i]))
		}
		if _, err := fmt.Fprintf(conn, "GET /v1/events?follow=true&ref=%s HTTP/1.1\r\nHost: taskdaemon\r\n\r\n", strings.Join(refs, ",")); err != nil {
			h.b.Fatal(err)
		}
		if n > 0 { // the first is stuck
			wg.Go(func() {
				got, _ := io.Copy(io.Discard, conn) // until it is closed
				told.Add(got)
			})
		}
	}
	return func() {
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
	}
}
