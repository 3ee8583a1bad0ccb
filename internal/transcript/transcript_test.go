package transcript

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

func text(s string) td.Block { return td.Block{Type: td.TextBlock, Text: s} }

func use(id, name string) td.Block {
	return td.Block{Type: td.ToolUseBlock, ID: id, Name: name, Input: json.RawMessage(`{}`)}
}

func opened() *Transcript {
	t := &Transcript{}
	t.Apply(td.Event{Body: td.ContextSet{Iteration: 1, Opening: td.Message{Role: td.User, Blocks: []td.Block{text("do it")}}}})
	return t
}

func answer(blocks ...td.Block) td.StepEnded {
	return td.StepEnded{Outcome: td.Outcome{Model: &td.ModelResult{
		Message: td.Message{Role: td.Assistant, Blocks: blocks}, StopReason: td.StopToolUse,
	}}}
}

func result(key td.StepKey, content string) td.StepEnded {
	return td.StepEnded{Outcome: td.Outcome{Key: key, Tool: &td.ToolResult{Content: content, Files: []string{content}}}}
}

func TestResultsFollowTheOrderOfCalls(t *testing.T) {
	tr := opened()
	tr.Apply(td.Event{Body: answer(text("both"), use("a", "Read"), use("b", "Read"))})
	tr.Apply(td.Event{Body: result("t1.1", "second")})
	tr.Apply(td.Event{Body: td.Said{Text: "hurry", By: "me"}})
	if !tr.Open() {
		t.Fatal("a call without a result must stay open")
	}
	tr.Apply(td.Event{Body: result("t1.0", "first")})
	want := td.Message{Role: td.User, Blocks: []td.Block{
		{Type: td.ToolResultBlock, ID: "a", Text: "first"},
		{Type: td.ToolResultBlock, ID: "b", Text: "second"},
		text("hurry"),
	}}
	if diff := cmp.Diff(want, tr.Messages[2]); diff != "" {
		t.Error(diff)
	}
	if tr.Open() || tr.Ended {
		t.Error("the model's turn is next")
	}
	if !tr.Known("first") || tr.Known("third") {
		t.Error("files of results are known, others are not")
	}
}

// Words that come while a model is asked follow its answer, or are part of the next try: two messages of one side in a row no provider takes.
func TestWordsWhileAModelIsAsked(t *testing.T) {
	tr := opened()
	tr.Apply(td.Event{Body: td.Said{Text: "and this"}})
	if n := len(tr.Messages); n != 1 {
		t.Fatalf("unsent: %d messages, want the words in the first", n)
	}
	tr.Apply(td.Event{Body: td.StepIntended{Intent: td.Intent{Key: tr.ModelKey(), Kind: td.ModelStep}}})
	tr.Apply(td.Event{Body: td.Said{Text: "one more"}})
	if n := len(tr.Messages); n != 1 || len(tr.Messages[0].Blocks) != 2 {
		t.Fatalf("sent: %d messages, want what the model is asked", n)
	}
	tr.Apply(td.Event{Body: td.StepEnded{Outcome: td.Outcome{Key: tr.ModelKey(), Failure: &td.ModelFailure{Class: td.Overloaded}}}})
	if n := len(tr.Messages); n != 1 || len(tr.Messages[0].Blocks) != 3 {
		t.Fatalf("failed: %d messages, want the words in the next try", n)
	}
	tr.Apply(td.Event{Body: td.Said{Text: "while it rests"}})
	if n := len(tr.Messages); n != 1 || len(tr.Messages[0].Blocks) != 4 {
		t.Fatalf("resting: %d messages, want the words in the next try", n)
	}
	tr.Apply(td.Event{Body: td.StepIntended{Intent: td.Intent{Key: tr.ModelKey(), Kind: td.ModelStep}}})
	tr.Apply(td.Event{Body: td.Said{Text: "and now"}})
	tr.Apply(td.Event{Body: answer(text("looked"))})
	if n := len(tr.Messages); n != 3 || tr.Messages[1].Role != td.Assistant || tr.Messages[2].Blocks[0].Text != "and now" || tr.Ended {
		t.Fatalf("answered: %+v, want the words after the answer, and the model's turn next", tr.Messages)
	}
}

// What loops say while a model is asked is unread afterwards: it is told again if the answer is discarded.
func TestMailWhileAModelIsAsked(t *testing.T) {
	tr := opened()
	tr.Apply(td.Event{Body: td.StepIntended{Intent: td.Intent{Key: tr.ModelKey(), Kind: td.ModelStep}}})
	tr.Apply(td.Event{Body: td.Received{Text: "main has new commits", By: td.ByTaskdaemon}})
	tr.Apply(td.Event{Body: answer(text("looked"))})
	if n := len(tr.Messages); n != 3 || !tr.Messages[2].Blocks[0].Aside {
		t.Fatalf("%+v", tr.Messages)
	}
	tr.Apply(td.Event{Body: td.Discarded{}})
	if n := len(tr.Messages); n != 1 || len(tr.Messages[0].Blocks) != 2 {
		t.Errorf("%+v", tr.Messages)
	}
}

