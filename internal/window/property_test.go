package window

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"

	"pgregory.net/rapid"
)

// maxSteps is how many compactions may be needed: each strategy for the wide and for the narrow choice of the
// newest messages, and one more round for what a summary made possible.
const maxSteps = 8

// After any sequence of strategies: the rules of message order hold; the opening, people's words, the newest
// todos and the newest messages are there word for word; each step makes the conversation smaller; and
// it ends.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := conversations(t)
		budget := Budget{Window: rapid.IntRange(100, 20000).Draw(t, "window"), Reserve: 100, Share: 0.9}
		o := Options{
			Newest:    rapid.IntRange(0, 10).Draw(t, "newest"),
			Floor:     rapid.IntRange(0, 500).Draw(t, "floor"),
			Verbatim:  rapid.Float64Range(0, 1).Draw(t, "verbatim"),
			Target:    rapid.Float64Range(0, 1).Draw(t, "target"),
			Prompt:    rapid.IntRange(0, 5000).Draw(t, "prompt"),
			NoSummary: rapid.Bool().Draw(t, "no summary"),
			Scale: Calibrate(td.Usage{Input: rapid.Int64Range(0, 50000).Draw(t, "counted")},
				rapid.IntRange(1, 50000).Draw(t, "estimated")),
		}
		o.Scale.Rate = rapid.SampledFrom([]float64{0, 0.5, 1.3}).Draw(t, "rate")
		fixed := Parts{System: rapid.IntRange(0, 2000).Draw(t, "system"), Tools: 100}
		for steps := 0; ; steps++ {
			if steps > maxSteps {
				t.Fatalf("still not done after %d steps", steps)
			}
			before := Count("", nil, msgs).Total()
			d := Plan(msgs, fixed, budget, o)
			if d.Tokens != o.Scale.Of(before+fixed.Total()) || d.Limit != budget.Limit() {
				t.Fatalf("%d tokens of %d, counted %d of %d", d.Tokens, d.Limit, o.Scale.Of(before+fixed.Total()), budget.Limit())
			}
			switch d.Do {
			case Fits:
				if d.Tokens > d.Limit {
					t.Fatalf("%d tokens fit %d", d.Tokens, d.Limit)
				}
				return
			case TooLarge:
				if d.Err == nil || td.HintOf(d.Err) == "" || !td.IsKind(d.Err, td.Invalid) {
					t.Fatalf("gave up without a word: %v", d.Err)
				}
				return
			case Summarise:
				d.Compaction = summarised(t, d.Summary, o)
			}
			next := applied(t, msgs, d.Compaction)
			unharmed(t, msgs, next, o, d.Compaction)
			if after := Count("", nil, next).Total(); after >= before {
				t.Fatalf("%s: %d tokens became %d", d.Compaction.Strategy, before, after)
			} else if got := o.Scale.Of(after + fixed.Total()); got != d.Compaction.After || d.Compaction.Before != d.Tokens {
				t.Fatalf("%s: states %d to %d, is %d to %d", d.Compaction.Strategy, d.Compaction.Before, d.Compaction.After, d.Tokens, got)
			}
			msgs = next
		}
	})
}

func summarised(t *rapid.T, s Summary, o Options) Compaction {
	if o.NoSummary {
		t.Fatal("a summary though there is none to be had")
	}
	if room := o.withDefaults().Prompt; Tokens(s.Prompt) > max(room, 450) {
		t.Fatalf("prompt of %d tokens, allowed %d", Tokens(s.Prompt), room)
	}
	// A model that does not keep to its limit, and one that says next to nothing.
	text := strings.Repeat("much was done. ", rapid.IntRange(1, 2000).Draw(t, "summary"))
	c, err := s.Compaction(text)
	if err != nil {
		t.Fatal(err)
	}
	if c.From != s.From || c.To != s.To {
		t.Fatalf("asked for %d to %d, replaces %d to %d", s.From, s.To, c.From, c.To)
	}
	return c
}

// applied applies a compaction as it comes back from the journal, twice.
func applied(t *rapid.T, msgs []td.Message, c Compaction) []td.Message {
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var replayed Compaction
	if err := json.Unmarshal(raw, &replayed); err != nil {
		t.Fatal(err)
	}
	source, err := json.Marshal(msgs)
	if err != nil {
		t.Fatal(err)
	}
	live, err := Apply(msgs, c)
	if err != nil {
		t.Fatalf("%s: %v", c.Strategy, err)
	}
	again, err := Apply(msgs, replayed)
	if err != nil {
		t.Fatalf("%s, replayed: %v", c.Strategy, err)
	}
	if !reflect.DeepEqual(live, again) {
		t.Fatalf("%s: replaying gives another conversation", c.Strategy)
	}
	if now, err := json.Marshal(msgs); err != nil || string(now) != string(source) {
		t.Fatalf("%s: the source was changed (%v)", c.Strategy, err)
	}
	return live
}

