package td

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// in is a task in this state, with one open request where the state needs one.
func in(s State) Task {
	t := NewTask(Spec{ID: "01890000-0000-7000-8000-000000000001", Handle: "t-1", CreatedAt: noon})
	t.Head = 1
	t.Status = statusOf(s)
	if s == Waiting {
		t.Requests = []Request{{ID: "q"}}
	}
	return t
}

// statusOf is a whole status in this state.
func statusOf(s State) Status {
	st := Status{State: s, Since: noon}
	switch s {
	case Running:
		st.Running = &RunningData{Run: "r"}
	case Waiting:
		st.Waiting = &WaitingData{Request: "q"}
	case Blocked:
		st.Blocked = &BlockedData{Cause: "c"}
	case Paused:
		st.Paused = &PausedData{ResumePoint: Queued}
	case Completed:
		st.Completed = &CompletedData{}
	case Failed:
		st.Failed = &FailedData{}
	}
	return st
}

// moves are the ways to carry out each verb.
var moves = map[Verb]func(Task) (Move, error){
	VerbStart:     func(t Task) (Move, error) { return Start(t, "r", noon) },
	VerbInterrupt: func(t Task) (Move, error) { return Interrupt(t, "shutdown", noon) },
	VerbRecover:   func(t Task) (Move, error) { return Recover(t, "crash", noon) },
	VerbAsk:       func(t Task) (Move, error) { return Ask(t, Request{ID: "new", Kind: AskQuestion}, noon) },
	VerbAnswer:    func(t Task) (Move, error) { return TakeAnswer(t, Answer{Request: "q", Choice: Yes}, noon) },
	VerbExpire:    func(t Task) (Move, error) { return Expire(t, "q", noon) },
	VerbBlock:     func(t Task) (Move, error) { return BlockOn(t, BlockedData{Cause: "c"}, noon) },
	VerbUnblock:   func(t Task) (Move, error) { return Unblock(t, "there", noon) },
	VerbPause:     func(t Task) (Move, error) { return Pause(t, "ann", "tea", noon) },
	VerbResume:    func(t Task) (Move, error) { return Resume(t, noon) },
	VerbComplete:  func(t Task) (Move, error) { return Complete(t, "done", nil, noon) },
	VerbFail:      func(t Task) (Move, error) { return Fail(t, FailedData{Error: "e"}, noon) },
	VerbCancel:    func(t Task) (Move, error) { return Cancel(t, "no need", noon) },
	VerbAbandon:   func(t Task) (Move, error) { return Abandon(t, "old", noon) },
	VerbReset:     func(t Task) (Move, error) { return Reset(t, "again", noon) },
	VerbRetry: func(t Task) (Move, error) {
		return StartOver(t, IterationEnded{Iteration: 1, Ending: EndedUnverified, Reason: "the test is red"}, noon)
	},
}

func carryOut(t *testing.T, task Task, evs []Event) Task {
	t.Helper()
	for _, ev := range evs {
		ev.Seq = task.Head + 1
		next, err := task.Apply(ev)
		if err != nil {
			t.Fatalf("apply %T: %v", ev.Body, err)
		}
		task = next
	}
	return task
}

func ruleOf(v Verb) Rule {
	i := slices.IndexFunc(Table, func(r Rule) bool { return r.Verb == v })
	return Table[i]
}

func TestTableIsWhole(t *testing.T) {
	seen := map[Verb]bool{}
	for _, r := range Table {
		if seen[r.Verb] {
			t.Errorf("%s has two rows; Legal sees only the first", r.Verb)
		}
		seen[r.Verb] = true
		if moves[r.Verb] == nil {
			t.Errorf("no function carries out %s", r.Verb)
		}
		if r.Why == "" || len(r.From) == 0 || len(r.To) == 0 {
			t.Errorf("%s: row is not whole: %+v", r.Verb, r)
		}
	}
	for _, s := range States {
		in, out := false, false
		for _, r := range Table {
			in = in || s == Queued || slices.Contains(r.To, s)
			out = out || slices.Contains(r.From, s)
		}
		if !in || !out {
			t.Errorf("%s: can be entered %v, can be left %v", s, in, out)
		}
	}
}

