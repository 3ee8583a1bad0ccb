package anthropic

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

func counted() llm.Request {
	return llm.Request{
		Model: "claude-sonnet-4-5", System: "be brief", MaxTokens: 5000, Thinking: 2000, Temperature: "0.5",
		Tools:    []llm.Tool{{Name: "Look", Description: "looks", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: strings.Repeat("word ", 1000)}}}},
	}
}

// A count is asked for with the same conversation as the call, and without the fields that only a call may have.
func TestCount(t *testing.T) {
	m, s := serve(t, llmtest.Options{})
	for _, thinking := range []int{0, 2000} {
		req := counted()
		req.Thinking = thinking
		n, err := m.Count(t.Context(), req)
		if want := rehearsal.Tokens(req); err != nil || n != want {
			t.Errorf("%d, %v; want %d", n, err, want)
		}
	}
	if ex := s.Exchanges()[0]; ex.Path != "/v1/messages/count_tokens" || ex.Header.Get("X-Api-Key") != testKey {
		t.Errorf("%s %v", ex.Path, ex.Header)
	}
}

// Whatever goes wrong is an error and no number.
func TestCountFails(t *testing.T) {
	m, _ := serve(t, llmtest.Options{NoCounter: true})
	if n, err := m.Count(t.Context(), counted()); err == nil || n != 0 {
		t.Errorf("no counter: %d, %v", n, err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Header.Get("X-Api-Key")))
	}))
	defer srv.Close()
	client := srv.Client()
	for _, said := range []string{"", "{}", `{"input_tokens":0}`, `{"input_tokens":-1}`, `{"input_tokens":99999999999}`, `{"input_tokens":"7"}`, "<html>", `[7]`} {
		if n, err := New(Options{APIKey: said, BaseURL: srv.URL, HTTP: client}).Count(t.Context(), counted()); err == nil || n != 0 {
			t.Errorf("%q is read as %d, %v", said, n, err)
		}
	}
	if n, err := New(Options{APIKey: `{"input_tokens":7}`, BaseURL: srv.URL, HTTP: client}).Count(t.Context(), counted()); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := m.Count(ended, counted()); err == nil {
		t.Error("asked though nobody waits for it")
	}
}

func FuzzReadCount(f *testing.F) {
	f.Add([]byte(`{"input_tokens":12}`))
	f.Add([]byte(`{"input_tokens":1e400}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		if n, err := readCount(said); err == nil && (n <= 0 || n > maxCount) || err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
}
