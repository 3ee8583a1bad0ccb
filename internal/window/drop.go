package window

import (
	"cmp"
	"slices"

	"taskdaemon/internal/td"
)

// changes are the tools whose calls say what became of the workspace.
var changes = []string{"Edit", "MultiEdit", "Write"}

// worth is how much an exchange matters; the least is left out first.
type worth int

const (
	looked  worth = iota // calls that only looked, and worked
	talked               // no calls
	failed               // something did not work: worth not trying again
	changed              // changed the workspace
	kept                 // a summary: all there is of what came before
)

func (p *plan) worth(at int) worth {
	msgs := p.of(p.exchanges[at])
	if isSummary(msgs) {
		return kept
	}
	w := talked
	for _, b := range msgs[0].Blocks {
		switch {
		case b.Type != td.ToolUseBlock:
		case slices.Contains(changes, b.Name):
			return changed
		case w == talked:
			w = looked
		}
	}
	for _, m := range msgs[1:] {
		if slices.ContainsFunc(m.Blocks, func(b td.Block) bool { return b.IsError }) {
			return failed
		}
	}
	return w
}

// drop leaves out whole exchanges, the least relevant and among those the oldest first, until the target is
// reached. Neighbours that go leave one line behind that says how many they were, and what must outlive
// them. It reports false when all that may go would not be enough.
func (p *plan) drop() (Compaction, bool) {
	n := p.old()
	order := make([]int, n)
	worths := make([]worth, n)
	for i := range n {
		order[i], worths[i] = i, p.worth(i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(worths[a], worths[b]) })
	gone := make([]bool, n)
	after := p.total
	for _, i := range order {
		if after <= p.target || worths[i] == kept {
			break
		}
		rest := tokensOf(p.stubOf(i, i+1, 1))
		if saved := p.exchanges[i].tokens - rest; saved > 0 && leftOutIn(p.of(p.exchanges[i])) == 0 {
			gone[i] = true
			after -= saved
		}
	}
	first := slices.Index(gone, true)
	if first < 0 {
		return Compaction{}, false
	}
	c := p.replace(gone, first)
	after = p.total - tokensOf(p.msgs[c.From:c.To]) + tokensOf(c.With)
	c.Before, c.After = p.Scale.Of(p.total), p.Scale.Of(after)
	return c, after <= p.limit
}

// replace writes the messages from the first exchange that goes to the last one anew.
func (p *plan) replace(gone []bool, first int) Compaction {
	last := first
	for i := range gone {
		if gone[i] {
			last = i
		}
	}
	// What an earlier drop left behind joins its neighbours, so that there is one line and not many.
	joins := func(i int) bool { return gone[i] || leftOutIn(p.of(p.exchanges[i])) > 0 }
	for first > 0 && joins(first-1) {
		first--
	}
	for last+1 < len(gone) && joins(last+1) {
		last++
	}
	c := Compaction{Strategy: Dropped, From: p.exchanges[first].from, To: p.exchanges[last].to}
	for i := first; i <= last; {
		if !joins(i) {
			c.With = append(c.With, p.of(p.exchanges[i])...)
			i++
			continue
		}
		from, steps := i, 0
		for ; i <= last && joins(i); i++ {
			steps += max(leftOutIn(p.of(p.exchanges[i])), 1)
		}
		c.With = append(c.With, p.stubOf(from, i, steps)...)
	}
	return c
}

// stubOf is what is left of exchanges[from:to).
func (p *plan) stubOf(from, to, steps int) []td.Message {
	c := p.carry(from, to)
	return c.stub(leftOut(steps))
}
