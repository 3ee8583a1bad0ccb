package server

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

const (
	// maxFrames is how many there may be while the slowest of those who are told together catches up.
	maxFrames    = 4096
	maxFrameSize = 8 << 10
	maxFrameSum  = 8 << 20
	// maxFrameAge is how old an event may be that is taken from memory: of older ones retention may have let go.
	maxFrameAge = time.Minute
)

// frames are the newest events as they are sent. Many follow the same tasks, and each event is encoded for all of them once. Its
// methods may be called from any goroutine.
type frames struct {
	mu     sync.Mutex
	ring   [maxFrames]sent
	sum    int    // of the bytes in it
	oldest uint64 // all before this cursor are forgotten
}

type sent struct {
	cursor uint64
	raw    []byte
}

// of is the message that tells of an event. It must not be changed.
func (f *frames) of(ev td.Record) ([]byte, error) {
	if time.Since(ev.At) > maxFrameAge {
		return frame(wire.StreamEvent, ev.Cursor, ev)
	}
	f.mu.Lock()
	known := f.ring[ev.Cursor%maxFrames]
	f.mu.Unlock()
	if known.raw != nil && known.cursor == ev.Cursor {
		return known.raw, nil
	}
	raw, err := frame(wire.StreamEvent, ev.Cursor, ev)
	if err != nil || len(raw) > maxFrameSize {
		return raw, err
	}
	f.keep(sent{ev.Cursor, raw})
	return raw, nil
}

// keep remembers a message in the place of an older one: who reads the past does not drive out what many wait for.
func (f *frames) keep(s sent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := &f.ring[s.cursor%maxFrames]
	if s.cursor <= at.cursor || s.cursor < f.oldest {
		return
	}
	f.sum += len(s.raw) - len(at.raw)
	*at = s
	f.oldest = max(f.oldest, s.cursor-min(s.cursor, maxFrames-1))
	for f.sum > maxFrameSum { // the newest alone is smaller
		old := &f.ring[f.oldest%maxFrames]
		if old.cursor <= f.oldest {
			f.sum -= len(old.raw)
			*old = sent{cursor: old.cursor}
		}
		f.oldest++
	}
}

// frame is a server-sent event.
func frame(name string, id uint64, data any) ([]byte, error) {
	var raw []byte
	var err error
	if m, is := data.(json.Marshaler); is { // whose JSON Marshal would go through once more
		raw, err = m.MarshalJSON()
	} else {
		raw, err = json.Marshal(data)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	buf := make([]byte, 0, len(raw)+64)
	if id > 0 {
		buf = append(strconv.AppendUint(append(buf, "id: "...), id, 10), '\n')
	}
	buf = append(append(append(buf, "event: "...), name...), "\ndata: "...)
	return append(append(buf, raw...), "\n\n"...), nil
}
