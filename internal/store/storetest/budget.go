package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

const today = "2030-01-02"

func (f *fixture) intends(step string, amount td.Money, caps ...td.Cap) td.Event {
	return f.intendsOn(today, step, amount, caps...)
}

func (f *fixture) intendsOn(day, step string, amount td.Money, caps ...td.Cap) td.Event {
	return td.Event{At: f.tick(), Body: td.StepIntended{Intent: td.Intent{
		Key: td.StepKey(step), Kind: td.ModelStep, Name: "m-wanted", Effect: td.Pure,
		Reserve: &td.Reserve{Amount: amount, Input: amount / 4, Cause: td.CauseTurn, Day: day, Caps: caps},
	}}}
}

func (f *fixture) answers(step string, cost td.Money) td.Event {
	return td.Event{At: f.tick(), Body: td.StepEnded{Outcome: td.Outcome{Key: td.StepKey(step), Via: td.Ran, Model: &td.ModelResult{
		Model: "m-answered", Cost: cost, Usage: td.Usage{Input: 10, Output: 2}, StopReason: td.EndTurn,
	}}}}
}

func dayCap(limit td.Money) td.Cap { return td.Cap{Scope: td.OfDay, Key: today, Limit: limit} }

func (f *fixture) balance(c td.Cap) td.Balance {
	f.t.Helper()
	bs, err := f.Balances(f.ctx, c)
	must(f.t, err)
	if len(bs) != 1 {
		f.t.Fatalf("%d balances of one cap", len(bs))
	}
	return bs[0]
}

// budgetSettled: a reservation stands until its outcome, and then what it really cost does.
func budgetSettled(t *testing.T, f *fixture) {
	task, c := f.running("spends")
	own := td.Cap{Scope: td.OfTask, Key: string(task.ID), Limit: 100}
	caps := []td.Cap{own, {Scope: td.OfTree, Key: string(task.ID), Limit: 100}, dayCap(100), {Scope: td.OfMonth, Key: "2030-01", Limit: 100}}
	task = f.append(c, task.Head, f.intends("t1.model", 60, caps...))
	for _, k := range caps {
		b := f.balance(k)
		equal(t, string(k.Scope), b, td.Balance{Cap: k, Reserved: 60})
		equal(t, "left", b.Left(), 40)
	}
	f.again()
	equal(t, "after a reopening", f.balance(own), td.Balance{Cap: own, Reserved: 60})
	c = f.claim(task.ID, 1)
	task = f.append(c, task.Head, f.answers("t1.model", 25))
	for _, k := range caps {
		equal(t, string(k.Scope), f.balance(k), td.Balance{Cap: k, Spent: 25})
	}
	equal(t, "another day", f.balance(td.Cap{Scope: td.OfDay, Key: "2030-01-03"}).Spent, 0)
	equal(t, "another month", f.balance(td.Cap{Scope: td.OfMonth, Key: "2030-02"}).Spent, 0)
	_, err := f.Append(f.ctx, c, task.Head, f.intends("t2.model", 76, caps...))
	wantKind(t, err, td.OverBudget)
	short := td.ShortageOf(err)
	equal(t, "shortage", *short, td.Shortage{Balance: td.Balance{Cap: own, Spent: 25}, Want: 76})
	equal(t, "the head after a refusal", f.task(task.ID).Head, task.Head)
	task = f.append(c, task.Head, f.intends("t2.model", 75, caps...)) // to the last millionth
	// The outcome and the next reservation may come in one append: what is settled there counts.
	f.append(c, task.Head, f.answers("t2.model", 5), f.intends("t3.model", 70, caps...))
	equal(t, "in one append", f.balance(own), td.Balance{Cap: own, Spent: 30, Reserved: 70})
	f.sound()
}

