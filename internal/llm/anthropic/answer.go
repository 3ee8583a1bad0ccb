package anthropic

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/sse"
	"taskdaemon/internal/td"
)

// maxBlocks bounds the blocks of an answer.
const maxBlocks = 4096

// answer puts the events of a stream together.
type answer struct {
	emit  func(llm.Delta)
	came  func(n int) // bytes of content
	start time.Time
	first time.Duration

	model  string
	stop   td.StopReason
	usage  td.Usage
	blocks []*block
	ids    map[string]bool // of tool calls
	began  bool
	done   bool // message_stop came: nothing is missing
}

// block is one block on its way.
type block struct {
	td.Block
	text  []byte // text, thinking, or a tool's input
	known bool   // of a type that is kept
	whole bool   // its end came
}

// read takes a whole stream. It calls whole when the answer is complete and reads on to the end, so that
// the connection can be used again. It returns nil when the stream has ended; a.done says whether that
// was where it should.
func (a *answer) read(r io.Reader, whole func()) error {
	stream := sse.NewReader(r, exchange.MaxEvent)
	for {
		ev, err := stream.Next()
		switch {
		case err != nil && a.done, errors.Is(err, io.EOF):
			return nil // once the answer is complete, how the connection ends does not matter
		case errors.Is(err, sse.ErrTooLong):
			return exchange.ErrEvent
		case err != nil:
			return err
		case a.done:
			continue
		}
		if err := a.feed(string(ev.Name), ev.Data); err != nil {
			return err
		}
		if a.done {
			whole()
		}
	}
}

// feed takes the next event. Events of a type nobody knows are passed over, as the API asks of clients.
func (a *answer) feed(name string, data []byte) error {
	if name == "ping" {
		return nil
	}
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		if len(data) == 0 {
			return nil
		}
		return exchange.Garble("event %.40q cannot be read: %w", name, err)
	}
	if ev.Type == "" {
		ev.Type = name
	}
	switch ev.Type {
	case "error":
		if ev.Error == nil {
			return exchange.Garble("an error without a word")
		}
		return ev.Error
	case "message_start":
		return a.begin(&ev)
	case "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop":
		if !a.began {
			return exchange.Garble("%s before message_start", ev.Type)
		}
	}
	switch ev.Type {
	case "content_block_start":
		return a.open(&ev)
	case "content_block_delta":
		return a.extend(&ev)
	case "content_block_stop":
		return a.close(&ev)
	case "message_delta":
		if ev.Delta != nil && ev.Delta.StopReason != "" {
			if !exchange.Word(ev.Delta.StopReason) {
				return exchange.Garble("the stop reason %.40q", ev.Delta.StopReason)
			}
			a.stop = td.StopReason(ev.Delta.StopReason)
		}
		a.count(ev.Usage)
	case "message_stop":
		return a.finish()
	}
	return nil
}

func (a *answer) begin(ev *event) error {
	if a.began {
		return exchange.Garble("a second message_start")
	}
	a.began = true
	if ev.Message != nil {
		if exchange.Word(ev.Message.Model) {
			a.model = ev.Message.Model
		}
		a.count(ev.Message.Usage)
	}
	return nil
}

// count takes over what is said of tokens; later counts are totals and replace earlier ones.
func (a *answer) count(u *usage) {
	if u == nil {
		return
	}
	for _, f := range []struct {
		into *int64
		from *int64
	}{{&a.usage.Input, u.Input}, {&a.usage.Output, u.Output}, {&a.usage.CacheRead, u.CacheRead}, {&a.usage.CacheWrite, u.CacheWrite}} {
		if f.from != nil && *f.from >= 0 {
			*f.into = *f.from
		}
	}
}

func (a *answer) open(ev *event) error {
	cb := ev.ContentBlock
	switch {
	case cb == nil || ev.Index == nil:
		return exchange.Garble("a block without content or index")
	case *ev.Index != len(a.blocks):
		return exchange.Garble("block %d where block %d is due", *ev.Index, len(a.blocks))
	case len(a.blocks) >= maxBlocks:
		return exchange.Garble("more than %d blocks", maxBlocks)
	case len(a.blocks) > 0 && !a.blocks[len(a.blocks)-1].whole:
		return exchange.Garble("block %d begins inside another", *ev.Index)
	}
	b := &block{known: true}
	a.blocks = append(a.blocks, b)
	switch td.BlockType(cb.Type) {
	case td.TextBlock:
		b.Type = td.TextBlock
		a.add(b, llm.TextDelta, cb.Text)
	case td.ThinkingBlock:
		b.Type, b.Signature = td.ThinkingBlock, cb.Signature
		a.came(len(cb.Signature))
		a.add(b, llm.ThinkingDelta, cb.Thinking)
	case td.RedactedThinkingBlock:
		b.Type, b.Data = td.RedactedThinkingBlock, cb.Data
		a.came(len(cb.Data))
	case td.ToolUseBlock:
		if !exchange.Word(cb.ID) || !exchange.Word(cb.Name) || a.ids[cb.ID] {
			return exchange.Garble("a tool call %.40q with the id %.40q", cb.Name, cb.ID)
		}
		if a.ids == nil {
			a.ids = map[string]bool{}
		}
		a.ids[cb.ID] = true
		b.Type, b.ID, b.Name, b.Input = td.ToolUseBlock, cb.ID, cb.Name, cb.Input
		a.came(len(cb.Input))
		a.say(llm.Delta{Kind: llm.ToolDelta, Text: cb.Name})
	default:
		b.known = false
	}
	return nil
}

