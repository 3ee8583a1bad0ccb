package transcript

import (
	"encoding/json"
	"testing"

	"taskdaemon/internal/td"
)

func asks(key td.StepKey, attempt int) td.StepIntended {
	return td.StepIntended{Intent: td.Intent{Key: key, Kind: td.HookStep, Attempt: attempt}}
}

func said(key td.StepKey, result string) td.StepEnded {
	return td.StepEnded{Outcome: td.Outcome{Key: key, Hook: json.RawMessage(result)}}
}

func apply(t *Transcript, bodies ...td.Body) {
	for _, b := range bodies {
		t.Apply(td.Event{Body: b})
	}
}

func TestHooksAreRememberedUntilTheNextAnswer(t *testing.T) {
	tr := opened()
	apply(tr, asks("k", 0))
	if h := tr.Hook("k"); h.InFlight == nil || h.Attempts != 1 || h.Result != nil {
		t.Errorf("in flight: %+v", h)
	}
	apply(tr, said("k", `{"reason":"x"}`), asks("blocks", 0), said("blocks", `{"blocked":true}`), td.Said{Text: "w", Step: "k"})
	if h := tr.Hook("k"); h.InFlight != nil || string(h.Result) != `{"reason":"x"}` || !tr.Injected("k") {
		t.Errorf("answered: %+v", h)
	}
	before := *tr
	apply(tr, td.Moved{Verb: td.VerbResume})
	if h := tr.Hook("blocks"); h.Result != nil || h.Attempts != 1 {
		t.Errorf("a person overrules a block: %+v", h)
	}
	if tr.Hook("k").Result == nil || before.Hook("blocks").Result == nil {
		t.Error("what did not block stays, and so does an older copy")
	}
	apply(tr, answer(text("next")))
	if h := tr.Hook("k"); h.Attempts != 0 || tr.Injected("k") {
		t.Errorf("a new turn begins with none: %+v", h)
	}
}

func TestBeginKey(t *testing.T) {
	tr := &Transcript{}
	first := tr.BeginKey()
	apply(tr, td.ContextSet{Opening: td.Message{Role: td.User, Blocks: []td.Block{text("do it")}}})
	if tr.BeginKey() != first || !tr.Injected(first) {
		t.Error("the words for the beginning stand in the opening")
	}
	apply(tr, answer(text("a")), td.Moved{Verb: td.VerbRecover})
	if tr.BeginKey() != first || !tr.Answered {
		t.Error("a crash is not a beginning")
	}
	apply(tr, td.Moved{Verb: td.VerbReset})
	if tr.BeginKey() == first || tr.Answered {
		t.Error("a person who lets it go on lets it begin anew")
	}
}

func TestAnswerIsChangedBeforeItIsActedOn(t *testing.T) {
	next := td.Message{Role: td.Assistant, Blocks: []td.Block{use("b", "Glob"), use("c", "Grep")}}
	for name, c := range map[string]struct {
		then  []td.Body
		calls int
		bad   int
	}{
		"untouched":         {nil, 2, 0},
		"a hook was asked":  {[]td.Body{asks("k", 0), said("k", `{}`)}, 2, 0},
		"a call has begun":  {[]td.Body{td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep}}}, 1, 1},
		"something is said": {[]td.Body{td.Said{Text: "stop"}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tr := opened()
			apply(tr, answer(text("look"), use("a", "Read")))
			apply(tr, c.then...)
			apply(tr, td.AnswerChanged{Message: next})
			if len(tr.Calls) != c.calls || tr.Bad != c.bad {
				t.Errorf("%d calls, %d bad records", len(tr.Calls), tr.Bad)
			}
			if tr.Ended {
				t.Error("calls are open")
			}
		})
	}
	tr := opened()
	apply(tr, answer(use("a", "Read")), td.AnswerChanged{Message: td.Message{Role: td.Assistant, Blocks: []td.Block{text("never mind")}}})
	if tr.Open() || !tr.Ended {
		t.Error("an answer changed to words asks for nothing")
	}
}
