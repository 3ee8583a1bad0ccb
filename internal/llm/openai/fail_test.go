package openai

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

// errorBodies are errors as servers write them.
var errorBodies = []struct {
	name   string
	status int
	body   string
	class  td.FailureClass
	want   string
	hint   string
}{
	{"OpenAI", 400, `{"error":{"message":"what it says","type":"invalid_request_error","param":null,"code":null}}`, td.BadRequest, "400: invalid_request_error: what it says", ""},
	{"wrong key", 401, `{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}`, td.AuthFailed, "Incorrect API key", "MY_KEY"},
	{"no money", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, td.AuthFailed, "402: Insufficient credits", "balance"},
	{"forbidden", 403, `{"error":{"message":"no","type":"x"}}`, td.AuthFailed, "x: no", "permissions"},
	{"unknown model", 404, `{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}`, td.BadRequest, "does not exist", "models.<tier>"},
	{"too large", 413, ``, td.BadRequest, "Request Entity Too Large", "too large"},
	{"too long", 400, `{"error":{"message":"maximum context length","type":"invalid_request_error","code":"context_length_exceeded"}}`, td.TooLong, "maximum context", "too large"},
	{"too fast", 429, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`, td.RateLimited, "Rate limit", ""},
	{"used up", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, td.AuthFailed, "quota", "balance"},
	{"overloaded", 503, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error"}}`, td.Overloaded, "overloaded", ""},
	{"overloaded as Anthropic says it", 529, `{"error":{"message":"later","type":"overloaded_error"}}`, td.Overloaded, "later", ""},
	{"Ollama", 404, `{"error":"model 'x' not found, try pulling it first"}`, td.BadRequest, "404: model 'x' not found", "models.<tier>"},
	{"Ollama, as the other", 400, `{"error":{"message":"x does not support tools","type":"api_error","param":null,"code":null}}`, td.BadRequest, "does not support tools", "models.<tier>"},
	{"llama.cpp", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, td.Network, "Loading model", ""},
	{"vLLM", 400, `{"object":"error","message":"too many tokens","type":"BadRequestError","param":null,"code":400}`, td.BadRequest, "BadRequestError: too many tokens", ""},
	{"FastAPI", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, td.BadRequest, "field required", ""},
	{"bare", 500, `{"message":"out of memory"}`, td.Network, "500: out of memory", ""},
	{"a proxy", 502, "<html>\n <head><title>502 Bad Gateway</title></head> <center>nginx</center></html>", td.Network, "Bad Gateway: <html> <head><title>502 Bad Gateway", ""},
	{"nothing", 500, "", td.Network, "500: Internal Server Error", ""},
	{"no error in it", 503, `{"no": "error"}`, td.Network, "Service Unavailable", ""},
	{"null", 500, `{"error":null}`, td.Network, "Internal Server Error", ""},
	{"empty", 500, `{"error":{}}`, td.Network, "500: {}", ""},
	{"of another kind", 500, `{"error":{"message":{"x":1},"type":[]}}`, td.Network, `{"message":{"x":1}`, ""},
	{"a number", 500, `{"error":17}`, td.Network, "500: 17", ""},
	{"an empty string", 500, `{"error":""}`, td.Network, "does not say", ""},
	{"endless", 500, strings.Repeat("endless ", 1<<20), td.Network, "endless", ""},
	{"an endless message", 400, `{"error":"` + strings.Repeat("endless ", 4000) + `"}`, td.BadRequest, "endless", ""},
	{"deep", 500, `{"error":{"message":` + strings.Repeat("[", 100_000), td.Network, "Internal Server Error", ""},
	{"broken UTF-8 and NULs", 500, "a\xff\x00b", td.Network, "a\ufffd\x00b", ""},

	// In answers that claim success: OpenRouter does that.
	{"200", 200, `{"error":{"code":429,"message":"slow down"}}`, td.RateLimited, "slow down", ""},
	{"200 of a person's making", 200, `{"error":{"code":401,"message":"No auth"}}`, td.AuthFailed, "No auth", "MY_KEY"},
	{"200 and a type", 200, `{"error":{"type":"overloaded_error","message":"later"}}`, td.Overloaded, "later", ""},
	{"200 and text", 200, `{"error":"something"}`, td.Network, "something", ""},
	{"200 and an answer in one piece", 200, `{"choices":[{"message":{"content":"hi"}}]}`, td.Network, "instead of a stream", "base_url"},
	{"200 and nothing", 200, ``, td.Network, "instead of a stream", "base_url"},
}

