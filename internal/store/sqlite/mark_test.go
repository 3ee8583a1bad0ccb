package sqlite

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// ofVersion makes a closed journal one of an earlier version, with what takes away what later ones added.
func ofVersion(t testing.TB, dir string, version int, without ...string) {
	t.Helper()
	for _, sql := range append(without, "DROP TABLE commits", fmt.Sprintf("PRAGMA user_version = %d", version)) {
		tamper(t, dir, sql)
	}
	if err := os.Remove(filepath.Join(dir, markFile)); err != nil {
		t.Fatal(err)
	}
}

// killed is the state folder of a process that was killed after it made tasks with these titles, each acknowledged.
func killed(t *testing.T, titles ...string) (dir string) {
	t.Helper()
	from := t.TempDir()
	s := openTest(t, Options{Dir: from})
	defer s.Close()
	for _, title := range titles {
		if _, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), Title: title, CreatedAt: time.Unix(1, 0).UTC()}, ""); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	copyState(t, from, dir)
	return dir
}

func copyState(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{"journal.db", "journal.db-wal", markFile} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// change rewrites a file.
func change(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, how(raw), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A journal whose log was damaged, cut off, removed or is older than what was acknowledged is not gone on with, and stays as it is.
func TestRolledBack(t *testing.T) {
	log, db := "journal.db-wal", "journal.db"
	for name, wreck := range map[string]func(t *testing.T, dir string){
		"a bit of the log's first frame": func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, log), func(raw []byte) []byte { raw[100] ^= 1; return raw })
		},
		"a bit of its last frame": func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, log), func(raw []byte) []byte { raw[len(raw)-100] ^= 1; return raw })
		},
		"the log is cut off": func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, log), func(raw []byte) []byte { return raw[:len(raw)/2] })
		},
		"the log is empty": func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, log), func([]byte) []byte { return nil })
		},
		"the log is gone": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, log)); err != nil {
				t.Fatal(err)
			}
		},
		"all of it is gone": func(t *testing.T, dir string) {
			for _, name := range []string{log, db} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := killed(t, "one", "two", "three")
			wreck(t, dir)
			before := state(t, dir)
			if s, err := Open(t.Context(), Options{Dir: dir}); !td.IsKind(err, td.Corrupt) || !strings.Contains(err.Error(), "lacks records that were in it") {
				if err == nil {
					s.Close()
				}
				t.Fatalf("opened: %v", err)
			} else if !strings.Contains(td.HintOf(err), "doctor --rebuild") {
				t.Errorf("what to do: %q", td.HintOf(err))
			}
			if after := state(t, dir); after != before {
				t.Errorf("the files were changed: %s\nbefore: %s", after, before)
			}
			s := openTest(t, Options{Dir: dir, Behind: true})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), Options{Dir: dir}); !td.IsKind(err, td.Corrupt) {
				t.Errorf("after a look at it: %v", err)
			}
			s = openTest(t, Options{Dir: dir, Behind: true})
			if _, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), CreatedAt: time.Unix(1, 0).UTC()}, ""); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, Options{Dir: dir}) // it counts from here on
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// state are the names and contents of the journal's files, but for what any look at them makes.
func state(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"journal.db", "journal.db-wal", markFile} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) { // a look at a journal makes an empty log
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s: %d bytes, %x; ", name, len(raw), sha256.Sum256(raw))
	}
	return b.String()
}

// A kill at any moment leaves a mark that is not ahead of the journal.
func TestMarkIsNeverAhead(t *testing.T) {
	dir := killed(t, "one", "two")
	s := openTest(t, Options{Dir: dir})
	tasks, err := s.Tasks(t.Context(), allTasks)
	if err != nil || len(tasks) != 2 {
		t.Errorf("tasks: %+v, %v", tasks, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := readMark(dir); err != nil || n < 2 {
		t.Errorf("the mark after two groups: %d, %v", n, err)
	}
}

// A journal that ends before what others have seen of it is not gone on with either.
func TestSeenByOthers(t *testing.T) {
	dir := killed(t, "one", "two")
	if err := os.Remove(filepath.Join(dir, markFile)); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), Options{Dir: dir, Seen: 3}); !td.IsKind(err, td.Corrupt) {
		t.Fatalf("opened: %v, %v", s, err)
	}
	s := openTest(t, Options{Dir: dir, Seen: 2})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// An older copy of all that is in the folder is found by a mark that is not in it.
func TestMarkedOutside(t *testing.T) {
	dir, old, path := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "outside")
	marked := func() uint64 {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return ParseMark(raw)
	}
	add := func(s *Store) {
		if _, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), CreatedAt: time.Unix(1, 0).UTC()}, ""); err != nil {
			t.Fatal(err)
		}
	}
	s := openTest(t, Options{Dir: dir})
	add(s)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MarkOutside(f); err != nil || marked() == 0 {
		t.Fatalf("marked %d: %v", marked(), err)
	}
	copyState(t, dir, old)
	older := marked()
	add(s)
	if marked() <= older { // before the caller is told, and not when the journal is closed
		t.Errorf("marked %d after a group, %d before it", marked(), older)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), Options{Dir: old, Marked: marked()}); !td.IsKind(err, td.Corrupt) {
		t.Fatalf("an older copy is opened: %v, %v", s, err)
	}
	if s, err := Open(t.Context(), Options{Dir: t.TempDir(), Marked: marked()}); !td.IsKind(err, td.Corrupt) {
		t.Fatalf("an empty folder is opened: %v, %v", s, err)
	}
	s = openTest(t, Options{Dir: dir, Marked: marked()})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, Options{Dir: old, Marked: marked(), Behind: true})
	add(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, Options{Dir: old, Marked: marked()}) // it counts from where the other was
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A bit that flips in any page of the journal is found, in what a record says, too.
func TestFlippedInABody(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	if _, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), Title: "plank the hull", CreatedAt: time.Unix(1, 0).UTC()}, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	change(t, filepath.Join(dir, "journal.db"), func(raw []byte) []byte {
		at := bytes.Index(raw, []byte("plank the hull"))
		if at < 0 {
			t.Fatal("the title is not in the file")
		}
		raw[at] ^= 1
		return raw
	})
	if s, err := Open(t.Context(), Options{Dir: dir}); !td.IsKind(err, td.Corrupt) {
		t.Fatalf("opened: %v, %v", s, err)
	}
}

// A journal of an earlier version gets its checksums when it is opened.
func TestChecksumsOfAnOlderJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := dial(path, "", "page_size=4096", "journal_mode=delete")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join((&Store{dir: dir, path: path}).migrate(c, 0), c.close()); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "journal.db")); err != nil || raw[20] != 0 {
		t.Fatalf("reserved of each page: %d, %v", raw[20], err)
	}
	s := openTest(t, Options{Dir: dir})
	defer s.Close()
	if raw, err := os.ReadFile(filepath.Join(dir, "journal.db")); err != nil || raw[20] != 8 {
		t.Errorf("reserved of each page: %d, %v", raw[20], err)
	}
}

func FuzzMark(f *testing.F) {
	f.Add(markLine(7))
	f.Add([]byte("00000000000000000007 deadbeef\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if n := ParseMark(raw); n > 0 && !bytes.Equal(markLine(n), raw) {
			t.Errorf("%q is read as %d", raw, n)
		}
	})
}
