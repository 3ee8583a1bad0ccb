package mem

import (
	"context"
	"fmt"
	"time"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Claim takes the task for holder.
func (s *Store) Claim(ctx context.Context, id td.TaskID, h td.Holder) (td.Claim, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Claim{}, err
	}
	defer leave()
	t, err := s.task(id)
	if err != nil {
		return td.Claim{}, fmt.Errorf("claim %s: %w", id.Handle(), err)
	}
	now := time.Now()
	if t.claim.held && !rule.Free(t.claim.holder, h, t.claim.deadline, now, s.alive) {
		return td.Claim{}, rule.Taken(t.Task, t.claim.holder)
	}
	t.claim = claim{epoch: t.claim.epoch + 1, held: true, holder: h, deadline: now.Add(td.ClaimTTL)}
	return t.claimed(), nil
}

func (t *task) claimed() td.Claim {
	return td.Claim{Task: t.ID, Epoch: t.claim.epoch, Holder: t.claim.holder, Expires: rule.Instant(t.claim.deadline)}
}

// Renew extends every claim the holder still has.
func (s *Store) Renew(ctx context.Context, h td.Holder) (map[td.TaskID]uint64, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	has, end := map[td.TaskID]uint64{}, time.Now().Add(td.ClaimTTL)
	for _, t := range s.tasks {
		if t.claim.held && t.claim.holder == h {
			t.claim.deadline = end
			has[t.ID] = t.claim.epoch
		}
	}
	return has, nil
}

// Release gives the claim back; no error if it was lost already.
func (s *Store) Release(ctx context.Context, c td.Claim) error {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return err
	}
	defer leave()
	if t, err := s.fenced(c); err == nil {
		t.claim = claim{epoch: t.claim.epoch}
	}
	return nil
}

// HolderOf is the claim that holds the task now.
func (s *Store) HolderOf(ctx context.Context, id td.TaskID) (c td.Claim, ok bool, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Claim{}, false, err
	}
	defer leave()
	t, err := s.task(id)
	if err != nil {
		return td.Claim{}, false, fmt.Errorf("find the holder of %s: %w", id.Handle(), err)
	}
	if !t.claim.held || rule.Free(t.claim.holder, td.Holder{}, t.claim.deadline, time.Now(), s.alive) {
		return td.Claim{}, false, nil
	}
	return t.claimed(), true, nil
}
