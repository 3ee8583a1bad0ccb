package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"taskdaemon/internal/llm"
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
	Temperature *float64   `json:"temperature"`
	System      []apiBlock `json:"system"`
	Tools       []struct {
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

// allowed is how the API wants names of tools and ids of calls.
var allowed = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// readRequest reads a request as strictly as the API does, so that a client that passes here has a
// chance there. The rules are those of the API's reference and of what it is known to refuse:
//
//   - a model, max_tokens, at least one message; the first is the user's, and the roles take turns
//   - a temperature from 0 to 1, and none beside thinking
//   - thinking with a budget of at least 1024 and less than max_tokens; then the newest answer, if it calls tools, begins
//     with thinking; without thinking it does not end the conversation with any
//   - names of tools, each once, and ids of calls, each once, of letters, digits, _ and -
//   - an input_schema is that of an object
//   - every tool_use has its tool_result in the next message, before anything else; one that is an error says something
//   - no blank text, no thinking without its signature, no whitespace at the end of an answer that is to go on
//   - at most 4 cache marks, none of them on thinking
func readRequest(raw []byte) (apiRequest, []td.Message, error) {
	var r apiRequest
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, nil, err
	}
	switch {
	case r.MaxTokens < 1:
		return r, nil, fmt.Errorf("max_tokens: must be at least 1")
	case !r.Stream:
		return r, nil, fmt.Errorf("stream: this server only streams")
	case r.Thinking != nil && r.Thinking.Type == "enabled" && r.Thinking.Budget >= r.MaxTokens:
		return r, nil, fmt.Errorf("thinking.budget_tokens: must be less than max_tokens")
	}
	messages, err := r.conversation()
	return r, messages, err
}

// readCount reads a request for a count of tokens: as any other, but for the fields that only say how to answer. Those are refused.
func readCount(raw []byte) (llm.Request, error) {
	var r apiRequest
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return llm.Request{}, err
	}
	if r.MaxTokens != 0 || r.Stream || r.Temperature != nil {
		return llm.Request{}, fmt.Errorf("max_tokens, stream, temperature: extra inputs are not permitted")
	}
	messages, err := r.conversation()
	return r.request(messages), err
}

// conversation checks what every request has, and gives the messages.
func (r *apiRequest) conversation() ([]td.Message, error) {
	switch {
	case r.Model == "":
		return nil, fmt.Errorf("model: field required")
	case len(r.Messages) == 0:
		return nil, fmt.Errorf("messages: at least one message is required")
	case r.Temperature != nil && (r.Thinking != nil || *r.Temperature < 0 || *r.Temperature > 1):
		return nil, fmt.Errorf("temperature: from 0 to 1, and not beside thinking")
	case r.Thinking != nil && r.Thinking.Type == "enabled" && r.Thinking.Budget < 1024:
		return nil, fmt.Errorf("thinking.budget_tokens: must be at least 1024")
	case r.Thinking != nil && r.Thinking.Type != "enabled" && (r.Thinking.Type != "adaptive" || r.Thinking.Budget != 0):
		return nil, fmt.Errorf("thinking.type: %q with a budget of %d is not allowed", r.Thinking.Type, r.Thinking.Budget)
	}
	marks := 0
	for _, b := range r.System {
		marks += count(b.Cache)
	}
	names := map[string]bool{}
	for _, t := range r.Tools {
		marks += count(t.Cache)
		var schema struct{ Type string }
		switch err := json.Unmarshal(t.InputSchema, &schema); {
		case err != nil || schema.Type != "object":
			return nil, fmt.Errorf("tools.%s.input_schema: must be an object", t.Name)
		case !allowed.MatchString(t.Name) || names[t.Name]:
			return nil, fmt.Errorf("tools.%q.name: must be unique and match %s", t.Name, allowed)
		}
		names[t.Name] = true
	}
	messages := make([]td.Message, len(r.Messages))
	var open map[string]bool // tool calls without a result
	ids := map[string]bool{}
	for i, m := range r.Messages {
		if m.Role != "user" && m.Role != "assistant" || i == 0 && m.Role != "user" || i > 0 && m.Role == r.Messages[i-1].Role {
			return nil, fmt.Errorf("messages.%d.role: %q is not allowed here", i, m.Role)
		}
		if len(m.Content) == 0 {
			return nil, fmt.Errorf("messages.%d: content must not be empty", i)
		}
		messages[i].Role = td.Role(m.Role)
		next := map[string]bool{}
		for j, b := range m.Content {
			marks += count(b.Cache)
			block, err := b.block()
			if err != nil {
				return nil, fmt.Errorf("messages.%d.content.%d: %w", i, j, err)
			}
			switch block.Type {
			case td.ToolUseBlock:
				if m.Role != "assistant" || ids[block.ID] || !allowed.MatchString(block.ID) || !allowed.MatchString(block.Name) {
					return nil, fmt.Errorf("messages.%d.content.%d: tool_use %q of %q: ids must be unique, and match %s like names", i, j, block.Name, block.ID, allowed)
				}
				next[block.ID], ids[block.ID] = true, true
			case td.ThinkingBlock, td.RedactedThinkingBlock:
				if m.Role != "assistant" || b.Cache != nil {
					return nil, fmt.Errorf("messages.%d.content.%d: thinking is not allowed here, nor a mark on it", i, j)
				}
			case td.ToolResultBlock:
				if !open[block.ID] {
					return nil, fmt.Errorf("messages.%d.content.%d: unexpected tool_use_id %q", i, j, block.ID)
				}
				if j > 0 && m.Content[j-1].Type != "tool_result" {
					return nil, fmt.Errorf("messages.%d.content.%d: tool_result must come first", i, j)
				}
				delete(open, block.ID)
			}
			messages[i].Blocks = append(messages[i].Blocks, block)
		}
		for id := range open {
			return nil, fmt.Errorf("messages.%d: tool_use %q without a tool_result right after", i, id)
		}
		open = next
	}
	for id := range open {
		return nil, fmt.Errorf("messages: tool_use %q without a tool_result", id)
	}
	if err := r.turn(); err != nil {
		return nil, err
	}
	if marks > 4 {
		return nil, fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", marks)
	}
	return messages, nil
}

// turn checks the newest answer.
func (r *apiRequest) turn() error {
	last := len(r.Messages) - 1
	i := last
	for i >= 0 && r.Messages[i].Role != "assistant" {
		i--
	}
	if i < 0 {
		return nil
	}
	content := r.Messages[i].Content
	thinks := func(b apiBlock) bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }
	calls := slices.ContainsFunc(content, func(b apiBlock) bool { return b.Type == "tool_use" })
	switch end := content[len(content)-1]; {
	case r.Thinking != nil && r.Thinking.Type == "enabled" && calls && !thinks(content[0]):
		return fmt.Errorf("messages.%d.content.0.type: expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block", i, content[0].Type)
	case i == last && end.Type == "text" && strings.TrimRight(end.Text, " \t\n") != end.Text:
		return fmt.Errorf("messages: final assistant content cannot end with trailing whitespace")
	case i == last && r.Thinking == nil && slices.ContainsFunc(content, thinks):
		return fmt.Errorf("messages.%d: when `thinking` is disabled, an `assistant` message in the final position cannot contain `thinking`", i)
	}
	return nil
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
		if b.IsError && b.Content == "" {
			return out, fmt.Errorf("tool_result: content cannot be empty if `is_error` is true")
		}
		out.ID, out.Text, out.IsError = b.ToolUseID, b.Content, b.IsError
	default:
		return out, fmt.Errorf("type: %q is not allowed", b.Type)
	}
	return out, nil
}
