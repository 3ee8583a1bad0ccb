package query

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func TestKindOf(t *testing.T) {
	for question, want := range map[string]Kind{
		"What files have you modified?":         Files,
		"files":                                 Files,
		"Which files did you change so far?":    Files,
		"What is your status?":                  State,
		"what are you doing right now":          State,
		"phase":                                 State,
		"How much have you spent?":              Cost,
		"cost":                                  Cost,
		"How many tokens?":                      Cost,
		"todo":                                  Progress,
		"What is left to do?":                   Progress,
		"what did you say last":                 Words,
		"last words":                            Words,
		"Why did you change this file?":         Free,
		"Which files cost the most?":            Free, // of two kinds
		"what":                                  Free,
		"":                                      Free,
		"Did you touch the files of the parser": Free,
		"Is the migration safe?":                Free,
		strings.Repeat("files ", MaxQuestion):   Free,
	} {
		if got := KindOf(question); got != want {
			t.Errorf("KindOf(%.60q) = %s, want %s", question, got, want)
		}
	}
}

func TestNoWordIsOfTwoKinds(t *testing.T) {
	kinds := map[string]Kind{}
	for kind, words := range vocabulary {
		for _, w := range words {
			if was, twice := kinds[w]; twice {
				t.Errorf("%q is of the kinds %s and %s", w, was, kind)
			}
			if fillers[w] {
				t.Errorf("%q is of the kind %s and makes no difference", w, kind)
			}
			kinds[w] = kind
		}
	}
}

var at = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// worked is a task that looked, wrote, kept a list and said something.
func worked() (td.Task, []td.Event) {
	say := func(text string) td.Body {
		return td.StepEnded{Outcome: td.Outcome{Key: "t1.model", Model: &td.ModelResult{Message: td.Message{Role: td.Assistant, Blocks: []td.Block{
			{Type: td.TextBlock, Text: text},
			{Type: td.ToolUseBlock, ID: "a", Name: "Todo", Input: []byte(`{"todos": []}`)},
			{Type: td.ToolUseBlock, ID: "b", Name: "Write", Input: []byte(`{"path": "new.go"}`)},
		}}}}}
	}
	var events []td.Event
	for _, b := range []td.Body{
		td.ContextSet{Iteration: 1, Opening: td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "make it faster"}}}},
		td.StepIntended{Intent: td.Intent{Key: "t1.model", Kind: td.ModelStep, Name: "m"}},
		say("I measure first."),
		td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: "Todo"}},
		td.StepEnded{Outcome: td.Outcome{Key: "t1.0", Tool: &td.ToolResult{Content: "[x] measure\n[ ] make faster\n"}}},
		td.StepIntended{Intent: td.Intent{Key: "t1.1", Kind: td.ToolStep, Name: "Write"}},
		td.StepEnded{Outcome: td.Outcome{Key: "t1.1", Tool: &td.ToolResult{Content: "Wrote new.go.", Files: []string{"new.go"}}}},
	} {
		events = append(events, td.Event{Seq: uint64(len(events) + 2), At: at, Body: b})
	}
	task := td.NewTask(td.Spec{ID: "0000", Handle: "t-aaaa", Prompt: "make it faster", CreatedAt: at})
	task.Status.Since = at
	return task, events
}

func TestFactsAnswerWithoutAModel(t *testing.T) {
	task, events := worked()
	f := FactsOf(task, events)
	f.Now, f.Changed, f.Tracked, f.Committed = at.Add(time.Minute), []string{"go.mod"}, true, []string{"old.go"}
	for kind, want := range map[Kind][]string{
		Files:    {"Written by its tools:\n  new.go", "since the last commit:\n  go.mod", "on its branch:\n  old.go"},
		State:    {"t-aaaa is queued for 1m0s"},
		Cost:     {"t-aaaa spent $0.00"},
		Progress: {"[x] measure\n[ ] make faster"},
		Words:    {"I measure first."},
	} {
		for _, part := range want {
			if got := f.Answer(kind); !strings.Contains(got, part) {
				t.Errorf("%s: %q does not say %q", kind, got, part)
			}
		}
	}
	if f.Answer(Free) != "" {
		t.Error("the facts answer what they do not know")
	}
	if got := FactsOf(task, nil).Answer(Words); got != "It has said nothing yet." {
		t.Errorf("a task that said nothing says %q", got)
	}
	lost := FactsOf(task, nil)
	if lost.Gone = 3; !strings.HasPrefix(lost.Answer(Words), "What it said is lost") {
		t.Errorf("a task whose records are gone says %q", lost.Answer(Words))
	}
}

func TestPromptHoldsTheEndOfTheConversation(t *testing.T) {
	task, events := worked()
	long := strings.Repeat("x", maxBlock) + "\n"
	for range 40 {
		events = append(events, td.Event{At: at, Body: td.Said{By: "ann", Text: long}})
	}
	events = append(events, td.Event{At: at, Body: td.Said{By: "ann", Text: "the newest word"}})
	prompt := FactsOf(task, events).Prompt("is it safe?")
	if !strings.Contains(prompt, "the newest word") || !strings.HasSuffix(prompt, "is it safe?") {
		t.Error("the prompt lacks the newest words or the question")
	}
	if strings.Contains(prompt, "make it faster") {
		t.Error("the prompt holds the beginning, for which there is no room")
	}
	if n := len([]rune(prompt)); n > MaxPrompt {
		t.Errorf("the prompt has %d characters; %d were promised", n, MaxPrompt)
	}
}

func FuzzKindOf(f *testing.F) {
	for _, s := range []string{"", "What files have you modified?", "état", "files\x00cost", "’s", "\xff\xfe", strings.Repeat("a ", 1000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, question string) {
		kind := KindOf(question)
		if kind != KindOf(question) {
			t.Fatal("the same question is of two kinds")
		}
		if kind != Free && KindOf(question+" because") != Free {
			t.Fatal("a word that nobody knows makes no difference")
		}
		task, events := worked()
		if n := len([]rune(FactsOf(task, events).Prompt(question))); len(question) <= MaxQuestion && n > MaxPrompt {
			t.Fatalf("the prompt has %d characters; %d were promised", n, MaxPrompt)
		}
	})
}
