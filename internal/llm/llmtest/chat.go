package llmtest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// chat is the Chat Completions protocol.
type chat struct{}

func (chat) count(http.ResponseWriter, *http.Request, []byte) bool { return false }

func (chat) refuse(r *http.Request) *failure {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions":
		return &failure{http.StatusNotFound, "not_found_error", "no such path: " + r.URL.Path}
	case !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "):
		return &failure{http.StatusUnauthorized, "authentication_error", "you didn't provide an API key"}
	}
	return nil
}

func (chat) read(raw []byte) (llm.Request, error) { return readChat(raw) }

func (chat) frames(p rehearsal.Play) []Frame { return ChatFrames(p) }

func (chat) label(h http.Header, id string) { h.Set("X-Request-Id", id) }

// chatErrors are the words OpenAI has for a status; others are server errors.
var chatErrors = map[int]struct{ kind, code string }{
	400: {"invalid_request_error", ""}, 401: {"invalid_request_error", "invalid_api_key"},
	403: {"invalid_request_error", "unsupported_country_region_territory"}, 404: {"invalid_request_error", "model_not_found"},
	413: {"invalid_request_error", ""}, 429: {"requests", "rate_limit_exceeded"},
}

// fail answers with an error. This API has no status of its own for being overloaded and says so in words.
func (chat) fail(w http.ResponseWriter, f failure) {
	if f.status == 529 {
		f.status, f.message = http.StatusServiceUnavailable, "The engine is currently overloaded, please try again later"
	}
	e, ok := chatErrors[f.status]
	if !ok {
		e.kind = "server_error"
	}
	var code any
	if e.code != "" {
		code = e.code
	}
	answerJSON(w, f.status, object{"error": object{"message": f.message, "type": e.kind, "param": nil, "code": code}})
}

// ChatFrames is the stream of an answer as Chat Completions send it, with what the play's fault does to it.
// The frames' types are role, reasoning, content, call (one begins), arguments, finish, usage, done and
// error. What a model thinks comes as vLLM and DeepSeek send it, and a stop reason this API has no word for
// by its own name.
func ChatFrames(p rehearsal.Play) []Frame {
	f := &chatFrames{after: p.Pace.Before, model: p.Model, call: -1}
	write(f, p)
	return f.list
}

// chatFrames collects the events of an answer.
type chatFrames struct {
	list  []Frame
	after time.Duration
	model string
	call  int // index of the newest
}

func (f *chatFrames) add(event string, data []byte) {
	f.list = append(f.list, Frame{f.after, event, fmt.Appendf(nil, "data: %s\n\n", data)})
	f.after = 0
}

func (f *chatFrames) chunk(event string, choices []object, usage any) {
	f.add(event, encode(object{
		"id": "chatcmpl-rehearsal", "object": "chat.completion.chunk", "created": 1, "model": f.model,
		"choices": choices, "usage": usage,
	}))
}

func (f *chatFrames) choice(event string, delta object, finish any) {
	f.chunk(event, []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, nil)
}

func (f *chatFrames) start(rehearsal.Play) {
	f.choice("role", object{"role": "assistant", "content": "", "refusal": nil}, nil)
}

func (f *chatFrames) open(_ int, b td.Block) {
	if b.Type != td.ToolUseBlock {
		return
	}
	f.call++
	f.choice("call", object{"tool_calls": []object{{
		"index": f.call, "id": b.ID, "type": "function", "function": object{"name": b.Name, "arguments": ""},
	}}}, nil)
}

func (f *chatFrames) delta(_ int, d delta, pause time.Duration) {
	f.after += pause
	switch {
	case d.text == "":
	case d.kind == "thinking_delta":
		f.choice("reasoning", object{"reasoning_content": d.text}, nil)
	case d.kind == "text_delta":
		f.choice("content", object{"content": d.text}, nil)
	case d.kind == "input_json_delta":
		f.choice("arguments", object{"tool_calls": []object{{
			"index": f.call, "function": object{"arguments": d.text},
		}}}, nil)
	}
}

func (f *chatFrames) close(int) {}

func (f *chatFrames) fail(errorType string) {
	f.add("error", encode(object{"error": object{"message": played, "type": errorType, "param": nil, "code": nil}}))
}

// finishReasons are this API's words.
var finishReasons = map[td.StopReason]string{
	td.EndTurn: "stop", td.MaxTokens: "length", td.StopToolUse: "tool_calls", td.Refusal: "content_filter",
}

func (f *chatFrames) end(p rehearsal.Play) {
	reason, ok := finishReasons[p.Stop]
	if !ok {
		reason = string(p.Stop)
	}
	f.choice("finish", object{}, reason)
	prompt := p.Usage.Input + p.Usage.CacheRead + p.Usage.CacheWrite
	f.chunk("usage", []object{}, object{
		"prompt_tokens": prompt, "completion_tokens": p.Usage.Output, "total_tokens": prompt + p.Usage.Output,
		"prompt_tokens_details":     object{"cached_tokens": p.Usage.CacheRead, "cache_write_tokens": p.Usage.CacheWrite, "audio_tokens": 0},
		"completion_tokens_details": object{"reasoning_tokens": 0},
	})
	f.add("done", []byte("[DONE]"))
}
