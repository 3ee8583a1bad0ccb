package transcript

import (
	"math"

	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// mark is a place in the conversation: so many messages, and so many blocks of the last of them.
type mark struct{ messages, blocks int }

func markEnd(msgs []td.Message) mark {
	if n := len(msgs); n > 0 {
		return mark{n, len(msgs[n-1].Blocks)}
	}
	return mark{}
}

// upTo is the mark, or if that comes first the end of so many whole messages.
func (m mark) upTo(messages int) mark {
	if m.messages <= messages {
		return m
	}
	return mark{messages, math.MaxInt}
}

// since is about how many tokens come after a mark.
func (m mark) since(msgs []td.Message) (n int) {
	for i := max(m.messages-1, 0); i < len(msgs); i++ {
		if i == m.messages-1 {
			rest := msgs[i].Blocks[min(m.blocks, len(msgs[i].Blocks)):]
			n += window.MessageTokens(td.Message{Blocks: rest}) - window.MessageTokens(td.Message{})
			continue
		}
		n += window.MessageTokens(msgs[i])
	}
	return n
}

// Fresh is about how many tokens of the conversation no call has carried yet.
func (t *Transcript) Fresh() int { return t.carried.since(t.Messages) }

// Changed is about how many tokens of the conversation are not the bytes that the newest call began with:
// what is fresh, and what follows the first place that was rewritten.
func (t *Transcript) Changed() int { return t.same.since(t.Messages) }

// Estimate is about how many tokens the next call has. A conversation that was only added to is not counted
// anew.
func (t *Transcript) Estimate() int {
	if t.Sent > 0 && t.Rewrote == "" {
		return t.Sent + t.Fresh()
	}
	return window.Count(t.Context.System, t.Context.Tools, t.Messages).Total()
}
