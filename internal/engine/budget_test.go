package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

const cent = td.Money(10_000)

// priced lets an answer of 100 tokens, the longest, cost ten cents, and the small model's the same.
func priced(t *testing.T, o *Options, b Budgets) {
	t.Helper()
	var err error
	if o.Prices, err = llm.ParsePrices([]byte(`{"worker-model": {"input": 0, "output": 1000}, "small-model": {"input": 0, "output": 1000}}`)); err != nil {
		t.Fatal(err)
	}
	b.Zone = time.UTC
	o.Budgets = b
}

// looks is an answer that costs five cents and asks to look.
func looks() llm.Response { return paid(calls("Look", `{}`)) }

func paid(r llm.Response) llm.Response {
	r.Usage = td.Usage{Output: 50}
	return r
}

func (b *bench) balance(c td.Cap) td.Balance {
	b.t.Helper()
	bs, err := b.journal.Balances(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	return bs[0]
}

// add starts another task beside the first, in a folder of its own.
func (b *bench) add(title string, root td.TaskID) td.TaskID {
	b.t.Helper()
	id := td.NewTaskID()
	task, err := b.journal.Create(b.t.Context(), td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Title: title, Prompt: title, Root: root,
		Dir: b.t.TempDir(), Mode: td.Autonomous, Tier: td.Worker, CreatedAt: time.Now().UTC().Round(0),
	}, "")
	if err != nil {
		b.t.Fatal(err)
	}
	b.sched.Wake(b.t.Context(), task, false)
	return id
}

func (b *bench) warnings(id td.TaskID) (out []string) {
	b.t.Helper()
	for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		if w, is := ev.Body.(td.BudgetWarned); is {
			out = append(out, fmt.Sprintf("%s %d", w.Scope, w.Percent))
		}
	}
	return out
}

func (b *bench) bookings() (out []string) {
	b.t.Helper()
	spent, err := b.journal.Spending(b.t.Context(), "")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, l := range spent.Lines {
		out = append(out, fmt.Sprintf("%s %s %d", l.Day, l.Cause, l.Amount/cent))
	}
	return out
}

// A task at the end of its budget asks, makes no call meanwhile, and goes on when it is raised.
func TestBudgetAsks(t *testing.T) {
	play(t, []any{looks(), looks(), looks(), looks(), paid(calls("Complete", `{"summary":"done"}`))},
		func(_ *td.Spec, o *Options) { priced(t, o, Budgets{Task: 20 * cent}) },
		func(b *bench, id td.TaskID) {
			task := b.until(id, td.Waiting)
			if len(task.Requests) != 1 || task.Requests[0].About != td.AboutBudget {
				t.Fatalf("it asks %+v", task.Requests)
			}
			short := task.Requests[0].Budget
			if short.Spent != 15*cent || short.Want != 10*cent || short.Limit != 20*cent || short.Reserved != 0 {
				t.Errorf("the shortage is %+v", short)
			}
			if n := len(b.model.requests); n != 3 {
				t.Errorf("%d calls were made", n)
			}
			if w := b.warnings(id); !slices.Equal(w, []string{"task 50", "task 75"}) {
				t.Errorf("warned of %v", w)
			}
			b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: task.Requests[0].ID, Choice: td.Yes}})
			task = b.until(id, td.Completed)
			if task.Cost != 25*cent || len(task.Reserved) != 0 || task.Lost != 0 {
				t.Errorf("it cost %d, %+v is reserved, %d lost", task.Cost, task.Reserved, task.Lost)
			}
			if got := b.balance(td.Cap{Scope: td.OfTask, Key: string(id)}); got.Spent != task.Cost || got.Limit != 40*cent {
				t.Errorf("the balance is %+v", got)
			}
		})
}

// Of each share people are told once, however many calls are made before the next.
func TestBudgetIsToldOnce(t *testing.T) {
	play(t, []any{looks(), looks(), looks(), looks(), looks(), paid(calls("Complete", `{"summary":"done"}`))},
		func(_ *td.Spec, o *Options) { priced(t, o, Budgets{Task: 40 * cent}) },
		func(b *bench, id td.TaskID) {
			b.until(id, td.Completed)
			if w := b.warnings(id); !slices.Equal(w, []string{"task 50"}) {
				t.Errorf("told of %v", w)
			}
		})
}

