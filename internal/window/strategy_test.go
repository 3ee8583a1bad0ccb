package window

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"taskdaemon/internal/td"

	"pgregory.net/rapid"
)

// lines is text of so many numbered lines.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the output\n", i+1)
	}
	return b.String()
}

// run is a conversation of tool calls whose results are these.
func run(texts ...string) []td.Message {
	msgs := []td.Message{user("do it")}
	for i, text := range texts {
		id := fmt.Sprintf("id%d", i)
		r := results(id)
		r.Blocks[0].Text = text
		msgs = append(msgs, call(id), r)
	}
	return msgs
}

func mustApply(t *testing.T, msgs []td.Message, c Compaction) []td.Message {
	t.Helper()
	out, err := Apply(msgs, c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTruncateLargestThenOldest(t *testing.T) {
	msgs := run(lines(400), lines(2000), lines(300), lines(2100), lines(5), lines(2000), "ok")
	full := Count("", nil, msgs).Total()
	// Cutting one of the largest is enough, and of the two it is the older.
	d := Plan(msgs, Parts{}, Budget{Window: full - 10}, Options{Target: 1, Newest: 4})
	if d.Do != Compact || d.Compaction.Strategy != Truncated || len(d.Compaction.Edits) != 1 || d.Compaction.Edits[0].Message != 4 {
		t.Fatalf("%s %+v", d.Do, d.Compaction)
	}
	next := mustApply(t, msgs, d.Compaction)
	text := next[4].Blocks[0].Text
	m := regexp.MustCompile(`(?m)^\[truncated, (\d+) lines omitted\]$`).FindStringSubmatch(text)
	if m == nil || !strings.HasPrefix(text, "line 1 of") || !strings.HasSuffix(text, "line 2000 of the output\n") {
		t.Fatalf("cut to %q", text)
	}
	if want := fmt.Sprint(2000 - strings.Count(text, "line ")); m[1] != want {
		t.Errorf("%s lines omitted, are %s", m[1], want)
	}
	if n := Tokens(text); n > 1000 || n < 900 {
		t.Errorf("%d tokens are left of it, want about 1000", n)
	}
	// All that may be cut is cut in one go, and never again.
	d = Plan(msgs, Parts{}, Budget{Window: 20000}, Options{NoSummary: true})
	var cutOnes []int
	for _, e := range d.Compaction.Edits {
		cutOnes = append(cutOnes, e.Message)
	}
	if !slices.Equal(cutOnes, []int{4, 8, 2, 6}) {
		t.Errorf("cut messages %v", cutOnes)
	}
	again := newPlan(mustApply(t, msgs, d.Compaction), Parts{}, Budget{}, Options{})
	if c, _ := again.truncate(again.old()); len(c.Edits) != 0 {
		t.Errorf("cut again: %+v", c)
	}
}

func TestCut(t *testing.T) {
	if got := cut("short\n", 100); got != "short\n" {
		t.Errorf("short text: %q", got)
	}
	long := strings.Repeat("x", 5000)
	got := cut(long, 100)
	m := regexp.MustCompile(`^(x+)\n\[truncated, (\d+) characters omitted\]\n(x+)$`).FindStringSubmatch(got)
	if m == nil || fmt.Sprint(5000-len(m[1])-len(m[3])) != m[2] {
		t.Errorf("one long line: %q", got)
	}
	if got := cut("one\n"+long+"\nlast", 100); !strings.HasPrefix(got, "one\nx") || !strings.HasSuffix(got, "x\nlast") {
		t.Errorf("a long line between short ones: %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(1, 200).Draw(t, "times"))
		tokens := rapid.IntRange(minFloor, 2000).Draw(t, "tokens")
		got := cut(text, tokens)
		switch {
		case Tokens(text) <= tokens && got != text:
			t.Fatal("cut what fits")
		case Tokens(got) > tokens:
			t.Fatalf("%d tokens, want %d", Tokens(got), tokens)
		case utf8.ValidString(text) && !utf8.ValidString(got):
			t.Fatal("a character was cut in two")
		}
	})
}

// long is a run that only a summary can make smaller: many small exchanges.
func long() []td.Message {
	var texts []string
	for i := range 60 {
		texts = append(texts, fmt.Sprintf("finding %d\n%s", i, lines(10)))
	}
	return run(texts...)
}

func TestSummarise(t *testing.T) {
	msgs := long()
	msgs[10].Blocks = append(msgs[10].Blocks, td.Block{Type: td.TextBlock, Text: "use tabs"}, td.Block{Type: td.TextBlock, Text: remind, Aside: true})
	msgs[5].Blocks = append(msgs[5].Blocks, td.Block{Type: td.ToolUseBlock, ID: "todo", Name: "Todo", Input: []byte(`{"todos":[{"text":"tidy up","status":"pending"}]}`)})
	msgs[6].Blocks = append(msgs[6].Blocks, td.Block{Type: td.ToolResultBlock, ID: "todo", Text: "[ ] tidy up"})
	msgs[15].Blocks = append(msgs[15].Blocks, td.Block{Type: td.ToolUseBlock, ID: "ask", Name: "Ask", Input: []byte(`{"question":"which?"}`)})
	msgs[16].Blocks = append(msgs[16].Blocks, td.Block{Type: td.ToolResultBlock, ID: "ask", Text: "the blue one"})
	o := Options{}
	d := Plan(msgs, Parts{}, Budget{Window: 5000}, o)
	if d.Do != Summarise || d.Summary.From != 1 || d.Summary.To%2 != 1 || len(msgs)-d.Summary.To < 4 {
		t.Fatalf("%s %d to %d", d.Do, d.Summary.From, d.Summary.To)
	}
	for _, want := range []string{"finding 3", "person: use tabs", "call: Read {}", "<conversation>", "</conversation>\n"} {
		if !strings.Contains(d.Summary.Prompt, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	if strings.Contains(d.Summary.Prompt, "do it") {
		t.Error("the opening is to be summarised")
	}
	c, err := d.Summary.Compaction("Read sixty files.")
	if err != nil {
		t.Fatal(err)
	}
	next := mustApply(t, msgs, c)
	if len(next) != 1+2+len(msgs)-d.Summary.To || next[1].Text() != summaryHead+"Read sixty files." || next[2].Text() != "use tabs" {
		t.Errorf("became %+v", next[1:3])
	}
	uses := next[1].ToolUses()
	if len(uses) != 2 || uses[0].ID != "todo" || uses[1].ID != "ask" || next[2].Blocks[1].Text != "the blue one" {
		t.Errorf("kept calls %+v and results %+v", uses, next[2].Blocks)
	}
	// The next summary takes the first one in whole.
	next = append(next, long()[1:]...)
	next[4].Blocks = append(next[4].Blocks, td.Block{Type: td.TextBlock, Text: goOn, Aside: true})
	d = Plan(next, Parts{}, Budget{Window: 5000}, o)
	if d.Do != Summarise || d.Summary.From != 1 || !strings.Contains(d.Summary.Prompt, "summary of what came before: Read sixty files.\n") {
		t.Errorf("%s: %s", d.Do, d.Summary.Prompt)
	}
	if c, err = d.Summary.Compaction("Read more."); err != nil || c.With[1].Text() != "use tabs" || len(c.With[0].ToolUses()) != 2 {
		t.Errorf("the second summary carries %+v (%v)", c.With, err)
	}
}

func TestDropLeastRelevantFirst(t *testing.T) {
	msgs := run(lines(60), lines(60), lines(60), lines(60), lines(60), "a", "b")
	msgs[1].Blocks[0].Name = "Edit"
	msgs[4].Blocks[0].IsError = true
	msgs[8].Blocks = append(msgs[8].Blocks, td.Block{Type: td.TextBlock, Text: "faster"})
	full := Count("", nil, msgs).Total()
	one := MessageTokens(msgs[5]) + MessageTokens(msgs[6])
	o := Options{NoSummary: true, Target: 1}
	drop := func(window int) []td.Message {
		t.Helper()
		d := Plan(msgs, Parts{}, Budget{Window: window}, o)
		if d.Do != Compact || d.Compaction.Strategy != Dropped {
			t.Fatalf("%s: %+v", d.Do, d.Compaction)
		}
		return mustApply(t, msgs, d.Compaction)
	}
	// Neither the change nor the failure, though they are older.
	next := drop(full - one/2)
	if len(next) != len(msgs) || next[5].Text() != leftOut(1) || next[6].Text() != goOn {
		t.Errorf("first to go: %+v", next[5:7])
	}
	// Neighbours leave one line, and what was said in them.
	next = drop(full - one*5/2)
	if len(next) != len(msgs)-4 || next[5].Text() != leftOut(3) || next[6].Text() != "faster" {
		t.Errorf("three neighbours: %+v", next[5:7])
	}
	// The lines of an earlier drop join what goes next to them; the change goes last.
	msgs = next
	next = drop(Count("", nil, msgs).Total() - one/2)
	if len(next) != len(msgs)-2 || next[1].ToolUses()[0].Name != "Edit" || next[3].Text() != leftOut(4) || next[4].Text() != "faster" {
		t.Errorf("then the failure: %+v", next[1:5])
	}
	msgs = next
	next = drop(Count("", nil, msgs).Total() - one/2)
	if next[1].Text() != leftOut(5) || next[2].Text() != "faster" {
		t.Errorf("then the change: %+v", next[1:3])
	}
}

// What is smaller than the line it would leave behind stays; an earlier line takes up what goes after it.
func TestDropJoins(t *testing.T) {
	msgs := append([]td.Message{user("do it"), assistant(leftOut(2)), td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: goOn, Aside: true}}}}, run("", lines(60), "a", "b")[1:]...)
	d := Plan(msgs, Parts{}, Budget{Window: Count("", nil, msgs).Total() - 1}, Options{NoSummary: true, Target: 1})
	if d.Do != Compact {
		t.Fatal(d.Err)
	}
	next := mustApply(t, msgs, d.Compaction)
	if len(next) != len(msgs) || len(next[3].ToolUses()) != 1 || next[5].Text() != leftOut(1) {
		t.Errorf("the small one went: %+v", next[3:6])
	}
	msgs = slices.Delete(msgs, 3, 5)
	d = Plan(msgs, Parts{}, Budget{Window: Count("", nil, msgs).Total() - 1}, Options{NoSummary: true, Target: 1})
	next = mustApply(t, msgs, d.Compaction)
	if len(next) != len(msgs)-2 || next[1].Text() != leftOut(3) || next[2].Text() != goOn {
		t.Errorf("two lines for neighbours: %+v", next[1:])
	}
}

// When the newest messages themselves are too much, all but the newest exchange give way.
func TestNarrowing(t *testing.T) {
	msgs := run("a", lines(1000), lines(100))
	d := Plan(msgs, Parts{}, Budget{Window: 8000}, Options{})
	if d.Do != Compact || len(d.Compaction.Edits) != 1 || d.Compaction.Edits[0].Message != 4 {
		t.Errorf("%s: %+v", d.Do, d.Compaction)
	}
}

func TestTooLarge(t *testing.T) {
	big := lines(1000)
	said := run("a", "b", "c")
	said[2].Blocks = append(said[2].Blocks, td.Block{Type: td.TextBlock, Text: big})
	for _, c := range []struct {
		name  string
		msgs  []td.Message
		fixed Parts
		want  string
		hint  string
	}{
		{"rules", run("a"), Parts{System: 9000}, "the system prompt", "AGENTS.md"},
		{"opening", append([]td.Message{user(big)}, run("a", "b")[1:]...), Parts{}, "the opening", "task statement"},
		{"opening alone", []td.Message{user(big)}, Parts{}, "the opening", "task statement"},
		{"words", said, Parts{}, "what was said", "into a file"},
		{"newest", []td.Message{user("a"), assistant(big), user("b")}, Parts{}, "the newest answer", "/retry"},
		{"all together", append([]td.Message{user(lines(150))}, run("a", lines(150))[1:]...), Parts{System: 2400}, "nothing more", "split the task"},
	} {
		d := Plan(c.msgs, c.fixed, Budget{Window: 5000}, Options{})
		if d.Do != TooLarge || !strings.Contains(fmt.Sprint(d.Err), c.want) || !strings.Contains(td.HintOf(d.Err), c.hint) {
			t.Errorf("%s: %s: %v (%s)", c.name, d.Do, d.Err, td.HintOf(d.Err))
		}
	}
	if d := Plan(nil, Parts{}, Budget{}, Options{}); d.Do != Fits {
		t.Errorf("nothing in no window: %s %v", d.Do, d.Err)
	}
}

// Many large results at once are cut before the task is given up.
func TestNewestResultsAreCutLast(t *testing.T) {
	var ids []string
	for i := range 12 {
		ids = append(ids, fmt.Sprint("id", i))
	}
	answer, reply := call(ids...), results(ids...)
	for i := range reply.Blocks {
		reply.Blocks[i].Text = lines(400)
	}
	msgs := []td.Message{user("do it"), answer, reply}
	for _, c := range []struct {
		window int
		want   Action
	}{{20_000, Compact}, {1000, TooLarge}} {
		d := Plan(msgs, Parts{}, Budget{Window: c.window}, Options{Floor: 200})
		for steps := 0; d.Do == Compact && steps < maxSteps; steps++ {
			next, err := Apply(msgs, d.Compaction)
			if err != nil {
				t.Fatal(err)
			}
			if d = Plan(next, Parts{}, Budget{Window: c.window}, Options{Floor: 200}); d.Do == Fits && c.want == Compact {
				if whole := slices.ContainsFunc(next[2].Blocks, func(b td.Block) bool { return b.Text == lines(400) }); !whole {
					t.Error("all results were cut, where some would have done")
				}
			}
		}
		if c.want == Compact && d.Do != Fits || c.want == TooLarge && d.Do != TooLarge {
			t.Errorf("%d tokens: %s (%v)", c.window, d.Do, d.Err)
		}
	}
}
