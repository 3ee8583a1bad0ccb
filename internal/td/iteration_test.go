package td

import (
	"slices"
	"strings"
	"testing"
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
		order := Order{Run: "r", Asks: task.AskedAnew(want)}
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
