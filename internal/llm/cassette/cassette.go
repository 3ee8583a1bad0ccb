// Package cassette records the traffic of a model and plays it back (B-2), for tests and demos.
//
// A cassette is a JSONL file, one call a line: what was asked, the deltas with their times, and the answer
// or the error. Every line is on disk before the caller gets its answer. A line that a crash tore is
// passed over when playing, and removed when recording goes on.
//
// Secrets are taken out of every text before it is written (package redact). A request is known by the
// hash of its redacted form, so a conversation finds its place on the tape also when what was played back
// to it has marks where the secrets were.
package cassette

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// entry is one line. The names are on disk.
type entry struct {
	Hash     string    `json:"hash"`
	Provider string    `json:"provider,omitempty"` // whose call it was
	Request  request   `json:"request"`
	Deltas   []delta   `json:"deltas,omitempty"`
	Response *response `json:"response,omitempty"`
	Error    *failure  `json:"error,omitempty"`
}

// request is what of a call decides its answer.
type request struct {
	Model     string       `json:"model"`
	System    string       `json:"system,omitempty"`
	Tools     []llm.Tool   `json:"tools,omitempty"`
	Messages  []td.Message `json:"messages"`
	MaxTokens int          `json:"max_tokens,omitempty"`
	Thinking  int          `json:"thinking,omitempty"`

	Temperature json.Number `json:"temperature,omitempty"`
}

type delta struct {
	At   time.Duration `json:"at"` // since the call
	Kind llm.DeltaKind `json:"kind"`
	Text string        `json:"text"`
}

type response struct {
	Message    td.Message    `json:"message"`
	StopReason td.StopReason `json:"stop_reason,omitempty"`
	Model      string        `json:"model"`
	Usage      td.Usage      `json:"usage"`
	FirstToken time.Duration `json:"first_token,omitempty"`
	Took       time.Duration `json:"took,omitempty"`
	Cut        bool          `json:"cut,omitempty"`
	// Inputs are those of tool calls byte for byte, by the number of their block: in Message they are in the
	// one form that a request is known by. One that held a secret is there only.
	Inputs map[int]string `json:"inputs,omitempty"`
}

type failure struct {
	Class      td.FailureClass `json:"class"`
	Status     int             `json:"status,omitempty"`
	RetryAfter time.Duration   `json:"retry_after,omitempty"`
	Hint       string          `json:"hint,omitempty"`
	Message    string          `json:"message"`
}

func newRequest(req llm.Request, r *redact.Redactor) request {
	out := request{
		Model: req.Model, System: r.String(req.System), MaxTokens: req.MaxTokens, Thinking: req.Thinking, Temperature: req.Temperature,
		Messages: make([]td.Message, len(req.Messages)),
	}
	for _, t := range req.Tools {
		out.Tools = append(out.Tools, llm.Tool{Name: t.Name, Description: r.String(t.Description), Schema: clean(t.Schema, r.String)})
	}
	for i, m := range req.Messages {
		out.Messages[i] = cleanMessage(m, r)
	}
	if len(out.Messages) > 0 {
		for i, b := range out.Messages[0].Blocks {
			out.Messages[0].Blocks[i].Text = surroundings.ReplaceAllString(b.Text, "<environment/>")
		}
	}
	return out
}

// surroundings is what the opening message says of where and when a task runs, which is another at every
// run and must not keep a cassette from being found.
var surroundings = regexp.MustCompile(`(?s)<environment>.*?</environment>`)

func (r request) hash() string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("cassette: encode request: %v", err)) // every part of it was made by clean
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func newResponse(r llm.Response, took time.Duration, red *redact.Redactor) *response {
	out := &response{
		Message: cleanMessage(r.Message, red), StopReason: r.StopReason, Model: r.Model, Usage: r.Usage,
		FirstToken: r.FirstToken, Took: took, Cut: r.Cut, Inputs: map[int]string{},
	}
	for i, b := range r.Message.Blocks {
		// Escapes may hide a secret from who reads the bytes.
		if in := string(b.Input); in != "" && red.String(in) == in && bytes.Equal(out.Message.Blocks[i].Input, clean(b.Input, same)) {
			out.Inputs[i] = in
		}
	}
	return out
}

func (r *response) response() llm.Response {
	m := td.Message{Role: r.Message.Role, Blocks: slices.Clone(r.Message.Blocks)}
	for i, in := range r.Inputs {
		if i >= 0 && i < len(m.Blocks) && json.Valid([]byte(in)) {
			m.Blocks[i].Input = json.RawMessage(in)
		}
	}
	return llm.Response{
		Message: m, StopReason: r.StopReason, Model: r.Model, Usage: r.Usage, FirstToken: r.FirstToken, Cut: r.Cut,
	}
}

func newFailure(e *llm.Error, r *redact.Redactor) *failure {
	return &failure{Class: e.Class, Status: e.Status, RetryAfter: e.RetryAfter, Hint: r.String(e.Hint), Message: r.String(e.Err.Error())}
}

func (f *failure) err() error {
	return &llm.Error{Class: f.Class, Status: f.Status, RetryAfter: f.RetryAfter, Hint: f.Hint, Err: errors.New(f.Message)}
}

func cleanMessage(m td.Message, r *redact.Redactor) td.Message {
	out := td.Message{Role: m.Role, Blocks: make([]td.Block, len(m.Blocks))}
	for i, b := range m.Blocks {
		b.Text, b.Malformed = r.String(b.Text), r.String(b.Malformed)
		if len(b.Input) > 0 {
			b.Input = clean(b.Input, r.String)
		}
		out.Blocks[i] = b
	}
	return out
}

// clean takes secrets out of the strings of a JSON value and brings it into one form: the same value is
// the same bytes, however it was written. What is not JSON is kept as a string.
func clean(raw json.RawMessage, redact func(string) string) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if len(raw) == 0 {
		return nil
	}
	if err := dec.Decode(&v); err != nil {
		v = string(raw)
	}
	out, err := json.Marshal(cleanValue(v, redact))
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

func same(s string) string { return s }

func cleanValue(v any, redact func(string) string) any {
	switch v := v.(type) {
	case string:
		return redact(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i], redact)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[redact(k)] = cleanValue(v[k], redact)
		}
		return out
	}
	return v
}

// cleanDeltas takes secrets out of the text the deltas make together: one may come in pieces.
func cleanDeltas(deltas []delta, r *redact.Redactor) []delta {
	var out []delta
	for len(deltas) > 0 {
		n, joined := 0, strings.Builder{}
		for n < len(deltas) && deltas[n].Kind == deltas[0].Kind {
			joined.WriteString(deltas[n].Text)
			n++
		}
		if whole := r.String(joined.String()); whole == joined.String() {
			out = append(out, deltas[:n]...)
		} else {
			out = append(out, delta{deltas[0].At, deltas[0].Kind, whole})
		}
		deltas = deltas[n:]
	}
	return out
}
