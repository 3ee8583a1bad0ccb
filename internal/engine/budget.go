package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/window"
)

var (
	fpBudgetWarned = failpoint.New("engine.budget.warned")
	fpBudgetShort  = failpoint.New("engine.budget.before_stop")
)

// Budgets bound what models may cost, in dollars and in tokens (G-8). Zero is no bound.
type Budgets struct {
	Task, Tree, Day, Month                         td.Money
	TaskTokens, TreeTokens, DayTokens, MonthTokens td.Tokens
	// Unpriced bounds the tokens of a task with its subtasks where a model has no price and no other token budget holds.
	Unpriced td.Tokens
	// UnpricedDay bounds the tokens of a day before a call without a price, where everybody's budget is in dollars only: nothing else would tell that
	// such calls pass it.
	UnpricedDay td.Tokens
	// Zone is where days begin; nil: the daemon's.
	Zone *time.Location
}

// day is the key of the day it is.
func (b Budgets) day(now time.Time) string {
	if b.Zone != nil {
		return td.Day(now.In(b.Zone))
	}
	return td.Day(now.Local())
}

// Caps are the bounds of everything at this time.
func (b Budgets) Caps(now time.Time) (caps []td.Cap) {
	day := b.day(now)
	for _, c := range []td.Cap{
		{Scope: td.OfDay, Key: day, Limit: b.Day},
		{Scope: td.OfMonth, Key: td.Month(day), Limit: b.Month},
		{Scope: td.OfDayTokens, Key: day, Limit: td.Money(b.DayTokens)},
		{Scope: td.OfMonthTokens, Key: td.Month(day), Limit: td.Money(b.MonthTokens)},
	} {
		if c.Limit > 0 {
			caps = append(caps, c)
		}
	}
	return caps
}

// WithUnpriced are the bounds of everything, for a call whose price nobody knows.
func (b Budgets) WithUnpriced(now time.Time) []td.Cap {
	caps := b.Caps(now)
	if b.onlyDollars() {
		caps = append(caps, td.Cap{Scope: td.OfDayTokens, Key: b.day(now), Limit: td.Money(b.UnpricedDay)})
	}
	return caps
}

// onlyDollars reports whether everybody's budget is one of dollars alone, and calls without a price are bounded all the same.
func (b Budgets) onlyDollars() bool {
	return b.UnpricedDay > 0 && (b.Day > 0 || b.Month > 0) && b.DayTokens == 0 && b.MonthTokens == 0
}

// Of are the bounds of a task's calls, the narrowest first. What a task was added with counts in place of
// what the config says of tasks and trees.
func (b Budgets) Of(t td.Task, now time.Time) (caps []td.Cap) {
	tree := b.Tree
	if t.Budget > 0 {
		tree = t.Budget
	} else if b.Task > 0 {
		caps = append(caps, td.Cap{Scope: td.OfTask, Key: string(t.ID), Limit: b.Task})
	}
	if tree > 0 {
		caps = append(caps, td.Cap{Scope: td.OfTree, Key: string(t.Tree()), Limit: tree})
	}
	tokens := b.TreeTokens
	if t.TokenBudget > 0 {
		tokens = t.TokenBudget
	} else if b.TaskTokens > 0 {
		caps = append(caps, td.Cap{Scope: td.OfTaskTokens, Key: string(t.ID), Limit: td.Money(b.TaskTokens)})
	}
	if tokens > 0 {
		caps = append(caps, td.Cap{Scope: td.OfTreeTokens, Key: string(t.Tree()), Limit: td.Money(tokens)})
	}
	return append(caps, b.Caps(now)...)
}

// reserve is what a call may cost at most: all that is sent, as if no cache had it, and the longest answer.
func (r *run) reserve(model string, sent, answer int, why td.Cause) *td.Reserve {
	return r.reserveFor(r.log.Task(), r.log.Now(), model, sent, answer, why)
}

func (e *Engine) reserveFor(t td.Task, now time.Time, model string, sent, answer int, why td.Cause) *td.Reserve {
	out := &td.Reserve{Cause: why, Day: e.Budgets.day(now), Held: true}
	if e.Replay {
		return out // nobody is paid
	}
	rehearsed := strings.HasPrefix(model, llm.Rehearsal+"/")
	if !rehearsed {
		out.Tokens, out.InputTokens = int64(sent)+int64(answer), int64(sent)
	}
	for _, u := range []td.Usage{{Input: int64(sent)}, {CacheWrite: int64(sent)}} {
		input, priced := e.Prices.Cost(model, u)
		if !priced {
			if out.Unpriced = !rehearsed; out.Unpriced {
				out.Caps = e.Budgets.unpriced(t, now)
			}
			return out
		}
		u.Output = int64(answer)
		whole, _ := e.Prices.Cost(model, u)
		out.Input, out.Amount = max(out.Input, input), max(out.Amount, whole)
	}
	if out.Amount > 0 { // a rehearsal that was given a price counts like what it rehearses
		out.Tokens, out.InputTokens = int64(sent)+int64(answer), int64(sent)
	}
	if out.Amount > 0 || out.Tokens > 0 {
		out.Caps = e.Budgets.Of(t, now)
	}
	return out
}