// budgetLost: what has no answer is booked with what was sent, and only once.
func budgetLost(t *testing.T, f *fixture) {
	task, c := f.running("loses")
	task = f.append(c, task.Head, f.intends("t1.model", 40))
	f.again()
	c = f.claim(task.ID, 1)
	again := f.intends("t1.model", 48)
	task = f.append(c, task.Head, again)
	equal(t, "lost", task.Lost, 10)
	if repeated, err := f.Append(f.ctx, c, task.Head-1, again); err != nil || repeated.Head != task.Head {
		t.Fatalf("the same append again: %v, head %d", err, repeated.Head)
	}
	own := td.Cap{Scope: td.OfTask, Key: string(task.ID)}
	equal(t, "made again", f.balance(own), td.Balance{Cap: own, Spent: 10, Reserved: 48})
	task = f.append(c, task.Head, f.answers("t1.model", 7))
	task = f.append(c, task.Head, f.intends("t2.model", 20))
	m, err := td.Cancel(task, "enough", f.tick())
	must(t, err)
	task = f.append(c, task.Head, m.Events...)
	equal(t, "cancelled in a call", f.balance(own), td.Balance{Cap: own, Spent: 10 + 7 + 5})
	equal(t, "cost and lost", [2]td.Money{task.Cost, task.Lost}, [2]td.Money{7, 15})
	spent, err := f.Spending(f.ctx, today)
	must(t, err)
	var lines []string
	for _, l := range spent.Lines {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %d %d", l.Day, l.Handle, l.Model, l.Cause, l.Amount, l.Calls))
	}
	equal(t, "lines", lines, []string{
		today + " " + task.Handle + " m-answered turn 7 1",
		today + " " + task.Handle + " m-wanted repeated 10 1",
		today + " " + task.Handle + " m-wanted stopped 5 1",
	})
	other := f.create("another")
	f.append(f.claim(other.ID, 2), other.Head, f.intends("t1.model", 20), f.answers("t1.model", 4))
	sums, err := f.Sums(f.ctx, today)
	must(t, err)
	lines = nil
	for _, l := range sums.Lines {
		lines = append(lines, fmt.Sprintf("%s %s%s%s%s %s %d %d", l.Day, l.Task, l.Handle, l.Title, l.Model, l.Cause, l.Amount, l.Calls))
	}
	equal(t, "sums", lines, []string{
		today + " m-answered turn 11 2",
		today + " m-wanted repeated 10 1",
		today + " m-wanted stopped 5 1",
	})
	f.sound()
}

// budgetTokens: tokens are set aside, settled and lost beside dollars, for every scope; a call without a price is
// refused by them alone.
func budgetTokens(t *testing.T, f *fixture) {
	task, c := f.running("counts")
	caps := []td.Cap{
		{Scope: td.OfTaskTokens, Key: string(task.ID), Limit: 1000}, {Scope: td.OfTreeTokens, Key: string(task.ID), Limit: 1000},
		{Scope: td.OfUnpriced, Key: string(task.ID), Limit: 1000}, {Scope: td.OfDayTokens, Key: today, Limit: 1000}, {Scope: td.OfMonthTokens, Key: "2030-01", Limit: 1000},
	}
	intends := func(step string, tokens int64) td.Event {
		ev := f.intends(step, 0, caps...)
		in := ev.Body.(td.StepIntended)
		in.Reserve.Tokens, in.Reserve.InputTokens, in.Reserve.Held, in.Reserve.Unpriced = tokens, tokens/4, true, true
		return ev
	}
	look := func(when string, spent, reserved td.Money) {
		t.Helper()
		for _, k := range caps {
			equal(t, when+": "+string(k.Scope), f.balance(k), td.Balance{Cap: k, Spent: spent, Reserved: reserved})
		}
	}
	task = f.append(c, task.Head, intends("t1.model", 600))
	look("reserved", 0, 600)
	f.again()
	look("after a reopening", 0, 600)
	c = f.claim(task.ID, 1)
	task = f.append(c, task.Head, f.answers("t1.model", 0)) // which took 12
	look("settled", 12, 0)
	_, err := f.Append(f.ctx, c, task.Head, intends("t2.model", 989))
	wantKind(t, err, td.OverBudget)
	equal(t, "shortage", *td.ShortageOf(err), td.Shortage{Balance: td.Balance{Cap: caps[0], Spent: 12}, Want: 989})
	task = f.append(c, task.Head, intends("t2.model", 400))
	f.again()
	c = f.claim(task.ID, 1)
	task = f.append(c, task.Head, intends("t2.model", 300)) // its answer was lost: it is made again
	look("made again", 412, 300)
	m, err := td.Cancel(task, "enough", f.tick())
	must(t, err)
	f.append(c, task.Head, m.Events...)
	look("cancelled in a call", 712, 0)
	spent, err := f.Spending(f.ctx, today)
	must(t, err)
	tokens, usage := int64(0), td.Usage{}
	for _, l := range spent.Lines {
		tokens, usage = tokens+l.Tokens, usage.Add(l.Usage)
	}
	equal(t, "tokens of the ledger", tokens, 712)
	equal(t, "usage of the ledger", usage, td.Usage{Input: 10 + 100 + 75, Output: 2 + 300 + 225})
	f.sound()
}

