package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"taskdaemon/internal/td"
)

// apiRequest is the body of a request as the API reads it.
type apiRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	Thinking  *struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	} `json:"thinking"`
	System []apiBlock `json:"system"`
	Tools  []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
		Cache       *apiCache       `json:"cache_control"`
	} `json:"tools"`
	Messages []struct {
		Role    string     `json:"role"`
		Content []apiBlock `json:"content"`
	} `json:"messages"`
}

type apiCache struct {
	Type string `json:"type"`
}

type apiBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   string          `json:"content"`
	IsError   bool            `json:"is_error"`
	Cache     *apiCache       `json:"cache_control"`
}

// readRequest reads a request as strictly as the API does, so that a client that passes here has a
// chance there.
func readRequest(raw []byte) (apiRequest, []td.Message, error) {
	var r apiRequest
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, nil, err
	}
	switch {
	case r.Model == "":
		return r, nil, fmt.Errorf("model: field required")
	case r.MaxTokens < 1:
		return r, nil, fmt.Errorf("max_tokens: must be at least 1")
	case !r.Stream:
		return r, nil, fmt.Errorf("stream: this server only streams")
	case len(r.Messages) == 0:
		return r, nil, fmt.Errorf("messages: at least one message is required")
	case r.Thinking != nil && r.Thinking.Type == "enabled" && (r.Thinking.Budget < 1024 || r.Thinking.Budget >= r.MaxTokens):
		return r, nil, fmt.Errorf("thinking.budget_tokens: must be at least 1024 and less than max_tokens")
	}
	marks := 0
	for _, b := range r.System {
		marks += count(b.Cache)
	}
	for _, t := range r.Tools {
		marks += count(t.Cache)
		if !bytes.HasPrefix(bytes.TrimSpace(t.InputSchema), []byte("{")) {
			return r, nil, fmt.Errorf("tools.%s.input_schema: must be an object", t.Name)
		}
	}
	messages := make([]td.Message, len(r.Messages))
	var open map[string]bool // tool calls without a result
	for i, m := range r.Messages {
		if m.Role != "user" && m.Role != "assistant" || i == 0 && m.Role != "user" {
			return r, nil, fmt.Errorf("messages.%d.role: %q is not allowed here", i, m.Role)
		}
		if len(m.Content) == 0 {
			return r, nil, fmt.Errorf("messages.%d: content must not be empty", i)
		}
		messages[i].Role = td.Role(m.Role)
		next := map[string]bool{}
		for j, b := range m.Content {
			marks += count(b.Cache)
			block, err := b.block()
			if err != nil {
				return r, nil, fmt.Errorf("messages.%d.content.%d: %w", i, j, err)
			}
			switch block.Type {
			case td.ToolUseBlock:
				next[block.ID] = true
			case td.ToolResultBlock:
				if !open[block.ID] {
					return r, nil, fmt.Errorf("messages.%d.content.%d: unexpected tool_use_id %q", i, j, block.ID)
				}
				if j > 0 && m.Content[j-1].Type != "tool_result" {
					return r, nil, fmt.Errorf("messages.%d.content.%d: tool_result must come first", i, j)
				}
				delete(open, block.ID)
			}
			messages[i].Blocks = append(messages[i].Blocks, block)
		}
		for id := range open {
			return r, nil, fmt.Errorf("messages.%d: tool_use %q without a tool_result right after", i, id)
		}
		open = next
	}
	if marks > 4 {
		return r, nil, fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", marks)
	}
	return r, messages, nil
}

func count(c *apiCache) int {
	if c == nil {
		return 0
	}
	return 1
}

func (b apiBlock) block() (td.Block, error) {
	out := td.Block{Type: td.BlockType(b.Type)}
	switch out.Type {
	case td.TextBlock:
		if strings.TrimSpace(b.Text) == "" {
			return out, fmt.Errorf("text content blocks must contain non-whitespace text")
		}
		out.Text = b.Text
	case td.ThinkingBlock:
		if b.Signature == "" {
			return out, fmt.Errorf("thinking.signature: field required")
		}
		out.Text, out.Signature = b.Thinking, b.Signature
	case td.RedactedThinkingBlock:
		out.Data = b.Data
	case td.ToolUseBlock:
		if b.ID == "" || b.Name == "" || !bytes.HasPrefix(bytes.TrimSpace(b.Input), []byte("{")) {
			return out, fmt.Errorf("tool_use.input: input should be a valid dictionary")
		}
		out.ID, out.Name, out.Input = b.ID, b.Name, b.Input
	case td.ToolResultBlock:
		out.ID, out.Text, out.IsError = b.ToolUseID, b.Content, b.IsError
	default:
		return out, fmt.Errorf("type: %q is not allowed", b.Type)
	}
	return out, nil
}
