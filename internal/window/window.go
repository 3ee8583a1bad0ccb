// Package window fits a conversation into a model's window (L-3).
//
// Plan says what to do next: nothing, apply a Compaction, have old messages summarised, or give up
// with an error that names what is too large. There are three strategies, tried in this order: cut
// large tool results, replace old messages by a summary, leave out what matters least. Each gives a
// Compaction, which is plain data: it is journaled as one event, and applying it to the same messages
// gives the same bytes in every life of the daemon.
//
// What always survives, word for word: the opening (environment and task statement), everything a person
// said, also in answer to a question, the newest list of todos, and the newest messages, but for large results in them when nothing else helps. The rules stand in the system prompt, which
// is not touched. A call and its result stay or go together, so the outcome keeps the API's rules of
// message order, which Check states.
//
// A conversation is an opening of user messages followed by exchanges: an answer of the model and the user
// messages up to the next one. All is decided by whole exchanges.
//
// Everything here is pure: no function acts on the world, keeps state, or panics on any input.
package window

import (
	"taskdaemon/internal/td"
)

// Budget is how much of a model's window a conversation may take.
type Budget struct {
	Window  int     `json:"window"`  // the model's, in tokens
	Reserve int     `json:"reserve"` // kept free for the answer
	Share   float64 `json:"share"`   // of the window, above which the conversation is compacted
}

// Room is what the answer leaves of the window.
func (b Budget) Room() int { return b.Window - max(b.Reserve, 0) }

// Limit is the most tokens a call may have: the share of the window, and never what the answer needs.
func (b Budget) Limit() int {
	limit := b.Room()
	if b.Share > 0 && b.Share < 1 {
		limit = min(limit, int(float64(b.Window)*b.Share))
	}
	return max(limit, 0)
}

// Strategy is a way to make a conversation smaller. It is journaled, as are the next two: td has the words.
type Strategy = td.Strategy

// Edit gives a tool_result block another text.
type Edit = td.Edit

// Compaction is a decision to make a conversation smaller.
type Compaction = td.Compaction

// The strategies, in the order they are tried.
const (
	Truncated  = td.Truncated
	Summarised = td.Summarised
	Dropped    = td.Dropped
)

// Options say how to compact. The zero value is good for a window of 200k tokens.
type Options struct {
	// Newest messages are left alone as long as anything else can be done; of the newest exchange only
	// large results are cut, as the last resort. Zero: 4.
	Newest int
	// Floor is how many tokens are left of a tool result that is cut. Zero: 1000; never below 64.
	Floor int
	// Verbatim is the share of the limit that the newest messages may keep when older ones are summarised. Zero:
	// 0.3.
	Verbatim float64
	// Target is the share of the limit to get down to once something must be done: a compaction makes the
	// provider's cache useless, so that few and deep ones are better than many. Zero: 0.5.
	Target float64
	// Prompt is the most tokens of a prompt for a summary. Zero: 32000.
	Prompt int
	// NoSummary leaves summaries out: there is no model for them, or it gave none.
	NoSummary bool
	// NoDrop leaves nothing out: who wants the conversation smaller can do without that.
	NoDrop bool
	// Scale corrects the estimates.
	Scale Scale
}

// minFloor leaves room for the line that says what was cut.
const minFloor = 64

func (o Options) withDefaults() Options {
	set := func(n *int, to int) {
		if *n <= 0 {
			*n = to
		}
	}
	share := func(f *float64, to float64) {
		if !(*f > 0 && *f <= 1) {
			*f = to
		}
	}
	set(&o.Newest, 4)
	set(&o.Floor, 1000)
	o.Floor = max(o.Floor, minFloor)
	set(&o.Prompt, 32000)
	share(&o.Verbatim, 0.3)
	share(&o.Target, 0.5)
	return o
}
