package td

import "encoding/json"

// Role is who speaks in a conversation.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// BlockType says what a block of a message holds. Values are on disk.
type BlockType string

// The block types.
const (
	TextBlock             BlockType = "text"
	ThinkingBlock         BlockType = "thinking"
	RedactedThinkingBlock BlockType = "redacted_thinking"
	ToolUseBlock          BlockType = "tool_use"
	ToolResultBlock       BlockType = "tool_result"
)

// Block is one part of a message. Which fields count follows from Type.
type Block struct {
	Type BlockType `json:"type"`

	Text string `json:"text,omitempty"` // text, thinking, and the content of a tool_result
	// Aside marks text in a user message that no person said but taskdaemon or a hook: it need not outlive a
	// compaction. No provider is told.
	Aside bool `json:"aside,omitempty"`

	Signature string `json:"signature,omitempty"` // thinking: the provider's seal, for its own round trip
	Data      string `json:"data,omitempty"`      // redacted_thinking

	ID    string          `json:"id,omitempty"`    // tool_use and tool_result: the call's id
	Name  string          `json:"name,omitempty"`  // tool_use
	Input json.RawMessage `json:"input,omitempty"` // tool_use: always valid JSON
	// Malformed holds what the model sent as input when it was not valid JSON; Input is then {}.
	Malformed string `json:"malformed,omitempty"`

	IsError bool `json:"is_error,omitempty"` // tool_result
}

// Message is one message of a conversation.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// ToolUses are the tool calls in m, in the model's order.
func (m Message) ToolUses() []Block {
	var uses []Block
	for _, b := range m.Blocks {
		if b.Type == ToolUseBlock {
			uses = append(uses, b)
		}
	}
	return uses
}

// Text is what m says in words, without thinking and tools.
func (m Message) Text() string {
	var s string
	for _, b := range m.Blocks {
		if b.Type == TextBlock && b.Text != "" {
			if s != "" {
				s += "\n"
			}
			s += b.Text
		}
	}
	return s
}

// Usage counts the tokens of model calls.
type Usage struct {
	Input      int64 `json:"input"` // neither read from nor written to the cache
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Add is the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

// mostTokens is what no call can take: windows are a thousandth of it.
const mostTokens = 1 << 32

// True reports whether the counts can be those of one call. What a server says of itself is not to be believed just so: it is added up and paid for.
func (u Usage) True() bool {
	for _, n := range []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if n < 0 || n > mostTokens {
			return false
		}
	}
	return true
}

// Money is an amount in millionths of a US dollar.
type Money int64

// Dollars is m in US dollars.
func (m Money) Dollars() float64 { return float64(m) / 1e6 }
