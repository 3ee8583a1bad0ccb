// Package llmtest tests models: a server that speaks the streams of the Claude API or of Chat Completions
// and plays rehearsal scripts, on loopback, and the conformance suite every model of package llm passes.
package llmtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// Options say what a server plays.
type Options struct {
	// API is the protocol the server speaks.
	API API
	// Script is played; the turn follows from the conversation in the request and the number of times
	// that same request came.
	Script *rehearsal.Script
	// Fast skips reading and checking the request: the turn is found by counting answers in its bytes,
	// so that measuring a client does not measure the server. Scripts then see no results and no prompt.
	Fast bool
	// Hold, if not nil, stops every stream after its first frames until it is closed.
	Hold <-chan struct{}
	// Record keeps the bodies of requests.
	Record bool
	// NoCounter leaves out what counts tokens, as some servers do that are compatible with the API.
	NoCounter bool
	// Repeat has every text said so many times over: a script is shorter than what a broken server sends.
	Repeat int
}

// Exchange is one request as the server saw it.
type Exchange struct {
	Asked    time.Time // its head was read
	Answered time.Time // the last byte of the answer was handed to the system; zero: not yet
	Path     string
	Header   http.Header
	Body     []byte // when recorded
}

// Server is the handler; NewServer also makes it listen.
type Server struct {
	URL string // when listening

	options  Options
	protocol protocol
	http     *httptest.Server
	held     atomic.Int64

	mu        sync.Mutex
	exchanges []*Exchange
	attempts  map[[32]byte]int
	garbled   map[string]bool // ids of calls whose input was garbage: the request cannot show it
}

// Handler is a server for a process that listens by itself.
func Handler(o Options) *Server {
	return &Server{options: o, protocol: protocols[o.API], attempts: map[[32]byte]int{}, garbled: map[string]bool{}}
}

// NewServer is a server that listens on loopback until Close.
func NewServer(o Options) *Server {
	s := Handler(o)
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	return s
}

// Close stops listening and breaks off what is still being answered.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Held is the number of streams that stand still because of Options.Hold.
func (s *Server) Held() int { return int(s.held.Load()) }

// Exchanges are the requests so far, in the order they came.
func (s *Server) Exchanges() []Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Exchange, len(s.exchanges))
	for i, e := range s.exchanges {
		out[i] = *e
	}
	return out
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ex := &Exchange{Asked: time.Now(), Path: r.URL.Path, Header: r.Header}
	s.mu.Lock()
	s.exchanges = append(s.exchanges, ex)
	s.mu.Unlock()
	s.serve(w, r, ex)
	s.mu.Lock()
	ex.Answered = time.Now()
	s.mu.Unlock()
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, ex *Exchange) {
	raw, err := readBody(r)
	if err != nil {
		return
	}
	if s.options.Record {
		s.mu.Lock()
		ex.Body = raw
		s.mu.Unlock()
	}
	if f := s.protocol.refuse(r); f != nil {
		s.protocol.fail(w, *f)
		return
	}
	if s.options.NoCounter && r.URL.Path == countPath {
		s.protocol.fail(w, failure{http.StatusNotFound, "not_found_error", "no such path: " + r.URL.Path})
		return
	}
	if s.protocol.count(w, r, raw) {
		return
	}
	req, err := s.request(raw)
	if err != nil {
		s.protocol.fail(w, failure{http.StatusBadRequest, "invalid_request_error", err.Error()})
		return
	}
	s.play(r.Context(), w, s.options.Script.Play(req))
}

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	raw := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, raw)
	return raw, err
}

func (s *Server) request(raw []byte) (llm.Request, error) {
	if s.options.Fast {
		var req llm.Request
		for range bytes.Count(raw, []byte(`"role":"assistant"`)) {
			req.Messages = append(req.Messages, td.Message{Role: td.Assistant})
		}
		return req, nil
	}
	req, err := s.protocol.read(raw)
	if err != nil {
		return req, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range req.Messages {
		for i, b := range m.Blocks {
			if b.Type == td.ToolUseBlock && s.garbled[b.ID] {
				m.Blocks[i].Malformed = rehearsal.Garbled
			}
		}
	}
	key := sha256.Sum256(raw)
	req.Attempt = s.attempts[key]
	s.attempts[key]++
	return req, nil
}

func (s *Server) play(ctx context.Context, w http.ResponseWriter, p rehearsal.Play) {
	if f := p.Fault; f != nil && f.Status != 0 {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(f.RetryAfter.Round(time.Second).Seconds())))
			w.Header().Set("Retry-After-Ms", fmt.Sprint(f.RetryAfter.Milliseconds()))
		}
		s.protocol.fail(w, failure{f.Status, typeOf(f.Status), cmp.Or(f.Message, played)})
		return
	}
	if f := p.Fault; f != nil && f.TooLong != 0 {
		words := fmt.Sprintf("prompt is too long: %d tokens > %d maximum", p.Usage.Input, f.TooLong)
		s.protocol.fail(w, failure{http.StatusBadRequest, typeOf(http.StatusBadRequest), words})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s.protocol.label(w.Header(), "req_rehearsal")
	flush := http.NewResponseController(w).Flush
	if p.Fault != nil && p.Fault.Silence != 0 {
		_ = flush()
		pause(ctx, p.Fault.Silence)
		return
	}
	if p.Fault != nil && p.Fault.Drip != 0 {
		s.drip(ctx, w, p)
		return
	}
	if p.Fault != nil && p.Fault.Garbage {
		s.mu.Lock()
		for _, u := range p.Message.ToolUses() {
			s.garbled[u.ID] = true
		}
		s.mu.Unlock()
	}
	for i, b := range p.Message.Blocks {
		if s.options.Repeat > 1 && b.Type == td.TextBlock {
			p.Message.Blocks = slices.Clone(p.Message.Blocks)
			p.Message.Blocks[i].Text = strings.Repeat(b.Text, s.options.Repeat)
		}
	}
	for i, f := range s.protocol.frames(p) {
		if s.options.Hold != nil && i == 3 {
			_ = flush()
			s.held.Add(1)
			select {
			case <-s.options.Hold:
			case <-ctx.Done():
			}
			s.held.Add(-1)
		}
		if f.After > 0 {
			_ = flush()
			pause(ctx, f.After)
		}
		if _, err := w.Write(f.Bytes); err != nil || ctx.Err() != nil {
			return
		}
	}
	_ = flush()
}

// drip begins an answer and then sends signs of life only: comments, and a letter now and then.
func (s *Server) drip(ctx context.Context, w http.ResponseWriter, p rehearsal.Play) {
	p.Message = td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: strings.Repeat("d", 1000)}}}
	p.Pace.Size = 1
	for _, f := range s.protocol.frames(p) {
		for range 10 {
			if _, err := io.WriteString(w, ": still here\n\n"); err != nil || ctx.Err() != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			pause(ctx, p.Fault.Drip)
		}
		if _, err := w.Write(f.Bytes); err != nil {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