// No pauses; resumed, it asks again. An amount raises to that.
func TestBudgetIsNotRaised(t *testing.T) {
	play(t, []any{looks(), looks()}, func(s *td.Spec, o *Options) {
		priced(t, o, Budgets{Task: 1000 * cent})
		s.Budget = 12 * cent // counts in place of the config's
	}, func(b *bench, id td.TaskID) {
		asked := b.until(id, td.Waiting).Requests[0]
		if asked.Budget.Scope != td.OfTree {
			t.Errorf("the budget is that of the %s", asked.Budget.Scope)
		}
		b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: asked.ID, Choice: td.No}})
		b.until(id, td.Paused)
		b.post(id, td.Command{Type: td.CmdResume})
		again := b.until(id, td.Waiting).Requests
		if len(again) != 1 || again[0].ID == asked.ID {
			t.Fatalf("it asks %+v", again)
		}
		b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: again[0].ID, Choice: "$1.50"}})
		b.until(id, td.Completed)
		if got := b.balance(td.Cap{Scope: td.OfTree, Key: string(id)}); got.Limit != 150*cent {
			t.Errorf("the budget is %s", got.Limit)
		}
	})
}

// Everybody's budget stops all who want to spend, is told of once, and begins anew with the day.
func TestBudgetOfTheDay(t *testing.T) {
	play(t, []any{looks(), looks(), looks(), looks()},
		func(_ *td.Spec, o *Options) { priced(t, o, Budgets{Day: 20 * cent}) },
		func(b *bench, id td.TaskID) {
			other := b.add("other", "")
			b.until(id, td.Blocked)
			b.until(other, td.Blocked)
			time.Sleep(time.Minute) // who only waited for calls under way has looked again
			first, second := b.until(id, td.Blocked), b.until(other, td.Blocked)
			for _, task := range []td.Task{first, second} {
				if s := task.Status.Blocked.Budget; s == nil || s.Scope != td.OfDay || s.Want != 10*cent {
					t.Errorf("blocked on %+v", task.Status.Blocked)
				}
			}
			if got := b.balance(td.Cap{Scope: td.OfDay, Key: "2000-01-01"}); got.Spent != 15*cent || got.Reserved != 0 {
				t.Errorf("the day's balance is %+v", got)
			}
			asked := append(first.Requests, second.Requests...)
			if len(asked) != 1 || asked[0].About != td.AboutBudget || asked[0].Budget.Scope != td.OfDay {
				t.Errorf("people are asked %+v", asked)
			}
			told := append(b.warnings(id), b.warnings(other)...)
			slices.Sort(told)
			// Who reads the balance before the other's call is settled may find it used up at once.
			told = slices.DeleteFunc(told, func(w string) bool { return w == "day 75" })
			if !slices.Equal(told, []string{"day 100", "day 50"}) {
				t.Errorf("told of %v", told)
			}
			time.Sleep(26 * time.Hour) // over midnight
			b.until(id, td.Completed)
			b.until(other, td.Completed)
			if at := b.task(id).Status.Since; td.Day(at) != "2000-01-02" {
				t.Errorf("it went on at %s", at)
			}
		})
}

// An answer to the one request about everybody's budget holds for all: yes lets all go on at once; no leaves
// all waiting, and nobody is asked again, until somebody raises it all the same.
func TestBudgetOfTheDayIsAnswered(t *testing.T) {
	for _, choice := range []string{td.Yes, td.No} {
		var woken int
		play(t, []any{looks(), looks(), looks(), looks()}, func(_ *td.Spec, o *Options) {
			priced(t, o, Budgets{Day: 20 * cent})
			o.Raised = func(context.Context) { woken++ }
		}, func(b *bench, id td.TaskID) {
			tasks := []td.TaskID{id, b.add("other", ""), b.add("third", "")}
			asker := b.asker(tasks)
			q := b.task(asker).Requests[0]
			b.post(asker, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: q.ID, Choice: choice}})
			if choice == td.Yes {
				for _, task := range tasks {
					b.until(task, td.Completed)
				}
				if woken == 0 {
					t.Error("nobody was told that it was raised")
				}
				return
			}
			time.Sleep(10 * time.Minute)
			for _, task := range tasks {
				if now := b.task(task); now.Status.State != td.Blocked || len(now.Requests) > 0 {
					t.Errorf("after a no it is %s and asks %+v", now.Status.State, now.Requests)
				}
			}
			if got := b.balance(td.Cap{Scope: td.OfDay, Key: "2000-01-01", Limit: 20 * cent}); got.Kept != 20*cent || got.Askable() {
				t.Errorf("the balance is %+v", got)
			}
			time.Sleep(26 * time.Hour)
			for _, task := range tasks {
				b.until(task, td.Completed)
			}
		})
	}
}

