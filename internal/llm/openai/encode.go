package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/td"
)

// OpenAI's limits of an id of a call and of a name of a tool.
const (
	maxID   = 40
	maxName = 64
)

// encoder makes the bodies of requests. What many calls begin with it makes once.
type encoder struct {
	limit   limit
	fronts  exchange.Kept[front]
	systems exchange.Kept[string]
}

// front is what the first bytes of a body are made of.
type front struct {
	model       string
	maxTokens   int
	temperature json.Number
	tools       exchange.Toolset
}

func (e *encoder) encode(req llm.Request) (exchange.Body, error) {
	var b exchange.Body
	head, err := e.fronts.Of(front{req.Model, req.MaxTokens, req.Temperature, exchange.ToolsetOf(req.Tools)}, func() ([]byte, error) {
		return encodeFront(req, e.limit)
	})
	if err != nil {
		return b, err
	}
	system, err := e.systems.Of(req.System, func() ([]byte, error) { return encodeSystem(req.System), nil })
	if err != nil {
		return b, err
	}
	messages, _, err := exchange.Conversation(req, encodeMessage)
	if err != nil {
		return b, err
	}
	b.Add(head)
	if len(system) > 0 {
		b.Add(system)
		if len(messages) > 0 {
			b.Add([]byte(","))
		}
	}
	b.Add(messages)
	b.Add([]byte("]}"))
	return b, nil
}

// encodeFront writes all that comes before the messages. The system prompt is the first of these.
func encodeFront(req llm.Request, name limit) ([]byte, error) {
	size := 512
	for _, t := range req.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Schema) + 128
	}
	b := make([]byte, 0, size+size/8)
	b = append(b, `{"model":`...)
	b = exchange.AppendString(b, req.Model)
	b = append(b, `,"stream":true,"stream_options":{"include_usage":true}`...)
	if req.MaxTokens > 0 {
		b = append(b, ',')
		b = exchange.AppendString(b, string(name))
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(req.MaxTokens), 10)
	}
	b = exchange.AppendTemperature(b, req.Temperature)
	b, err := appendTools(b, req.Tools)
	if err != nil {
		return nil, err
	}
	return append(b, `,"messages":[`...), nil
}

// encodeSystem writes the system prompt, or nothing where there is none.
func encodeSystem(system string) []byte {
	if exchange.Blank(system) {
		return []byte{}
	}
	return appendSaid(make([]byte, 0, len(system)+len(system)/8+64), "system", system)
}

func appendTools(b []byte, tools []llm.Tool) ([]byte, error) {
	if len(tools) == 0 {
		return b, nil
	}
	b = append(b, `,"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"function","function":{"name":`...)
		b = exchange.AppendString(b, t.Name)
		b = append(b, `,"description":`...)
		b = exchange.AppendString(b, t.Description)
		b = append(b, `,"parameters":`...)
		var err error
		if b, err = appendSchema(b, t); err != nil {
			return nil, err
		}
		b = append(b, `}}`...)
	}
	return append(b, ']'), nil
}

// appendSchema writes a tool's schema. OpenAI refuses one for an object that does not say what is in it,
// even if nothing is.
func appendSchema(b []byte, t llm.Tool) ([]byte, error) {
	schema := bytes.TrimSpace(t.Schema)
	if len(schema) == 0 {
		schema = []byte(`{"type":"object"}`)
	}
	var fields struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &fields); err != nil || schema[0] != '{' {
		return nil, fmt.Errorf("encode tool %s: its schema is not a JSON object", t.Name)
	}
	if fields.Properties != nil {
		return append(b, schema...), nil
	}
	b = append(b, `{"properties":{}`...)
	if bytes.TrimSpace(schema[1:])[0] != '}' {
		b = append(b, ',')
	}
	return append(b, schema[1:]...), nil
}

// encodeMessage writes one message, as several where the protocol wants it so: each result is a message
// of its own, and they come right after the calls, before anything else a person or the loop has to say.
func encodeMessage(b []byte, m td.Message) ([]byte, error) {
	if m.Role == td.Assistant {
		return appendAnswer(b, m), nil
	}
	open := len(b)
	for _, block := range m.Blocks {
		if block.Type != td.ToolResultBlock {
			continue
		}
		if len(b) > open {
			b = append(b, ',')
		}
		b = append(b, `{"role":"tool","tool_call_id":`...)
		b = exchange.AppendString(b, exchange.Named(block.ID, maxID))
		b = append(b, `,"content":`...)
		b = exchange.AppendString(b, resultOf(block))
		b = append(b, '}')
	}
	text := textOf(m)
	switch {
	case text == "" && len(b) > open:
		return b, nil
	case len(b) > open:
		b = append(b, ',')
	}
	return appendSaid(b, "user", orNothing(text)), nil
}

func appendSaid(b []byte, role, text string) []byte {
	b = append(b, `{"role":`...)
	b = exchange.AppendString(b, role)
	b = append(b, `,"content":`...)
	b = exchange.AppendString(b, text)
	return append(b, '}')
}

// appendAnswer writes what a model said and called. What it thought is left out: other models' thoughts
// are sealed for them, and the protocol has no place for its own.
func appendAnswer(b []byte, m td.Message) []byte {
	uses := m.ToolUses()
	text := textOf(m)
	if len(uses) == 0 {
		return appendSaid(b, "assistant", orNothing(text))
	}
	b = append(b, `{"role":"assistant","content":`...)
	if text == "" {
		b = append(b, "null"...)
	} else {
		b = exchange.AppendString(b, text)
	}
	b = append(b, `,"tool_calls":[`...)
	for i, u := range uses {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = exchange.AppendString(b, exchange.Named(u.ID, maxID))
		b = append(b, `,"type":"function","function":{"name":`...)
		b = exchange.AppendString(b, exchange.Named(u.Name, maxName))
		b = append(b, `,"arguments":`...)
		b = exchange.AppendString(b, arguments(u))
		b = append(b, `}}`...)
	}
	return append(b, `]}`...)
}

// textOf is what m says in words. It is one string, since not every server takes a list of parts.
func textOf(m td.Message) string {
	var texts []string
	for _, b := range m.Blocks {
		if b.Type == td.TextBlock && !exchange.Blank(b.Text) {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// resultOf is a tool's result. The protocol has no mark for one that is an error: the words must say it.
func resultOf(b td.Block) string {
	if b.IsError {
		return strings.TrimSpace("Error: " + b.Text)
	}
	return orNothing(b.Text)
}

// orNothing stands in for content that servers refuse or leave out, and the message with it.
func orNothing(text string) string {
	if exchange.Blank(text) {
		return "(nothing)"
	}
	return text
}

// arguments is a call's input in the form the journal gives back, so that the bytes are the same before
// and after a restart. Input that was no JSON is not sent back: many servers would refuse the request.
func arguments(u td.Block) string {
	if u.Malformed == "" && len(u.Input) > 0 {
		if raw, err := json.Marshal(u.Input); err == nil {
			return string(unescape(raw))
		}
	}
	return "{}"
}

// unescape puts back the letters that Go's encoder escapes for the sake of browsers. Models read their
// arguments as they are written, and would learn to write code in escapes.
func unescape(raw []byte) []byte {
	out := raw[:0]
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		if i+6 <= len(raw) {
			if c, ok := browserEscapes[string(raw[i:i+6])]; ok {
				out = append(out, c)
				i += 5
				continue
			}
		}
		out = append(out, raw[i], raw[i+1]) // whatever it is, the second byte opens no escape
		i++
	}
	return out
}

var browserEscapes = map[string]byte{`\u003c`: '<', `\u003e`: '>', `\u0026`: '&'}
