package llmtest

import (
	"encoding/json"
	"fmt"
	"time"

	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// Frame is one event of a stream in the form it has on the wire, and how long the server waits before it.
type Frame struct {
	After time.Duration
	Event string
	Bytes []byte
}

// frames collects the events of an answer.
type frames struct {
	list  []Frame
	after time.Duration
}

func (f *frames) add(event string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("llmtest: encode %s: %v", event, err))
	}
	f.list = append(f.list, Frame{f.after, event, fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, raw)})
	f.after = 0
}

type object = map[string]any

// Frames is the stream of an answer as the API sends it, with what the play's fault does to it: an error
// event in its middle, or an early end. A status or a silence is no stream and has no frames.
func Frames(p rehearsal.Play) []Frame {
	f := &frames{after: p.Pace.Before}
	f.add("message_start", object{"type": "message_start", "message": object{
		"id": "msg_rehearsal", "type": "message", "role": "assistant", "content": []any{}, "model": p.Model,
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": p.Usage.Input, "output_tokens": 1,
			"cache_read_input_tokens": p.Usage.CacheRead, "cache_creation_input_tokens": p.Usage.CacheWrite,
		},
	}})
	f.add("ping", object{"type": "ping"})
	text := 0 // characters so far
	for i, b := range p.Message.Blocks {
		if cutBefore(p.Fault, b, text) {
			return f.list
		}
		f.add("content_block_start", object{"type": "content_block_start", "index": i, "content_block": opening(b)})
		for _, d := range deltas(b, p.Pace.Size) {
			n := len([]rune(d.text))
			if b.Type == td.TextBlock && p.Fault != nil && p.Fault.Cut != nil && text+n > *p.Fault.Cut {
				d.text = string([]rune(d.text)[:*p.Fault.Cut-text])
				f.delta(i, d, p.Pace.Pause)
				return f.list
			}
			if b.Type == td.TextBlock {
				text += n
			}
			f.delta(i, d, p.Pace.Pause)
		}
		if p.Fault != nil && (p.Fault.Type != "" || p.Fault.Cut != nil && b.Type == td.ToolUseBlock) {
			break
		}
		f.add("content_block_stop", object{"type": "content_block_stop", "index": i})
	}
	switch {
	case p.Fault != nil && p.Fault.Type != "":
		f.add("error", object{"type": "error", "error": object{"type": p.Fault.Type, "message": "the script plays this failure"}})
	case p.Fault == nil || p.Fault.Cut == nil:
		f.add("message_delta", object{
			"type": "message_delta", "delta": object{"stop_reason": p.Stop, "stop_sequence": nil},
			"usage": object{"output_tokens": p.Usage.Output},
		})
		f.add("message_stop", object{"type": "message_stop"})
	}
	return f.list
}

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

func (f *frames) delta(index int, d delta, pause time.Duration) {
	f.after += pause
	f.add("content_block_delta", object{
		"type": "content_block_delta", "index": index, "delta": object{"type": d.kind, d.field: d.text},
	})
}

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
