package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// account is what an append does to the ledger, if its reservations fit their caps.
func (t *tx) account(before *td.Task, evs []td.Record) (rule.Account, error) {
	a := rule.AccountOf(before.Reserved, evs)
	return a, a.Fits(func(c td.Cap) (td.Balance, error) { return balance(t.c, c) })
}

// settle writes it.
func (t *tx) settle(n int64, task *td.Task, a rule.Account) error {
	if a.Idle() {
		return nil
	}
	fpLedger.Hit()
	tree := n
	if root := task.Tree(); root != task.ID {
		found, err := t.c.number("SELECT n FROM tasks WHERE id = ?", string(root))
		if err != nil {
			return err
		}
		if found > 0 {
			tree = found
		}
	}
	for _, e := range a.Booked {
		if err := t.book(n, tree, e); err != nil {
			return err
		}
	}
	for _, r := range a.Raised {
		if err := t.exec(`INSERT INTO caps (scope, key, raised, warned) VALUES (?, ?, ?, 0)
			ON CONFLICT DO UPDATE SET raised = max(raised, excluded.raised), warned = iif(excluded.raised > raised, 0, warned)`,
			string(r.Scope), r.Key, int64(r.Limit)); err != nil {
			return err
		}
	}
	for _, w := range a.Warned {
		if err := t.exec(`INSERT INTO caps (scope, key, raised, warned) VALUES (?, ?, 0, ?)
			ON CONFLICT DO UPDATE SET warned = max(warned, excluded.warned)`,
			string(w.Scope), w.Key, w.Percent); err != nil {
			return err
		}
	}
	for _, k := range a.Kept {
		if err := t.exec(`INSERT INTO caps (scope, key, raised, warned, kept) VALUES (?, ?, 0, 0, ?)
			ON CONFLICT DO UPDATE SET kept = excluded.kept`, string(k.Scope), k.Key, int64(k.Limit)); err != nil {
			return err
		}
	}
	for _, r := range a.Asked {
		if err := t.exec(`INSERT INTO caps (scope, key, raised, warned, asker, asked) VALUES (?, ?, 0, 0, ?, ?)
			ON CONFLICT DO UPDATE SET asker = excluded.asker, asked = excluded.asked`,
			string(r.Budget.Scope), r.Budget.Key, n, string(r.ID)); err != nil {
			return err
		}
	}
	if !a.Reserves() {
		return nil
	}
	if err := t.exec("DELETE FROM reserved WHERE task = ?", n); err != nil {
		return err
	}
	for _, r := range a.Open {
		if err := t.exec("INSERT INTO reserved (task, step, tree, day, amount, tokens) VALUES (?, ?, ?, ?, ?, ?)",
			n, string(r.Step), tree, r.Day, int64(r.Amount), r.Tokens); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) book(n, tree int64, e td.Booking) error {
	u := e.Usage
	sums := []any{
		e.Day, e.Model, string(e.Cause), int64(e.Amount), one(e.Unpriced), u.Input, u.Output, u.CacheRead, u.CacheWrite,
		one(e.Estimated), one(e.Replayed), e.Tokens,
	}
	if err := t.exec(`INSERT INTO spend (task, tree, `+sumColumns+") VALUES (?, ?, "+sumValues, append([]any{n, tree}, sums...)...); err != nil {
		return err
	}
	return t.exec("INSERT INTO spend_sums ("+sumColumns+") VALUES ("+sumValues, sums...)
}

// What a booking adds to the line of its task and to that of all tasks.
const (
	sumColumns = "day, model, cause, amount, unpriced, input, output, cache_read, cache_write, estimated, replayed, tokens, calls"
	sumValues  = `?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET
		amount = amount + excluded.amount, calls = calls + 1, unpriced = unpriced + excluded.unpriced,
		input = input + excluded.input, output = output + excluded.output,
		cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
		estimated = estimated + excluded.estimated, replayed = replayed + excluded.replayed, tokens = tokens + excluded.tokens`
)

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// balance is how a cap stands.
func balance(c *conn, k td.Cap) (td.Balance, error) {
	const one = "(SELECT n FROM tasks WHERE id = ?1)"
	spent, reserved := "spend WHERE task = "+one, "reserved WHERE task = "+one
	column := "amount"
	if k.Scope.InTokens() {
		column = "tokens"
	}
	switch k.Scope.Base() {
	case td.OfTree:
		spent, reserved = "spend WHERE tree = "+one, "reserved WHERE tree = "+one
	case td.OfDay:
		spent, reserved = "spend_sums WHERE day = ?1", "reserved WHERE day = ?1"
	case td.OfMonth:
		spent, reserved = "spend_sums WHERE day >= ?1 AND day < ?1 || '~'", "reserved WHERE day >= ?1 AND day < ?1 || '~'"
	}
	b := td.Balance{Cap: k}
	for _, sum := range []struct {
		from string
		into *td.Money
	}{{spent, &b.Spent}, {reserved, &b.Reserved}} {
		n, err := c.number("SELECT coalesce(sum("+column+"), 0) FROM "+sum.from, k.Key)
		if err != nil {
			return b, err
		}
		*sum.into = td.Money(n)
	}
	_, err := c.one(func(r *sqlite3.Stmt) error {
		b.Limit, b.Warned = max(b.Limit, td.Money(r.ColumnInt64(0))), r.ColumnInt(1)
		b.Kept, b.Asked = td.Money(r.ColumnInt64(2)), r.ColumnInt(3) > 0
		return nil
	}, `SELECT raised, warned, kept, EXISTS (SELECT 1 FROM requests WHERE task = asker AND id = asked)
		FROM caps WHERE scope = ? AND key = ?`, string(k.Scope), k.Key)
	return b, err
}

// Balances says how caps stand.
func (s *Store) Balances(ctx context.Context, caps ...td.Cap) (out []td.Balance, err error) {
	err = s.pool.with(ctx, func(c *conn) error {
		return c.inTxn(func() error {
			for _, k := range caps {
				b, err := balance(c, k)
				if err != nil {
					return err
				}
				out = append(out, b)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read budgets: %w", s.classify(err))
	}
	return out, nil
}

// SubtasksSpent is what the subtasks of a task have spent, and theirs. Every line of its tree is followed up
// from parent to parent: a subtask's own tree is not kept apart.
func (s *Store) SubtasksSpent(ctx context.Context, id td.TaskID) (out td.Spent, err error) {
	err = s.pool.with(ctx, func(c *conn) error {
		return c.query(func(r *sqlite3.Stmt) error {
			out.Add(td.Cause(r.ColumnText(0)), td.Money(r.ColumnInt64(1)), r.ColumnInt(2))
			return nil
		}, `WITH RECURSIVE
			me(n, root) AS (SELECT n, coalesce(CAST(brief AS TEXT) ->> '$.root', CAST(brief AS TEXT) ->> '$.parent', id)
				FROM tasks JOIN specs ON task = n WHERE id = ?1),
			line(task, cause, amount, unpriced) AS (SELECT task, cause, amount, unpriced FROM spend
				WHERE tree IN (SELECT n FROM me UNION SELECT t.n FROM tasks t, me WHERE t.id = root)),
			up(task, at) AS (
				SELECT DISTINCT task, task FROM line
				UNION
				SELECT up.task, p.n FROM up JOIN specs s ON s.task = up.at JOIN tasks p ON p.id = CAST(s.brief AS TEXT) ->> '$.parent')
			SELECT cause, sum(amount), sum(unpriced) FROM line
			WHERE task IN (SELECT task FROM up, me WHERE at = n AND task != n) GROUP BY cause`, string(id))
	})
	if err != nil {
		return td.Spent{}, fmt.Errorf("read what subtasks spent: %w", s.classify(err))
	}
	return out, nil
}

// Spending is what was booked to this day or a later one.
func (s *Store) Spending(ctx context.Context, since string) (store.Spending, error) {
	return s.spending(ctx, `SELECT p.day, p.model, p.cause, p.amount, p.calls, p.unpriced, p.input, p.output, p.cache_read, p.cache_write,
		p.estimated, p.replayed, p.tokens, t.id, t.handle, CAST(s.brief AS TEXT) ->> '$.title'
		FROM spend p JOIN tasks t ON t.n = p.task JOIN specs s ON s.task = p.task
		WHERE p.day >= ? ORDER BY p.day, t.n, p.model, p.cause`, since)
}

// Sums is Spending of all tasks together.
func (s *Store) Sums(ctx context.Context, since string) (store.Spending, error) {
	return s.spending(ctx, `SELECT day, model, cause, amount, calls, unpriced, input, output, cache_read, cache_write,
		estimated, replayed, tokens, '', '', '' FROM spend_sums WHERE day >= ? ORDER BY day, model, cause`, since)
}

func (s *Store) spending(ctx context.Context, lines, since string) (out store.Spending, err error) {
	err = s.pool.with(ctx, func(c *conn) error {
		return c.inTxn(func() error {
			if _, err := c.one(func(r *sqlite3.Stmt) error {
				out.Reserved, out.Tokens, out.Open = td.Money(r.ColumnInt64(0)), r.ColumnInt64(1), r.ColumnInt(2)
				return nil
			}, "SELECT coalesce(sum(amount), 0), coalesce(sum(tokens), 0), count(*) FROM reserved"); err != nil {
				return err
			}
			return c.query(func(r *sqlite3.Stmt) error {
				out.Lines = append(out.Lines, store.SpendLine{
					Day: r.ColumnText(0), Model: r.ColumnText(1), Cause: td.Cause(r.ColumnText(2)),
					Amount: td.Money(r.ColumnInt64(3)), Calls: r.ColumnInt(4), Unpriced: r.ColumnInt(5),
					Usage:     td.Usage{Input: r.ColumnInt64(6), Output: r.ColumnInt64(7), CacheRead: r.ColumnInt64(8), CacheWrite: r.ColumnInt64(9)},
					Estimated: r.ColumnInt(10), Replayed: r.ColumnInt(11), Tokens: r.ColumnInt64(12),
					Task: td.TaskID(r.ColumnText(13)), Handle: r.ColumnText(14), Title: r.ColumnText(15),
				})
				return nil
			}, lines, since)
		})
	})
	if err != nil {
		return store.Spending{}, fmt.Errorf("read the ledger: %w", s.classify(err))
	}
	return out, nil
}

// wrongSums names what is summed up otherwise than it is.
func wrongSums(c *conn) (found []string, err error) {
	for _, sum := range []struct{ what, kept, made string }{
		{
			"the ledger", "SELECT day, model, cause, amount, calls, tokens FROM spend_sums",
			"SELECT day, model, cause, sum(amount), sum(calls), sum(tokens) FROM spend GROUP BY day, model, cause",
		},
		{"the states of tasks", "SELECT state, tasks FROM counts WHERE tasks <> 0", "SELECT state, count(*) FROM tasks WHERE n > 0 GROUP BY state"},
	} {
		n, err := c.number("SELECT count(*) FROM (SELECT * FROM (" + sum.kept + " EXCEPT " + sum.made + ") UNION ALL SELECT * FROM (" + sum.made + " EXCEPT " + sum.kept + "))")
		if err != nil {
			return found, err
		}
		if n > 0 {
			found = append(found, "the sums over "+sum.what+" are wrong")
		}
	}
	return found, nil
}

// ledger compares what was booked and is reserved with what the task's records say.
func (f *folding) ledger(c *conn, e entry) error {
	booked, err := c.number("SELECT coalesce(sum(amount), 0) FROM spend WHERE task = ?", e.n)
	if err != nil {
		return err
	}
	if td.Money(booked) != f.booked {
		f.problem("%s were booked for it, its records say %s", td.Money(booked), f.booked)
	}
	tokens, err := c.number("SELECT coalesce(sum(tokens), 0) FROM spend WHERE task = ?", e.n)
	if err != nil {
		return err
	}
	if tokens != f.tokens {
		f.problem("%d tokens were booked for it, its records say %d", tokens, f.tokens)
	}
	type aside struct {
		amount td.Money
		tokens int64
	}
	open := map[string]aside{}
	if err := c.query(func(r *sqlite3.Stmt) error {
		open[r.ColumnText(0)] = aside{td.Money(r.ColumnInt64(1)), r.ColumnInt64(2)}
		return nil
	}, "SELECT step, amount, tokens FROM reserved WHERE task = ?", e.n); err != nil {
		return err
	}
	same := len(open) == len(e.task.Reserved)
	for _, r := range e.task.Reserved {
		at, there := open[string(r.Step)]
		same = same && there && at == aside{r.Amount, r.Tokens}
	}
	if !same {
		f.problem("what is set aside for its calls is not what its records say")
	}
	return nil
}