// When the task that asked for all is ended, another asks.
func TestBudgetOfTheDayIsAskedByAnother(t *testing.T) {
	play(t, []any{looks(), looks(), looks(), looks()}, func(_ *td.Spec, o *Options) { priced(t, o, Budgets{Day: 20 * cent}) },
		func(b *bench, id td.TaskID) {
			tasks := []td.TaskID{id, b.add("other", ""), b.add("third", "")}
			first := b.asker(tasks)
			b.post(first, td.Command{Type: td.CmdCancel})
			b.until(first, td.Cancelled)
			time.Sleep(2 * time.Minute)
			tasks = slices.DeleteFunc(tasks, func(id td.TaskID) bool { return id == first })
			b.post(b.asker(tasks), td.Command{Type: td.CmdResume}) // which makes no room: it asks again, and alone
			b.asker(tasks)
		})
}

// asker waits until all tasks are blocked on everybody's budget, and is the one that asks.
func (b *bench) asker(tasks []td.TaskID) td.TaskID {
	b.t.Helper()
	time.Sleep(2 * time.Minute)
	var asker td.TaskID
	for _, id := range tasks {
		if n := len(b.until(id, td.Blocked).Requests); n > 0 && (n > 1 || asker != "") {
			b.t.Fatalf("several ask")
		} else if n == 1 {
			asker = id
		}
	}
	if asker == "" {
		b.t.Fatal("nobody asks")
	}
	return asker
}

// Who waits for calls under way asks when they are settled and left no room.
func TestBudgetIsTakenByOthers(t *testing.T) {
	long := func(context.Context) (llm.Response, error) {
		time.Sleep(45 * time.Second)
		r := calls("Complete", `{"summary":"done"}`)
		r.Usage = td.Usage{Output: 100}
		return r, nil
	}
	play(t, []any{long, looks()}, func(_ *td.Spec, o *Options) { priced(t, o, Budgets{Tree: 20 * cent}) },
		func(b *bench, id td.TaskID) {
			time.Sleep(time.Second)
			sub := b.add("sub", id)
			if s := b.until(sub, td.Blocked).Status.Blocked.Budget; s.Reserved != 10*cent || !s.Passes() {
				t.Errorf("blocked on %+v", s)
			}
			b.until(id, td.Completed)
			if asked := b.until(sub, td.Waiting).Requests[0].Budget; asked.Spent != 15*cent || asked.Scope != td.OfTree || asked.Key != string(id) {
				t.Errorf("it asks for %+v", asked)
			}
		})
}

// A call that is cut short may have cost all that was set aside for it: that is what is booked.
func TestBudgetOfARepeatedCall(t *testing.T) {
	hang := func(ctx context.Context) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{}, context.Cause(ctx)
	}
	play(t, []any{hang, paid(calls("Complete", `{"summary":"done"}`))}, func(_ *td.Spec, o *Options) {
		priced(t, o, Budgets{Day: 1000 * cent})
		o.Prices, _ = llm.ParsePrices([]byte(`{"worker-model": {"input": 100, "output": 1000}}`))
	}, func(b *bench, id td.TaskID) {
		time.Sleep(time.Second)
		reserved := b.task(id).Reserved
		if len(reserved) != 1 || reserved[0].Input <= 0 || reserved[0].Amount != reserved[0].Input+10*cent {
			t.Fatalf("reserved %+v", reserved)
		}
		b.post(id, td.Command{Type: td.CmdCancel})
		task := b.until(id, td.Cancelled)
		if task.Lost != reserved[0].Amount || task.Cost != 0 || len(task.Reserved) != 0 {
			t.Errorf("lost %s, cost %s, reserved %+v; %s were set aside", task.Lost, task.Cost, task.Reserved, reserved[0].Amount)
		}
		spent, err := b.journal.Spending(b.t.Context(), "")
		if err != nil || len(spent.Lines) != 1 || spent.Lines[0].Cause != td.CauseStopped || spent.Lines[0].Tokens != reserved[0].Tokens || reserved[0].Tokens <= 100 {
			t.Errorf("the ledger has %+v, %v", spent, err)
		}
	})
}

