package openai

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/sse"
	"taskdaemon/internal/td"
)

// answer puts the chunks of a stream together.
type answer struct {
	emit  func(llm.Delta)
	came  func(n int) // bytes of content
	start time.Time
	first time.Duration

	model    string
	thinking []byte
	text     []byte
	refused  bool // the text is a refusal
	calls    calls
	usage    td.Usage
	began    bool // a part of it came

	reason string // the finish reason, as soon as it came
	stop   td.StopReason
	done   bool // nothing is missing
}

// read takes a whole stream. It calls hurry when all that can still come is worth only so much patience,
// and reads on to the end, so that the connection can be used again. It returns nil when the stream has
// ended; a.done says whether that was where it should.
func (a *answer) read(r io.Reader, hurry func(time.Duration)) error {
	stream := sse.NewReader(r, exchange.MaxEvent)
	stream.BareErrors = true
	for {
		ev, err := stream.Next()
		switch {
		case err != nil && a.done:
			return nil // once the answer is complete, how the connection ends does not matter
		case err != nil && a.reason != "":
			return a.finish()
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, sse.ErrTooLong):
			return exchange.ErrEvent
		case err != nil:
			return err
		case a.done, len(ev.Data) == 0:
			continue
		}
		finished := a.reason != ""
		if err := a.feed(ev.Data, string(ev.Name) == "error"); err != nil {
			return err
		}
		switch {
		case a.done:
			hurry(exchange.DrainTime)
		case a.reason != "" && !finished:
			hurry(tailTime)
		}
	}
}

// feed takes the data of the next event.
func (a *answer) feed(data []byte, failed bool) error {
	if string(data) == "[DONE]" {
		return a.finish()
	}
	var ch chunk
	err := json.Unmarshal(data, &ch)
	switch {
	case len(ch.Error) > 0 && string(ch.Error) != "null":
		return readError(ch.Error)
	case failed:
		return readError(data)
	case err != nil:
		return exchange.Garble("an event cannot be read: %w", err)
	}
	a.began = true
	if exchange.Word(string(ch.Model)) {
		a.model = string(ch.Model)
	}
	a.count(ch.Usage)
	for i := range ch.Choices {
		if c := &ch.Choices[i]; c.Index == 0 { // only one was asked for
			if err := a.take(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *answer) take(c *choice) error {
	thought := c.Delta.ReasoningContent
	if thought == "" {
		thought = c.Delta.Reasoning
	}
	a.add(&a.thinking, llm.ThinkingDelta, string(thought))
	a.add(&a.text, llm.TextDelta, c.Delta.Content)
	if c.Delta.Refusal != "" {
		a.refused = true
		a.add(&a.text, llm.TextDelta, c.Delta.Refusal)
	}
	for i := range c.Delta.Calls {
		begun, err := a.calls.take(&c.Delta.Calls[i])
		if err != nil {
			return err
		}
		a.came(len(c.Delta.Calls[i].Function.Arguments))
		if begun != "" {
			a.say(llm.Delta{Kind: llm.ToolDelta, Text: begun})
		}
	}
	if c.Finish != "" {
		if !exchange.Word(c.Finish) {
			return exchange.Garble("the finish reason %.40q", c.Finish)
		}
		a.reason = c.Finish
	}
	return nil
}

func (a *answer) add(to *[]byte, kind llm.DeltaKind, text string) {
	if text == "" {
		return
	}
	*to = append(*to, text...)
	a.came(len(text))
	a.say(llm.Delta{Kind: kind, Text: text})
}

func (a *answer) say(d llm.Delta) {
	if a.first == 0 {
		a.first = max(time.Since(a.start), 1)
	}
	a.emit(d)
}

// count takes over what is said of tokens; later counts are totals and replace earlier ones. A count that
// cannot be read is passed over: the answer is worth more than its price.
func (a *answer) count(raw json.RawMessage) {
	var u *usage
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil || u == nil {
		return
	}
	prompt := max(u.Prompt, 0)
	read := min(max(u.Details.Cached, 0), prompt)
	written := min(max(u.Details.Written, 0), prompt-read)
	a.usage = td.Usage{Input: prompt - read - written, Output: max(u.Completion, 0), CacheRead: read, CacheWrite: written}
}

// finish is the end of a stream that gave its reason.
func (a *answer) finish() error {
	for _, c := range a.calls.list {
		if !exchange.Word(c.name) {
			return exchange.Garble("a tool call by the name of %.40q", c.name)
		}
	}
	switch a.reason {
	case "":
		return exchange.Garble("it ends without a finish reason")
	case "error":
		return exchange.Garble("the server gave up and does not say why")
	case "stop":
		a.stop = td.EndTurn
		if len(a.calls.list) > 0 { // some servers make no difference
			a.stop = td.StopToolUse
		} else if a.refused {
			a.stop = td.Refusal
		}
	case "tool_calls", "function_call":
		if len(a.calls.list) == 0 {
			return exchange.Garble("it stops for a tool call and has none")
		}
		a.stop = td.StopToolUse
	case "length":
		a.stop = td.MaxTokens
	case "content_filter":
		a.stop = td.Refusal
	default: // the loop decides about reasons it does not know
		a.stop = td.StopReason(a.reason)
	}
	a.done = true
	return nil
}

// response is the complete answer to a conversation.
func (a *answer) response(conversation []td.Message) llm.Response {
	m := td.Message{Role: td.Assistant}
	if len(a.thinking) > 0 {
		m.Blocks = append(m.Blocks, td.Block{Type: td.ThinkingBlock, Text: string(a.thinking)})
	}
	if len(a.text) > 0 {
		m.Blocks = append(m.Blocks, td.Block{Type: td.TextBlock, Text: string(a.text)})
	}
	for _, c := range a.calls.list {
		m.Blocks = append(m.Blocks, c.block())
	}
	r := llm.Response{Message: m, StopReason: a.stop, Model: a.model, Usage: a.usage, FirstToken: a.first}
	exchange.Renew(&r, conversation, func() string { return "call_" + rand.Text() })
	return r
}
