package mem

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Cursor is how far the follower of this name has come.
func (s *Store) Cursor(ctx context.Context, name string) (uint64, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return 0, err
	}
	defer leave()
	return s.cursors[name], nil
}

// SetCursor records it. It never goes back.
func (s *Store) SetCursor(ctx context.Context, name string, at uint64) error {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return err
	}
	defer leave()
	s.cursors[name] = max(s.cursors[name], at)
	return nil
}

// Trim removes bodies that retention lets go, and records older than the audit is kept. There are no
// blobs to remove.
func (s *Store) Trim(ctx context.Context, p store.Retention) (out store.Trimmed, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return out, err
	}
	defer leave()
	upTo := min(p.Mirrored, s.last-min(s.last, 1)) // the newest record stays in any case
	for _, id := range s.order {
		t := s.tasks[id]
		before, ended := rule.BodiesBefore(p, t.Status.State)
		if !ended || len(t.stream) > 0 && t.stream[len(t.stream)-1].Cursor > p.Mirrored { // the mirror has a turn when it has its end
			continue
		}
		n := 0
		switch {
		case t.Status.Since.Before(rule.RecordsBefore(p)):
			n = t.drop(upTo, func(r record) bool { return !rule.KeepsRecord(r.Body.Type()) })
			t.inbox = slices.DeleteFunc(t.inbox, func(c *command) bool { return c.consumed > 0 && c.consumed <= upTo })
		case t.Status.Since.Before(before):
			n = t.blank(upTo)
		}
		out.Events += n
		if n > 0 {
			out.Tasks++
		}
	}
	out.Events += s.tasks[td.DaemonStream].drop(upTo, func(r record) bool {
		return !r.At.IsZero() && r.At.Before(rule.RecordsBefore(p))
	})
	maps.DeleteFunc(s.tallies, func(k td.TallyKey, _ td.Tally) bool { return k.Slot < td.SlotOf(rule.RecordsBefore(p)) })
	maps.DeleteFunc(s.runs, func(_ string, g td.GraphRun) bool { return rule.ForgetsRun(g, p) })
	s.rebuild()
	return out, nil
}

// blank removes the bodies that are not to stay.
func (t *task) blank(upTo uint64) (n int) {
	for i, r := range t.stream {
		if _, gone := r.Body.(td.Trimmed); gone || r.Cursor > upTo || rule.KeepsBody(r.Body.Type()) {
			continue
		}
		t.stream[i].Body, t.stream[i].Raw = td.Trimmed{Was: r.Body.Type()}, nil
		n++
	}
	return n
}

// drop removes whole records.
func (t *task) drop(upTo uint64, old func(record) bool) int {
	before := len(t.stream)
	t.stream = slices.DeleteFunc(t.stream, func(r record) bool { return r.Cursor <= upTo && old(r) })
	return before - len(t.stream)
}

// rebuild makes the journal's order from the streams again.
func (d *data) rebuild() {
	d.events = nil
	for _, t := range d.tasks {
		d.events = append(d.events, t.stream...)
	}
	slices.SortFunc(d.events, func(a, b record) int { return int(int64(a.Cursor) - int64(b.Cursor)) })
}

// Check folds every task's events and compares the result with the task kept beside them.
func (s *Store) Check(ctx context.Context) ([]store.Problem, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	var found []store.Problem
	for _, id := range s.order {
		if what := s.tasks[id].check(); what != "" {
			found = append(found, store.Problem{Task: id, What: what})
		}
	}
	return found, nil
}

func (t *task) check() string {
	var folded td.Task
	for _, r := range t.stream {
		if _, gone := r.Body.(td.Trimmed); gone || r.Seq != folded.Head+1 {
			return "" // trimmed: there is no fold to compare
		}
		if err := rule.Apply(&folded, r.Event); err != nil {
			return fmt.Sprintf("record %d does not follow from those before it: %v", r.Seq, err)
		}
	}
	if !reflect.DeepEqual(folded, t.Task) {
		return fmt.Sprintf("what is kept of it differs from the fold of its %d records", folded.Head)
	}
	return ""
}
