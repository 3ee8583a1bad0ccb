package mem

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Task is the task as it stands.
func (s *Store) Task(ctx context.Context, id td.TaskID) (td.Task, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Task{}, err
	}
	defer leave()
	t, err := s.task(id)
	if err != nil {
		return td.Task{}, err
	}
	return t.Task, nil
}

// Tasks are those that match, by priority and then age.
func (s *Store) Tasks(ctx context.Context, f store.TaskFilter) ([]td.Task, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []td.Task
	for _, id := range s.order {
		t := s.tasks[id].Task
		if len(f.States) > 0 && !slices.Contains(f.States, t.Status.State) || f.Dir != "" && t.Dir != f.Dir && !strings.HasPrefix(t.Dir, f.Dir+"/"+td.WorktreeFolder+"/") {
			continue
		}
		if f.Brief {
			t.Spec = rule.Brief(t.Spec)
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b td.Task) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out, nil
}

// Counts is how many tasks are in each state.
func (s *Store) Counts(ctx context.Context) (map[td.State]int, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	out := map[td.State]int{}
	for _, id := range s.order {
		out[s.tasks[id].Status.State]++
	}
	return out, nil
}

// Tallies are what happened since the slot of a time.
func (s *Store) Tallies(ctx context.Context, since time.Time) ([]td.Tally, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	sums := rule.Tallies{}
	for k, n := range s.tallies {
		if !since.IsZero() && k.Slot < td.SlotOf(since) {
			continue
		}
		first := k.Slot
		k.Slot = 0
		if sum, there := sums[k]; there {
			first = min(first, sum.Slot)
		}
		sum := sums[k].Add(n)
		sum.Slot = first
		sums[k] = sum
	}
	return slices.Collect(maps.Values(sums)), nil
}

// Resolve finds the task a person means.
func (s *Store) Resolve(ctx context.Context, ref string) (td.TaskID, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return "", err
	}
	defer leave()
	found := rule.Meant(ref)
	for _, id := range s.order {
		t := s.tasks[id]
		found.Add(rule.Candidate{Task: id, ID: string(id), Handle: t.Handle, Title: t.Title})
		for _, r := range t.Requests {
			found.Add(rule.Candidate{Task: id, ID: string(r.ID), Handle: r.Handle(), Title: t.Title})
		}
	}
	return found.One()
}