// budgetMarks: what was estimated and what a cassette answered is told apart; that costs and takes nothing.
func budgetMarks(t *testing.T, f *fixture) {
	task, c := f.running("marks")
	in := f.intends("t1.model", 100)
	in.Body.(td.StepIntended).Reserve.Tokens = 50
	est := f.answers("t1.model", 7)
	est.Body.(td.StepEnded).Model.Estimated = true
	again := f.intends("t2.model", 100)
	again.Body.(td.StepIntended).Reserve.Tokens = 50
	played := f.answers("t2.model", 0)
	played.Body.(td.StepEnded).Model.Replayed = true
	task = f.append(c, task.Head, in, est, again, played)
	equal(t, "of the task", [2]int{task.Estimated, task.Replayed}, [2]int{1, 1})
	f.again()
	spent, err := f.Spending(f.ctx, today)
	must(t, err)
	equal(t, "lines", len(spent.Lines), 1)
	l := spent.Lines[0]
	equal(t, "marks", [3]int{l.Calls, l.Estimated, l.Replayed}, [3]int{2, 1, 1})
	equal(t, "sums", [2]int64{int64(l.Amount), l.Tokens}, [2]int64{7, 12})
	f.sound()
}

// budgetTree: subtasks count to the tree, others do not.
func budgetTree(t *testing.T, f *fixture) {
	root, _ := f.running("root")
	for i, s := range []td.Spec{{Parent: root.ID, Root: root.ID}, {Parent: "gone", Root: root.ID}, {}} {
		sub := spec(name("sub%d", i), f.tick())
		sub.Parent, sub.Root = s.Parent, s.Root
		task, err := f.Create(f.ctx, sub, "")
		must(t, err)
		f.append(f.claim(task.ID, 1), task.Head, f.intends("t1.model", 30), f.answers("t1.model", 10), f.intends("t2.model", 4))
	}
	k := td.Cap{Scope: td.OfTree, Key: string(root.ID)}
	equal(t, "tree", f.balance(k), td.Balance{Cap: k, Spent: 20, Reserved: 8})
	day := f.balance(dayCap(0))
	equal(t, "day", day, td.Balance{Cap: dayCap(0), Spent: 30, Reserved: 12})
}

