package td

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The table of endings: what each leaves in the task for the strategies and the next opening.
func TestIterationsThatCameToNothing(t *testing.T) {
	task := in(Running)
	for i, end := range []Ending{EndedUnverified, EndedUnclear, EndedUnverified, EndedMistaken} {
		m, err := StartOver(task, IterationEnded{Iteration: i + 1, Ending: end, Reason: strings.Repeat("é", maxReason+i), Hint: Expert}, noon)
		if err != nil {
			t.Fatal(err)
		}
		task = carryOut(t, task, m.Events)
		if task.Status.State != Queued || task.Hint != Expert {
			t.Fatalf("after %s: %s, hint %q", end, task.Status.State, task.Hint)
		}
		start, err := Start(task, "run", noon)
		if err != nil {
			t.Fatal(err)
		}
		task = carryOut(t, task, start.Events)
	}
	if task.Unverified != 2 || len(task.Tries) != 4 {
		t.Errorf("%d unverified, %d tries; want 2 and 4", task.Unverified, len(task.Tries))
	}
	if n := len([]rune(task.Tries[3].Reason)); n != maxReason+1 {
		t.Errorf("a reason of %d characters is kept", n)
	}
	for range maxTries {
		task = carryOut(t, task, []Event{{Task: task.ID, At: noon, Body: IterationEnded{Iteration: 9, Ending: EndedFailed}}})
	}
	if len(task.Tries) != maxTries || slices.ContainsFunc(task.Tries, func(x Try) bool { return x.Iteration != 9 }) {
		t.Errorf("kept tries: %+v", task.Tries)
	}
}

func TestOrder(t *testing.T) {
	order := Command{Key: "k", Type: CmdOrder, Order: &Order{Run: "r", Until: 3}}
	for _, from := range States {
		task := in(from)
		task.Tries, task.Unverified = []Try{{Iteration: 1}}, 3
		order.Order.Since = task.Status.Since.Add(-time.Second)
		if got := carryOut(t, task, Obey(task, order, noon)); got.Status.State != from || got.Ordered != nil {
			t.Errorf("%s was ordered though it had moved since", from)
		}
		order.Order.Since = task.Status.Since
		got := carryOut(t, task, Obey(task, order, noon))
		switch {
		case from == Paused:
			if got.Status.State != Queued || got.Ordered == nil || got.Ordered.Until != 3 || got.Unverified != 3 {
				t.Errorf("%s: %s, order %+v, unverified %d", from, got.Status.State, got.Ordered, got.Unverified)
			}
		case from.Terminal():
			if got.Status.State != Queued || got.Ordered == nil || got.Unverified != 0 || got.Tries != nil {
				t.Errorf("%s: %s, order %+v, tries %v", from, got.Status.State, got.Ordered, got.Tries)
			}
		case got.Status.State != from || got.Ordered != nil:
			t.Errorf("%s was ordered though it was started already", from)
		}
	}
	if err := Refuse(in(Paused), Command{Type: CmdOrder}, noon); !IsKind(err, Invalid) {
		t.Errorf("an empty order: %v", err)
	}
	if err := Refuse(in(Completed), Command{Type: CmdResume}, noon); !IsKind(err, Conflict) {
		t.Errorf("resume a completed task: %v", err)
	}
}

// What an order asks for anew is the same whether the events are folded or the task is put together from what is stored.
func TestAskedAnew(t *testing.T) {
	created := in(Paused)
	created.Prompt, created.Yes, created.Validator = "first", true, "true"
	stored := created.Spec
	task := created
	for i, want := range []Spec{
		{Prompt: "first", Yes: true, Validator: "true"},
		{Prompt: "second", Validator: "true"},
		{Prompt: "second", Validator: "false", Model: "m"},
		{Prompt: "first", Yes: true},
	} {
		want.Title, want.Tier, want.Permissions, want.Budget, want.Rehearsal = task.Title, task.Tier, task.Permissions, task.Budget, task.Rehearsal
		order := Order{Run: "r", Since: task.Status.Since, Asks: task.AskedAnew(want)}
		if i == 0 && order.Asks != nil {
			t.Errorf("nothing is asked for anew, and it says %+v", *order.Asks)
		}
		task = carryOut(t, task, Obey(task, Command{Key: "k", Type: CmdOrder, Order: &order}, noon))
		again := Task{Spec: stored, Live: task.Live}.Renewed()
		for _, got := range []Task{task, again} {
			if got.Prompt != want.Prompt || got.Yes != want.Yes || got.Validator != want.Validator || got.Spec.Model != want.Model {
				t.Errorf("order %d: prompt %q, yes %v, validator %q, model %q", i, got.Prompt, got.Yes, got.Validator, got.Spec.Model)
			}
		}
		pause, err := Pause(task, "me", "", noon)
		if err != nil {
			t.Fatal(err)
		}
		task = carryOut(t, task, pause.Events)
	}
}

