package window

import (
	"fmt"
	"slices"

	"taskdaemon/internal/td"
)

// Apply is the conversation after a compaction, as a copy. It is pure and total: the same messages and
// compaction give the same result, and whatever does not fit, in its indices or in what would come out, is
// an error.
func Apply(msgs []td.Message, c Compaction) ([]td.Message, error) {
	out := slices.Clone(msgs)
	for i, e := range c.Edits {
		if e.Message < 0 || e.Message >= len(msgs) || e.Block < 0 || e.Block >= len(msgs[e.Message].Blocks) {
			return nil, misfit("edit %d is of block %d of message %d, which is not there", i, e.Block, e.Message)
		}
		if msgs[e.Message].Blocks[e.Block].Type != td.ToolResultBlock {
			return nil, misfit("edit %d is of block %d of message %d, which is no tool result", i, e.Block, e.Message)
		}
		if &out[e.Message].Blocks[0] == &msgs[e.Message].Blocks[0] {
			out[e.Message].Blocks = slices.Clone(msgs[e.Message].Blocks)
		}
		out[e.Message].Blocks[e.Block].Text = e.Text
	}
	if c.From != 0 || c.To != 0 || len(c.With) > 0 {
		if first := opening(msgs); c.From < first || c.From > c.To || c.To > len(msgs) {
			return nil, misfit("messages %d to %d are not in the conversation, which has %d to %d", c.From, c.To, first, len(msgs))
		}
		out = slices.Concat(out[:c.From], c.With, out[c.To:])
	}
	if err := Check(out); err != nil {
		return nil, fmt.Errorf("apply compaction: %w", err)
	}
	return out, nil
}

func misfit(format string, args ...any) error {
	return fmt.Errorf("apply compaction: %w", td.Errorf(td.Invalid, format, args...))
}
