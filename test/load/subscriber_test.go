package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/client"
	"taskdaemon/internal/td"
)

// habit is how a subscriber behaves.
type habit string

const (
	steady  habit = "steady"   // reads on and on
	looksOn habit = "looks on" // and wants what is not journaled, too
	leaves  habit = "leaves"   // goes away at any moment and comes back at once
	sleeps  habit = "sleeps"   // stays away until the daemon no longer has in memory what was missed
	stuck   habit = "stuck"    // connects, and never reads until all is over
)

func habitOf(n int) habit {
	switch {
	case n == 0:
		return stuck
	case n%4 == 1:
		return leaves
	case n%10 == 2:
		return looksOn
	case n%20 == 3:
		return sleeps
	}
	return steady
}

// nap is for how many events a sleeper stays away: more than the daemon keeps in memory.
const nap = 10_000

// scene is what the subscribers of a round share.
type scene struct {
	svc      *client.Client
	socket   string
	furthest atomic.Uint64 // the newest cursor that any of them has seen
	over     chan struct{} // closed when every task has ended
	arrived  chan struct{} // gets one from each subscriber that has seen the end of all its tasks
	hangups  atomic.Int64  // how often the daemon left the stuck one behind
}

// subscriber follows a few tasks.
type subscriber struct {
	*scene
	habit habit
	rnd   *rand.Rand
	tasks []td.TaskID
	seen  map[td.TaskID]*record

	at      uint64 // the cursor of the newest event it has seen
	ended   int    // tasks that it has seen the end of
	visits  int
	pieces  int // that were not journaled
	arrival bool
}

func newSubscriber(sc *scene, n int, seed uint64, tasks []td.TaskID) *subscriber {
	s := &subscriber{
		scene: sc, habit: habitOf(n), tasks: tasks, rnd: rand.New(rand.NewPCG(seed, uint64(n))), seen: map[td.TaskID]*record{},
	}
	for _, id := range tasks {
		s.seen[id] = &record{}
	}
	return s
}

// run follows until ctx ends. It goes on after it has seen the end of all its tasks: nothing may follow.
func (s *subscriber) run(ctx context.Context) error {
	if s.habit == stuck {
		if err := s.stick(ctx); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		if err := s.visit(ctx); err != nil {
			return fmt.Errorf("visit %d: %w", s.visits, err)
		}
		if s.habit == sleeps {
			s.sleep(ctx)
		}
	}
	return nil
}

// visit follows from the cursor on, until the subscriber has a mind to leave.
func (s *subscriber) visit(ctx context.Context) error {
	s.visits++
	left := 1 + s.rnd.IntN(200) // events before it leaves
	staying := s.habit != leaves && s.habit != sleeps || s.arrival
	if !staying && s.rnd.IntN(2) == 0 { // in the middle of whatever is going on
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+s.rnd.IntN(1000))*time.Millisecond)
		defer cancel()
	}
	q := api.EventQuery{After: s.at, Follow: true, Live: s.habit == looksOn}
	for _, id := range s.tasks {
		q.Refs = append(q.Refs, string(id))
	}
	for item, err := range s.svc.Events(ctx, q) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case item.Event == nil:
			s.pieces++
			continue
		}
		if err := s.take(*item.Event); err != nil {
			return err
		}
		if left--; left <= 0 && !staying && !s.arrival {
			return nil
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("the stream ended by itself after cursor %d", s.at)
	}
	return nil
}

func (s *subscriber) take(ev td.Event) error {
	r := s.seen[ev.Task]
	switch {
	case r == nil:
		return fmt.Errorf("event %d of %s, which it never asked for", ev.Seq, ev.Task)
	case ev.Cursor <= s.at:
		return fmt.Errorf("cursor %d after cursor %d", ev.Cursor, s.at)
	}
	if err := r.add(ev); err != nil {
		return err
	}
	s.at = ev.Cursor
	for {
		f := s.furthest.Load()
		if f >= s.at || s.furthest.CompareAndSwap(f, s.at) {
			break
		}
	}
	if r.ended {
		s.ended++
	}
	if s.ended == len(s.tasks) && !s.arrival {
		s.arrival = true
		s.arrived <- struct{}{}
	}
	return nil
}

// sleep waits until the journal has gone far beyond what the subscriber saw, or ends.
func (s *subscriber) sleep(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := s.furthest.Load() + nap; s.furthest.Load() < until; {
		select {
		case <-tick.C:
		case <-s.over:
			return
		case <-ctx.Done():
			return
		}
	}
}
