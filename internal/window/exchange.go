package window

import (
	"fmt"
	"strings"

	"taskdaemon/internal/td"
)

// exchange is an answer of the model and the user messages up to the next answer: messages[from:to).
type exchange struct {
	from, to int
	tokens   int
}

// opening is how many messages stand before the first answer.
func opening(msgs []td.Message) int {
	for i := range msgs {
		if msgs[i].Role == td.Assistant {
			return i
		}
	}
	return len(msgs)
}

// plan is a conversation taken apart, with all a strategy needs to decide. Tokens are estimates, before the
// scale; limit and target are turned into such, so that strategies need not know of it.
type plan struct {
	Options
	msgs      []td.Message
	fixed     int // system prompt and tools
	opening   int // tokens of the opening
	exchanges []exchange
	total     int
	limit     int
	target    int
	todos     *td.Block // the call that gave the newest list of todos
}

func newPlan(msgs []td.Message, fixed Parts, b Budget, o Options) *plan {
	o = o.withDefaults()
	p := &plan{Options: o, msgs: msgs, fixed: fixed.System + fixed.Tools}
	limit := b.Limit()
	p.limit = o.Scale.back(limit)
	p.target = o.Scale.back(int(float64(limit) * o.Target))
	for i := range msgs {
		n := MessageTokens(msgs[i])
		switch last := len(p.exchanges) - 1; {
		case msgs[i].Role == td.Assistant:
			p.exchanges = append(p.exchanges, exchange{i, i + 1, n})
		case last < 0:
			p.opening += n
		default:
			p.exchanges[last].to = i + 1
			p.exchanges[last].tokens += n
		}
		p.total += n
	}
	p.total += p.fixed
	return p
}

// old is how many exchanges may be touched: all but those that hold the newest messages, and never the last.
func (p *plan) old() int {
	n := len(p.exchanges) - 1
	for n > 0 && len(p.msgs)-p.exchanges[n].from < p.Newest {
		n--
	}
	return max(n, 0)
}

func (p *plan) of(e exchange) []td.Message { return p.msgs[e.from:e.to] }

// compaction fills in what all strategies state alike.
func (p *plan) compaction(s Strategy, after int) Compaction {
	return Compaction{Strategy: s, Before: p.Scale.Of(p.total), After: p.Scale.Of(after)}
}

// leftOut is the line that stands for steps that were left out.
func leftOut(n int) string {
	return fmt.Sprintf("[%d earlier steps were left out to fit the window]", n)
}

// leftOutIn is how many steps an exchange stands for, or zero when it is a step itself.
func leftOutIn(msgs []td.Message) int {
	var n int
	text := firstText(msgs)
	if _, err := fmt.Sscanf(text, "[%d earlier", &n); err != nil || n <= 0 || text != leftOut(n) {
		return 0
	}
	return n
}

// summaryHead begins the message that a summary is.
const summaryHead = "[Summary of the work so far, in place of the messages themselves]\n\n"

func isSummary(msgs []td.Message) bool { return strings.HasPrefix(firstText(msgs), summaryHead) }

func firstText(msgs []td.Message) string {
	if len(msgs) == 0 || len(msgs[0].Blocks) == 0 || msgs[0].Blocks[0].Type != td.TextBlock {
		return ""
	}
	return msgs[0].Blocks[0].Text
}

func tokensOf(msgs []td.Message) int {
	n := 0
	for i := range msgs {
		n += MessageTokens(msgs[i])
	}
	return n
}
