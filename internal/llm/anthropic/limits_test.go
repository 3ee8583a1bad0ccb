package anthropic

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
)

// The limits of a key come with every answer, a bad one or a cut one too.
func TestLimitsOfAnswers(t *testing.T) {
	script, err := rehearsal.Parse([]byte("turns: [{text: hello}]"))
	if err != nil {
		t.Fatal(err)
	}
	var stream strings.Builder
	for _, f := range llmtest.Frames(script.Play(llm.Request{})) {
		stream.Write(f.Bytes)
	}
	whole := stream.String()
	cut, _, _ := strings.Cut(whole, "event: message_delta")
	reset := time.Now().Add(time.Minute).Truncate(time.Second)
	header := func() http.Header {
		h := http.Header{"Content-Type": {"text/event-stream"}}
		for what, v := range map[string][2]string{
			"requests": {"50", "49"}, "tokens": {"90", "7"}, "input-tokens": {"60", "0"}, "output-tokens": {"30", "-1"},
		} {
			h.Set("anthropic-ratelimit-"+what+"-limit", v[0])
			h.Set("anthropic-ratelimit-"+what+"-remaining", v[1])
			h.Set("anthropic-ratelimit-"+what+"-reset", reset.UTC().Format(time.RFC3339))
		}
		return h
	}
	for _, c := range []struct {
		name   string
		status int
		body   string
		fails  bool
	}{
		{"whole", 200, whole, false},
		{"cut", 200, cut, false},
		{"cut early", 200, "", true},
		{"too fast", 429, `{"error":{"type":"rate_limit_error","message":"slow down"}}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := answering(c.status, header(), c.body).Stream(t.Context(), llm.Request{Model: "m"}, nil)
			got := r.Limits
			if e, ok := errors.AsType[*llm.Error](err); ok {
				got = e.Limits
			}
			if (err != nil) != c.fails || got == nil {
				t.Fatalf("%+v, %v", got, err)
			}
			is := func(l llm.Limit, most, left int64) bool {
				return l.Max == most && l.Remaining == left && l.Reset.Equal(reset)
			}
			if !is(got.Requests, 50, 49) || !is(got.Tokens, 90, 7) || !is(got.Input, 60, 0) || got.Output.Known() || got.At.IsZero() {
				t.Errorf("%+v", got)
			}
		})
	}
	if r, err := answering(200, http.Header{"Content-Type": {"text/event-stream"}}, whole).Stream(t.Context(), llm.Request{Model: "m"}, nil); err != nil || r.Limits != nil {
		t.Errorf("without headers: %+v, %v", r.Limits, err)
	}
}

func FuzzLimits(f *testing.F) {
	f.Add("50", "49", "2026-01-02T03:04:35Z")
	f.Add("0", "-1", "")
	f.Fuzz(func(t *testing.T, limit, remaining, reset string) {
		h := http.Header{
			"Anthropic-Ratelimit-Requests-Limit":     {limit},
			"Anthropic-Ratelimit-Requests-Remaining": {remaining},
			"Anthropic-Ratelimit-Requests-Reset":     {reset},
		}
		if l := limits(h, time.Now()); l != nil && (!l.Requests.Known() || l.Tokens.Known()) {
			t.Errorf("%+v", l)
		}
	})
}