func TestErrorBodies(t *testing.T) {
	for _, c := range errorBodies {
		t.Run(c.name, func(t *testing.T) {
			_, err := answering(c.status, nil, c.body).Stream(t.Context(), llm.Request{Model: "m"}, nil)
			llmtest.WantClass(t, err, c.class)
			e, _ := errors.AsType[*llm.Error](err)
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(e.Hint, c.hint) || (c.hint == "") != (e.Hint == "") || len(err.Error()) > 1200 {
				t.Errorf("%d: %.1300q; hint %q", e.Status, err, e.Hint)
			}
			if c.status >= 400 && e.Status != c.status {
				t.Errorf("status %d", e.Status)
			}
		})
	}
}

func TestErrorsInStreams(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		class        td.FailureClass
		want         string
	}{
		{"OpenAI", sseOf(evHi, `{"error":{"message":"The server had an error","type":"server_error","code":null}}`), td.Network, "server_error: The server"},
		{"by the name of an event", sseOf(evHi) + "event: error\ndata: {\"message\":\"too fast\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}\n\n", td.RateLimited, "too fast"},
		{"OpenRouter", sseOf(evHi, `{"error":{"code":502,"message":"Provider returned error"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`), td.Network, "Provider returned"},
		{"OpenRouter, a person's", sseOf(evHi, `{"error":{"code":403,"message":"moderated"},"choices":[]}`), td.AuthFailed, "moderated"},
		{"vLLM", sseOf(`{"error":{"object":"error","message":"bad","type":"BadRequestError","code":400}}`), td.BadRequest, "bad"},
		{"llama.cpp", sseOf(evHi) + "error: {\"code\":500,\"message\":\"slot died\",\"type\":\"server_error\"}\n\n", td.Network, "slot died"},
		{"Ollama", sseOf(evHi, `{"error":"unexpected EOF from the runner"}`), td.Network, "runner"},
		{"used up", sseOf(`{"error":{"message":"pay","code":"insufficient_quota"}}`), td.AuthFailed, "pay"},
		{"too long", sseOf(`{"error":{"message":"long","code":"context_length_exceeded"}}`), td.TooLong, "long"},
		{"overloaded", sseOf(`{"error":{"message":"Model is overloaded"}}`), td.Overloaded, "overloaded"},
		{"after the finish reason", sseOf(evHi, evStop, `{"error":{"message":"late"}}`), td.Network, "late"},
		{"words in an event that are no JSON", "event: error\ndata: oh no\n\n", td.Network, "oh no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := play(t.Context(), c.stream)
			sane(t, r, err)
			llmtest.WantClass(t, err, c.class)
			if !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	_, err := answering(429, http.Header{"Retry-After": {"12"}, "X-Request-Id": {"req_7"}}, "{}").Stream(t.Context(), llm.Request{}, nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.RetryAfter != 12*time.Second || !strings.Contains(e.Error(), "(request req_7)") {
		t.Errorf("error = %+v", err)
	}
}

func TestNotAStream(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
	}{{200, "text/html"}, {200, "application/json"}, {200, ""}, {204, ""}, {206, "text/event-stream"}, {302, "text/html"}} {
		_, err := answering(c.status, http.Header{"Content-Type": {c.kind}, "Location": {"https://elsewhere.invalid/"}}, "hello").
			Stream(t.Context(), llm.Request{}, nil)
		llmtest.WantClass(t, err, td.Network)
	}
}

// The key never shows, whoever repeats it.
func TestKeyIsRedacted(t *testing.T) {
	echo := `{"error":{"type":"x ` + testKey + `","message":"your key ` + testKey + ` is wrong"}}`
	broken := New(Options{APIKey: testKey, BaseURL: "http://user:" + testKey + "@127.0.0.1:1/", HTTP: &http.Client{
		Transport: llmtest.RoundTripper(func(r *http.Request) (*http.Response, error) { return nil, fmt.Errorf("dial with %v", r.Header) }),
	}})
	for name, m := range map[string]*Model{
		"status": answering(401, nil, echo),
		"plain":  answering(500, nil, "key="+testKey),
		"200":    answering(200, nil, echo),
		"stream": playing(func() io.Reader { return strings.NewReader(sseOf(echo)) }),
		"dial":   broken,
		"garbled": playing(func() io.Reader {
			return strings.NewReader(sseOf(calling(piece("0", "a", testKey+" ", ""))))
		}),
	} {
		_, err := m.Stream(t.Context(), llm.Request{}, nil)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || strings.Contains(fmt.Sprintf("%v %+v %s", err, e, e.Hint), testKey) || strings.Contains(fmt.Sprint(e.Err), testKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What counts is in the options: neither key nor address nor headers are taken from the environment.
func TestEnvironmentIsNotLookedAt(t *testing.T) {
	for k, v := range map[string]string{
		"OPENAI_API_KEY": "sk-env", "OPENAI_ADMIN_KEY": "sk-admin", "OPENAI_ORG_ID": "org-env", "OPENAI_PROJECT_ID": "proj-env",
		"OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_CUSTOM_HEADERS": "X-Env: yes",
	} {
		t.Setenv(k, v)
	}
	for key, want := range map[string]string{"": "", " " + testKey + "\n": "Bearer " + testKey} {
		var got *http.Request
		m := New(Options{APIKey: key, HTTP: &http.Client{Transport: llmtest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			got = r
			return llmtest.Stream(r, io.NopCloser(strings.NewReader(sseOf(evHi, evStop, evDone)))), nil
		})}})
		if _, err := m.Stream(t.Context(), llm.Request{}, nil); err != nil {
			t.Fatal(err)
		}
		if got.URL.String() != "https://api.openai.com/v1/chat/completions" || got.Header.Get("Authorization") != want || strings.Contains(fmt.Sprint(got.Header), "env") {
			t.Errorf("%s %v", got.URL, got.Header)
		}
	}
}

func TestUnreachable(t *testing.T) {
	for _, base := range []string{"http://127.0.0.1:1/v1", "http://[", "no scheme"} {
		_, err := New(Options{APIKey: testKey, BaseURL: base}).Stream(t.Context(), llm.Request{}, nil)
		llmtest.WantClass(t, err, td.Network)
		if e, _ := errors.AsType[*llm.Error](err); !strings.Contains(e.Hint, "base_url") {
			t.Errorf("hint %q", e.Hint)
		}
	}
}

// A failure is the loop's to try again, and a redirect would carry the key to wherever it points.
func TestOneCallIsOneRequest(t *testing.T) {
	for _, status := range []int{307, 408, 409, 429, 500, 503} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("X-Should-Retry", "true")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		client := exchange.NewClient()
		_, err := New(Options{APIKey: testKey, KeyEnv: "MY_KEY", BaseURL: s.URL, HTTP: client}).Stream(t.Context(), llm.Request{}, nil)
		if err == nil || asked != 1 {
			t.Errorf("%d: asked %d times, %v", status, asked, err)
		}
		client.CloseIdleConnections()
		s.Close()
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
		"in the answer":     {sseOf(evRole, evHi), 7 * time.Second},
		"in a call":         {sseOf(evRole, calling(piece("0", "a", "A", "{}"))), 7 * time.Second},
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

// A server that forgets to count, or to end the message after the answer, costs a moment, not the answer.
func TestAnswerIsNotHeldUpByItsConnection(t *testing.T) {
	for _, c := range []struct {
		head string
		want time.Duration
	}{{sseOf(evHi, evStop), tailTime}, {sseOf(evHi, evStop, evCount), tailTime}, {sseOf(evHi, evStop, evDone), exchange.DrainTime}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			r, err := hangingModel(c.head, time.Minute, time.Minute).Stream(t.Context(), llm.Request{}, nil)
			if err != nil || r.Message.Text() != "hi" || time.Since(start) != c.want {
				t.Errorf("%+v, %v after %v", r, err, time.Since(start))
			}
		})
	}
}

func TestCancelGivesItsCause(t *testing.T) {
	for _, head := range []string{"", sseOf(evRole, evHi), sseOf(evRole, calling(piece("0", "a", "A", "{}")))} {
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
		if _, err := m.Stream(ctx, llm.Request{Model: "m", Messages: []td.Message{say(td.User, text("a"))}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Exchanges()); fresh != 1 || n != 10 {
		t.Errorf("%d connections for %d calls", fresh, n)
	}
}

func TestDrips(t *testing.T) {
	llmtest.WantsProgress(t, sseOf(evRole), sseOf(evRole), sseOf(`{"choices":[{"index":0,"delta":{"content":"x"}}]}`),
		func(h *http.Client, progress, total time.Duration) llm.Model {
			return New(Options{APIKey: testKey, HTTP: h, ProgressTimeout: progress, CallTimeout: total})
		})
}
