package window

import (
	"fmt"

	"taskdaemon/internal/td"
)

// Action is what is to be done about a conversation.
type Action string

// The actions.
const (
	Fits      Action = "fits"      // nothing
	Compact   Action = "compact"   // journal Decision.Compaction, apply it, plan again
	Summarise Action = "summarise" // ask a small model Decision.Summary, then as above
	TooLarge  Action = "too_large" // give up with Decision.Err
)

// Decision is what Plan decided. Which of the last three fields counts follows from Do.
type Decision struct {
	Do     Action
	Tokens int // of the whole call, corrected by the scale
	Least  int // that it may come to
	Limit  int

	Compaction Compaction
	Summary    Summary
	Err        error
}

// minNewest is the newest exchange: an answer and its results.
const minNewest = 2

// Plan says what to do next so that a conversation fits its budget. Of fixed only what is not in msgs counts:
// system prompt and tools. It is to be called again after each compaction until it says Fits or TooLarge,
// which takes no more than a few steps, since each makes the conversation smaller. To compact what would
// fit, because a person wants it or a provider refused it, give a smaller budget. It is pure.
func Plan(msgs []td.Message, fixed Parts, budget Budget, o Options) Decision {
	p := newPlan(msgs, fixed, budget, o)
	d := Decision{Do: Fits, Tokens: p.Scale.Of(p.total), Least: p.Scale.least(p.total), Limit: budget.Limit()}
	if d.Tokens <= d.Limit {
		return d
	}
	if err := Check(msgs); err != nil {
		d.Do, d.Err = TooLarge, fmt.Errorf("compact conversation: %w", err)
		return d
	}
	p.findTodos()
	for {
		// What does not get down to the target is needed again in a few turns, and each time costs the provider's cache:
		// then old messages go instead.
		cutting, deep := p.truncate(p.old())
		if len(cutting.Edits) > 0 && deep {
			d.Do, d.Compaction = Compact, cutting
			return d
		}
		if !p.NoSummary {
			if s, ok := p.summarise(); ok {
				d.Do, d.Summary = Summarise, s
				return d
			}
		}
		if c, ok := p.drop(); ok && !p.NoDrop {
			d.Do, d.Compaction = Compact, c
			return d
		}
		if len(cutting.Edits) > 0 {
			d.Do, d.Compaction = Compact, cutting
			return d
		}
		if p.NoDrop {
			d.Do, d.Err = TooLarge, p.tooLarge(d)
			return d
		}
		if p.Newest > minNewest {
			p.Newest = minNewest // better a short memory than none
			continue
		}
		// Better to see a part of what many calls at once brought than nothing.
		if c, _ := p.truncate(len(p.exchanges)); len(c.Edits) > 0 {
			d.Do, d.Compaction = Compact, c
			return d
		}
		d.Do, d.Err = TooLarge, p.tooLarge(d)
		return d
	}
}

// MayFit reports whether a conversation that was decided to be too large by its estimate may fit all the same. Estimates err high, for
// short words by half; a provider that refuses a call takes nothing for it.
func MayFit(d Decision) bool { return d.Do == TooLarge && d.Least <= d.Limit }

// tooLarge names the part that is to blame, and what can be done about it.
func (p *plan) tooLarge(d Decision) error {
	newest := 0
	if n := len(p.exchanges); n > 0 {
		newest = p.exchanges[n-1].tokens
	}
	said := 0
	for _, b := range p.carry(0, len(p.exchanges)).said {
		said += blockTokensOf(&b)
	}
	larger := "choose a model with a larger window (/model NAME)"
	for _, part := range []struct {
		name   string
		tokens int
		hint   string
	}{
		{"the system prompt with its rules and tools", p.fixed, "shorten AGENTS.md or allow fewer tools"},
		{"the opening with the task statement", p.opening, "shorten the task statement: put what is long into a file and name it"},
		{"what was said to the task", said, "start a task anew with less: put what is long into a file and name it"},
		{"the newest answer with its tool results", newest, "discard it (/retry) and ask for less at once"},
	} {
		if part.tokens > p.limit/2 {
			return td.Errorf(td.Invalid, "the conversation does not fit the model's window: %s alone takes %d of %d tokens",
				part.name, p.Scale.Of(part.tokens), d.Limit).WithHint("%s, or %s", td.Words(part.hint), td.Words(larger))
		}
	}
	return td.Errorf(td.Invalid, "the conversation does not fit the model's window: %d of %d tokens, and nothing more can be left out",
		d.Tokens, d.Limit).WithHint("split the task, or %s", td.Words(larger))
}
