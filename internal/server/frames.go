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
	maxFrames    = 1024
	maxFrameSize = 8 << 10
	// maxFrameAge is how old an event may be that is taken from memory: of older ones retention may have let go.
	maxFrameAge = time.Minute
)

// frames are the newest events as they are sent. Many follow the same tasks, and each event is encoded for all of them once. Its
// methods may be called from any goroutine.
type frames struct {
	mu   sync.Mutex
	ring [maxFrames]sent
}

type sent struct {
	cursor uint64
	raw    []byte
}

// of is the message that tells of an event. It must not be changed.
func (f *frames) of(ev *td.Event) ([]byte, error) {
	if time.Since(ev.At) > maxFrameAge {
		return frame(wire.StreamEvent, ev.Cursor, ev)
	}
	at := &f.ring[ev.Cursor%maxFrames]
	f.mu.Lock()
	known := *at
	f.mu.Unlock()
	if known.raw != nil && known.cursor == ev.Cursor {
		return known.raw, nil
	}
	raw, err := frame(wire.StreamEvent, ev.Cursor, ev)
	if err != nil || len(raw) > maxFrameSize {
		return raw, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.cursor < ev.Cursor { // who reads the past does not drive out what many wait for
		*at = sent{ev.Cursor, raw}
	}
	return raw, nil
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