// unpriced are the bounds of a call whose price nobody knows: all token budgets there are, or the one for such tasks, and that of such calls in a day.
func (b Budgets) unpriced(t td.Task, now time.Time) []td.Cap {
	inDollars := func(c td.Cap) bool { return !c.Scope.InTokens() }
	caps := slices.DeleteFunc(b.Of(t, now), inDollars)
	if len(caps) == 0 && b.Unpriced > 0 {
		caps = []td.Cap{{Scope: td.OfUnpriced, Key: string(t.Tree()), Limit: td.Money(b.Unpriced)}}
	}
	if b.onlyDollars() {
		caps = append(caps, slices.DeleteFunc(b.WithUnpriced(now), inDollars)...)
	}
	return caps
}

// reserveTurn is reserve for the next answer of the conversation.
func (r *run) reserveTurn(req llm.Request) *td.Reserve {
	return r.reserve(req.Model, r.toSend(), req.MaxTokens, td.CauseTurn)
}

// reserveSide is reserve for a call of the small model beside the conversation.
func (r *run) reserveSide(prompt string, answer int, why td.Cause) *td.Reserve {
	return r.reserve(r.smallModel(r.log.Task()), window.Tokens(prompt), answer, why)
}

// reserveCall is reserve for what a tool may ask the small model; nil when it asks nothing.
func (r *run) reserveCall(s tool.Side) *td.Reserve {
	if s == (tool.Side{}) {
		return nil
	}
	model := r.smallModel(r.log.Task())
	out := r.reserve(model, s.Prompt/2, s.Answer, cmp.Or(s.Why, td.CauseDigest))
	out.Model, out.Input = model, 0 // how much of it was sent nobody knows
	return out
}

// ReserveAside is what a question beside the conversation of a task may cost, and the model that answers it. It is for
// those who hold no claim: they can look at the caps, and set nothing aside.
func (e *Engine) ReserveAside(t td.Task, prompt string, answer int, why td.Cause) *td.Reserve {
	model := e.smallModel(t)
	out := e.reserveFor(t, e.Now(), model, window.Tokens(prompt), answer, why)
	out.Model = model
	return out
}

// warnBudget tells people, before a call, how much of a budget is spent: once for each share of it, whoever
// finds it out first.
func (r *run) warnBudget(ctx context.Context, caps []td.Cap) error {
	if len(caps) == 0 {
		return nil
	}
	if due, err := r.dueWarnings(ctx, caps); err != nil || len(due) == 0 {
		return err
	}
	r.warning.Lock()
	defer r.warning.Unlock()
	due, err := r.dueWarnings(ctx, caps)
	if err != nil || len(due) == 0 {
		return err
	}
	err = r.log.Append(ctx, due...)
	fpBudgetWarned.Hit()
	return err
}

func (r *run) dueWarnings(ctx context.Context, caps []td.Cap) (due []td.Body, err error) {
	balances, err := r.Journal.Balances(ctx, caps...)
	if err != nil {
		return nil, err
	}
	for _, b := range balances {
		if p := b.Warning(); p > 0 {
			due = append(due, td.BudgetWarned{Scope: b.Scope, Key: b.Key, Percent: p, Spent: b.Spent, Limit: b.Limit})
		}
	}
	return due, nil
}

// outOfBudget stops a task whose next call might cost more than a budget leaves. Where only calls under way
// stand in the way, and where the budget is everybody's, it waits for room: a new day or a person who raises
// it brings that. A person is asked, by each task for its own budget and by one task for everybody's.
func (r *run) outOfBudget(ctx context.Context, short *td.Shortage) error {
	t := r.log.Task()
	fpBudgetShort.Hit()
	switch {
	case short.Passes():
		return r.blockOnBudget(ctx, short)
	case short.Scope.Everybodys():
		return r.askForAll(ctx, short)
	}
	if i := slices.IndexFunc(t.Requests, func(q td.Request) bool { return q.About == td.AboutBudget }); i >= 0 {
		return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Ask(t, t.Requests[i], at) })
	}
	return r.ask(ctx, toRaise(short, fmt.Sprintf("%s is at the end of its budget", t.Handle), "no pauses the task", false))
}

