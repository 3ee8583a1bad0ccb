package llmtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// Dripping is a client whose every request is answered with the beginning of a stream and then with the same piece again and
// again, a pause before each, until the request is given up.
func Dripping(head, piece string, every time.Duration) *http.Client {
	return &http.Client{Transport: RoundTripper(func(r *http.Request) (*http.Response, error) {
		return Stream(r, &dripping{strings.NewReader(head), piece, every, r.Context()}), nil
	})}
}

type dripping struct {
	*strings.Reader
	piece string
	every time.Duration
	ctx   context.Context
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.Len() == 0 {
		pause(d.ctx, d.every)
		if err := d.ctx.Err(); err != nil {
			return 0, err
		}
		d.Reset(d.piece)
	}
	return d.Reader.Read(p)
}

func (d *dripping) Close() error { return nil }

// WantsProgress checks that a model gives up what drips, whatever it drips, and nothing that gets on. The pieces are an event without
// content, and one with a letter of it.
func WantsProgress(t *testing.T, head, event, letter string, model func(h *http.Client, progress, total time.Duration) llm.Model) {
	for name, c := range map[string]struct {
		piece string
		every time.Duration
		after time.Duration
		words string
	}{
		"a comment": {": here\n\n", 3 * time.Second, 10 * time.Minute, "less than a letter a second in 10m"},
		"an event":  {event, 3 * time.Second, 10 * time.Minute, "less than a letter a second in 10m"},
		"a letter":  {letter, 3 * time.Second, 10 * time.Minute, "less than a letter a second in 10m"},
		"steadily":  {letter, 500 * time.Millisecond, time.Hour, "more than 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := model(Dripping(head, c.piece, c.every), 10*time.Minute, time.Hour).Stream(t.Context(), llm.Request{}, nil)
				WantClass(t, err, td.Network)
				if e, _ := errors.AsType[*llm.Error](err); name == "steadily" && (e.Begun == nil || e.Begun.Letters < 60) {
					t.Errorf("of an answer that had begun it says %+v", e.Begun)
				}
				if took := time.Since(start); took != c.after || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
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
