package window

import (
	"cmp"
	"math/bits"
	"slices"

	"taskdaemon/internal/td"
)

// large is a tool result that may be cut.
type large struct {
	message, block int
	tokens         int
}

// truncate cuts large tool results of the first n exchanges down to the floor, until the target is reached. Largest come first, and among those of about one size (within a factor of two) the oldest: that
// way few are cut, and those the model is least likely to need. None is cut twice: what was cut is at
// the floor, and only what has twice as much is worth it. No edits: there is nothing to cut. It reports
// whether the target is reached.
func (p *plan) truncate(n int) (c Compaction, deep bool) {
	var found []large
	for at, e := range p.exchanges[:n] {
		answers := p.carry(at, at+1)
		for i := e.from + 1; i < e.to; i++ {
			for j := range p.msgs[i].Blocks {
				b := &p.msgs[i].Blocks[j]
				if b.Type != td.ToolResultBlock || len(b.Text) < p.Floor/2 || answers.has(b.ID) {
					continue
				}
				if n := Tokens(b.Text); n > 2*p.Floor {
					found = append(found, large{i, j, n})
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b large) int {
		return cmp.Compare(bits.Len(uint(b.tokens)), bits.Len(uint(a.tokens)))
	})
	after := p.total
	var edits []Edit
	for _, l := range found {
		if after <= p.target {
			break
		}
		text := cut(p.msgs[l.message].Blocks[l.block].Text, p.Floor)
		if saved := l.tokens - Tokens(text); saved > 0 {
			edits = append(edits, Edit{Message: l.message, Block: l.block, Text: text})
			after -= saved
		}
	}
	c = p.compaction(Truncated, after)
	c.Edits = edits
	return c, after <= p.target
}
