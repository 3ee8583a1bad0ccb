package mirror

import (
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

// tellJournal appends the lives of three tasks to a real journal, with the times of the events fixed.
func tellJournal(t *testing.T, j store.Journal) {
	t.Helper()
	ctx := t.Context()
	for i := 1; i <= 3; i++ {
		l := life(task(i), i)
		made, err := j.Create(ctx, l[0].(td.Created).Spec, "key of "+handle(i))
		if err != nil {
			t.Fatal(err)
		}
		claim, err := j.Claim(ctx, made.ID, td.Holder{Host: "here", Pid: 1})
		if err != nil {
			t.Fatal(err)
		}
		for n, b := range l[1:] {
			ev := td.Event{Task: made.ID, At: start.Add(time.Duration(n) * time.Second), Body: b}
			if made, err = j.Append(ctx, claim, made.Head, ev); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// mirrorAll mirrors a real journal to its end.
func mirrorAll(t *testing.T, j store.Journal, path string) {
	t.Helper()
	last, err := j.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := New(Options{Journal: j, Path: path, Window: 5 * time.Millisecond})
	during(t, m, func() { until(t, "mirrored", func() bool { return m.Mirrored() >= last }) })
	if at, err := j.Cursor(t.Context(), cursorName); err != nil || at != last {
		t.Errorf("cursor in the journal: %d, %v; want %d", at, err, last)
	}
}

// The commits follow from the events, not from the store that kept them nor from how often it was opened.
func TestRealJournals(t *testing.T) {
	dir := t.TempDir()
	inMemory := mem.New(nil)
	tellJournal(t, inMemory)
	mirrorAll(t, inMemory, dir+"/mem.git")
	if err := inMemory.Close(); err != nil {
		t.Fatal(err)
	}

	state := filepath.Join(dir, "state")
	j, err := sqlite.Open(t.Context(), sqlite.Options{Dir: state})
	if err != nil {
		t.Fatal(err)
	}
	tellJournal(t, j)
	mirrorAll(t, j, dir+"/disk.git")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = sqlite.Open(t.Context(), sqlite.Options{Dir: state}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	mirrorAll(t, j, dir+"/again.git")

	want := refs(t, dir+"/mem.git")
	for _, repo := range []string{"disk.git", "again.git"} {
		if got := refs(t, filepath.Join(dir, repo)); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", repo, got, want)
		}
	}

	// What retention lets go of stays in the mirror.
	last, err := j.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, err := j.Trim(t.Context(), store.Retention{Now: start.Add(1000 * time.Hour), Completed: time.Hour, Failed: time.Hour, Audit: 1e6 * time.Hour, Mirrored: last})
	if err != nil || gone.Events == 0 {
		t.Fatalf("trimmed %+v, %v", gone, err)
	}
	mirrorAll(t, j, dir+"/again.git")
	if got := refs(t, dir+"/again.git"); got != want {
		t.Errorf("after retention:\n%s\nwant:\n%s", got, want)
	}
	mirrorAll(t, j, dir+"/late.git") // made anew from what is left
	if got := gitOut(t, dir+"/late.git", "log", "-1", "--format=%s", handle(1)); got != "completed: the test passes" {
		t.Errorf("made from what is left: %q", got)
	}
	fsck(t, dir+"/late.git")
}
