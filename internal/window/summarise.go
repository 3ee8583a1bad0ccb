package window

import (
	"strings"

	"taskdaemon/internal/td"
)

// A summary takes at most a sixteenth of the limit, within these bounds.
const (
	minSummary = 64
	maxSummary = 4096
)

// Summary is the wish to have messages[From:To) summarised: Prompt is for a small model, and what it answers
// makes the Compaction.
type Summary struct {
	From, To  int
	Prompt    string
	MaxTokens int // of the answer; what is longer is cut

	plan *plan
	keep carried
}

// summarise chooses the old messages to be summarised: all between the opening and the newest exchanges that
// fit their share. It reports false when that would gain nothing worth a model's call.
func (p *plan) summarise() (Summary, bool) {
	size := p.summaryTokens()
	room := min(int(float64(p.limit)*p.Verbatim), p.target-p.fixed-p.opening-size)
	first := p.old() // of the exchanges that stay
	kept := 0
	for _, e := range p.exchanges[first:] {
		kept += e.tokens
	}
	for first > 0 && kept+p.exchanges[first-1].tokens <= room {
		first--
		kept += p.exchanges[first].tokens
	}
	old := p.exchanges[:first]
	if len(old) == 0 {
		return Summary{}, false
	}
	s := Summary{From: old[0].from, To: old[len(old)-1].to, MaxTokens: size, plan: p}
	s.keep = p.carry(0, first)
	before := 0
	for _, e := range old {
		before += e.tokens
	}
	// The longest summary there may be must still be worth it.
	if after := tokensOf(s.with("")) + size; after > before-before/8 {
		return Summary{}, false
	}
	s.Prompt = p.prompt(s.From, s.To, size)
	return s, true
}

func (p *plan) summaryTokens() int { return min(max(p.limit/16, minSummary), maxSummary) }

func (s Summary) with(text string) []td.Message { return s.keep.stub(summaryHead + text) }

// Compaction replaces the old messages by their summary, as the model gave it. A summary without a word
// is an error: plan again with NoSummary.
func (s Summary) Compaction(text string) (Compaction, error) {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if text == "" || s.plan == nil {
		return Compaction{}, td.Errorf(td.Invalid, "the summary is empty")
	}
	with := s.with(cut(text, s.MaxTokens))
	p := s.plan
	c := p.compaction(Summarised, p.total-tokensOf(p.msgs[s.From:s.To])+tokensOf(with))
	c.From, c.To, c.With = s.From, s.To, with
	return c, nil
}