// A model without a price is called, and its calls are counted as what they are.
func TestBudgetWithoutAPrice(t *testing.T) {
	play(t, []any{looks()}, func(_ *td.Spec, o *Options) { o.Budgets = Budgets{Task: 1, Zone: time.UTC, Unpriced: 1e6} },
		func(b *bench, id td.TaskID) {
			b.until(id, td.Completed)
			in := intents(b, id)[0]
			if in.Reserve == nil || !in.Reserve.Unpriced || in.Reserve.Amount != 0 || in.Reserve.Tokens <= 100 || len(in.Reserve.Caps) != 1 || in.Reserve.Caps[0].Scope != td.OfUnpriced {
				t.Errorf("the intent reserves %+v", in.Reserve)
			}
			spent, err := b.journal.Spending(b.t.Context(), "")
			if err != nil || len(spent.Lines) != 1 || spent.Lines[0].Unpriced != 2 || spent.Lines[0].Calls != 2 {
				t.Errorf("the ledger has %+v, %v", spent, err)
			}
		})
}

// What the budget refuses had no effect: results that were not on disk yet are not lost with it.
func TestBudgetRefusalKeepsWhatHappened(t *testing.T) {
	play(t, []any{paid(calls("Look", `{}`, "Look", `{}`))},
		func(_ *td.Spec, o *Options) { priced(t, o, Budgets{Task: 12 * cent}) },
		func(b *bench, id td.TaskID) {
			asked := b.until(id, td.Waiting).Requests[0]
			b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: asked.ID, Choice: td.Yes}})
			b.until(id, td.Completed)
			if n := b.looked.Load(); n != 2 {
				t.Errorf("it looked %d times", n)
			}
			if want := []string{"2000-01-01 turn 5"}; !slices.Equal(b.bookings(), want) {
				t.Errorf("booked %v, want %v", b.bookings(), want)
			}
		})
}

// took is an answer that says what it took.
func took(r llm.Response, in, out int64) llm.Response {
	r.Usage = td.Usage{Input: in, Output: out}
	return r
}

// A model without a price is bounded by tokens: by the task's own, else by those of the config, else by those for such models.
func TestTokenBudgetAsks(t *testing.T) {
	for name, c := range map[string]struct {
		task    td.Tokens
		budgets Budgets
		scope   td.Scope
	}{
		"its own":          {task: 30_000, budgets: Budgets{TaskTokens: 1e6, Unpriced: 1}, scope: td.OfTreeTokens},
		"of tasks":         {budgets: Budgets{TaskTokens: 30_000, Unpriced: 1}, scope: td.OfTaskTokens},
		"of trees":         {budgets: Budgets{TreeTokens: 30_000, Unpriced: 1}, scope: td.OfTreeTokens},
		"without a price":  {budgets: Budgets{Task: 1, Unpriced: 30_000}, scope: td.OfUnpriced},
		"although a month": {budgets: Budgets{Unpriced: 30_000, Month: 1}, scope: td.OfUnpriced},
	} {
		t.Run(name, func(t *testing.T) {
			look := took(calls("Look", `{}`), 12_000, 1000)
			play(t, []any{look, look, look, took(calls("Complete", `{"summary":"done"}`), 10, 10)}, func(s *td.Spec, o *Options) {
				s.TokenBudget, o.Budgets = c.task, c.budgets
				o.Budgets.Zone = time.UTC
			}, func(b *bench, id td.TaskID) {
				task := b.until(id, td.Waiting)
				if len(task.Requests) != 1 || task.Requests[0].Budget == nil {
					t.Fatalf("it asks %+v", task.Requests)
				}
				q := task.Requests[0]
				if q.Budget.Scope != c.scope || q.Budget.Spent != 26_000 || q.Budget.Limit != 30_000 || !strings.Contains(q.Prompt, "26k tokens are spent") || !strings.Contains(q.Detail, "an amount like") {
					t.Errorf("the shortage is %+v, %s (%s)", q.Budget, q.Prompt, q.Detail)
				}
				if n := len(b.model.requests); n != 2 {
					t.Errorf("%d calls were made", n)
				}
				if w := b.warnings(id); !slices.Equal(w, []string{string(c.scope) + " 75"}) && !slices.Equal(w, []string{string(c.scope) + " 50", string(c.scope) + " 75"}) {
					t.Errorf("warned of %v", w)
				}
				b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: q.ID, Choice: "200k"}})
				b.until(id, td.Completed)
				if got := b.balance(td.Cap{Scope: c.scope, Key: string(id)}); got.Limit != 200_000 || got.Spent != 39_020 {
					t.Errorf("the balance is %+v", got)
				}
			})
		})
	}
}

