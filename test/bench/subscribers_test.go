package bench

import (
	"bufio"
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
	lookTurns   = 160
	lookRounds  = 4
	subscribers = 200
	followEach  = 5
	// lookEvery is how long the model takes for an answer in the mean: 200 loops with four records a turn make 5,000 of them a second,
	// when all else takes 10 ms.
	lookEvery = 150 * time.Millisecond
	// lookRate is how many events a second there are to be.
	lookRate = 5000
	// lookNoise is how much slower a turn may be for it to count as unchanged.
	lookNoise = 1.2
	// Subscribers come, stay for lookSpell and are away for as long, again and again while the same loops go on: what else happens on the
	// machine meets both alike. What is within lookSettle of a change does not count.
	lookSpell  = 2500 * time.Millisecond
	lookSettle = 600 * time.Millisecond
	// A spell of which the host gave more than lookLost to others says nothing about either side.
	lookLost   = 0.03
	lookLeast  = 4   // spells of either kind, to say anything
	leastEvent = 150 // bytes of a message
)

// BenchmarkSubscribers measures turns while 200 subscribers follow them, each five of 200 loops, and one of them never reads, against
// the turns of the same loops with nobody looking on. The loops make 5,000 durable events a second, or as many as the machine can.
func BenchmarkSubscribers(b *testing.B) {
	h := furnish(b, "provider: rehearsal", fmt.Sprintf("limits: {loops: %d, turns: 1000}", lookedAt), "drift: {repeats: 0}")
	d := h.start()
	d.answers()
	var shows []*show
	for i := range lookRounds {
		shows = append(shows, perform(h, d, i%2 == 1))
	}
	d.kill()
	s := h.journal()
	var with, without, withAll, withoutAll spells // all: also when the host was busy with others
	told, n := int64(0), 0
	for _, sh := range shows {
		sh.measure(b, s)
		for _, sp := range sh.spells {
			if !sp.whole { // before the first answers, or after the last
				continue
			}
			all, calm := &withoutAll, &without
			if sp.looked {
				all, calm = &withAll, &with
			}
			if *all = append(*all, sp); sp.lost <= lookLost {
				*calm = append(*calm, sp)
			}
		}
		told += sh.told.Load()
		n += sh.events()
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if len(withAll) < lookLeast || len(withoutAll) < lookLeast {
		b.Fatalf("%d spells with subscribers and %d without: the loops did not work at the same time", len(withAll), len(withoutAll))
	}
	if least := int64(n) * followEach * subscribers / lookedAt * leastEvent; told < least {
		b.Fatalf("subscribers were told %d bytes, %d at least were expected", told, least)
	}
	what := fmt.Sprintf("overhead per turn with %d subscribers, one stuck", subscribers)
	b.Logf("p95 of all spells with subscribers %.2f, without %.2f ms", withAll.each(0.95), withoutAll.each(0.95))
	if len(with) < lookLeast || len(without) < lookLeast {
		figures.add(what, "not known", fmt.Sprintf("≤ %.1f ×", lookNoise), fmt.Sprintf("the host was busy with others in all but %d of %d spells with subscribers and %d of %d without",
			len(with), len(withAll), len(without), len(withoutAll)))
		return
	}
	ratio := with.usual(0.95) / without.usual(0.95)
	low, high := ratios(with.each(0.95), without.each(0.95))
	least, most := ratios(without.each(0.95), without.each(0.95))
	rate := with.rate()
	figures.add(what, fmt.Sprintf("p95 %.2f × with none", ratio),
		goal(fmt.Sprintf("≤ %.1f ×", lookNoise), ratio <= lookNoise),
		fmt.Sprintf("p50 / p95 %s, with none %s (p95 of all turns in all spells together %.2f ×); had other spells of the %d and %d been seen, 0.9 of the time %.2f to %.2f ×, and none against none %.2f to %.2f ×; processor %.2f and %.2f ms a turn; %.0f MiB told; left out because the host was busy with others: %d and %d spells",
			with.both(), without.both(), withAll.all().at(0.95)/withoutAll.all().at(0.95), len(with), len(without), low, high, least, most, with.processor(), without.processor(),
			float64(told)/(1<<20), len(withAll)-len(with), len(withoutAll)-len(without)))
	figures.add("durable events meanwhile", fmt.Sprintf("%.2f × what was wanted", rate/lookRate), goal(fmt.Sprintf("≥ %d/s", lookRate), rate >= lookRate),
		fmt.Sprintf("%.0f/s, with none %.0f/s", rate, without.rate()))
	report(b, map[string]float64{
		"/none": ratio, "p95-ms": with.usual(0.95), "none-p95-ms": without.usual(0.95), "events/s": rate,
		"cpu-ms/turn": with.processor(), "none-cpu-ms/turn": without.processor(),
	})
}

// show is loops that run together while subscribers come and go.
type show struct {
	ids    []td.TaskID
	spells spells
	told   atomic.Int64 // bytes
}

// spell is a time in which nobody came or went.
type spell struct {
	looked   bool
	whole    bool // all loops worked all the time
	from, to time.Time
	needed   time.Duration // of the processor, by the daemon
	lost     float64       // part of the time that the host gave to others
	turns    sample
	events   int
}

// perform adds loops and waits for their ends.
func perform(h *house, d *daemon, looked bool) *show {
	h.b.Helper()
	before, err := h.svc.Status(h.b.Context())
	if err != nil {
		h.b.Fatal(err)
	}
	sh := &show{ids: h.addEach(lookedAt, unevenly)}
	d.until("every loop has completed", time.Millisecond, func(ctx context.Context) bool {
		leave := func() {}
		if looked {
			leave = h.follow(sh.ids, &sh.told)
		}
		settle(lookSettle)
		sp, begun := &spell{looked: looked, from: time.Now(), needed: -d.processor()}, stolen()
		settle(lookSpell)
		sp.lost = stolen().since(begun)
		sp.to, sp.needed = time.Now(), sp.needed+d.processor()
		leave()
		sh.spells, looked = append(sh.spells, sp), !looked
		st, err := h.svc.Status(ctx)
		return err == nil && st.Tasks[td.Completed] == before.Tasks[td.Completed]+lookedAt
	})
	return sh
}

// measure adds to each spell what the journal has of it, if all loops worked then.
func (sh *show) measure(b *testing.B, s *sqlite.Store) {
	b.Helper()
	var from, to time.Time // from when the last had begun until the first had ended
	var all [][]td.Event
	for _, id := range sh.ids {
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
	for _, sp := range sh.spells {
		if sp.from.Before(from) || sp.to.After(to) {
			continue
		}
		sp.whole = true
		for _, evs := range all {
			first, _ := slices.BinarySearchFunc(evs, sp.from, func(ev td.Event, at time.Time) int { return ev.At.Compare(at) })
			end, _ := slices.BinarySearchFunc(evs, sp.to, func(ev td.Event, at time.Time) int { return ev.At.Compare(at) })
			sp.events += end - first
			for end < len(evs) && !answers(evs[end]) { // a turn that began in it counts, however late it ends
				end++
			}
			sp.turns = append(sp.turns, overheads(evs[first:end])...)
		}
	}
}

// events is how many there were while subscribers looked on, of those that are counted.
func (sh *show) events() (n int) {
	for _, sp := range sh.spells {
		if sp.looked {
			n += sp.events
		}
	}
	return n
}

// answers reports whether a turn begins with the event.
func answers(ev td.Event) bool {
	body, ended := ev.Body.(td.StepEnded)
	return ended && body.Model != nil
}

type spells []*spell

func (s spells) all() (out sample) {
	for _, sp := range s {
		out = append(out, sp.turns...)
	}
	return out
}

// each is a quantile of the turns of every spell, in ms.
func (s spells) each(q float64) []float64 {
	out := make([]float64, len(s))
	for i, sp := range s {
		if len(sp.turns) == 0 { // nothing went on
			out[i] = float64(sp.to.Sub(sp.from)) / float64(time.Millisecond)
			continue
		}
		out[i] = sp.turns.at(q)
	}
	return out
}

// usual is the quantile in the median spell: a moment in which the host was busy with others makes one spell slow, not the figure.
func (s spells) usual(q float64) float64 { return median(s.each(q)) }

func (s spells) both() string { return fmt.Sprintf("%.2f / %.2f ms", s.usual(0.5), s.usual(0.95)) }

// rate is how many events there were a second.
func (s spells) rate() float64 {
	n, took := 0, time.Duration(0)
	for _, sp := range s {
		n, took = n+sp.events, took+sp.to.Sub(sp.from)
	}
	return float64(n) / took.Seconds()
}

// processor is what the daemon needed for a turn, in ms.
func (s spells) processor() float64 {
	needed := time.Duration(0)
	for _, sp := range s {
		needed += sp.needed
	}
	return float64(needed.Microseconds()) / 1000 / float64(len(s.all()))
}

// ratios are the bounds that nine of ten medians of some figures against others are within, when each side is drawn again and again
// from what was seen.
func ratios(some, others []float64) (low, high float64) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(from []float64) float64 {
		drawn := make([]float64, len(from))
		for i := range drawn {
			drawn[i] = from[random.IntN(len(from))]
		}
		return median(drawn)
	}
	seen := make([]float64, 2000)
	for i := range seen {
		seen[i] = draw(some) / draw(others)
	}
	slices.Sort(seen)
	return seen[len(seen)/20], seen[len(seen)-1-len(seen)/20]
}

// unevenly is the script of a loop, whose answers take a half less to a half more than lookEvery. If all took the same time, loops that came to wait
// for each other once would go in step from then on.
func unevenly(i int) string {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	var s strings.Builder
	turn := func(latency time.Duration) {
		fmt.Fprintf(&s, "  - {latency: %s, usage: {input: 1000, output: 50}, tools: [{name: Read, input: {path: %s}}]}\n", latency, smallFile) // to count tokens is no work of the daemon's
	}
	s.WriteString("turns:\n")
	turn(5 * time.Second)
	for range lookTurns {
		turn(lookEvery/2 + time.Duration(random.Int64N(int64(lookEvery))).Round(time.Millisecond))
	}
	s.WriteString("  - tools: [{name: Complete, input: {summary: done}}]\n")
	return s.String()
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
		stuck := n == 0 // and asks for all there ever was, so that it is soon
		if _, err := fmt.Fprintf(conn, "GET /v1/events?follow=true&tail=%v&ref=%s HTTP/1.1\r\nHost: taskdaemon\r\n\r\n", !stuck, strings.Join(refs, ",")); err != nil {
			h.b.Fatal(err)
		}
		if !stuck {
			wg.Go(func() {
				r := bufio.NewReaderSize(conn, 32<<10) // as the client does
				if status, err := r.ReadString('\n'); err == nil && !strings.Contains(status, " 200 ") {
					h.b.Errorf("a subscriber was told: %s", status)
				}
				got, _ := io.Copy(io.Discard, r) // until it is closed
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
