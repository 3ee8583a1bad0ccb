package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Claim takes the task for holder.
func (s *Store) Claim(ctx context.Context, task td.TaskID, h td.Holder) (td.Claim, error) {
	holder, err := json.Marshal(h)
	if err != nil {
		return td.Claim{}, td.Errorf(td.Invalid, "claim %s: %w", task.Handle(), err)
	}
	var out td.Claim
	err = s.w.do(ctx, func(t *tx) error {
		e, err := t.load(task)
		if err != nil {
			return err
		}
		now := time.Now()
		if e.held && !rule.Free(e.holder, h, s.deadline(e), now, s.alive) {
			return rule.Taken(*e.task, e.holder)
		}
		end := now.Add(td.ClaimTTL)
		out = td.Claim{Task: task, Epoch: e.epoch + 1, Holder: h, Expires: rule.Instant(end)}
		e.epoch, e.held, e.holder, e.expires = out.Epoch, true, h, end.UnixNano()
		fpClaimTake.Hit()
		if err := t.exec(`INSERT INTO claims (task, epoch, holder, expires) VALUES (?1, ?2, ?3, ?4)
			ON CONFLICT (task) DO UPDATE SET epoch = ?2, holder = ?3, expires = ?4`,
			e.n, out.Epoch, string(holder), e.expires); err != nil {
			return err
		}
		t.stage(task, e)
		t.extend(e.n, end)
		return nil
	})
	if err != nil {
		return td.Claim{}, fmt.Errorf("claim %s: %w", task.Handle(), err)
	}
	return out, nil
}

// deadline is when the entry's claim counts as expired, on the monotonic clock: one taken or renewed
// since the journal was opened has it in memory, one found on disk gets it from there.
func (s *Store) deadline(e entry) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.deadlines[e.n]; ok {
		return d
	}
	return rule.Deadline(rule.FromNanos(e.expires), s.opened)
}

// extend remembers a claim's new deadline once the transaction is committed.
func (t *tx) extend(n int64, end time.Time) {
	t.after = append(t.after, func() {
		s := t.w.s
		s.mu.Lock()
		defer s.mu.Unlock()
		s.deadlines[n] = end
	})
}

// Renew extends every claim the holder still has.
func (s *Store) Renew(ctx context.Context, h td.Holder) (map[td.TaskID]uint64, error) {
	holder, err := json.Marshal(h)
	if err != nil {
		return nil, td.Errorf(td.Invalid, "renew claims: %w", err)
	}
	has := map[td.TaskID]uint64{}
	err = s.w.do(ctx, func(t *tx) error {
		var held []int64
		if err := t.c.query(func(r *sqlite3.Stmt) error {
			held = append(held, r.ColumnInt64(0))
			has[td.TaskID(r.ColumnText(2))] = uint64(r.ColumnInt64(1))
			return nil
		}, "SELECT task, epoch, id FROM claims JOIN tasks ON n = task WHERE holder = ?", string(holder)); err != nil {
			return err
		}
		if len(held) == 0 {
			return nil
		}
		end := time.Now().Add(td.ClaimTTL)
		fpClaimRenew.Hit()
		if err := t.exec("UPDATE claims SET expires = ? WHERE holder = ?", end.UnixNano(), string(holder)); err != nil {
			return err
		}
		for _, n := range held {
			t.extend(n, end)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("renew claims: %w", err)
	}
	return has, nil
}

// Release gives the claim back; no error if it was lost already.
func (s *Store) Release(ctx context.Context, c td.Claim) error {
	err := s.w.do(ctx, func(t *tx) error {
		e, err := t.fenced(c)
		if td.IsKind(err, td.Fenced) || td.IsKind(err, td.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		fpClaimRelease.Hit()
		if err := t.exec("UPDATE claims SET holder = NULL, expires = 0 WHERE task = ?", e.n); err != nil {
			return err
		}
		e.held, e.holder, e.expires = false, td.Holder{}, 0
		t.stage(c.Task, e)
		t.after = append(t.after, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.deadlines, e.n)
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", c.Task.Handle(), err)
	}
	return nil
}

// HolderOf is the claim that holds the task now.
func (s *Store) HolderOf(ctx context.Context, id td.TaskID) (c td.Claim, ok bool, err error) {
	var e entry
	err = s.pool.with(ctx, func(db *conn) error {
		var found bool
		e, found, err = loadEntry(db, id)
		if err == nil && !found {
			err = rule.NoTask(id)
		}
		return err
	})
	if err != nil {
		return td.Claim{}, false, fmt.Errorf("find the holder of %s: %w", id.Handle(), s.classify(err))
	}
	if !e.held || rule.Free(e.holder, td.Holder{}, s.deadline(e), time.Now(), s.alive) {
		return td.Claim{}, false, nil
	}
	return td.Claim{Task: id, Epoch: e.epoch, Holder: e.holder, Expires: rule.FromNanos(e.expires)}, true, nil
}