// Each verb works from exactly the states the table names and leads to one it names.
func TestEveryMove(t *testing.T) {
	for verb, do := range moves {
		rule := ruleOf(verb)
		for _, from := range States {
			task := in(from)
			m, err := do(task)
			if legal := slices.Contains(rule.From, from); legal != (err == nil) {
				t.Errorf("%s from %s: %v, the table says %v", verb, from, err, legal)
				continue
			}
			if err != nil {
				if !IsKind(err, Conflict) {
					t.Errorf("%s from %s: kind %s", verb, from, KindOf(err))
				}
				continue
			}
			got := carryOut(t, task, m.Events).Status
			if got.State != m.To || !slices.Contains(rule.To, got.State) {
				t.Errorf("%s from %s leads to %s, the move says %s", verb, from, got.State, m.To)
			}
			if m.From != from || m.Verb != verb || m.Task != task.ID {
				t.Errorf("%s from %s says %+v", verb, from, m)
			}
			checkCarried(t, got)
		}
	}
}

// checkCarried says whether a status has the data of its state and no other's.
func checkCarried(t *testing.T, s Status) {
	t.Helper()
	for state, there := range map[State]bool{
		Running: s.Running != nil, Waiting: s.Waiting != nil, Blocked: s.Blocked != nil,
		Paused: s.Paused != nil, Completed: s.Completed != nil, Failed: s.Failed != nil,
	} {
		if there != (s.State == state) {
			t.Errorf("%s: data of %s is there: %v", s.State, state, there)
		}
	}
}

// The journal refuses a recorded move that the table does not have.
func TestApplyRefusesEveryOtherMove(t *testing.T) {
	for _, verb := range append(slices.Collect(maps.Keys(moves)), "fly") {
		for _, from := range States {
			for _, to := range States {
				task := in(from)
				next, err := task.Apply(Event{Seq: 2, At: noon, Body: Moved{Verb: verb, From: from, Status: statusOf(to)}})
				if Legal(verb, from, to) != (err == nil) {
					t.Errorf("%s from %s to %s: %v", verb, from, to, err)
				}
				if err == nil && next.Status.State != to {
					t.Errorf("%s from %s to %s: it is %s", verb, from, to, next.Status.State)
				}
				if err != nil && (next.Status.State != from || next.Head != 1) {
					t.Errorf("%s from %s to %s: refused, but it changed", verb, from, to)
				}
				for _, other := range States {
					if other == from {
						continue
					}
					if _, err := task.Apply(Event{Seq: 2, Body: Moved{Verb: verb, From: other, Status: statusOf(to)}}); err == nil {
						t.Errorf("%s from %s to %s applied to a task that is %s", verb, other, to, from)
					}
				}
			}
		}
	}
}

func TestPausedAnswerIsKept(t *testing.T) {
	task := in(Waiting)
	m, err := Pause(task, "ann", "tea", noon)
	if err != nil {
		t.Fatal(err)
	}
	paused := carryOut(t, task, m.Events)
	m, err = Resume(paused, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if back := carryOut(t, paused, m.Events); back.Status.State != Waiting || !back.Requests[0].AskedAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("resumed without an answer: %+v, asked at %s", back.Status, back.Requests[0].AskedAt)
	}
	m, err = TakeAnswer(paused, Answer{Request: "q", Choice: Yes}, noon)
	if err != nil {
		t.Fatal(err)
	}
	answered := carryOut(t, paused, m.Events)
	if answered.Status.State != Paused {
		t.Errorf("an answer woke a paused task: %s", answered.Status.State)
	}
	m, err = Resume(answered, noon)
	if err != nil {
		t.Fatal(err)
	}
	if back := carryOut(t, answered, m.Events); back.Status.State != Queued {
		t.Errorf("resumed with the answer: %s", back.Status.State)
	}
}

