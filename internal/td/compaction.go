package td

// Strategy is a way to make a conversation smaller. Values are on disk.
type Strategy string

// The strategies, in the order they are tried (L-3).
const (
	Truncated  Strategy = "truncate"
	Summarised Strategy = "summarise"
	Dropped    Strategy = "drop"
)

// Edit gives a tool_result block another text.
type Edit struct {
	Message int    `json:"message"`
	Block   int    `json:"block"`
	Text    string `json:"text"`
}

// Compaction is a decision to make a conversation smaller: first the edits, then messages[From:To) are
// replaced by With. Indices are those of the conversation it was made for.
type Compaction struct {
	Strategy Strategy  `json:"strategy"`
	Before   int       `json:"before"` // tokens of the whole call, as estimated
	After    int       `json:"after"`
	Edits    []Edit    `json:"edits,omitempty"`
	From     int       `json:"from,omitempty"`
	To       int       `json:"to,omitempty"`
	With     []Message `json:"with,omitempty"`
	// Why says why messages were left out, and not summarised.
	Why string `json:"why,omitempty"`
}