// A budget of the day in dollars is not passed in silence by a model without a price: its tokens are counted, for all tasks together.
func TestDollarsOfTheDayWithoutAPrice(t *testing.T) {
	for name, c := range map[string]struct {
		budgets Budgets
		bounded bool
	}{
		"day":             {Budgets{Day: 1, UnpricedDay: 30_000, Unpriced: 1e6}, true},
		"month":           {Budgets{Month: 1, UnpricedDay: 30_000}, true},
		"a task's tokens": {Budgets{Day: 1, TaskTokens: 1e6, UnpricedDay: 30_000}, true},
		"tokens of a day": {Budgets{Day: 1, DayTokens: 1e6, UnpricedDay: 30_000}, false},
		"no dollars":      {Budgets{UnpricedDay: 30_000, Unpriced: 1e6}, false},
	} {
		t.Run(name, func(t *testing.T) {
			look := took(calls("Look", `{}`), 12_000, 1000)
			play(t, []any{look, look, look, took(calls("Complete", `{"summary":"done"}`), 10, 10)}, func(_ *td.Spec, o *Options) {
				o.Budgets = c.budgets
				o.Budgets.Zone = time.UTC
			}, func(b *bench, id td.TaskID) {
				if !c.bounded {
					b.until(id, td.Completed)
					return
				}
				task := b.until(id, td.Blocked)
				if len(task.Requests) != 1 || task.Requests[0].Budget == nil {
					t.Fatalf("it asks %+v", task.Requests)
				}
				q := task.Requests[0]
				if q.Budget.Scope != td.OfDayTokens || q.Budget.Spent != 26_000 || !strings.Contains(q.Detail, "budget.unpriced_day_tokens") {
					t.Errorf("the shortage is %+v, %s (%s)", q.Budget, q.Prompt, q.Detail)
				}
				b.post(id, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: q.ID, Choice: "200k"}})
				b.until(id, td.Completed)
			})
		})
	}
}

// A provider that says nothing of what a call took does not make it free: it is estimated, and says so.
func TestUsageIsEstimated(t *testing.T) {
	words := llm.Response{Message: td.Message{Role: td.Assistant, Blocks: []td.Block{
		{Type: td.TextBlock, Text: strings.Repeat("many words of an answer ", 200)},
	}}, StopReason: td.EndTurn}
	cut := words
	cut.Usage, cut.Cut = td.Usage{Input: 5000, Output: 1}, true
	for name, c := range map[string]struct {
		answer    llm.Response
		estimated bool
	}{"silent": {words, true}, "cut off": {cut, true}, "told": {took(words, 5000, 900), false}} {
		t.Run(name, func(t *testing.T) {
			play(t, []any{c.answer}, func(_ *td.Spec, o *Options) {
				priced(t, o, Budgets{})
				o.Prices, _ = llm.ParsePrices([]byte(`{"worker-model": {"input": 100, "output": 1000}}`))
			}, func(b *bench, id td.TaskID) {
				b.until(id, td.Completed)
				for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
					if err != nil {
						t.Fatal(err)
					}
					e, is := ev.Body.(td.StepEnded)
					if !is || e.Model == nil {
						continue
					}
					if m := e.Model; m.Estimated != c.estimated || m.Usage.Output < 500 || m.Usage.Input < 500 || m.Cost < 500_000 {
						t.Errorf("estimated %v, %+v, %s", m.Estimated, m.Usage, m.Cost)
					}
					break
				}
			})
		})
	}
}

// What a cassette answers is set aside for by nobody, and costs nothing.
func TestReplayedCallsAreFree(t *testing.T) {
	played := func(r llm.Response) llm.Response {
		r = took(r, 1e6, 1e6)
		r.Replayed = true
		return r
	}
	play(t, []any{played(calls("Look", `{}`)), played(calls("Complete", `{"summary":"done"}`))}, func(_ *td.Spec, o *Options) {
		priced(t, o, Budgets{Task: 1, TaskTokens: 1})
		o.Replay = true
	}, func(b *bench, id td.TaskID) {
		task := b.until(id, td.Completed)
		spent, err := b.journal.Spending(b.t.Context(), "")
		if err != nil || len(spent.Lines) != 1 || spent.Lines[0].Replayed != 2 || spent.Lines[0].Amount != 0 || spent.Lines[0].Tokens != 0 || spent.Lines[0].Usage != (td.Usage{}) {
			t.Errorf("the ledger has %+v, %v", spent, err)
		}
		if task.Cost != 0 || task.Replayed != 2 || task.Unpriced != 0 {
			t.Errorf("it cost %s, %d replayed, %d unpriced", task.Cost, task.Replayed, task.Unpriced)
		}
	})
}
