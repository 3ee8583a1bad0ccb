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

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

const (
	lookedAt    = 200 // loops
	lookTurns   = 40
	subscribers = 200
	followEach  = 5
	// lookEvery is how long the model takes for an answer in the mean: 200 loops with four records a turn make 5,000 of them a second,
	// when all else takes 10 ms.
	lookEvery = 150 * time.Millisecond
	// lookRate is how many events a second there are to be.
	lookRate = 5000
	// lookNoise is how much slower a turn may be for it to count as unchanged.
	lookNoise = 1.2
	// A pair of rounds counts if the host took no more than lookCalm of the time away in either, whatever came out. So many pairs
	// are wanted, and no more than so many tried.
	lookCalm  = 0.03
	lookPairs = 7
	lookTries = 12
)

// BenchmarkSubscribers measures turns while 200 subscribers follow them, each five of 200 loops, and one of them never reads, against
// the same loops with nobody looking on. The loops make 5,000 durable events a second, or as many as the machine can.
func BenchmarkSubscribers(b *testing.B) {
	h := furnish(b, "provider: rehearsal", fmt.Sprintf("limits: {loops: %d, turns: 1000}", lookedAt), "drift: {repeats: 0}")
	d := h.start()
	d.answers()
	var told atomic.Int64
	nobody := audience{look: func([]td.TaskID) func() { return func() {} }}
	everybody := audience{look: func(ids []td.TaskID) func() { return h.follow(ids, &told) }}
	tried := 0
	var calm, disturbed []int // pairs, by number
	for ; len(calm) < lookPairs && tried < lookTries; tried++ {
		order := []*audience{&nobody, &everybody}
		if tried%2 == 1 {
			slices.Reverse(order)
		}
		lost := 0.0
		for _, c := range order {
			begun := stolen()
			c.run(h, d)
			lost = max(lost, stolen().since(begun))
		}
		if lost <= lookCalm {
			calm = append(calm, tried)
		} else {
			disturbed = append(disturbed, tried)
		}
	}
	counted := fmt.Sprintf("%d pairs of rounds, %d more disturbed by others", len(calm), len(disturbed))
	if len(calm) < lookPairs/2 {
		calm, counted = append(calm, disturbed...), fmt.Sprintf("%d pairs of rounds, %d of them DISTURBED by others", tried, len(disturbed))
	}
	d.kill()
	s := h.journal()
	var quiet, busy, ratios, noise []float64 // p95 of the rounds, against each other, and of two with nobody
	for i, round := range calm {
		quiet, busy = append(quiet, nobody.measure(b, s, round)), append(busy, everybody.measure(b, s, round))
		ratios = append(ratios, busy[i]/quiet[i])
		if i > 0 {
			noise = append(noise, max(quiet[i]/quiet[i-1], quiet[i-1]/quiet[i]))
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	rate := median(everybody.rates)
	figures.add(fmt.Sprintf("overhead per turn with %d subscribers, one stuck", subscribers), fmt.Sprintf("p95 %.2f × with none", median(ratios)),
		goal(fmt.Sprintf("≤ %.1f ×", lookNoise), median(ratios) <= lookNoise),
		fmt.Sprintf("p50 / p95 %s, with none %s; %s: p95 %.1f, with none %.1f, each %.2f ×, one with none against the next %.2f ×; processor %.2f and %.2f ms a turn; %.0f MiB told",
			everybody.turns.both(), nobody.turns.both(), counted, busy, quiet, ratios, noise, everybody.processor(), nobody.processor(),
			float64(told.Load())/(1<<20)))
	figures.add("durable events meanwhile", fmt.Sprintf("%.2f × what was wanted", rate/lookRate), goal(fmt.Sprintf("≥ %d/s", lookRate), rate >= lookRate),
		fmt.Sprintf("%.0f/s, with none %.0f/s; rounds %.0f", rate, median(nobody.rates), everybody.rates))
	report(b, map[string]float64{
		"/none": median(ratios), "p95-ms": everybody.turns.at(0.95), "none-p95-ms": nobody.turns.at(0.95), "events/s": rate,
		"cpu-ms/turn": everybody.processor(), "none-cpu-ms/turn": nobody.processor(),
	})
}

// audience is loops that run together, round after round, with so many who look on.
type audience struct {
	look   func([]td.TaskID) (stop func())
	rounds [][]td.TaskID
	needed time.Duration // of the processor, by the daemon
	turns  sample
	rates  []float64 // events a second, of each round
}

// unevenly is the script of a loop, whose answers take a half less to a half more than lookEvery. If all took the same time, loops that came to wait
// for each other once would go in step from then on.
func unevenly(i int) string {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	var s strings.Builder
	turn := func(latency time.Duration) {
		fmt.Fprintf(&s, "  - {latency: %s, tools: [{name: Read, input: {path: %s}}]}\n", latency, smallFile)
	}
	s.WriteString("turns:\n")
	turn(5 * time.Second)
	for range lookTurns {
		turn(lookEvery/2 + time.Duration(random.Int64N(int64(lookEvery))).Round(time.Millisecond))
	}
	s.WriteString("  - tools: [{name: Complete, input: {summary: done}}]\n")
	return s.String()
}

// run adds loops, lets look follow them before their first answer comes, and waits for their ends.
func (c *audience) run(h *house, d *daemon) {
	h.b.Helper()
	begun := d.processor()
	before, err := h.svc.Status(h.b.Context())
	if err != nil {
		h.b.Fatal(err)
	}
	ids := h.addEach(lookedAt, unevenly)
	stop := c.look(ids)
	d.until("every loop has completed", time.Second, func(ctx context.Context) bool {
		st, err := h.svc.Status(ctx)
		return err == nil && st.Tasks[td.Completed] == before.Tasks[td.Completed]+lookedAt
	})
	stop()
	c.rounds = append(c.rounds, ids)
	c.needed += d.processor() - begun
}

// measure adds what the journal has of a round while all its loops worked, and returns the p95 of its turns.
func (c *audience) measure(b *testing.B, s *sqlite.Store, round int) float64 {
	b.Helper()
	var from, to time.Time // from when the last had begun until the first had ended
	var all [][]td.Event
	for _, id := range c.rounds[round] {
		evs := events(b, s, id)
		evs = evs[slices.IndexFunc(evs, func(ev td.Event) bool { return ev.Body.Type() == td.StepEnded{}.Type() })+1:] // it came after a pause
		all = append(all, evs)
		if at := evs[0].At; at.After(from) {
			from = at
		}
		if at := evs[len(evs)-1].At; to.IsZero() || at.Before(to) {
			to = at
		}
	}
	if !from.Before(to) {
		b.Fatal("the loops did not work at the same time")
	}
	var turns sample
	n := 0
	for _, evs := range all {
		evs = slices.DeleteFunc(evs, func(ev td.Event) bool { return ev.At.Before(from) || ev.At.After(to) })
		n += len(evs)
		turns = append(turns, overheads(evs)...)
	}
	c.turns = append(c.turns, turns...)
	c.rates = append(c.rates, float64(n)/to.Sub(from).Seconds())
	return turns.at(0.95)
}

// processor is what the daemon needed for a turn, in ms.
func (c *audience) processor() float64 {
	return float64(c.needed.Microseconds()) / 1000 / float64(len(c.rounds)*lookedAt*lookTurns)
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
