package anthropic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// conversation is one of this many turns, each with a call and a result of 2 KiB.
func conversation(turns int) []td.Message {
	messages := []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "begin"}}}}
	for i := range turns {
		id := fmt.Sprintf("toolu_%d", i)
		messages = append(messages,
			td.Message{Role: td.Assistant, Blocks: []td.Block{
				{Type: td.TextBlock, Text: "I look at the next file."},
				{Type: td.ToolUseBlock, ID: id, Name: "Read", Input: []byte(`{"path":"internal/file.go"}`)},
			}},
			td.Message{Role: td.User, Blocks: []td.Block{
				{Type: td.ToolResultBlock, ID: id, Text: strings.Repeat("\tx := \"a line of code\"\n", 90)},
			}},
		)
	}
	return messages
}

func benchRequest(turns int) llm.Request {
	req := llm.Request{
		Model: "claude-sonnet-4-5", System: strings.Repeat("Do good work. ", 500), MaxTokens: 1000,
		Messages: conversation(turns), Wire: &llm.Wire{},
	}
	for i := range 12 {
		req.Tools = append(req.Tools, llm.Tool{
			Name: fmt.Sprintf("Tool%d", i), Description: strings.Repeat("what it does ", 50),
			Schema: []byte(`{"type":"object","properties":{"path":{"type":"string","description":"the file"}},"required":["path"]}`),
		})
	}
	return req
}

const benchScript = "turns: [{text: I read the next file., tools: [{name: Read, input: {path: a.go}}], chunk: {size: 10}, repeat: forever}]"

// BenchmarkAssemble makes the body of a request of about 150,000 tokens from nothing, as after a restart, and compares
// with a plain JSON encoding of the same system prompt, tools and messages.
func BenchmarkAssemble(b *testing.B) {
	req := benchRequest(126)
	var tokens int
	for _, m := range req.Messages {
		for _, block := range m.Blocks {
			tokens += window.Tokens(block.Text)
		}
	}
	if tokens < 140_000 || tokens > 160_000 {
		b.Fatalf("%d tokens", tokens)
	}
	least := time.Duration(1<<63 - 1)
	for range 20 {
		start := time.Now()
		if _, err := json.Marshal([]any{req.System, req.Tools, req.Messages}); err != nil {
			b.Fatal(err)
		}
		least = min(least, time.Since(start))
	}
	best := time.Duration(1<<63 - 1)
	b.ReportAllocs()
	for b.Loop() {
		req.Wire.Reset()
		start := time.Now()
		if _, err := new(encoder).encode(req, false); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best)/float64(least), "x-json")
	fmt.Printf("request of 150,000 tokens  %.2f x plain JSON  best %v; JSON %v\n", float64(best)/float64(least), best, least)
}

// BenchmarkLateTurn is all a turn costs on our side of the wire late in a long conversation: encode what is
// new, send, decode the answer. The transport is a function: no network is measured.
func BenchmarkLateTurn(b *testing.B) {
	script, err := rehearsal.Parse([]byte(benchScript))
	if err != nil {
		b.Fatal(err)
	}
	var stream strings.Builder
	for _, f := range llmtest.Frames(script.Play(llm.Request{})) {
		stream.Write(f.Bytes)
	}
	transport := llmtest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		return llmtest.Stream(r, io.NopCloser(strings.NewReader(stream.String()))), nil
	})
	m := New(Options{APIKey: testKey, HTTP: &http.Client{Transport: transport}})
	req := benchRequest(200)
	all := req.Messages
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

// BenchmarkLoopback is the same over loopback HTTP.
func BenchmarkLoopback(b *testing.B) {
	script, err := rehearsal.Parse([]byte(benchScript))
	if err != nil {
		b.Fatal(err)
	}
	m, _ := serve(b, llmtest.Options{Script: script, Fast: true})
	req := benchRequest(200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Stream(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}
