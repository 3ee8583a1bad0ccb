package rehearsal

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// Options set up a rehearsal.
type Options struct {
	// Default is played for tasks that bring no script of their own; nil: the built-in one.
	Default *Script
}

// Model plays scripts.
type Model struct {
	standard *Script

	mu     sync.Mutex
	parsed map[string]*Script // by their text
}

//go:embed builtin.yaml
var builtinSource []byte

var builtin = sync.OnceValue(func() *Script {
	s, err := Parse(builtinSource)
	if err != nil {
		panic(err)
	}
	return s
})

// New makes a rehearsal.
func New(o Options) *Model {
	if o.Default == nil {
		o.Default = builtin()
	}
	return &Model{standard: o.Default, parsed: map[string]*Script{}}
}

// Provider is "rehearsal".
func (m *Model) Provider() string { return llm.Rehearsal }

// maxParsed bounds the scripts that are kept parsed.
const maxParsed = 256

func (m *Model) script(source string) (*Script, error) {
	if source == "" {
		return m.standard, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.parsed[source]; ok {
		return s, nil
	}
	s, err := Parse([]byte(source))
	if err != nil {
		return nil, err
	}
	if len(m.parsed) >= maxParsed {
		clear(m.parsed)
	}
	m.parsed[source] = s
	return s, nil
}

// Stream plays the turn that the request stands at.
func (m *Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	s, err := m.script(req.Script)
	if err != nil {
		return llm.Response{}, &llm.Error{Class: td.BadRequest, Hint: td.HintOf(err), Err: err}
	}
	if err := llm.Check(req); err != nil {
		return llm.Response{}, &llm.Error{Class: td.BadRequest, Err: fmt.Errorf("every provider would refuse this request: %w", err)}
	}
	d := &dealer{ctx: ctx, emit: emit, start: time.Now()}
	return d.deal(s.Play(req))
}

// dealer deals out one answer.
type dealer struct {
	ctx   context.Context
	emit  func(llm.Delta)
	start time.Time
	first time.Duration
}

func (d *dealer) deal(p Play) (llm.Response, error) {
	message, left := p.Message, -1
	if f := p.Fault; f != nil {
		switch {
		case f.Status != 0:
			e := &llm.Error{
				Class: llm.ClassOfStatus(f.Status), Status: f.Status, RetryAfter: f.RetryAfter,
				Err: errors.New(cmp.Or(f.Message, "the rehearsal script plays this failure")),
			}
			llm.Explain(e)
			return llm.Response{}, e
		case f.TooLong != 0:
			return llm.Response{}, &llm.Error{
				Class: td.TooLong, Status: http.StatusBadRequest,
				Err: fmt.Errorf("the prompt is over %d tokens: the rehearsal script plays this failure", f.TooLong),
			}
		case f.Silence != 0:
			if err := d.wait(f.Silence); err != nil {
				return llm.Response{}, err
			}
			return llm.Response{}, &llm.Error{Class: td.Network, Err: fmt.Errorf("the rehearsal was silent for %v", f.Silence)}
		case f.Drip != 0: // nobody watches over a rehearsal: it gives up by itself
			if err := d.wait(f.Drip); err != nil {
				return llm.Response{}, err
			}
			return llm.Response{}, &llm.Error{Class: td.Network, Err: errors.New("the answer did not get on: the rehearsal script plays this failure")}
		case f.Type != "":
			left = letters(message) / 2
		case f.Cut != nil:
			left = *f.Cut
		}
	}
	if err := d.wait(p.Pace.Before); err != nil {
		return llm.Response{}, err
	}
	kept, whole, err := d.pieces(message, p.Pace, left)
	if err != nil {
		return llm.Response{}, err
	}
	r := llm.Response{Message: message, StopReason: p.Stop, Model: p.Model, Usage: p.Usage, FirstToken: d.first}
	switch {
	case p.Fault != nil && p.Fault.Type != "":
		return llm.Response{}, &llm.Error{
			Class: llm.ClassOfType(p.Fault.Type),
			Err:   fmt.Errorf("%s: the rehearsal script plays this failure", p.Fault.Type),
		}
	case left >= 0 && !whole:
		return llm.Response{}, &llm.Error{Class: td.Network, Err: errors.New("the stream broke off: the rehearsal script plays this failure")}
	case left >= 0:
		r.Message, r.StopReason, r.Cut = kept, "", true
	}
	return r, nil
}

// pieces emits the message, at most limit characters of its text if limit is not negative. It returns
// the text blocks that were dealt out whole, and whether a cut here leaves an answer worth keeping: it
// does when there is whole text and no tool call had begun.
func (d *dealer) pieces(m td.Message, pace Pace, limit int) (kept td.Message, whole bool, err error) {
	kept.Role = m.Role
	cut := limit >= 0
	for _, b := range m.Blocks {
		if b.Type == td.ToolUseBlock {
			if cut && limit <= 0 {
				break
			}
			d.say(llm.Delta{Kind: llm.ToolDelta, Text: b.Name})
			if cut {
				return kept, false, nil
			}
			continue
		}
		kind := llm.TextDelta
		if b.Type == td.ThinkingBlock {
			kind = llm.ThinkingDelta
		}
		text := []rune(b.Text)
		counts := cut && b.Type == td.TextBlock
		for len(text) > 0 {
			n := min(pace.Size, len(text))
			if counts {
				n = min(n, limit)
				if n == 0 {
					return kept, len(kept.Blocks) > 0, nil
				}
				limit -= n
			}
			if err := d.wait(pace.Pause); err != nil {
				return kept, false, err
			}
			d.say(llm.Delta{Kind: kind, Text: string(text[:n])})
			text = text[n:]
		}
		if b.Type == td.TextBlock {
			kept.Blocks = append(kept.Blocks, b)
		}
	}
	return kept, len(kept.Blocks) > 0, nil
}

func (d *dealer) say(delta llm.Delta) {
	if d.first == 0 {
		d.first = max(time.Since(d.start), 1)
	}
	if d.emit != nil {
		d.emit(delta)
	}
}

// wait lets time pass, or returns the cause at once when the caller gives up.
func (d *dealer) wait(t time.Duration) error {
	if t > 0 {
		timer := time.NewTimer(t)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.ctx.Done():
		}
	}
	return context.Cause(d.ctx)
}
