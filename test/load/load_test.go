package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/api"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

const (
	// follows is how many tasks a subscriber is on.
	follows = 5
	// maxMemory is what the daemon may hold at its worst, in KiB: several times what it needs.
	maxMemory = 512 << 10
	// spareFiles is how many more files than at its start a daemon at rest may have open: connections to
	// the database and the pipes of git, which are opened when they are first needed.
	spareFiles = 32
	// maxGoroutines is how many a daemon at rest may have.
	maxGoroutines = 64
)

// TestLoad lets all tasks run at the same time while all subscribers follow them. Everybody who reads sees
// every durable event of its tasks exactly once and in order, whoever went away misses nothing, the one
// that is stuck holds up nobody, and when all is over the daemon has let go of what it needed for it.
func TestLoad(t *testing.T) {
	seed := rand.Uint64()
	if v := os.Getenv("TASKDAEMON_SEED"); v != "" {
		if _, err := fmt.Sscan(v, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TASKDAEMON_SEED=%d", seed)
	h := open(t, *taskCount)
	idle := h.alone("at the start")
	var subscribers []*subscriber
	for begun := time.Now(); ; {
		subscribers = append(subscribers, h.round(seed+uint64(len(subscribers)))...)
		if d := h.alone("when all subscribers have left"); d.other > idle.other+spareFiles {
			t.Errorf("at rest the daemon has %d files open, %d before there was anything to do", d.other, idle.other)
		}
		if peak := h.peak(); peak > maxMemory {
			t.Errorf("the daemon held %d MiB", peak/1024)
		}
		if time.Since(begun) >= *atLeast || t.Failed() {
			break
		}
	}
	t.Logf("the daemon held %d MiB at most; open at rest %+v, at its start %+v", h.peak()/1024, h.descriptors(), idle)
	h.doctor()
	h.alone("after all")
	h.checkStacks()
	h.compare(subscribers)
}

// round adds the tasks, lets everybody subscribe, lets the tasks go, and waits until everybody has seen the
// end.
func (h *house) round(seed uint64) []*subscriber {
	h.t.Helper()
	tasks := h.add(*taskCount)
	before := h.recorded()
	sc := &scene{
		svc: h.svc, socket: h.socket(), over: make(chan struct{}),
		arrived: make(chan struct{}, *subscriberCount),
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	subscribers := make([]*subscriber, *subscriberCount)
	for n := range subscribers {
		var on []td.TaskID
		for _, i := range rnd.Perm(len(tasks))[:follows] {
			on = append(on, tasks[i])
		}
		s := newSubscriber(sc, n, seed, on)
		subscribers[n] = s
		group.Go(func() error {
			if err := s.run(ctx); err != nil {
				return fmt.Errorf("subscriber %d (%s): %w", n, s.habit, err)
			}
			return nil
		})
	}
	began := time.Now()
	h.let(tasks)
	most := h.watch(ctx, len(tasks))
	took := time.Since(began)
	close(sc.over)
	all := gather(ctx, sc.arrived, len(subscribers))
	cancel()
	if err := group.Wait(); err != nil {
		h.t.Fatal(err)
	}
	events := h.recorded() - before
	h.t.Logf("%d tasks, %d at once: %d durable events in %s, %.0f a second; the stuck subscriber was left behind %d times",
		len(tasks), most, events, took.Round(time.Millisecond), float64(events)/took.Seconds(), sc.hangups.Load())
	if 2*most < len(tasks) {
		h.t.Errorf("only %d of %d tasks ran at the same time", most, len(tasks))
	}
	if !all {
		h.t.Errorf("not every subscriber saw the end of its tasks")
	}
	return subscribers
}

// recorded is how many events all tasks have.
func (h *house) recorded() (events uint64) {
	h.t.Helper()
	tasks, err := h.svc.Tasks(h.t.Context(), api.TaskQuery{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, t := range tasks {
		events += t.Head
	}
	return events
}

// gather waits for n words, and reports whether they all came.
func gather(ctx context.Context, words <-chan struct{}, n int) bool {
	for range n {
		select {
		case <-words:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// add adds tasks, each in a workspace of its own, and waits until they all wait for a word.
func (h *house) add(n int) []td.TaskID {
	h.t.Helper()
	const file = "small.txt"
	script := fmt.Sprintf(`
turns:
  - tools: [{name: Ask, input: {question: May I begin?}}]
  - {latency: 5s, tools: [{name: Read, input: {path: %[2]s}}]} # until all have their word
  - {repeat: %[1]d, text: "Turn {{turn}}: I read it once more.", tools: [{name: Read, input: {path: %[2]s}}]}
  - tools: [{name: Complete, input: {summary: read}}]
`, *turnCount, file)
	ids := make([]td.TaskID, n)
	h.each(n, func(ctx context.Context, i int) error {
		task, err := h.svc.AddTask(ctx, api.AddTask{Prompt: "read", Dir: h.workspace(i, file), Rehearsal: script})
		ids[i] = task.ID
		return err
	})
	h.until("every task waits for a word", func(ctx context.Context) bool {
		st, err := h.svc.Status(ctx)
		return err == nil && st.Tasks[td.Waiting] == n
	})
	return ids
}

func (h *house) workspace(n int, file string) string {
	h.t.Helper()
	dir := fmt.Sprintf("work/%d", n)
	h.write(dir+"/"+file, strings.Repeat("a small file with many lines\n", 120))
	return h.path(dir)
}

// let gives every task the word it waits for.
func (h *house) let(tasks []td.TaskID) {
	h.t.Helper()
	h.each(len(tasks), func(ctx context.Context, i int) error {
		_, err := h.svc.Command(ctx, string(tasks[i]), api.Command{Type: td.CmdAnswer, Answer: "yes"})
		return err
	})
}

func (h *house) each(n int, do func(context.Context, int) error) {
	h.t.Helper()
	group, ctx := errgroup.WithContext(h.t.Context())
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		h.t.Fatal(err)
	}
}

// watch waits until every task has completed, or ctx has ended, and says how many ran at once.
func (h *house) watch(ctx context.Context, n int) (most int) {
	h.t.Helper()
	h.until("every task has completed", func(poll context.Context) bool {
		if ctx.Err() != nil {
			return true // a subscriber has something to say
		}
		st, err := h.svc.Status(poll)
		if err != nil {
			return false
		}
		going := 0
		for state, k := range st.Tasks {
			if !state.Terminal() {
				going += k
			}
		}
		most = max(most, st.Tasks[td.Running])
		return going == 0
	})
	return most
}

func (h *house) doctor() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	d, err := h.svc.Doctor(ctx, api.DoctorRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range d.Checks {
		h.t.Logf("doctor: %s (%s)", c.Name, c.Detail)
		if !c.OK {
			h.t.Errorf("doctor: %s: %v", c.Name, c.Findings)
		}
	}
}

// checkStacks ends the daemon and looks at what its goroutines were at: nobody is served any more and no
// task runs.
func (h *house) checkStacks() {
	h.t.Helper()
	stacks := h.stacks()
	if len(stacks) == 0 {
		h.t.Fatalf("the daemon left no stacks:\n%s", h.said.Bytes())
	}
	h.t.Logf("%d goroutines at rest", len(stacks))
	if len(stacks) > maxGoroutines {
		h.t.Errorf("%d goroutines at rest:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
	}
	for _, s := range stacks {
		for _, gone := range []string{"internal/server.(*server).stream(", "internal/server.(*server).pull(", "internal/scheduler.(*Scheduler).claimed("} {
			if strings.Contains(s, gone) {
				h.t.Errorf("still there:\n%s", s)
			}
		}
	}
}

// compare holds what the subscribers saw against the journal that the daemon left.
func (h *house) compare(subscribers []*subscriber) {
	h.t.Helper()
	ctx := h.t.Context()
	journal, err := sqlite.Open(ctx, sqlite.Options{Dir: h.path("state")})
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() {
		if err := journal.Close(); err != nil {
			h.t.Error(err)
		}
	}()
	truth := map[td.TaskID]record{}
	visits, pieces := 0, 0
	for n, s := range subscribers {
		visits, pieces = visits+s.visits, pieces+s.pieces
		for id, got := range s.seen {
			want, known := truth[id]
			if !known {
				for ev, err := range journal.Read(ctx, id, 0) {
					if err != nil {
						h.t.Fatal(err)
					}
					if err := want.add(ev); err != nil {
						h.t.Fatal(err)
					}
				}
				truth[id] = want
			}
			if *got != want {
				h.t.Errorf("subscriber %d (%s) saw %+v of %s, the journal has %+v", n, s.habit, *got, id, want)
			}
		}
	}
	events := uint64(0)
	for _, r := range truth {
		events += r.seq
	}
	h.t.Logf("%d subscribers in %d visits, of which %d went on after the connection was lost, saw %d events of %d tasks, and %d pieces that are not journaled",
		len(subscribers), visits, h.redials.Load(), events, len(truth), pieces)
}
