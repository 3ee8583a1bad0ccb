package server

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func said(cursor uint64, age time.Duration, text string) td.Record {
	return td.Record{Event: td.Event{Cursor: cursor, Task: "t", At: time.Now().Add(-age), Body: td.Said{Text: text}}}
}

// Whoever follows gets each event as it is, from memory only while it is new.
func TestFrames(t *testing.T) {
	var f frames
	of := func(ev td.Record) []byte {
		t.Helper()
		raw, err := f.of(ev)
		if err != nil || !bytes.HasPrefix(raw, fmt.Appendf(nil, "id: %d\nevent: event\ndata: {", ev.Cursor)) {
			t.Fatalf("%s, %v", raw, err)
		}
		return raw
	}
	first := of(said(7, 0, "first"))
	if again := of(said(7, 0, "first")); &again[0] != &first[0] {
		t.Error("an event is encoded twice")
	}
	if other := of(said(7+maxFrames, 0, "other")); !bytes.Contains(other, []byte("other")) {
		t.Errorf("another event is taken for it: %s", other)
	}
	if past := of(said(7, 0, "first")); !bytes.Contains(past, []byte("first")) {
		t.Errorf("what came later is taken for it: %s", past)
	}
	if late := of(said(7+maxFrames, 2*maxFrameAge, "let go")); !bytes.Contains(late, []byte("let go")) {
		t.Errorf("what retention has let go of is still told: %s", late)
	}
	large := strings.Repeat("x", maxFrameSize)
	if a, b := of(said(9, 0, large)), of(said(9, 0, large)); &a[0] == &b[0] {
		t.Error("a large event is kept")
	}
	rather := strings.Repeat("x", maxFrameSize/2)
	for n := uint64(5 * maxFrames); n < 7*maxFrames; n += 1 + n%3 { // not everything is followed
		if of(said(n, 0, rather)); f.sum > maxFrameSum {
			t.Fatalf("%d bytes are kept", f.sum)
		}
	}
	held := 0
	for _, s := range f.ring {
		held += len(s.raw)
	}
	if held != f.sum || held < maxFrameSum/2 {
		t.Errorf("%d bytes are kept, counted as %d", held, f.sum)
	}
	if a, b := of(said(7*maxFrames, 0, rather)), of(said(7*maxFrames, 0, rather)); &a[0] != &b[0] {
		t.Error("there is no room for the newest")
	}
	f = frames{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := uint64(1); n < 3*maxFrames; n++ {
				if raw := of(said(n, 0, "same")); !bytes.Contains(raw, fmt.Appendf(nil, `"cursor":%d,`, n)) {
					t.Errorf("%d: %s", n, raw)
					return
				}
			}
		})
	}
	wg.Wait()
}