func TestBetweenIterationsTheLastOneIsShown(t *testing.T) {
	tr := opened()
	tr.Apply(td.Event{Body: answer(text("looked"))})
	tr.Apply(retried)
	tr.Apply(td.Event{Body: td.Ordered{Fresh: true}}) // an iteration that has not begun has no conversation to keep
	tr.Apply(td.Event{Body: td.Said{Text: "hurry", By: "me"}})
	got, ended := tr.Shown()
	if !ended || len(got) != 3 || got[1].Text() != "looked" || got[2].Text() != "hurry" {
		t.Errorf("shown between two iterations: %+v, ended %v", got, ended)
	}
	tr.Apply(td.Event{Body: td.ContextSet{Iteration: 2, Opening: td.Message{Role: td.User, Blocks: []td.Block{text("again")}}}})
	if got, ended := tr.Shown(); ended || len(got) != 1 {
		t.Errorf("shown in the next one: %+v, ended %v", got, ended)
	}
}

func TestEmptyAnswerIsNoMessage(t *testing.T) {
	tr := opened()
	tr.Apply(td.Event{Body: answer()})
	if len(tr.Messages) != 1 || !tr.Ended || tr.Turn != 1 {
		t.Errorf("messages %d, ended %v, turn %d", len(tr.Messages), tr.Ended, tr.Turn)
	}
}

func TestDiscardAsksAgain(t *testing.T) {
	tr := opened()
	tr.Apply(td.Event{Body: answer(use("a", "Read"))})
	tr.Apply(td.Event{Body: result("t1.0", "x")})
	tr.Apply(td.Event{Body: td.Discarded{}})
	if len(tr.Messages) != 1 || tr.Ended || tr.Open() {
		t.Errorf("messages %d, ended %v, open %v", len(tr.Messages), tr.Ended, tr.Open())
	}
	if got, want := tr.ModelKey(), td.StepKey("t2.model"); got != want {
		t.Errorf("next step %s, want %s: a key is never used again", got, want)
	}
}

func TestResumeForgetsFailures(t *testing.T) {
	tr := opened()
	tr.Apply(td.Event{Body: td.StepIntended{Intent: td.Intent{Kind: td.ModelStep}}})
	tr.Apply(td.Event{Body: td.StepEnded{Outcome: td.Outcome{Failure: &td.ModelFailure{Class: td.Network}}}})
	if tr.Model.InFlight || len(tr.Model.Failures) != 1 {
		t.Fatalf("model call %+v", tr.Model)
	}
	tr.Apply(td.Event{Body: td.Moved{Verb: td.VerbReset}})
	if len(tr.Model.Failures) != 0 {
		t.Error("a person's new try starts with all its attempts")
	}
}

// TestConversationIsAlwaysOneAProviderTakes drives random events through the fold and holds every state
// of it against the rules of the API: it starts with the user, each tool_use has its tool_result in the
// very next message, and no result stands without its call.
func TestConversationIsAlwaysOneAProviderTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := opened()
		calls := 0
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			var b td.Body
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				var blocks []td.Block
				for range rapid.IntRange(0, 3).Draw(t, "tools") {
					calls++
					blocks = append(blocks, use(fmt.Sprint("id", calls), "Read"))
				}
				if rapid.Bool().Draw(t, "text") {
					blocks = append(blocks, text("words"))
				}
				if tr.Open() {
					continue // no model is called while results are due
				}
				b = answer(blocks...)
			case 1:
				if !tr.Open() {
					continue
				}
				c := tr.Calls[rapid.IntRange(0, len(tr.Calls)-1).Draw(t, "call")]
				b = result(c.Key, "ok")
			case 2:
				b = td.Said{Text: "words"}
			case 3:
				b = td.Discarded{}
			case 4:
				if tr.Open() {
					continue
				}
				b = td.StepIntended{Intent: td.Intent{Key: tr.ModelKey(), Kind: td.ModelStep}}
			case 5:
				b = td.StepEnded{Outcome: td.Outcome{Failure: &td.ModelFailure{Class: td.Network, RetryAt: time.Unix(1, 0)}}}
			}
			tr.Apply(td.Event{Body: b})
			checkOrder(t, tr)
		}
	})
}

func checkOrder(t *rapid.T, tr *Transcript) {
	if tr.Messages[0].Role != td.User {
		t.Fatal("the conversation does not start with the user")
	}
	for i, m := range tr.Messages {
		if len(m.Blocks) == 0 {
			t.Fatalf("message %d is empty", i)
		}
		uses := m.ToolUses()
		if len(uses) > 0 {
			if i == len(tr.Messages)-1 {
				if len(tr.Calls) != len(uses) {
					t.Fatalf("message %d: %d calls without results, %d known as open", i, len(uses), len(tr.Calls))
				}
				continue
			}
			next := tr.Messages[i+1]
			for j, u := range uses {
				if len(next.Blocks) <= j || next.Blocks[j].Type != td.ToolResultBlock || next.Blocks[j].ID != u.ID {
					t.Fatalf("message %d: call %s has no result in its place", i, u.ID)
				}
			}
		}
		for _, b := range m.Blocks {
			if b.Type == td.ToolResultBlock && (i == 0 || len(tr.Messages[i-1].ToolUses()) == 0) {
				t.Fatalf("message %d: a result without a call", i)
			}
		}
	}
}
