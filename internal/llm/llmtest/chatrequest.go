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

// chatRequest is the body of a request as Chat Completions read it.
type chatRequest struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
	Tools               []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Messages []chatMessage `json:"messages"`
}

type chatMessage struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Calls   []chatCall `json:"tool_calls"`
	CallID  string     `json:"tool_call_id"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// How OpenAI wants ids of calls and names of functions.
var (
	chatID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)
	chatName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

func readChat(raw []byte) (llm.Request, error) {
	var r chatRequest
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return llm.Request{}, err
	}
	req := llm.Request{Model: r.Model}
	switch {
	case r.Model == "":
		return req, fmt.Errorf("you must provide a model parameter")
	case !r.Stream || !r.StreamOptions.IncludeUsage:
		return req, fmt.Errorf("stream: this server only streams, and counts")
	case r.MaxTokens != nil && r.MaxCompletionTokens != nil:
		return req, fmt.Errorf("setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported")
	}
	for _, limit := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if limit != nil && *limit < 1 {
			return req, fmt.Errorf("integer below minimum value: %d", *limit)
		}
	}
	for _, t := range r.Tools {
		var schema struct{ Properties map[string]any }
		if err := json.Unmarshal(t.Function.Parameters, &schema); err != nil || schema.Properties == nil {
			return req, fmt.Errorf("invalid schema for function %q: object schema missing properties", t.Function.Name)
		}
		if t.Type != "function" || !chatName.MatchString(t.Function.Name) {
			return req, fmt.Errorf("tools: a tool is a function with a name")
		}
		req.Tools = append(req.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	c := &chatReader{req: &req}
	for i, m := range r.Messages {
		if err := c.take(m); err != nil {
			return req, fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	if len(c.open) > 0 || len(req.Messages) == 0 {
		return req, fmt.Errorf("messages: there must be some, and results for all tool calls")
	}
	return req, nil
}

// chatReader makes a conversation of messages: results and what is said next to them become one.
type chatReader struct {
	req   *llm.Request
	began bool
	ids   map[string]bool
	open  []string // ids of tool calls without a result
}

func (c *chatReader) take(m chatMessage) error {
	first := !c.began
	c.began = true
	if len(c.open) > 0 && m.Role != "tool" {
		return fmt.Errorf("tool_call_ids did not have response messages: %s", strings.Join(c.open, ", "))
	}
	if m.Content == nil && len(m.Calls) == 0 || m.Content != nil && strings.TrimSpace(*m.Content) == "" {
		return fmt.Errorf("content: there must be some")
	}
	if (m.CallID != "") != (m.Role == "tool") || len(m.Calls) > 0 && m.Role != "assistant" {
		return fmt.Errorf("tool calls and results are not allowed in a message of %q", m.Role)
	}
	switch m.Role {
	case "system":
		if !first {
			return fmt.Errorf("role: the system speaks first")
		}
		c.req.System = *m.Content
	case "user":
		c.say(td.User, td.Block{Type: td.TextBlock, Text: *m.Content})
	case "tool":
		i := slices.Index(c.open, m.CallID)
		if i < 0 {
			return fmt.Errorf("tool_call_id: no call %q waits for its result", m.CallID)
		}
		c.open = slices.Delete(c.open, i, i+1)
		c.say(td.User, td.Block{Type: td.ToolResultBlock, ID: m.CallID, Text: *m.Content})
	case "assistant":
		return c.answer(m)
	default:
		return fmt.Errorf("role: %q is not one", m.Role)
	}
	return nil
}

func (c *chatReader) answer(m chatMessage) error {
	var blocks []td.Block
	if m.Content != nil {
		blocks = append(blocks, td.Block{Type: td.TextBlock, Text: *m.Content})
	}
	for _, call := range m.Calls {
		input := json.RawMessage(call.Function.Arguments)
		if !chatID.MatchString(call.ID) || !chatName.MatchString(call.Function.Name) || c.ids[call.ID] {
			return fmt.Errorf("tool_calls: the id %q must be unique and match %s, the name %q %s", call.ID, chatID, call.Function.Name, chatName)
		}
		if c.ids == nil {
			c.ids = map[string]bool{}
		}
		c.ids[call.ID] = true
		if call.Type != "function" || !json.Valid(input) || input[0] != '{' {
			return fmt.Errorf("tool_calls: a call needs an id, a name and an object in a string: %+v", call)
		}
		c.open = append(c.open, call.ID)
		blocks = append(blocks, td.Block{Type: td.ToolUseBlock, ID: call.ID, Name: call.Function.Name, Input: input})
	}
	c.req.Messages = append(c.req.Messages, td.Message{Role: td.Assistant, Blocks: blocks})
	return nil
}

func (c *chatReader) say(role td.Role, b td.Block) {
	if n := len(c.req.Messages); n > 0 && c.req.Messages[n-1].Role == role {
		c.req.Messages[n-1].Blocks = append(c.req.Messages[n-1].Blocks, b)
		return
	}
	c.req.Messages = append(c.req.Messages, td.Message{Role: role, Blocks: []td.Block{b}})
}
