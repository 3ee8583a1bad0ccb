package openai

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/td"
)

// conversation is one of this many turns, each with a call and a result of 2 KiB.
func conversation(turns int) []td.Message {
	messages := []td.Message{say(td.User, text("begin"))}
	for i := range turns {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			say(td.Assistant, text("I look at the next file."),
				td.Block{Type: td.ToolUseBlock, ID: id, Name: "Read", Input: []byte(`{"path":"internal/file.go"}`)}),
			say(td.User, td.Block{Type: td.ToolResultBlock, ID: id, Text: strings.Repeat("\tx := \"a line of code\"\n", 90)}),
		)
	}
	return messages
}

// BenchmarkLateTurn is all a turn costs on our side of the wire late in a long conversation: encode what is
// new, send, decode the answer. The transport is a function: no network is measured.
func BenchmarkLateTurn(b *testing.B) {
	var stream strings.Builder
	for _, f := range record(b, "{text: I read the next file., tools: [{name: Read, input: {path: a.go}}], chunk: {size: 10}}") {
		stream.Write(f.Bytes)
	}
	transport := llmtest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		return llmtest.Stream(r, io.NopCloser(strings.NewReader(stream.String()))), nil
	})
	m := New(Options{APIKey: testKey, HTTP: &http.Client{Transport: transport}})
	all := conversation(200)
	req := llm.Request{Model: "m", System: strings.Repeat("Do good work. ", 500), MaxTokens: 1000, Messages: all, Wire: &llm.Wire{}}
	for i := range 12 {
		req.Tools = append(req.Tools, llm.Tool{
			Name: fmt.Sprintf("Tool%d", i), Description: strings.Repeat("what it does ", 50),
			Schema: []byte(`{"type":"object","properties":{"path":{"type":"string","description":"the file"}},"required":["path"]}`),
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		// Every turn has two new messages; then the conversation starts over.
		if len(req.Messages) == len(all) {
			req.Messages = all[:len(all)-40]
			req.Wire.Reset()
			b.StopTimer()
			if _, err := m.Stream(b.Context(), req, nil); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		req.Messages = all[:len(req.Messages)+2]
		if _, err := m.Stream(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}
