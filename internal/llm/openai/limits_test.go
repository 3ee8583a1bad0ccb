package openai

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/llm"
)

// The limits of a key come with every answer, a bad one too.
func TestLimitsOfAnswers(t *testing.T) {
	var whole strings.Builder
	for _, f := range record(t, "{text: hello}") {
		whole.Write(f.Bytes)
	}
	for _, c := range []struct {
		name   string
		status int
		body   string
		fails  bool
	}{
		{"whole", 200, whole.String(), false},
		{"cut", 200, "", true},
		{"too fast", 429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{"Content-Type": {"text/event-stream"}}
			h.Set("x-ratelimit-limit-requests", "60")
			h.Set("x-ratelimit-remaining-requests", "59")
			h.Set("x-ratelimit-reset-requests", "1s")
			h.Set("x-ratelimit-limit-tokens", "150000")
			h.Set("x-ratelimit-remaining-tokens", "0")
			h.Set("x-ratelimit-reset-tokens", "6m0s")
			r, err := answering(c.status, h, c.body).Stream(t.Context(), llm.Request{Model: "m"}, nil)
			got := r.Limits
			if e, ok := errors.AsType[*llm.Error](err); ok {
				got = e.Limits
			}
			if (err != nil) != c.fails || got == nil {
				t.Fatalf("%+v, %v", got, err)
			}
			want := llm.Limits{
				Requests: llm.Limit{Max: 60, Remaining: 59, Reset: got.At.Add(time.Second)},
				Tokens:   llm.Limit{Max: 150000, Reset: got.At.Add(6 * time.Minute)},
				At:       got.At,
			}
			if *got != want || got.At.IsZero() {
				t.Errorf("%+v, want %+v", *got, want)
			}
		})
	}
	for _, h := range []http.Header{
		{"Content-Type": {"text/event-stream"}},
		{"Content-Type": {"text/event-stream"}, "X-Ratelimit-Limit-Requests": {"60"}},
		{"Content-Type": {"text/event-stream"}, "X-Ratelimit-Limit-Tokens": {"60"}, "X-Ratelimit-Remaining-Tokens": {"-60"}},
	} {
		r, err := answering(200, h, whole.String()).Stream(t.Context(), llm.Request{Model: "m"}, nil)
		if err != nil || r.Limits != nil {
			t.Errorf("%v: %+v, %v", h, r.Limits, err)
		}
	}
}
