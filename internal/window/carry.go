package window

import (
	"strconv"

	"taskdaemon/internal/td"
)

// The tools whose calls outlive a compaction.
const (
	todoTool = "Todo" // its newest input is the list of todos
	askTool  = "Ask"  // its result is what a person answered
)

// goOn is what a user message says that has nothing else to say.
const goOn = "[Earlier messages were left out to fit the window. Go on from here.]"

// carried is what outlives a range of messages word for word. Todos and answers stay the calls they came by, so
// that the model reads them as before and the next compaction finds them again.
type carried struct {
	said           []td.Block
	calls, results []td.Block
}

// findTodos looks for the newest list of todos. A call that failed set none.
func (p *plan) findTodos() {
	for at := len(p.exchanges) - 1; at >= 0; at-- {
		msgs := p.of(p.exchanges[at])
		calls := msgs[0].Blocks
		for i := len(calls) - 1; i >= 0; i-- {
			if _, ok := answered(&calls[i], msgs[1:], todoTool); ok {
				p.todos = &calls[i]
				return
			}
		}
	}
}

// answered is the result of a call of the tool, unless it failed.
func answered(call *td.Block, replies []td.Message, tool string) (td.Block, bool) {
	if call.Type != td.ToolUseBlock || call.Name != tool || call.Malformed != "" {
		return td.Block{}, false
	}
	for _, m := range replies {
		for _, b := range m.Blocks {
			if b.Type == td.ToolResultBlock && b.ID == call.ID {
				return b, !b.IsError
			}
		}
	}
	return td.Block{}, false
}

// carry is what must outlive exchanges[from:to).
func (p *plan) carry(from, to int) carried {
	var c carried
	for _, e := range p.exchanges[from:to] {
		msgs := p.of(e)
		for i := range msgs[0].Blocks {
			call := &msgs[0].Blocks[i]
			if result, ok := answered(call, msgs[1:], askTool); ok {
				c.add(*call, result)
			} else if call == p.todos {
				result, _ := answered(call, msgs[1:], todoTool)
				c.add(*call, result)
			}
		}
		for _, m := range msgs[1:] {
			for _, b := range m.Blocks {
				if isSaid(b) {
					c.said = append(c.said, b)
				}
			}
		}
	}
	return c
}

// isSaid reports whether a block of a user message is what a person said.
func isSaid(b td.Block) bool {
	return b.Type == td.TextBlock && !b.Aside
}

// add takes a call in. Calls of several answers come to stand in one, where their ids must differ; not
// every provider gives ids that do.
func (c *carried) add(call, result td.Block) {
	id := call.ID
	for n := 2; c.has(id); n++ {
		id = call.ID + "_" + strconv.Itoa(n)
	}
	call.ID, result.ID = id, id
	c.calls, c.results = append(c.calls, call), append(c.results, result)
}

func (c *carried) has(id string) bool {
	for i := range c.calls {
		if c.calls[i].ID == id {
			return true
		}
	}
	return false
}

// stub is an exchange that stands for others: what the model is told of them, and what outlives them.
func (c *carried) stub(text string) []td.Message {
	answer := append([]td.Block{{Type: td.TextBlock, Text: text}}, c.calls...)
	reply := append(append([]td.Block{}, c.results...), c.said...)
	if len(reply) == 0 {
		reply = []td.Block{{Type: td.TextBlock, Text: goOn, Aside: true}}
	}
	return []td.Message{{Role: td.Assistant, Blocks: answer}, {Role: td.User, Blocks: reply}}
}
