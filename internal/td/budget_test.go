package td

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func reserving(step StepKey, amount Money) Event {
	return Event{Body: StepIntended{Intent{Key: step, Name: "m", Reserve: &Reserve{Amount: amount, Input: amount / 10, Cause: CauseSummary, Day: "2030-01-02"}}}}
}

func TestBook(t *testing.T) {
	at := time.Date(2031, 5, 6, 23, 59, 0, 0, time.FixedZone("", -3600))
	ended := func(o Outcome) Event { return Event{At: at, Body: StepEnded{o}} }
	open := []Reservation{{Step: "a", Model: "m", Amount: 100, Input: 10, Cause: CauseSummary, Day: "2030-01-02"}}
	for _, c := range []struct {
		name   string
		open   []Reservation
		ev     Event
		left   int
		booked []string
	}{
		{"reserves", nil, reserving("a", 100), 1, nil},
		{"beside another", open, reserving("b", 100), 2, nil},
		{"made again", open, reserving("a", 50), 1, []string{"2030-01-02 m repeated 10"}},
		{"a step that reserves nothing", open, Event{Body: StepIntended{Intent{Key: "a"}}}, 1, nil},
		{"settled on the day of the reservation", open, ended(Outcome{Key: "a", Side: &SideResult{Model: "n", Cost: 7}}), 0, []string{"2030-01-02 n summary 7"}},
		{"of a tool", open, ended(Outcome{Key: "a", Tool: &ToolResult{Side: &SideResult{Model: "n", Cost: 7}}}), 0, []string{"2030-01-02 n summary 7"}},
		{"a tool that asked nobody", open, ended(Outcome{Key: "a", Tool: &ToolResult{}}), 0, nil},
		{"failed", open, ended(Outcome{Key: "a", Failure: &ModelFailure{}}), 0, nil},
		{"without a reservation", nil, ended(Outcome{Key: "z", Model: &ModelResult{Model: "n", Cost: 7}}), 0, []string{"2031-05-07 n turn 7"}},
		{"another's outcome", open, ended(Outcome{Key: "z", Model: &ModelResult{Cost: 7}}), 1, []string{"2031-05-07 unknown turn 7"}},
		{"absurd", nil, ended(Outcome{Key: "z", Model: &ModelResult{Model: "n", Cost: math.MaxInt64, Usage: Usage{Input: math.MaxInt64, Output: -5}}}), 0, []string{"2031-05-07 n turn 1000000000000"}},
		{"discarded", open, Event{Body: Discarded{}}, 0, []string{"2030-01-02 m stopped 10"}},
		{"ended", open, Event{Body: Moved{Status: Status{State: Cancelled}}}, 0, []string{"2030-01-02 m stopped 10"}},
		{"recovered", open, Event{Body: Moved{Status: Status{State: Queued}}}, 1, nil},
	} {
		next, booked := Book(slices.Clone(c.open), c.ev)
		var got []string
		for _, b := range booked {
			got = append(got, fmt.Sprintf("%s %s %s %d", b.Day, b.Model, b.Cause, b.Amount))
			if b.Usage.Input < 0 || b.Usage.Output < 0 || b.Usage.Input > int64(mostBooked) {
				t.Errorf("%s: usage %+v", c.name, b.Usage)
			}
		}
		if len(next) != c.left || !slices.Equal(got, c.booked) {
			t.Errorf("%s: left %+v, booked %v; want %d, %v", c.name, next, got, c.left, c.booked)
		}
	}
}

