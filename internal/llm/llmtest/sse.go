package llmtest

import (
	"encoding/json"
	"fmt"
	"time"

	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// Frame is one event of a stream in the form it has on the wire, and how long the server waits before it.
// Event is its type.
type Frame struct {
	After time.Duration
	Event string
	Bytes []byte
}

// stream writes an answer down in a protocol.
type stream interface {
	start(p rehearsal.Play)
	open(index int, b td.Block)
	delta(index int, d delta, pause time.Duration)
	close(index int)
	fail(errorType string)
	end(p rehearsal.Play)
}

// write writes the answer of a play to s, with what the play's fault does to it: an error in its middle, or
// an early end. A status or a silence is no stream.
func write(s stream, p rehearsal.Play) {
	s.start(p)
	text := 0 // characters so far
	for i, b := range p.Message.Blocks {
		if cutBefore(p.Fault, b, text) {
			return
		}
		s.open(i, b)
		for _, d := range deltas(b, p.Pace.Size) {
			n := len([]rune(d.text))
			if b.Type == td.TextBlock && p.Fault != nil && p.Fault.Cut != nil && text+n > *p.Fault.Cut {
				d.text = string([]rune(d.text)[:*p.Fault.Cut-text])
				s.delta(i, d, p.Pace.Pause)
				return
			}
			if b.Type == td.TextBlock {
				text += n
			}
			s.delta(i, d, p.Pace.Pause)
		}
		if p.Fault != nil && (p.Fault.Type != "" || p.Fault.Cut != nil && b.Type == td.ToolUseBlock) {
			break
		}
		s.close(i)
	}
	switch {
	case p.Fault != nil && p.Fault.Type != "":
		s.fail(p.Fault.Type)
	case p.Fault == nil || p.Fault.Cut == nil:
		s.end(p)
	}
}

type object = map[string]any

func encode(data any) []byte {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("llmtest: encode %v: %v", data, err))
	}
	return raw
}

// Frames is the stream of an answer as the Claude API sends it, with what the play's fault does to it. A
// status or a silence is no stream and has no frames.
func Frames(p rehearsal.Play) []Frame {
	f := &claudeFrames{after: p.Pace.Before}
	write(f, p)
	return f.list
}

// claudeFrames collects the events of an answer.
type claudeFrames struct {
	list  []Frame
	after time.Duration
}

func (f *claudeFrames) add(event string, data any) {
	f.list = append(f.list, Frame{f.after, event, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, encode(data))})
	f.after = 0
}

func (f *claudeFrames) start(p rehearsal.Play) {
	f.add("message_start", object{"type": "message_start", "message": object{
		"id": "msg_rehearsal", "type": "message", "role": "assistant", "content": []any{}, "model": p.Model,
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": p.Usage.Input, "output_tokens": 1,
			"cache_read_input_tokens": p.Usage.CacheRead, "cache_creation_input_tokens": p.Usage.CacheWrite,
		},
	}})
	f.add("ping", object{"type": "ping"})
}

func (f *claudeFrames) open(index int, b td.Block) {
	f.add("content_block_start", object{"type": "content_block_start", "index": index, "content_block": opening(b)})
}

func (f *claudeFrames) delta(index int, d delta, pause time.Duration) {
	f.after += pause
	f.add("content_block_delta", object{
		"type": "content_block_delta", "index": index, "delta": object{"type": d.kind, d.field: d.text},
	})
}

func (f *claudeFrames) close(index int) {
	f.add("content_block_stop", object{"type": "content_block_stop", "index": index})
}

func (f *claudeFrames) fail(errorType string) {
	f.add("error", object{"type": "error", "error": object{"type": errorType, "message": played}})
}

func (f *claudeFrames) end(p rehearsal.Play) {
	f.add("message_delta", object{
		"type": "message_delta", "delta": object{"stop_reason": p.Stop, "stop_sequence": nil},
		"usage": object{"output_tokens": p.Usage.Output},
	})
	f.add("message_stop", object{"type": "message_stop"})
}

// played is what errors say.
const played = "the script plays this failure"

// cutBefore reports whether a cut falls before block b: after the text, and before what follows it.
func cutBefore(f *rehearsal.Fault, b td.Block, text int) bool {
	return f != nil && f.Cut != nil && b.Type == td.ToolUseBlock && *f.Cut <= text
}

func opening(b td.Block) object {
	switch b.Type {
	case td.ThinkingBlock:
		return object{"type": "thinking", "thinking": "", "signature": ""}
	case td.RedactedThinkingBlock:
		return object{"type": "redacted_thinking", "data": b.Data}
	case td.ToolUseBlock:
		return object{"type": "tool_use", "id": b.ID, "name": b.Name, "input": object{}}
	default:
		return object{"type": "text", "text": ""}
	}
}

type delta struct{ kind, field, text string }

// toolPiece is how much of a tool's input comes at once: small enough that JSON is torn apart.
const toolPiece = 24

func deltas(b td.Block, size int) []delta {
	switch b.Type {
	case td.ThinkingBlock:
		signature := b.Signature
		if signature == "" {
			signature = "c2VhbGVk" // the API seals every thought
		}
		return append(pieces("thinking_delta", "thinking", b.Text, size), delta{"signature_delta", "signature", signature})
	case td.ToolUseBlock:
		input := string(b.Input)
		if b.Malformed != "" {
			input = b.Malformed
		}
		return append([]delta{{"input_json_delta", "partial_json", ""}}, pieces("input_json_delta", "partial_json", input, toolPiece)...)
	case td.RedactedThinkingBlock:
		return nil
	default:
		return pieces("text_delta", "text", b.Text, size)
	}
}

func pieces(kind, field, text string, size int) []delta {
	var out []delta
	for r := []rune(text); len(r) > 0; {
		n := min(max(size, 1), len(r))
		out = append(out, delta{kind, field, string(r[:n])})
		r = r[n:]
	}
	return out
}