// budgetBelow: what subtasks spend is known at every height of the tree, while they run and whatever becomes of
// them; what has no answer is told apart.
func budgetBelow(t *testing.T, f *fixture) {
	root, _ := f.running("root")
	parents := map[string]td.TaskID{"": ""}
	add := func(name, parent string, evs ...td.Event) {
		sub := spec(name, f.tick())
		sub.Parent = parents[parent]
		if sub.Parent != "" {
			sub.Root = root.ID
		}
		task, err := f.Create(f.ctx, sub, "")
		must(t, err)
		parents[name] = task.ID
		if len(evs) > 0 {
			f.append(f.claim(task.ID, 1), task.Head, evs...)
		}
	}
	parents["root"] = root.ID
	spends := func(cost td.Money) []td.Event {
		return []td.Event{f.intends("t1.model", 8*cost), f.answers("t1.model", cost), f.intends("t2.model", 4*cost), f.intends("t2.model", 4*cost)}
	}
	unknown := f.answers("t3.model", 0)
	ended := unknown.Body.(td.StepEnded)
	ended.Model.Unpriced = true
	add("left", "root", spends(1)...)
	add("right", "root") // has spent nothing itself
	add("below right", "right", spends(10)...)
	add("deepest", "below right", append(spends(100), unknown)...)
	add("other", "", spends(1000)...)
	for _, again := range []bool{false, true} {
		if again {
			f.again()
		}
		for name, want := range map[string]td.Spent{
			"root": {Cost: 111, Lost: 111, Unpriced: 1}, "right": {Cost: 110, Lost: 110, Unpriced: 1},
			"below right": {Cost: 100, Lost: 100, Unpriced: 1}, "deepest": {}, "left": {}, "other": {},
		} {
			got, err := f.SubtasksSpent(f.ctx, parents[name])
			must(t, err)
			equal(t, name, got, want)
		}
	}
	if got, err := f.SubtasksSpent(f.ctx, "nobody"); err != nil || got != (td.Spent{}) {
		t.Errorf("of nobody: %v, %v", got, err)
	}
}

// budgetRaised: what people say about a cap holds for everybody, and after a reopening.
func budgetRaised(t *testing.T, f *fixture) {
	task, c := f.running("asks")
	other, oc := f.running("goes on")
	k := dayCap(10)
	_, err := f.Append(f.ctx, c, task.Head, f.intends("t1.model", 11, k))
	wantKind(t, err, td.OverBudget)
	task = f.append(c, task.Head, td.Event{At: f.tick(), Body: td.BudgetWarned{Scope: td.OfDay, Key: today, Percent: 75, Limit: 10}})
	equal(t, "warned", f.balance(k).Warned, 75)
	task = f.append(c, task.Head, td.Event{At: f.tick(), Body: td.BudgetRaised{Cap: dayCap(50), By: "me"}})
	f.again()
	equal(t, "raised", f.balance(k), td.Balance{Cap: dayCap(50)})
	oc = f.claim(other.ID, 1)
	f.append(oc, other.Head, f.intends("t1.model", 50, k))
	_, err = f.Append(f.ctx, f.claim(task.ID, 1), task.Head, f.intends("t1.model", 1, k))
	wantKind(t, err, td.OverBudget)
}

// budgetAsked: who asks to raise a cap is known to all as long as the request is open, and so is a no.
func budgetAsked(t *testing.T, f *fixture) {
	k := dayCap(10)
	look := func(when string, asked bool, kept td.Money) {
		t.Helper()
		f.again()
		b := f.balance(k)
		equal(t, when+": asked", b.Asked, asked)
		equal(t, when+": kept", b.Kept, kept)
	}
	ask := func(c td.Claim, task td.Task, id td.RequestID) td.Task {
		short := &td.Shortage{Balance: td.Balance{Cap: k}, Want: 11}
		return f.append(c, task.Head, td.Event{At: f.tick(), Body: td.RequestOpened{Request: td.Request{
			ID: id, Kind: td.AskQuestion, About: td.AboutBudget, Budget: short,
		}}})
	}
	task, c := f.running("asks")
	look("nobody", false, 0)
	c = f.claim(task.ID, 1)
	task = ask(c, task, "q1")
	look("the first", true, 0)
	c = f.claim(task.ID, 1)
	task = f.append(c, task.Head, td.Event{At: f.tick(), Body: td.RequestExpired{ID: "q1"}})
	look("taken back", false, 0)
	c = f.claim(task.ID, 1)
	task = ask(c, task, "q2")
	task = f.append(c, task.Head, td.Event{At: f.tick(), Body: td.RequestAnswered{Answer: td.Answer{Request: "q2", Choice: td.No}}},
		td.Event{At: f.tick(), Body: td.BudgetKept{Cap: k}})
	look("answered", false, 10)
	c = f.claim(task.ID, 1)
	task = ask(c, task, "q3")
	look("asked again", true, 10)
	m, err := td.Cancel(task, "", f.tick())
	must(t, err)
	f.append(f.claim(task.ID, 1), task.Head, m.Events...)
	look("cancelled", false, 10)
	f.sound()
}

