package mem

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Create records a new task, queued.
func (s *Store) Create(ctx context.Context, spec td.Spec, key string) (td.Task, error) {
	first, err := rule.PrepareSpec(spec)
	if err != nil {
		return td.Task{}, err
	}
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Task{}, err
	}
	defer leave()
	if id, ok := s.keys[key]; ok && key != "" {
		return s.tasks[id].Task, nil
	}
	if s.tasks[spec.ID] != nil {
		return td.Task{}, td.Errorf(td.Conflict, "the task %s exists already", spec.ID.Handle())
	}
	created := first.Body.(td.Created).Spec
	if created.Handle, err = rule.FreeHandle(created, func(h string) (bool, error) { return s.handles[h], nil }); err != nil {
		return td.Task{}, err
	}
	if first, err = rule.PrepareSpec(created); err != nil {
		return td.Task{}, err
	}
	one := []td.Record{first}
	var folded td.Task
	if err := rule.Fold(&folded, s.last, one); err != nil {
		return td.Task{}, err
	}
	t := &task{Task: folded}
	s.tasks[created.ID], s.handles[created.Handle] = t, true
	s.order = append(s.order, created.ID)
	if key != "" {
		s.keys[key] = created.ID
	}
	s.tallies.Add(nil, one)
	s.write(t, 0, one)
	return folded, nil
}

// write adds prepared events to the journal and wakes followers.
func (d *data) write(t *task, epoch uint64, evs []td.Record) {
	for _, ev := range evs {
		r := record{ev, epoch}
		d.events = append(d.events, r)
		t.stream = append(t.stream, r)
		d.last = ev.Cursor
		if name, of := td.GraphRunOf(ev.Body); of {
			d.runs[name] = d.runs[name].Apply(ev.Event)
		}
		for _, c := range t.inbox {
			if c.Key == ev.Takes && c.consumed == 0 {
				c.consumed = ev.Cursor
			}
		}
	}
	if d.more != nil {
		close(d.more)
		d.more = nil
	}
}

// Append writes events of one task, all or none, after its head.
func (s *Store) Append(ctx context.Context, c td.Claim, after uint64, evs ...td.Event) (td.Task, error) {
	prepared, err := rule.Prepare(c.Task, evs)
	if err != nil {
		return td.Task{}, err
	}
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Task{}, err
	}
	defer leave()
	t, err := s.fenced(c)
	if err != nil {
		return td.Task{}, fmt.Errorf("append to %s: %w", c.Task.Handle(), err)
	}
	if t.Head != after {
		if t.repeated(c.Epoch, after, prepared) {
			return t.Task, nil
		}
		return td.Task{}, rule.HeadMoved(c.Task, after, t.Head)
	}
	folded := t.Task
	if err := rule.Fold(&folded, s.last, prepared); err != nil {
		return td.Task{}, fmt.Errorf("append to %s: %w", c.Task.Handle(), err)
	}
	for _, ev := range prepared {
		waits := func(cmd *command) bool { return cmd.Key == ev.Takes && cmd.consumed == 0 }
		if ev.Takes != "" && !slices.ContainsFunc(t.inbox, waits) {
			return td.Task{}, rule.NoCommand(c.Task, ev.Takes)
		}
	}
	others := func([]string) (td.Locks, error) { return s.locks(), nil }
	if err := rule.Grant(&t.Task, &folded, prepared, others); err != nil {
		return td.Task{}, fmt.Errorf("append to %s: %w", c.Task.Handle(), err)
	}
	account := rule.AccountOf(t.Reserved, prepared)
	if err := account.Fits(s.balance); err != nil {
		return td.Task{}, fmt.Errorf("append to %s: %w", c.Task.Handle(), err)
	}
	s.tallies.Add(t.InFlight, prepared)
	t.lease(&folded, prepared)
	s.ledger.settle(folded, account)
	t.Task = folded
	s.write(t, c.Epoch, prepared)
	return folded, nil
}

func (t *task) repeated(epoch, after uint64, evs []td.Record) bool {
	i := t.after(after)
	if i+len(evs) > len(t.stream) {
		return false
	}
	for j, ev := range evs {
		r := t.stream[i+j]
		if r.Seq != after+uint64(j)+1 || r.epoch != epoch || !rule.Same(r.Event, r.Raw, ev) {
			return false
		}
	}
	return true
}

// after is the index of the first record with a greater sequence.
func (t *task) after(seq uint64) int {
	return sort.Search(len(t.stream), func(i int) bool { return t.stream[i].Seq > seq })
}

// Read yields the events of one task with Seq > after, in order.
func (s *Store) Read(ctx context.Context, id td.TaskID, after uint64) iter.Seq2[td.Event, error] {
	return func(yield func(td.Event, error) bool) {
		for {
			evs, err := s.readStream(ctx, id, after)
			if err != nil {
				yield(td.Event{}, fmt.Errorf("read %s: %w", id.Handle(), err))
				return
			}
			if len(evs) == 0 {
				return
			}
			for _, r := range evs {
				if !yield(r.Event, nil) {
					return
				}
				after = r.Seq
			}
		}
	}
}

// chunk is how many events are copied under the lock at once.
const chunk = 256

func (s *Store) readStream(ctx context.Context, id td.TaskID, after uint64) ([]record, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	t, err := s.task(id)
	if err != nil {
		return nil, err
	}
	i := t.after(after)
	return slices.Clone(t.stream[i:min(i+chunk, len(t.stream))]), nil
}

// Last is the Cursor of the newest event.
func (s *Store) Last(ctx context.Context) (uint64, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return 0, err
	}
	defer leave()
	return s.last, nil
}

// Follow yields events that match, with Cursor > after, in order, and then waits for more.
func (s *Store) Follow(ctx context.Context, f store.EventFilter, after uint64) iter.Seq2[td.Record, error] {
	return func(yield func(td.Record, error) bool) {
		end := uint64(math.MaxUint64)
		for first := true; after < end; first = false {
			evs, last, wait, err := s.following(ctx, after)
			if err != nil {
				if ctx.Err() == nil || f.NoFuture {
					yield(td.Record{}, fmt.Errorf("follow the journal: %w", err))
				}
				return
			}
			if first && f.NoFuture {
				if end = last; after >= end {
					return
				}
			}
			told := false
			for _, r := range evs {
				if after = r.Cursor; after > end {
					return
				}
				if rule.Matches(f, r.Event) {
					if told = yield(r.Record, nil); !told {
						return
					}
				}
			}
			if told && f.Pauses && !yield(td.Record{}, nil) {
				return
			}
			if wait == nil {
				continue
			}
			select {
			case <-wait:
			case <-ctx.Done():
			case <-s.done:
			}
		}
	}
}

func (s *Store) following(ctx context.Context, after uint64) (evs []record, last uint64, wait <-chan struct{}, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, 0, nil, err
	}
	defer leave()
	i := sort.Search(len(s.events), func(i int) bool { return s.events[i].Cursor > after })
	if i == len(s.events) {
		if s.more == nil {
			s.more = make(chan struct{})
		}
		return nil, s.last, s.more, nil
	}
	return slices.Clone(s.events[i:min(i+chunk, len(s.events))]), s.last, nil, nil
}
