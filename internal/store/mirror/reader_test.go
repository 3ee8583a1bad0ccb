package mirror

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/td"
)

// What a mirror keeps is what the journal had, word for word, in however many turns it was written.
func TestRecordsComeBack(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	lives := map[td.TaskID][]td.Body{task(1): life(task(1), 3), task(2): life(task(2), 1)}
	for n := range 8 {
		for _, id := range []td.TaskID{task(1), task(2)} {
			if n < len(lives[id]) {
				j.add(id, lives[id][n])
			}
		}
		catchUp(t, j, path)
	}
	j.add(task(1), lives[task(1)][8:]...)
	catchUp(t, j, path)
	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	kept, wrong, err := r.Tasks()
	if err != nil || len(wrong) != 0 || len(kept) != 2 {
		t.Fatalf("%d tasks, %v, %v", len(kept), wrong, err)
	}
	for _, k := range kept {
		spec, err := r.Spec(k)
		if want := j.specs[k.Spec.ID]; err != nil || cmp.Diff(want, spec) != "" {
			t.Errorf("the spec is %+v, %v", spec, err)
		}
		got, err := r.Records(k)
		if err != nil {
			t.Fatal(err)
		}
		var want []td.Event
		for _, i := range j.byTask[k.Spec.ID] {
			ev := j.events[i]
			ev.Cursor = 0
			want = append(want, ev)
		}
		if diff := cmp.Diff(want[:len(got)], got); diff != "" || uint64(len(got)) != k.Live.Head || len(got) < len(want)-1 {
			t.Errorf("%d of %d records, the head is %d:\n%s", len(got), len(want), k.Live.Head, diff)
		}
	}
	if _, err := OpenReader(t.Context(), path+".none"); !td.IsKind(err, td.NotFound) {
		t.Errorf("where there is nothing: %v", err)
	}
}

// A journal that begins anew is mirrored from its beginning, though the one before was longer.
func TestJournalIsAnother(t *testing.T) {
	old, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	old.add(task(1), life(task(1), 3)...)
	catchUp(t, old, path)
	next := newJournal()
	next.add(task(2), life(task(2), 1)...)
	log := &lines{}
	m := New(Options{Journal: next, Path: path, Log: log.logger(), Window: 5 * time.Millisecond})
	during(t, m, func() {
		until(t, "mirrored", func() bool { return m.Mirrored() == next.last() })
	})
	if got := gitOut(t, path, "log", "-1", "--format=%s", handle(2)); got != "completed: the test passes" {
		t.Errorf("the newest commit is %q", got)
	}
	if log.count("another") != 1 {
		t.Error("nobody was told")
	}
}

func FuzzParseRecords(f *testing.F) {
	id := task(1)
	var raw []byte
	for i, b := range life(id, 1) {
		line, err := json.Marshal(td.Event{Seq: uint64(i + 1), Task: id, At: start, Body: b})
		if err != nil {
			f.Fatal(err)
		}
		raw = append(append(raw, line...), '\n')
	}
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
	f.Add([]byte("{}\n\n[]"))
	f.Add([]byte(`{"seq":1,"task":"x","type":"created","body":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		evs, err := parseRecords(raw, id, 1)
		if err != nil {
			return
		}
		for i, ev := range evs {
			if ev.Seq != uint64(i+1) || ev.Task != id || ev.Body == nil {
				t.Fatalf("record %d is %+v", i+1, ev)
			}
		}
	})
}