// budgetTogether: fifty loops that reserve at once stay below the cap together.
func budgetTogether(t *testing.T, f *fixture) {
	const loops, each, limit = 50, 7, 100
	tasks, claims := make([]td.Task, loops), make([]td.Claim, loops)
	intents := make([]td.Event, loops)
	for i := range loops {
		tasks[i], claims[i] = f.running(name("loop%d", i))
		intents[i] = f.intends("t1.model", each, dayCap(limit))
	}
	errs := make([]error, loops)
	var wg sync.WaitGroup
	for i := range loops {
		wg.Go(func() { _, errs[i] = f.Append(f.ctx, claims[i], tasks[i].Head, intents[i]) })
	}
	wg.Wait()
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		} else if wantKind(t, err, td.OverBudget); td.ShortageOf(err).Left() >= each {
			t.Errorf("refused although there was room: %v", err)
		}
	}
	equal(t, "loops that got a place", taken, limit/each)
	b := f.balance(dayCap(limit))
	equal(t, "reserved", b.Reserved, td.Money(taken*each))
	f.sound()
}

// budgetModel drives the ledger at random, with reopenings, against sums kept beside it: what is booked is
// what the outcomes cost and what was lost, and no cap is ever passed by reservations.
func budgetModel(t *testing.T, open Open) {
	do := append(slices.Repeat([]string{"reserve", "settle"}, 15), "reopen")
	f := newFixture(t, open)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		const tasks = 3
		day := td.Day(f.now.AddDate(0, 0, round)) // each round has a day of its own, in one journal
		limit := td.Money(rapid.IntRange(20, 200).Draw(r, "limit"))
		task, claim := make([]td.Task, tasks), make([]td.Claim, tasks)
		open := make([]td.Money, tasks)
		for i := range tasks {
			task[i], claim[i] = f.running(name("r%d.%d", round, i))
			open[i] = -1
		}
		bound := td.Cap{Scope: td.OfDay, Key: day, Limit: limit}
		var costs, lost, over td.Money
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			i := rapid.IntRange(0, tasks-1).Draw(r, "task")
			switch rapid.SampledFrom(do).Draw(r, "do") {
			case "reserve":
				amount := td.Money(rapid.IntRange(1, 60).Draw(r, "amount"))
				next, err := f.Append(f.ctx, claim[i], task[i].Head, f.intendsOn(day, "t.model", amount, bound))
				if td.IsKind(err, td.OverBudget) {
					continue
				}
				must(t, err)
				if open[i] >= 0 {
					lost += open[i] / 4
				}
				task[i], open[i] = next, amount
			case "settle":
				if open[i] < 0 {
					continue
				}
				cost := td.Money(rapid.IntRange(0, 70).Draw(r, "cost"))
				over += max(cost-open[i], 0)
				task[i] = f.append(claim[i], task[i].Head, f.answers("t.model", cost))
				costs, open[i] = costs+cost, -1
			case "reopen":
				f.again()
				for j := range tasks {
					claim[j] = f.claim(task[j].ID, 1)
				}
			}
			b := f.balance(bound)
			if b.Spent != costs+lost || b.Spent+b.Reserved > limit+over {
				r.Fatalf("spent %d, reserved %d of %d; outcomes cost %d, lost %d, %d more than was reserved",
					b.Spent, b.Reserved, limit, costs, lost, over)
			}
		}
	})
	f.sound()
}