// A person's words stop a task that a run works on, wherever it stands; what its conversation asked for is asked no more.
func TestInterruptWithWords(t *testing.T) {
	cmd := Command{Key: "k", Type: CmdInterrupt, Text: "use the other tool", By: "ann"}
	for _, from := range States {
		task := in(from)
		if err := Refuse(task, cmd, noon); !IsKind(err, Conflict) {
			t.Errorf("%s, and no run works on it: %v", from, err)
		}
		task.Ordered = &Order{Run: "r"}
		if from.Terminal() {
			if err := Refuse(task, cmd, noon); !IsKind(err, Conflict) {
				t.Errorf("%s: %v", from, err)
			}
			continue
		}
		evs := Obey(task, cmd, noon)
		if said, is := evs[0].Body.(Said); !is || said.Text != cmd.Text || said.By != "ann" {
			t.Errorf("%s: %+v", from, evs[0])
		}
		got := carryOut(t, task, evs)
		if got.Status.State != Paused || from != Paused && got.Status.Paused.By != ByRun {
			t.Errorf("%s became %+v", from, got.Status)
		}
	}
	if err := Refuse(Task{Live: Live{Ordered: &Order{}, Status: Status{State: Running}}}, Command{Type: CmdInterrupt}, noon); !IsKind(err, Invalid) {
		t.Errorf("without words: %v", err)
	}
	task := in(Paused)
	task.Status.Paused.ResumePoint, task.Iteration = Waiting, 2
	task.Requests, task.InFlight = []Request{{ID: "q"}}, []StepRef{{Key: "t1.0"}}
	task = carryOut(t, task, []Event{{Task: task.ID, At: noon, Body: IterationEnded{Iteration: 2, Ending: EndedInterrupted, Reason: "words"}}})
	if len(task.Requests)+len(task.InFlight) > 0 || len(task.Tries) != 1 || task.Tries[0].Reason != "words" {
		t.Errorf("requests %v, in flight %v, tries %v", task.Requests, task.InFlight, task.Tries)
	}
	m, err := Resume(task, noon)
	if err != nil || m.To != Queued {
		t.Errorf("it goes on %v, %v", m, err)
	}
}

// A run that finds a task at work bounds it; what else was ordered stays.
func TestLimit(t *testing.T) {
	cmd := Command{Key: "k", Type: CmdLimit, By: "ann", Order: &Order{Run: "second", Until: 4, Strategy: Fixed}}
	verify := Order{Run: "first", Until: 9, Strategy: Escalate, Verify: true}
	for _, from := range States {
		task := in(from)
		task.Iteration = 3
		if err := Refuse(task, cmd, noon); !IsKind(err, Conflict) {
			t.Errorf("%s, and no run works on it: %v", from, err)
		}
		task.Ordered = &verify
		got := carryOut(t, task, Obey(task, cmd, noon))
		want := Order{Run: "second", Until: 4, Strategy: Escalate, Verify: true}
		if from.Terminal() {
			want = verify
		}
		if got.Status.State != from || *got.Ordered != want || !from.Terminal() && got.IterationsFrom != 3 {
			t.Errorf("%s: %s, order %+v, counted from %d", from, got.Status.State, got.Ordered, got.IterationsFrom)
		}
	}
	for _, order := range []*Order{nil, {Run: "second"}, {Until: 4}} {
		if err := Refuse(in(Running), Command{Type: CmdLimit, Order: order}, noon); !IsKind(err, Invalid) {
			t.Errorf("%+v: %v", order, err)
		}
	}
}

// TestOrderBringsOnto: a run that takes a task up again has its branch brought onto what was merged meanwhile, once.
func TestOrderBringsOnto(t *testing.T) {
	task := NewTask(Spec{ID: "a", Handle: "t-a"})
	for i, b := range []Body{
		Ordered{Order: Order{Run: "r", Onto: "c0ffee"}},
		StepIntended{Intent{Key: RebaseKey, Kind: RebaseStep}},
		StepEnded{Outcome{Key: RebaseKey, Tool: &ToolResult{}}},
		Ordered{Order: Order{Run: "r", Until: 2}},
	} {
		next, err := task.Apply(Event{Seq: task.Head + 1, Body: b})
		if err != nil {
			t.Fatal(err)
		}
		if behind := next.Behind != ""; behind != (i < 2) || next.Ordered.Onto != "" {
			t.Errorf("after %s it is behind %q, ordered %+v", b.Type(), next.Behind, next.Ordered)
		}
		task = next
	}
}