// body draws any body of a task's stream over small sets of keys, so that events meet one another.
func body(t *rapid.T) Body {
	key := func() StepKey { return rapid.SampledFrom([]StepKey{"a", "b", "c"}).Draw(t, "key") }
	id := func() RequestID { return rapid.SampledFrom([]RequestID{"q", "r"}).Draw(t, "request") }
	switch rapid.IntRange(0, 15).Draw(t, "body") {
	case 0:
		return Created{Spec: Spec{ID: "x", Handle: "t-x"}}
	case 1:
		return Moved{
			Verb: rapid.SampledFrom(Table).Draw(t, "rule").Verb, From: rapid.SampledFrom(States).Draw(t, "from"),
			Status: Status{State: rapid.SampledFrom(States).Draw(t, "to")}, // carries nothing
		}
	case 2:
		return ContextSet{Iteration: rapid.IntRange(0, 3).Draw(t, "iteration")}
	case 3, 4:
		return StepIntended{Intent: Intent{Key: key(), Kind: rapid.SampledFrom([]StepKind{ModelStep, ToolStep, ValidatorStep, "?"}).Draw(t, "kind")}}
	case 5:
		return StepEnded{Outcome: Outcome{Key: key(), Model: &ModelResult{Cost: 1}}}
	case 6:
		return StepEnded{Outcome: Outcome{Key: key(), Failure: &ModelFailure{RetryAt: noon}}}
	case 7:
		return StepEnded{Outcome: Outcome{Key: key(), Tool: &ToolResult{Job: &Job{ID: "j"}, Killed: []JobID{"k"}}}}
	case 8:
		return StepEnded{Outcome: Outcome{Key: key()}}
	case 9:
		return RequestOpened{Request: Request{ID: id(), Limit: time.Minute, AskedAt: noon}}
	case 10:
		return RequestAskedAgain{ID: id()}
	case 11:
		return RequestAnswered{Answer: Answer{Request: id()}}
	case 12:
		return RequestExpired{ID: id()}
	case 13:
		return JobsEnded{Jobs: []JobID{"j"}}
	case 14:
		return rapid.SampledFrom([]Body{Said{}, Discarded{}, ModelChosen{Model: "m"}, Decided{}, Ignored{}}).Draw(t, "other")
	default:
		return rapid.SampledFrom([]Body{Unreadable{Was: "moved"}, Trimmed{Was: "created"}, Recovered{}}).Draw(t, "odd")
	}
}

func image(t *rapid.T, task Task) string {
	raw, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Whatever is applied, in whatever order: a task stays in a legal state, a refused event changes nothing,
// and the task it was applied to is never touched.
func TestApplyIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := NewTask(Spec{ID: "x", Handle: "t-x", CreatedAt: noon})
		var kept []Task
		var images []string
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			kept, images = append(kept, task), append(images, image(t, task))
			var evs []Event
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				m, err := moves[rapid.SampledFrom(Table).Draw(t, "verb").Verb](task)
				if err != nil {
					continue
				}
				evs = m.Events
			case 1:
				evs = Obey(task, command(t), noon)
			default:
				evs = []Event{{Body: body(t)}}
			}
			for _, ev := range evs {
				ev.Seq, ev.At = task.Head+1, noon
				next, err := task.Apply(ev)
				if err != nil {
					if !IsKind(err, Conflict) {
						t.Fatalf("%T: kind %s", ev.Body, KindOf(err))
					}
					if image(t, next) != image(t, task) {
						t.Fatalf("%T was refused and still changed the task", ev.Body)
					}
					continue
				}
				if !slices.Contains(States, next.Status.State) || next.Head != ev.Seq {
					t.Fatalf("%T: state %q, head %d", ev.Body, next.Status.State, next.Head)
				}
				if m, ok := ev.Body.(Moved); ok && !Legal(m.Verb, task.Status.State, next.Status.State) {
					t.Fatalf("%s took it from %s to %s", m.Verb, task.Status.State, next.Status.State)
				}
				task = next
			}
		}
		for i := range kept {
			if got := image(t, kept[i]); got != images[i] {
				t.Fatalf("a later event changed an earlier task:\n%s\nwas\n%s", got, images[i])
			}
		}
	})
}

func TestApplyWantsTheNextEvent(t *testing.T) {
	task := in(Running)
	for _, seq := range []uint64{0, 1, 3} {
		if _, err := task.Apply(Event{Seq: seq, Body: Said{}}); !IsKind(err, Conflict) {
			t.Errorf("event %d after %d: %v", seq, task.Head, err)
		}
	}
}