func TestBalance(t *testing.T) {
	b := Balance{Cap: Cap{OfDay, "2030-01-02", 100}, Spent: 60, Reserved: 30}
	if b.Left() != 10 || b.Percent() != 60 || b.Warning() != 50 || b.Short(10) != nil {
		t.Errorf("%+v: left %d, %d %%, warns of %d, %v", b, b.Left(), b.Percent(), b.Warning(), b.Short(10))
	}
	err := fmt.Errorf("append: %w", b.Short(11))
	short := ShortageOf(err)
	if !IsKind(err, OverBudget) || short == nil || short.Want != 11 || !short.Passes() {
		t.Errorf("%v is %+v", err, short)
	}
	if ShortageOf(errors.New("x")) != nil || ShortageOf(nil) != nil {
		t.Error("a shortage out of nothing")
	}
	b.Warned, b.Spent, b.Reserved = 50, 95, 0
	if s := ShortageOf(b.Short(6)); b.Warning() != 90 || s.Passes() || s.Raise() < 200 {
		t.Errorf("warns of %d, %+v", b.Warning(), s)
	}
	if none := (Balance{Spent: 5}); none.Short(1e9) != nil || none.Percent() != 0 || none.Warning() != 0 {
		t.Error("no limit is a limit")
	}
	for key, want := range map[Cap]bool{
		{OfDay, "2030-01-02", 0}: true, {OfDay, "2030-01-03", 0}: false, {OfMonth, "2030-01", 0}: true, {OfMonth, "2030-02", 0}: false, {OfTask, "x", 0}: true,
	} {
		if key.Covers("2030-01-02") != want {
			t.Errorf("%+v covers it: %v", key, !want)
		}
	}
}

func TestAnswerBudget(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	short := &Shortage{Balance: Balance{Cap: Cap{OfTask, "k", 5_000_000}, Spent: 4_900_000}, Want: 300_000}
	all := *short
	all.Scope = OfDay
	for choice, want := range map[string]string{"no": "request_answered budget_kept", "yes": "request_answered budget_raised"} {
		// Of everybody's budget the task that asks is blocked, and stays so until it sees that there is room.
		task := NewTask(Spec{ID: "t"})
		m, err := AskForAll(task, Request{ID: "q", Kind: AskQuestion, About: AboutBudget, Budget: &all}, BlockedData{Budget: &all}, at)
		for i, ev := range m.Events {
			ev.Seq = uint64(i + 1)
			if task, err = task.Apply(ev); err != nil {
				t.Fatal(err)
			}
		}
		m, err = obey(task, Command{Type: CmdAnswer, Answer: &Answer{Request: "q", Choice: choice}}, at)
		if got := typesOf(m); err != nil || got != want {
			t.Errorf("%s for everybody: %s, %v; want %s", choice, got, err, want)
		}
		if m, err = Unblock(task, "a new day", at); err != nil || typesOf(m) != "request_expired moved" {
			t.Errorf("going on: %s, %v", typesOf(m), err)
		}
	}
	for _, c := range []struct{ choice, want, err string }{
		{"yes", "request_answered budget_raised($10.00) moved", ""},
		{"7.5", "request_answered budget_raised($7.50) moved", ""},
		{" $12 ", "request_answered budget_raised($12.00) moved", ""},
		{"no", "request_answered moved", ""},
		{"5", "", "no more than the budget was"},
		{"-7", "", "say yes, no or how many dollars"},
		{"NaN", "", "say yes, no or how many dollars"},
		{"1e300", "", "say yes, no or how many dollars"},
		{"", "", "say yes, no or how many dollars"},
		{"maybe", "", "say yes, no or how many dollars"},
	} {
		q := Request{ID: "q", Kind: AskQuestion, About: AboutBudget, Options: []string{Yes, No}, Budget: short}
		task := NewTask(Spec{ID: "t"})
		task.Status, task.Requests = waitingFor(q), []Request{q}
		m, err := obey(task, Command{Type: CmdAnswer, Answer: &Answer{Request: "q", Choice: c.choice}}, at)
		if c.err != "" {
			if !IsKind(err, Invalid) || !strings.Contains(err.Error(), c.err) || HintOf(err) == "" {
				t.Errorf("%q: %v", c.choice, err)
			}
			continue
		}
		var got []string
		for _, ev := range m.Events {
			text := string(ev.Body.Type())
			if r, is := ev.Body.(BudgetRaised); is {
				text += "(" + r.Limit.String() + ")"
			}
			got = append(got, text)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q: %v, %v; want %s", c.choice, got, err, c.want)
		}
	}
}

func typesOf(m Move) string {
	var types []string
	for _, ev := range m.Events {
		types = append(types, string(ev.Body.Type()))
	}
	return strings.Join(types, " ")
}

func FuzzParseDollars(f *testing.F) {
	for _, s := range []string{"5", "2.50", "$10", "-1", "NaN", "1e300", "0x1p-2", "", "$", "1_0", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseDollars(text)
		if err == nil && (m < 0 || m > MaxBudget) || err != nil && !IsKind(err, Invalid) {
			t.Errorf("%q is %d, %v", text, m, err)
		}
	})
}
