package llmtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// RoundTripper answers requests without a network.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip is the method of http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Stream is a response that streams body.
func Stream(r *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r,
	}
}

// Playing is a client whose every request is answered with this stream.
func Playing(body func() io.Reader) *http.Client {
	return &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
		return Stream(r, io.NopCloser(body())), nil
	})}
}

// Hanging is a client whose every request is answered with the beginning of a stream, and then with nothing until the
// request is given up; without a beginning not even the head of an answer comes.
func Hanging(head string) *http.Client {
	return &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
		if head == "" {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return Stream(r, &hanging{strings.NewReader(head), r.Context()}), nil
	})}
}

type hanging struct {
	io.Reader
	ctx context.Context
}

func (h *hanging) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

func (h *hanging) Close() error { return nil }

// WantClass ends the test unless err is a failure of this class.
func WantClass(t testing.TB, err error, class td.FailureClass) {
	t.Helper()
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != class {
		t.Fatalf("error %v (%T), want one of class %s", err, err, class)
	}
}
