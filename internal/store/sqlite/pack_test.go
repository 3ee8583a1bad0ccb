package sqlite

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestPack(t *testing.T) {
	noise := make([]byte, 2*packOver)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for name, raw := range map[string][]byte{
		"none": nil, "short": []byte(`{"a":1}`), "text": []byte(`{"a":"` + strings.Repeat("again ", packOver) + `"}`), "noise": noise,
	} {
		stored, err := pack(raw)
		if err != nil || stored != nil && len(stored) >= len(raw) || stored == nil && name == "text" {
			t.Fatalf("%s: %d bytes are packed into %d, %v", name, len(raw), len(stored), err)
		}
		if stored == nil {
			stored = raw
		}
		if name == "noise" {
			continue // no JSON
		}
		got, err := unpack(stored, int64(len(raw)))
		if err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: unpacked it has %d of %d bytes, %v", name, len(got), len(raw), err)
		}
	}
	stored, err := pack([]byte(strings.Repeat("x", 2*packOver)))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]struct {
		stored []byte
		size   int64
	}{"torn": {stored[:len(stored)/2], 2 * packOver}, "of another size": {stored, packOver}, "longer than it says": {stored, 2*packOver - 1}, "empty": {stored[:1], 3}} {
		if _, err := unpack(bad.stored, bad.size); err == nil {
			t.Errorf("%s: it was unpacked", name)
		}
	}
}

// Bodies that are packed come back as they went in, an append of them is known again, and one that cannot be unpacked is quarantined.
func TestPackedBodies(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	task, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID()}, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), task.ID, td.Holder{Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	long, other := said(strings.Repeat("a long story ", packOver)), said(strings.Repeat("another story ", packOver))
	for range 2 {
		if _, err := s.Append(t.Context(), c, task.Head, long); err != nil {
			t.Fatalf("the same append: %v", err)
		}
	}
	if _, err := s.Append(t.Context(), c, task.Head, other); !td.IsKind(err, td.Conflict) {
		t.Errorf("another append after the same head: %v", err)
	}
	texts := func() (out []td.Body) {
		t.Helper()
		for ev, err := range s.Read(context.Background(), task.ID, task.Head) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, ev.Body)
		}
		return out
	}
	if got := texts(); len(got) != 1 || !reflect.DeepEqual(got[0], long.Body) {
		t.Errorf("%d records came back, or another text", len(got))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, dir, "UPDATE events SET body = substr(body, 1, 100) WHERE type = 'said'")
	s = openTest(t, Options{Dir: dir})
	defer s.Close()
	if _, quarantined := texts()[0].(td.Unreadable); !quarantined {
		t.Error("a torn body was read")
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) != 1 || found[0].Task != task.ID {
		t.Errorf("check found %+v, %v", found, err)
	}
}
