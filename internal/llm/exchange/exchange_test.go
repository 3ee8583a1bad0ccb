package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		header map[string]string
		want   time.Duration
	}{
		{"nothing", nil, 0},
		{"seconds", map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{"parts of seconds", map[string]string{"Retry-After": "1.5"}, 1500 * time.Millisecond},
		{"milliseconds", map[string]string{"Retry-After": "7", "Retry-After-Ms": "250"}, 250 * time.Millisecond},
		{"a date", map[string]string{"Retry-After": now.Add(90 * time.Second).Format(http.TimeFormat)}, 90 * time.Second},
		{"a date that is over", map[string]string{"Retry-After": now.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		{"negative", map[string]string{"Retry-After": "-3"}, 0},
		{"words", map[string]string{"Retry-After": "soon"}, 0},
		{"no number", map[string]string{"Retry-After": "NaN"}, 0},
		{"too much", map[string]string{"Retry-After": "1e300"}, maxRetryAfter},
		{"infinite", map[string]string{"Retry-After": "Inf"}, maxRetryAfter},
		{"tokens used up", map[string]string{
			"X-Ratelimit-Remaining-Requests": "12", "X-Ratelimit-Reset-Requests": "1h",
			"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "6m0s",
		}, 6 * time.Minute},
		{"both used up", map[string]string{
			"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "120ms",
			"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "90ms",
		}, 120 * time.Millisecond},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if got := RetryAfter(h, now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAppendString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\"\\\n\x00é")))).Draw(t, "s"))
		var got string
		if err := json.Unmarshal(AppendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(s)
		var want string
		_ = json.Unmarshal(raw, &want)
		if got != want {
			t.Fatalf("%q became %q, want %q", s, got, want)
		}
	})
}

func TestBodyCanBeSentAgain(t *testing.T) {
	var b Body
	b.Add([]byte("one, "))
	b.Add([]byte("two"))
	req := &http.Request{}
	b.Give(req)
	again, err := req.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []io.Reader{req.Body, again} {
		if raw, err := io.ReadAll(r); string(raw) != "one, two" || err != nil || req.ContentLength != int64(len(raw)) {
			t.Errorf("%q, %v, announced as %d bytes", raw, err, req.ContentLength)
		}
	}
}

func TestKeyStaysOutOfErrors(t *testing.T) {
	k := NewKey("sk-secret-of-the-test", "MY_KEY")
	err := k.Error(&llm.Error{Hint: "set " + KeyEnv, Err: errors.New("no such key: sk-secret-of-the-test")})
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Hint != "set MY_KEY" || strings.Contains(e.Err.Error(), "sk-secret") {
		t.Errorf("%+v", err)
	}
}

// slow is a body whose bytes come one at a time, a pause before each.
type slow struct {
	ctx   context.Context
	pause time.Duration
	left  int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(s.pause):
	}
	s.left--
	p[0] = 'x'
	return 1, nil
}

func (s *slow) Close() error { return nil }

func TestWatch(t *testing.T) {
	const header, idle = time.Minute, 10 * time.Second
	for _, c := range []struct {
		name  string
		pause time.Duration
		hurry time.Duration
		want  string
	}{
		{"each byte buys time", 9 * time.Second, 0, ""},
		{"silence", 11 * time.Second, 0, "nothing came any more for 10s"},
		{"no byte buys time when the answer is there", 9 * time.Second, 20 * time.Second, "nothing came any more for 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := NewWatch(t.Context(), Patience{Header: header, Idle: idle, Progress: time.Hour, Total: time.Hour})
				defer w.End()
				res := &http.Response{Body: &slow{w.Context(), c.pause, 20}}
				w.Over(res)
				if c.hurry > 0 {
					w.Hurry(c.hurry)
				}
				raw, err := io.ReadAll(res.Body)
				got := ""
				if s := w.Silence(); s != nil {
					got = s.Err.Error()
				}
				if got != c.want || (err == nil) != (c.want == "") {
					t.Errorf("%d bytes, %v, silence %q, want %q", len(raw), err, got, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := NewWatch(t.Context(), Patience{Header: header, Idle: idle, Progress: time.Hour, Total: time.Hour})
		defer w.End()
		begun := time.Now()
		<-w.Context().Done()
		if s := w.Silence(); s == nil || !strings.HasSuffix(s.Error(), "1m0s") || time.Since(begun) != header {
			t.Errorf("silence before the answer is %v after %v", s, time.Since(begun))
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
func (zeros) Close() error               { return nil }

func TestEndlessAnswer(t *testing.T) {
	w := NewWatch(t.Context(), Patience{Header: time.Minute, Idle: time.Minute, Progress: time.Minute, Total: time.Minute})
	defer w.End()
	res := &http.Response{Body: zeros{}}
	w.Over(res)
	if n, err := io.Copy(io.Discard, res.Body); !errors.Is(err, ErrTooLong) || n > MaxAnswer || w.Silence() != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestEndlessContent(t *testing.T) {
	w := NewWatch(t.Context(), Patience{Header: time.Minute, Idle: time.Minute, Progress: time.Minute, Total: time.Minute})
	defer w.End()
	w.Came(MaxContent)
	if w.Silence() != nil {
		t.Error("a long answer is given up")
	}
	w.Came(1)
	if s := w.Silence(); s == nil || s.Class != td.Endless || !strings.Contains(s.Error(), "longer than 4 MiB") {
		t.Errorf("an endless answer is taken: %v", s)
	}
}