// toRaise is the request to raise a budget. unpriced says that a budget of the day is only there because a call has no price.
func toRaise(short *td.Shortage, what, no string, unpriced bool) td.Request {
	detail := fmt.Sprintf("yes raises it to %s, an amount like %s to that; %s", short.Scope.Amount(short.Raise()), short.Scope.Typed(2*short.Raise()), no)
	if short.Scope == td.OfUnpriced {
		detail += "\nits model has no known price, so its tokens are counted; to set another bound: task add --token-budget, or budget.unpriced_tokens in the config; " +
			"with a price (prices in the config) dollars are counted instead"
	}
	if short.Scope == td.OfDayTokens && unpriced {
		detail += "\nthe call's model has no known price, so that the budget in dollars cannot bound it; to set another bound: budget.unpriced_day_tokens or budget.day_tokens in the config; " +
			"with a price (prices in the config) dollars are counted instead"
	}
	return td.Request{
		Kind: td.AskQuestion, About: td.AboutBudget, Options: []string{td.Yes, td.No}, Budget: short,
		Prompt: fmt.Sprintf("%s: %s. Raise it to %s?", what, short, short.Scope.Amount(short.Raise())),
		Detail: detail,
	}
}

func (r *run) blockOnBudget(ctx context.Context, short *td.Shortage) error {
	return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.BlockOn(t, onBudget(short), at) })
}

func onBudget(short *td.Shortage) td.BlockedData {
	return td.BlockedData{
		Cause: short.Error(), Resource: fmt.Sprintf("budget %s %s", short.Scope, short.Key), Budget: short,
	}
}

// askForAll blocks the task on a budget of everybody that is used up. The first task that it stops tells people
// and asks to raise it, in the record that blocks it, so that they are asked once, whoever dies in between.
func (r *run) askForAll(ctx context.Context, short *td.Shortage) error {
	b, err := r.balance(ctx, short.Cap)
	if err != nil {
		return err
	}
	if !b.Askable() {
		return r.blockOnBudget(ctx, short)
	}
	req, err := r.prompted(ctx, toRaise(short, fmt.Sprintf("All tasks together are at the end of the %s's budget", short.Scope.Base()),
		fmt.Sprintf("no lets all that need more wait for the next %s", short.Scope.Base()), r.Budgets.onlyDollars()))
	if err != nil {
		return err
	}
	r.warning.Lock()
	defer r.warning.Unlock()
	if b, err = r.balance(ctx, short.Cap); err != nil {
		return err
	}
	if !b.Askable() {
		return r.blockOnBudget(ctx, short)
	}
	fpBeforeAsk.Hit()
	err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		req.AskedAt = at
		m, err := td.AskForAll(t, req, onBudget(short), at)
		if err == nil && b.Warned < 100 {
			told := td.BudgetWarned{Scope: b.Scope, Key: b.Key, Percent: 100, Spent: b.Spent, Limit: b.Limit}
			m.Events = append([]td.Event{{Task: t.ID, At: at, Body: told}}, m.Events...)
		}
		return m, err
	})
	fpAsked.Hit()
	return err
}

func (e *Engine) balance(ctx context.Context, c td.Cap) (td.Balance, error) {
	balances, err := e.Journal.Balances(ctx, c)
	if err != nil {
		return td.Balance{}, err
	}
	return balances[0], nil
}

// raised lets all who wait for a budget of everybody look again, if the events raise one.
func (r *run) raised(ctx context.Context, evs []td.Event) {
	for _, ev := range evs {
		if b, is := ev.Body.(td.BudgetRaised); is && b.Scope.Everybodys() && r.Raised != nil {
			r.Raised(ctx)
		}
	}
}

// room says why a task that waited for a budget may go on, or nothing.
func (e *Engine) room(ctx context.Context, t td.Task) (string, error) {
	was := t.Status.Blocked.Budget
	caps := e.Budgets.Of(t, e.Now())
	if was.Scope == td.OfUnpriced {
		caps = append(caps, was.Cap)
	}
	if was.Scope == td.OfDayTokens && e.Budgets.onlyDollars() {
		caps = e.Budgets.unpriced(t, e.Now())
	}
	balances, err := e.Journal.Balances(ctx, caps...)
	if err != nil {
		return "", err
	}
	for _, b := range balances {
		want := was.Want
		if b.Scope.InTokens() != was.Scope.InTokens() {
			want = 0 // how much it is of the other unit, the next call says
		}
		short := td.ShortageOf(b.Short(want))
		switch {
		case short == nil:
		case was.Passes() && !short.Passes():
			return "the calls it waited for are settled, and left no room", nil // it asks now
		case b.Scope.Everybodys() && !short.Passes() && b.Askable():
			return "nobody is asked about the budget any more", nil // it asks now
		default:
			return "", nil
		}
	}
	return "there is room in the budget again", nil
}
