package daemon

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// liveBacklog is how many live pieces a slow reader may fall behind before it misses some.
const liveBacklog = 1024

// Events gather for whoever only follows them, the longer the more there are: to wake hundreds for each event would cost the loops more than the
// events themselves. Together they are told so often a second at most, as long as that does not keep one from its events for too long.
const (
	tellingsPerSecond = 500
	gatherLeast       = 50 * time.Millisecond // nobody sees the difference
	gatherMost        = 500 * time.Millisecond
)

// audience are those who follow events without the pieces on their way.
type audience struct{ size atomic.Int64 }

// enter lets one more follow, until it leaves.
func (a *audience) enter() (leave func()) {
	a.size.Add(1)
	return func() { a.size.Add(-1) }
}

// gather is how long each of them waits for more.
func (a *audience) gather() time.Duration {
	return min(max(time.Duration(a.size.Load())*time.Second/tellingsPerSecond, gatherLeast), gatherMost)
}

// Events yields journaled events and, when asked, what is on its way. The reader pulls: one that stops
// reading holds up nobody.
func (d *Daemon) Events(ctx context.Context, q api.EventQuery) iter.Seq2[api.Item, error] {
	return func(yield func(api.Item, error) bool) {
		f := store.EventFilter{Types: q.Types, Since: q.Since, NoFuture: !q.Follow, Pauses: q.Pauses}
		for _, ref := range q.Refs {
			id, err := d.resolve(ctx, ref)
			if err != nil {
				yield(api.Item{}, err)
				return
			}
			f.Tasks = append(f.Tasks, id)
		}
		after := q.After
		if q.Tail {
			last, err := d.journal.Last(ctx)
			if err != nil {
				yield(api.Item{}, err)
				return
			}
			after = max(after, last)
		}
		if q.Pauses && !yield(api.Item{}, nil) {
			return
		}
		if !q.Live || !q.Follow {
			if q.Follow {
				defer d.audience.enter()()
				f.Every = d.audience.gather
			}
			for ev, err := range d.journal.Follow(ctx, f, after) {
				if !yield(item(ev), err) || err != nil {
					return
				}
			}
			return
		}
		d.mixed(ctx, f, after, yield)
	}
}

// item is a record as it is told; what is no event is a pause.
func item(ev td.Record) api.Item {
	if ev.Body == nil {
		return api.Item{}
	}
	return api.Item{Event: &ev.Event, Raw: ev.Raw}
}

// mixed yields journaled events and live pieces as they come.
func (d *Daemon) mixed(ctx context.Context, f store.EventFilter, after uint64, yield func(api.Item, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	sub := d.live.Subscribe(liveBacklog, func(l api.Live) bool {
		return len(f.Tasks) == 0 || slices.Contains(f.Tasks, l.Task)
	})
	defer sub.Close()
	type record struct {
		ev  td.Record
		err error
	}
	records := make(chan record)
	wg.Go(func() {
		defer close(records)
		for ev, err := range d.journal.Follow(ctx, f, after) {
			select {
			case records <- record{ev, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		select {
		case r, ok := <-records:
			if !ok || !d.drain(sub.Take, yield) || !yield(item(r.ev), r.err) || r.err != nil {
				return
			}
		case <-sub.Ready():
			if !d.drain(sub.Take, yield) || f.Pauses && !yield(api.Item{}, nil) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (d *Daemon) drain(take func() ([]api.Live, bool), yield func(api.Item, error) bool) bool {
	pieces, gap := take()
	if gap && !yield(api.Item{Live: &api.Live{Kind: api.LiveGap}}, nil) {
		return false
	}
	for i := range pieces {
		if !yield(api.Item{Live: &pieces[i]}, nil) {
			return false
		}
	}
	return true
}
