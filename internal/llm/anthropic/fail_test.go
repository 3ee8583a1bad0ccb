package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// answering is a model whose every call gets this HTTP response.
func answering(status int, header http.Header, body string) *Model {
	return New(Options{APIKey: testKey, KeyEnv: "MY_KEY", HTTP: &http.Client{Transport: llmtest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if header == nil {
			header = http.Header{"Content-Type": {"application/json"}}
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})}})
}

func TestStatusErrors(t *testing.T) {
	words := `{"type":"error","error":{"type":"some_error","message":"what the API says"}}`
	for _, c := range []struct {
		status     int
		class      td.FailureClass
		body, want string
		hint       string
	}{
		{400, td.BadRequest, words, "model: 400: some_error: what the API says", ""},
		{400, td.TooLong, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`, "208310", "too large"},
		{401, td.AuthFailed, words, "what the API says", "MY_KEY"},
		{402, td.AuthFailed, words, "what the API says", "balance"},
		{403, td.AuthFailed, words, "what the API says", "permissions"},
		{404, td.BadRequest, words, "what the API says", "models.<tier>"},
		{413, td.BadRequest, words, "what the API says", "too large"},
		{429, td.RateLimited, words, "what the API says", ""},
		{500, td.Network, "", "500: Internal Server Error", ""},
		{502, td.Network, "<html>\n  bad   gateway</html>", "Bad Gateway: <html> bad gateway</html>", ""},
		{503, td.Network, `{"no": "error"}`, "Service Unavailable", ""},
		{529, td.Overloaded, words, "what the API says", ""},
		{500, td.Network, strings.Repeat("endless ", 1<<20), "endless", ""},
		{500, td.Network, `{"error":{"message":` + strings.Repeat("[", 100_000), "Internal Server Error", ""},
	} {
		_, err := answering(c.status, nil, c.body).Stream(t.Context(), llm.Request{Model: "m"}, nil)
		llmtest.WantClass(t, err, c.class)
		e, _ := errors.AsType[*llm.Error](err)
		if e.Status != c.status || !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) || len(err.Error()) > 500 {
			t.Errorf("%d: %.600s; hint %q", e.Status, err, e.Hint)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	_, err := answering(429, http.Header{"Retry-After": {"12"}}, "{}").Stream(t.Context(), llm.Request{}, nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.RetryAfter != 12*time.Second {
		t.Errorf("error = %+v", err)
	}
}

func TestNotAStream(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
	}{{200, "text/html"}, {200, "application/json"}, {200, ""}, {204, ""}, {302, "text/html"}} {
		_, err := answering(c.status, http.Header{"Content-Type": {c.kind}, "Location": {"https://elsewhere.invalid/"}}, "hello").
			Stream(t.Context(), llm.Request{}, nil)
		llmtest.WantClass(t, err, td.Network)
	}
}

// The key never shows, whoever repeats it.
func TestKeyIsRedacted(t *testing.T) {
	echo := `{"error":{"type":"x ` + testKey + `","message":"your key ` + testKey + ` is wrong"}}`
	streamed := sseOf(evStart, `{"type":"error","error":{"type":"authentication_error","message":"bad key `+testKey+`"}}`)
	broken := New(Options{APIKey: testKey, BaseURL: "http://user:" + testKey + "@127.0.0.1:1/", HTTP: &http.Client{
		Transport: llmtest.RoundTripper(func(r *http.Request) (*http.Response, error) { return nil, fmt.Errorf("dial with %v", r.Header) }),
	}})
	for name, m := range map[string]*Model{
		"status": answering(401, nil, echo),
		"plain":  answering(500, nil, "key="+testKey),
		"stream": playing(func() io.Reader { return strings.NewReader(streamed) }),
		"dial":   broken,
		"garbled": playing(func() io.Reader {
			return strings.NewReader(sseOf(evStart, strings.Replace(evTool, `"A"`, `"`+testKey+` "`, 1)))
		}),
	} {
		_, err := m.Stream(t.Context(), llm.Request{}, nil)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || strings.Contains(fmt.Sprintf("%v %+v %s", err, e, e.Hint), testKey) || strings.Contains(fmt.Sprint(e.Err), testKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	m := New(Options{APIKey: testKey, BaseURL: "http://127.0.0.1:1"})
	_, err := m.Stream(t.Context(), llm.Request{}, nil)
	llmtest.WantClass(t, err, td.Network)
	if e, _ := errors.AsType[*llm.Error](err); !strings.Contains(e.Hint, "base_url") {
		t.Errorf("hint %q", e.Hint)
	}
}

// A redirect would carry the key to wherever it points.
func TestRedirectIsNotFollowed(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	client := exchange.NewClient()
	defer client.CloseIdleConnections()
	_, err := New(Options{APIKey: testKey, KeyEnv: "MY_KEY", BaseURL: s.URL, HTTP: client}).Stream(t.Context(), llm.Request{}, nil)
	llmtest.WantClass(t, err, td.Network)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func hangingModel(head string, header, idle time.Duration) *Model {
	return New(Options{APIKey: testKey, HeaderTimeout: header, IdleTimeout: idle, HTTP: llmtest.Hanging(head)})
}

func TestSilence(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		want time.Duration
	}{
		"before the answer": {"", 3 * time.Second},
		"in the answer":     {sseOf(evStart, evText, evHi), 7 * time.Second},
		"after whole text":  {sseOf(evStart, evText, evHi, evClose), 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := hangingModel(c.head, 3*time.Second, 7*time.Second).Stream(t.Context(), llm.Request{}, nil)
				llmtest.WantClass(t, err, td.Network)
				if took := time.Since(start); took != c.want || !strings.Contains(err.Error(), c.want.String()) {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

// A server that forgets to end the message after the answer costs a moment, not the answer.
func TestAnswerIsNotHeldUpByItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, err := hangingModel(sseOf(evStart, evText, evHi, evClose, evEnd, evStop), time.Minute, time.Minute).
			Stream(t.Context(), llm.Request{}, nil)
		if err != nil || r.Message.Text() != "hi" || time.Since(start) != exchange.DrainTime {
			t.Errorf("%+v, %v after %v", r, err, time.Since(start))
		}
	})
}

func TestCancelGivesItsCause(t *testing.T) {
	for _, head := range []string{"", sseOf(evStart, evText, evHi), sseOf(evStart, evText, evHi, evClose)} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("a person said stop")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			start := time.Now()
			_, err := hangingModel(head, time.Hour, time.Hour).Stream(ctx, llm.Request{}, nil)
			if !errors.Is(err, cause) || time.Since(start) != time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	script, err := rehearsal.Parse([]byte("turns: [{text: hello, repeat: forever}]"))
	if err != nil {
		t.Fatal(err)
	}
	m, s := serve(t, llmtest.Options{Script: script})
	fresh := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			fresh++
		}
	}})
	for range 10 {
		if _, err := m.Stream(ctx, benchRequest(1), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Exchanges()); fresh != 1 || n != 10 {
		t.Errorf("%d connections for %d calls", fresh, n)
	}
}

func TestDrips(t *testing.T) {
	llmtest.WantsProgress(t, sseOf(evStart, evText), "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		sseOf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`),
		func(h *http.Client, progress, total time.Duration) llm.Model {
			return New(Options{APIKey: testKey, HTTP: h, ProgressTimeout: progress, CallTimeout: total})
		})
}
