package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/td"
)

// maxCalls bounds the tool calls of an answer.
const maxCalls = 4096

// calls puts tool calls together, in the order they begin.
type calls struct {
	list    []*toolCall
	byIndex map[int]*toolCall // the newest with that index
}

// toolCall is one call on its way.
type toolCall struct {
	id, name  string
	arguments []byte
	braces    braces
}

// take adds a piece to the call it belongs to. When that makes a call known by its name, begun is it.
func (s *calls) take(p *callPart) (begun string, err error) {
	if p.Index != nil && *p.Index < 0 {
		return "", exchange.Garble("a tool call with the index %d", *p.Index)
	}
	c := s.current(p)
	if c == nil || c.endsBefore(p) {
		switch {
		case p.ID == "" && p.Function.Name == "":
			return "", exchange.Garble("a piece of a tool call that has not begun")
		case len(s.list) >= maxCalls:
			return "", exchange.Garble("more than %d tool calls", maxCalls)
		}
		c = &toolCall{}
		s.list = append(s.list, c)
		if p.Index != nil {
			if s.byIndex == nil {
				s.byIndex = map[int]*toolCall{}
			}
			s.byIndex[*p.Index] = c
		}
	}
	if c.id == "" {
		c.id = p.ID
	}
	if c.name == "" {
		c.name = p.Function.Name
		begun = c.name
	}
	if begun != "" && !exchange.Word(begun) {
		return "", exchange.Garble("a tool call by the name of %.40q", begun)
	}
	return begun, c.add(p.Function.Arguments)
}

// current is the call a piece belongs to if it does not begin one: that of its index or, where the server
// gives none, the newest.
func (s *calls) current(p *callPart) *toolCall {
	switch {
	case p.Index != nil:
		return s.byIndex[*p.Index]
	case len(s.list) > 0:
		return s.list[len(s.list)-1]
	}
	return nil
}

// endsBefore reports whether a piece with the index of c nevertheless begins another call, as it does with
// servers that give all calls the same index. Where they give ids, these decide. Where not, a piece with a
// name begins a call, unless it only repeats the name of one whose arguments are still on their way.
func (c *toolCall) endsBefore(p *callPart) bool {
	name := p.Function.Name
	switch {
	case p.ID != "" && c.id != "":
		return p.ID != c.id
	case c.id != "" || name == "" || c.name == "":
		return false
	default:
		return name != c.name || c.braces.closed
	}
}

// add takes a piece of the arguments. By the protocol it is a string; some servers send the object itself.
func (c *toolCall) add(raw json.RawMessage) error {
	var piece string
	switch {
	case len(raw) == 0:
	case raw[0] == '{':
		piece = string(bytes.ToValidUTF8(raw, []byte("\ufffd")))
	default:
		if err := json.Unmarshal(raw, &piece); err != nil {
			return exchange.Garble("arguments that are neither a string nor an object: %.40s", raw)
		}
	}
	c.arguments = append(c.arguments, piece...)
	c.braces.see(piece)
	return nil
}

// block is the call when all of it has come. Only an object will do as its input: no API takes anything
// else back, and no tool does.
func (c *toolCall) block() td.Block {
	b := td.Block{Type: td.ToolUseBlock, ID: c.id, Name: c.name, Input: json.RawMessage("{}")}
	switch trimmed := strings.TrimSpace(string(c.arguments)); {
	case trimmed == "":
	case strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)):
		b.Input = json.RawMessage(trimmed)
	default:
		b.Malformed = string(c.arguments)
	}
	return b
}

// braces follows an object in pieces to its end, each byte once.
type braces struct {
	depth            int
	inString, escape bool
	closed           bool // the outermost brace is
}

func (b *braces) see(piece string) {
	for _, c := range []byte(piece) {
		switch {
		case b.escape:
			b.escape = false
		case b.inString && c == '\\':
			b.escape = true
		case c == '"':
			b.inString = !b.inString
		case b.inString:
		case c == '{':
			b.depth++
		case c == '}':
			b.depth--
			b.closed = b.closed || b.depth == 0
		}
	}
}
