package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/stats"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var fpRaised = failpoint.New("daemon.budget.raised")

// Cost is what calls of models cost, broken down, and how the budgets stand.
func (d *Daemon) Cost(ctx context.Context, q api.CostQuery) (api.Cost, error) {
	out := api.Cost{By: cmp.Or(q.By, api.ByTask), Lines: []api.CostLine{}, Total: api.CostLine{Name: "total"}, Budgets: []td.Balance{}}
	if !slices.Contains(api.CostWays, out.By) {
		return api.Cost{}, td.Errorf(td.Invalid, "cost by %q: it is by task, model, day or cause", out.By)
	}
	if !q.Since.IsZero() {
		out.Since = td.Day(q.Since.Local())
	}
	look := d.journal.Sums
	if out.By == api.ByTask {
		look = d.journal.Spending
	}
	spent, err := look(ctx, out.Since)
	if err != nil {
		return api.Cost{}, err
	}
	out.Reserved, out.ReservedTokens, out.Open = spent.Reserved, spent.Tokens, spent.Open
	at := map[string]int{}
	for _, s := range spent.Lines {
		name, title := nameOf(out.By, s)
		i, known := at[name]
		if !known {
			i = len(out.Lines)
			at[name] = i
			out.Lines = append(out.Lines, api.CostLine{Name: name, Title: title})
		}
		add(&out.Lines[i], s)
		add(&out.Total, s)
	}
	if out.By != api.ByDay { // days stay in their order
		slices.SortStableFunc(out.Lines, func(a, b api.CostLine) int { return cmp.Compare(b.Amount, a.Amount) })
	}
	if out.Merged, err = d.mergedSince(ctx, q.Since); err != nil {
		return api.Cost{}, err
	}
	caps := budgets(d.o.Config).Caps(time.Now())
	if out.Total.Unpriced > 0 {
		caps = budgets(d.o.Config).WithUnpriced(time.Now())
	}
	if len(caps) > 0 {
		if out.Budgets, err = d.journal.Balances(ctx, caps...); err != nil {
			return api.Cost{}, err
		}
	}
	return out, nil
}

// mergedSince is how many pieces of work were merged from the day of a time on.
func (d *Daemon) mergedSince(ctx context.Context, since time.Time) (int, error) {
	if !since.IsZero() {
		y, m, day := since.Local().Date()
		since = time.Date(y, m, day, 0, 0, 0, 0, time.Local)
	}
	tallies, err := d.journal.Tallies(ctx, since)
	if err != nil {
		return 0, err
	}
	return stats.Of(tallies, since, time.Now()).Merged, nil
}

func nameOf(by api.CostBy, s store.SpendLine) (name, title string) {
	switch by {
	case api.ByModel:
		return s.Model, ""
	case api.ByDay:
		return s.Day, ""
	case api.ByCause:
		return string(s.Cause), ""
	default:
		return s.Handle, s.Title
	}
}

func add(to *api.CostLine, s store.SpendLine) {
	to.Calls += s.Calls
	to.Unpriced += s.Unpriced
	to.Estimated += s.Estimated
	to.Replayed += s.Replayed
	if s.Cause == td.CauseRepeated || s.Cause == td.CauseStopped {
		to.Unknown += s.Calls
	}
	to.Usage = to.Usage.Add(s.Usage)
	to.Amount += s.Amount
}

// RaiseBudget lets more be spent in this day or month, and lets go on what waits for that.
func (d *Daemon) RaiseBudget(ctx context.Context, in api.RaiseBudget) (td.Balance, error) {
	if err := d.accepting(); err != nil {
		return td.Balance{}, err
	}
	if !in.Scope.Everybodys() {
		return td.Balance{}, td.Errorf(td.Invalid, "raise the budget of the %s: it is the one of the day or the month", in.Scope).
			WithHint("taskdaemon task answer, for the budget of a task")
	}
	caps := budgets(d.o.Config).WithUnpriced(time.Now())
	i := slices.IndexFunc(caps, func(c td.Cap) bool { return c.Scope == in.Scope })
	if i < 0 {
		return td.Balance{}, td.Errorf(td.Conflict, "there is no budget of the %s to raise", in.Scope).
			WithHint("taskdaemon config show budget.%s", in.Scope)
	}
	now, err := d.journal.Balances(ctx, caps[i])
	if err != nil {
		return td.Balance{}, err
	}
	limit := in.Amount
	if in.Scope.InTokens() {
		limit = td.Money(in.Tokens)
	}
	if limit == now[0].Limit {
		return now[0], nil // it was raised to this already
	}
	if limit < now[0].Limit || limit > td.MaxBudget {
		return td.Balance{}, td.Errorf(td.Invalid, "raise the budget of the %s to %s: it is %s already", in.Scope.Base(), in.Scope.Amount(limit), in.Scope.Amount(now[0].Limit))
	}
	raised := td.BudgetRaised{Cap: td.Cap{Scope: in.Scope, Key: caps[i].Key, Limit: limit}, By: in.By}
	if err := d.own.append(ctx, raised); err != nil {
		return td.Balance{}, fmt.Errorf("raise the budget: %w", err)
	}
	fpRaised.Hit()
	d.wakeSpenders(ctx)
	now[0].Limit, now[0].Warned, now[0].Asked = limit, 0, false
	return now[0], nil
}

// wakeSpenders lets all who wait for room in a budget look again. Whom it does not reach looks by itself.
func (d *Daemon) wakeSpenders(ctx context.Context) {
	waiting, err := d.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Blocked}, Brief: true})
	if err != nil {
		d.o.Log.Warn("wake who waits for a budget", "err", err)
		return
	}
	for _, t := range waiting {
		if b := t.Status.Blocked; b != nil && b.Budget != nil {
			d.sched.Wake(ctx, t, false)
		}
	}
}

func budgets(c config.Config) engine.Budgets {
	b := c.Budget
	return engine.Budgets{
		Task: b.Task, Tree: b.Tree, Day: b.Day, Month: b.Month,
		TaskTokens: b.TaskTokens, TreeTokens: b.TreeTokens, DayTokens: b.DayTokens, MonthTokens: b.MonthTokens, Unpriced: b.UnpricedTokens, UnpricedDay: b.UnpricedDayTokens,
	}
}
