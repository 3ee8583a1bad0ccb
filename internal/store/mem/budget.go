package mem

import (
	"cmp"
	"context"
	"slices"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// ledger is what was spent, by day, task, model and cause, and what people said about caps.
type ledger struct {
	lines map[store.SpendLine]*store.SpendLine // by the line without its sums
	caps  map[td.Cap]*td.Balance               // by the cap without its limit
	asked map[td.Cap]request                   // likewise: the newest request to raise it
}

// request names a request of a task.
type request struct {
	task td.TaskID
	id   td.RequestID
}

func newLedger() ledger {
	return ledger{map[store.SpendLine]*store.SpendLine{}, map[td.Cap]*td.Balance{}, map[td.Cap]request{}}
}

func (l ledger) capOf(k td.Cap) *td.Balance {
	k.Limit = 0
	if l.caps[k] == nil {
		l.caps[k] = &td.Balance{Cap: k}
	}
	return l.caps[k]
}

// settle writes what an append does to the ledger.
func (l ledger) settle(t td.Task, a rule.Account) {
	for _, e := range a.Booked {
		key := store.SpendLine{Day: e.Day, Task: t.ID, Handle: t.Handle, Title: t.Title, Model: e.Model, Cause: e.Cause}
		if l.lines[key] == nil {
			line := key
			l.lines[key] = &line
		}
		line := l.lines[key]
		line.Amount += e.Amount
		line.Calls++
		for _, c := range []struct {
			is bool
			n  *int
		}{{e.Unpriced, &line.Unpriced}, {e.Estimated, &line.Estimated}, {e.Replayed, &line.Replayed}} {
			if c.is {
				*c.n++
			}
		}
		line.Usage, line.Tokens = line.Usage.Add(e.Usage), line.Tokens+e.Tokens
	}
	for _, r := range a.Raised {
		k := l.capOf(r.Cap)
		if r.Limit > k.Limit {
			k.Limit, k.Warned = r.Limit, 0
		}
	}
	for _, w := range a.Warned {
		k := l.capOf(td.Cap{Scope: w.Scope, Key: w.Key})
		k.Warned = max(k.Warned, w.Percent)
	}
	for _, k := range a.Kept {
		l.capOf(k.Cap).Kept = k.Limit
	}
	for _, r := range a.Asked {
		l.capOf(r.Budget.Cap)
		l.asked[td.Cap{Scope: r.Budget.Scope, Key: r.Budget.Key}] = request{t.ID, r.ID}
	}
}

// balance is how a cap stands. The lock is held.
func (d *data) balance(k td.Cap) (td.Balance, error) {
	counts := func(id td.TaskID, day string) bool {
		t := d.tasks[id]
		switch k.Scope.Base() {
		case td.OfTask:
			return string(id) == k.Key
		case td.OfTree:
			return string(t.Tree()) == k.Key
		default:
			return k.Covers(day)
		}
	}
	b := td.Balance{Cap: k}
	for _, line := range d.ledger.lines {
		if counts(line.Task, line.Day) {
			b.Spent += k.Of(line.Amount, line.Tokens)
		}
	}
	for id, t := range d.tasks {
		for _, r := range t.Reserved {
			if counts(id, r.Day) {
				b.Reserved += k.Of(r.Amount, r.Tokens)
			}
		}
	}
	k.Limit = 0
	if said := d.ledger.caps[k]; said != nil {
		b.Limit, b.Warned, b.Kept = max(b.Limit, said.Limit), said.Warned, said.Kept
		if asked := d.ledger.asked[k]; d.tasks[asked.task] != nil {
			_, b.Asked = d.tasks[asked.task].Request(asked.id)
		}
	}
	return b, nil
}

// Balances says how caps stand.
func (s *Store) Balances(ctx context.Context, caps ...td.Cap) (out []td.Balance, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	for _, k := range caps {
		b, err := s.balance(k)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// SubtasksSpent is what the subtasks of a task have spent, and theirs.
func (s *Store) SubtasksSpent(ctx context.Context, id td.TaskID) (out td.Spent, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Spent{}, err
	}
	defer leave()
	for _, line := range s.ledger.lines {
		for up := s.tasks[line.Task].Parent; up != ""; up = s.tasks[up].Parent {
			if up == id {
				out.Add(line.Cause, line.Amount, line.Unpriced)
				break
			}
		}
	}
	return out, nil
}

// Spending is what was booked to this day or a later one.
func (s *Store) Spending(ctx context.Context, since string) (out store.Spending, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return store.Spending{}, err
	}
	defer leave()
	for _, line := range s.ledger.lines {
		if line.Day >= since {
			out.Lines = append(out.Lines, *line)
		}
	}
	for _, t := range s.tasks {
		for _, r := range t.Reserved {
			out.Reserved += r.Amount
			out.Tokens += r.Tokens
			out.Open++
		}
	}
	age := func(l store.SpendLine) int { return slices.Index(s.order, l.Task) }
	slices.SortFunc(out.Lines, func(a, b store.SpendLine) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(age(a), age(b)), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Cause, b.Cause))
	})
	return out, nil
}

// Sums is Spending of all tasks together.
func (s *Store) Sums(ctx context.Context, since string) (store.Spending, error) {
	out, err := s.Spending(ctx, since)
	if err != nil {
		return store.Spending{}, err
	}
	type key struct {
		day, model string
		cause      td.Cause
	}
	sums := map[key]*store.SpendLine{}
	for _, l := range out.Lines {
		k := key{l.Day, l.Model, l.Cause}
		sum := sums[k]
		if sum == nil {
			sum = &store.SpendLine{Day: l.Day, Model: l.Model, Cause: l.Cause}
			sums[k] = sum
		}
		sum.Amount += l.Amount
		sum.Calls += l.Calls
		sum.Unpriced += l.Unpriced
		sum.Estimated += l.Estimated
		sum.Replayed += l.Replayed
		sum.Usage = sum.Usage.Add(l.Usage)
		sum.Tokens += l.Tokens
	}
	out.Lines = nil
	for _, sum := range sums {
		out.Lines = append(out.Lines, *sum)
	}
	slices.SortFunc(out.Lines, func(a, b store.SpendLine) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Cause, b.Cause))
	})
	return out, nil
}
