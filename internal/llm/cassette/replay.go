package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// MaxSize is the largest cassette Replay takes.
const MaxSize = 1 << 30

// Player is a model that answers from a cassette.
type Player struct {
	path     string
	redactor *redact.Redactor

	mu      sync.Mutex
	entries []entry
	places  map[string][]int // entries not played yet, by hash
}

// Replay reads a cassette. Each line answers one call: calls with the same request get their answers in
// the order they were recorded, at once. The redactor should know the same secrets as when it was recorded.
func Replay(path string, r *redact.Redactor) (*Player, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &td.Error{Kind: td.NotFound, Err: fmt.Errorf("open cassette: %w", err)}
	}
	if info.Size() > MaxSize {
		return nil, td.Errorf(td.Invalid, "open cassette %s: it has %d bytes, the limit is %d", path, info.Size(), MaxSize)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, &td.Error{Kind: td.Storage, Err: fmt.Errorf("read cassette: %w", err)}
	}
	p := &Player{path: path, redactor: r, places: map[string][]int{}}
	if p.entries, err = parse(raw); err != nil {
		return nil, &td.Error{
			Kind: td.Corrupt, Hint: "record it again, or take the line out", Err: fmt.Errorf("read cassette %s: %w", path, err),
		}
	}
	for i, e := range p.entries {
		p.places[e.Hash] = append(p.places[e.Hash], i)
	}
	return p, nil
}

// parse reads the lines of a cassette; a last line without an end is one that a crash tore.
func parse(raw []byte) ([]entry, error) {
	var entries []entry
	for n := 1; ; n++ {
		line, rest, whole := bytes.Cut(raw, []byte("\n"))
		if !whole {
			return entries, nil
		}
		raw = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if e.Hash == "" || (e.Response == nil) == (e.Error == nil) {
			return nil, fmt.Errorf("line %d: it needs a hash, and a response or an error", n)
		}
		entries = append(entries, e)
	}
}

// Provider is the one that was recorded, since how a loop asks depends on it; of an empty cassette, "cassette".
func (p *Player) Provider() string {
	for _, e := range p.entries {
		if e.Provider != "" {
			return e.Provider
		}
	}
	return "cassette"
}

// Stream plays the answer to req.
func (p *Player) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	e, err := p.take(newRequest(req, p.redactor))
	if err != nil {
		return llm.Response{}, &llm.Error{Class: td.BadRequest, Hint: "record the cassette again", Err: err}
	}
	for _, d := range e.Deltas {
		if ctx.Err() != nil {
			return llm.Response{}, context.Cause(ctx)
		}
		if emit != nil {
			emit(llm.Delta{Kind: d.Kind, Text: d.Text})
		}
	}
	if e.Error != nil {
		return llm.Response{}, e.Error.err()
	}
	out := e.Response.response()
	out.Replayed = true
	return out, nil
}

func (p *Player) take(r request) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hash := r.hash()
	if at := p.places[hash]; len(at) > 0 {
		p.places[hash] = at[1:]
		return &p.entries[at[0]], nil
	}
	return nil, fmt.Errorf("cassette %s has no answer to this request: %w", p.path, p.miss(r, hash))
}

// miss says how a request differs from the one on the tape that is most like it.
func (p *Player) miss(r request, hash string) error {
	best, likeness := -1, -1
	for i := range p.entries {
		if p.entries[i].Hash == hash {
			return errors.New("all its answers were played")
		}
		if l := like(p.entries[i].Request, r); l > likeness {
			best, likeness = i, l
		}
	}
	if best < 0 {
		return errors.New("it is empty")
	}
	return fmt.Errorf("the nearest is call %d: %s", best+1, difference(p.entries[best].Request, r))
}