func unharmed(t *rapid.T, before, after []td.Message, o Options, c Compaction) {
	if err := Check(after); err != nil {
		t.Fatalf("%s: %v", c.Strategy, err)
	}
	first := opening(before)
	if len(after) < first || !reflect.DeepEqual(before[:first], after[:first]) {
		t.Fatalf("%s: the opening was touched", c.Strategy)
	}
	newest := before[lastAnswer(before):]
	if len(after) < len(newest) {
		t.Fatalf("%s: the newest exchange is gone", c.Strategy)
	}
	for i, m := range after[len(after)-len(newest):] {
		for j, b := range m.Blocks {
			if c.Strategy == Truncated && b.Type == td.ToolResultBlock && b.Text != newest[i].Blocks[j].Text {
				b.Text = newest[i].Blocks[j].Text // cut, as the last resort
			}
			if !reflect.DeepEqual(b, newest[i].Blocks[j]) {
				t.Fatalf("%s: the newest exchange was touched", c.Strategy)
			}
		}
	}
	there := precious(after)
	for _, want := range precious(before) {
		if !slices.Contains(there, want) {
			t.Fatalf("%s: lost %.80q", c.Strategy, want)
		}
	}
}

func lastAnswer(msgs []td.Message) int {
	for i := len(msgs) - 1; i >= 0; i-- {
		if msgs[i].Role == td.Assistant {
			return i
		}
	}
	return 0
}

// As long as anything else can be done, the newest messages are left alone, in whole exchanges.
func TestNewestUntouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := conversations(t)
		p := newPlan(msgs, Parts{}, Budget{Window: 500}, Options{Newest: rapid.IntRange(1, 12).Draw(t, "newest")})
		p.findTodos()
		s, ok := p.summarise()
		d, _ := p.drop()
		c, _ := p.truncate(p.old())
		last := len(msgs) - p.Newest
		if ok && s.To > last || d.To > max(last, 0) {
			t.Fatalf("summarises to %d, drops to %d, the newest begin at %d", s.To, d.To, last)
		}
		for _, e := range c.Edits {
			if e.Message >= last {
				t.Fatalf("cuts message %d, the newest begin at %d", e.Message, last)
			}
		}
	})
}

// Conversations that break the rules are refused, not repaired, and nothing panics.
func TestPlanOnBroken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := slices.Clone(conversations(t))
		for range rapid.IntRange(1, 4).Draw(t, "cuts") {
			if len(msgs) > 0 {
				i := rapid.IntRange(0, len(msgs)-1).Draw(t, "at")
				msgs = slices.Delete(msgs, i, i+1)
			}
		}
		d := Plan(msgs, Parts{}, Budget{Window: rapid.IntRange(-5, 3000).Draw(t, "window")}, Options{})
		switch err := Check(msgs); {
		case err == nil || d.Do == Fits:
		case d.Do != TooLarge || !td.IsKind(d.Err, td.Corrupt):
			t.Fatalf("%s for a conversation that breaks the rules: %v", d.Do, err)
		}
	})
}

// Random indices never do harm: an error, or a conversation that keeps the rules and its opening.
func TestApplyHostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msgs := conversations(t)
		index := rapid.IntRange(-2, len(msgs)+2)
		c := Compaction{From: index.Draw(t, "from"), To: index.Draw(t, "to")}
		for range rapid.IntRange(0, 3).Draw(t, "edits") {
			c.Edits = append(c.Edits, Edit{Message: index.Draw(t, "message"), Block: rapid.IntRange(-1, 4).Draw(t, "block"), Text: "x"})
		}
		if rapid.Bool().Draw(t, "with") {
			c.With = rapid.SampledFrom([][]td.Message{
				{assistant("a"), user("b")}, {user("b")}, {assistant("a")}, {{}}, {{Role: td.User}}, msgs,
			}).Draw(t, "messages")
		}
		out, err := Apply(msgs, c)
		if err != nil {
			if out != nil {
				t.Fatal("an error and a conversation")
			}
			return
		}
		if first := opening(msgs); Check(out) != nil || !reflect.DeepEqual(out[:first], msgs[:first]) {
			t.Fatalf("%+v gave a conversation that breaks the rules", c)
		}
	})
}

func TestEmptySummary(t *testing.T) {
	for _, s := range []Summary{{}, {plan: &plan{}}} {
		if _, err := s.Compaction(" \n"); !td.IsKind(err, td.Invalid) || errors.Unwrap(err) == nil {
			t.Errorf("an empty summary: %v", err)
		}
	}
}