// blockOf says in which type of block a delta belongs; other deltas are passed over.
var blockOf = map[string]td.BlockType{
	"text_delta":       td.TextBlock,
	"thinking_delta":   td.ThinkingBlock,
	"signature_delta":  td.ThinkingBlock,
	"input_json_delta": td.ToolUseBlock,
}

func (a *answer) extend(ev *event) error {
	b, err := a.current(ev)
	if err != nil || !b.known {
		return err
	}
	d := ev.Delta
	if d == nil {
		return exchange.Garble("a delta without content")
	}
	if want, ok := blockOf[d.Type]; ok && b.Type != want {
		return exchange.Garble("a %s in a block of type %s", d.Type, b.Type)
	}
	switch d.Type {
	case "text_delta":
		a.add(b, llm.TextDelta, d.Text)
	case "thinking_delta":
		a.add(b, llm.ThinkingDelta, d.Thinking)
	case "signature_delta":
		b.Signature += d.Signature
		a.came(len(d.Signature))
	case "input_json_delta":
		b.text = append(b.text, d.PartialJSON...)
		a.came(len(d.PartialJSON))
	}
	return nil
}

func (a *answer) add(b *block, kind llm.DeltaKind, text string) {
	if text == "" {
		return
	}
	b.text = append(b.text, text...)
	a.came(len(text))
	a.say(llm.Delta{Kind: kind, Text: text})
}

func (a *answer) say(d llm.Delta) {
	if a.first == 0 {
		a.first = max(time.Since(a.start), 1)
	}
	a.emit(d)
}

// current is the open block an event is about.
func (a *answer) current(ev *event) (*block, error) {
	if ev.Index == nil || *ev.Index != len(a.blocks)-1 {
		return nil, exchange.Garble("%s for a block that is not open", ev.Type)
	}
	if b := a.blocks[*ev.Index]; !b.whole {
		return b, nil
	}
	return nil, exchange.Garble("%s for block %d, which has ended", ev.Type, *ev.Index)
}

func (a *answer) close(ev *event) error {
	b, err := a.current(ev)
	if err != nil {
		return err
	}
	b.whole = true
	switch b.Type {
	case td.TextBlock, td.ThinkingBlock:
		b.Text = string(b.text)
	case td.ToolUseBlock:
		b.takeInput()
	}
	b.text = nil
	return nil
}

// takeInput makes a tool call's input of what was streamed. Only an object will do: the API takes
// nothing else back, and no tool does.
func (b *block) takeInput() {
	raw := b.text
	if len(raw) == 0 {
		raw = b.Input
	}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	b.Input = json.RawMessage("{}")
	if trimmed := strings.TrimSpace(string(raw)); strings.HasPrefix(trimmed, "{") && json.Valid(raw) {
		b.Input = json.RawMessage(trimmed)
		return
	}
	b.Malformed = string(raw)
}

func (a *answer) finish() error {
	switch {
	case len(a.blocks) > 0 && !a.blocks[len(a.blocks)-1].whole:
		return exchange.Garble("it ends inside block %d", len(a.blocks)-1)
	case a.stop == "":
		return exchange.Garble("it ends without a stop reason")
	case a.stop == td.StopToolUse && len(a.ids) == 0:
		return exchange.Garble("it stops for a tool call and has none")
	}
	a.done = true
	return nil
}

// response is the complete answer.
func (a *answer) response() llm.Response {
	r := a.partial()
	r.StopReason = a.stop
	for _, b := range a.blocks {
		if b.known && (b.Type != td.TextBlock || b.Text != "") {
			r.Message.Blocks = append(r.Message.Blocks, b.Block)
		}
	}
	return r
}

// cut is what can be kept of a stream that broke off: whole text, if no tool call is at stake.
func (a *answer) cut() (llm.Response, bool) {
	r := a.partial()
	r.Cut = true
	for _, b := range a.blocks {
		if b.Type == td.TextBlock && b.whole && !exchange.Blank(b.Text) {
			r.Message.Blocks = append(r.Message.Blocks, b.Block)
		}
	}
	return r, len(r.Message.Blocks) > 0 && len(a.ids) == 0
}

func (a *answer) partial() llm.Response {
	return llm.Response{
		Message: td.Message{Role: td.Assistant}, Model: a.model, Usage: a.usage, FirstToken: a.first,
	}
}
