package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

func TestBrokenFilesDoNotDisturbOthers(t *testing.T) {
	s, project := open(t)
	outside := write(t, t.TempDir(), "outside.md", "---\ntitle: stolen\n---\nsecret words\n")
	for name, content := range map[string]string{
		"fine.md":         "---\ntitle: Fine\ntags: a, b\ncreated_at: 2026-01-01\n---\nGood words.",
		"bare.md":         "---\n---\n",
		"no-matter.md":    "# Just a note\n",
		"unclosed.md":     "---\ntitle: x\n",
		"bad-yaml.md":     "---\ntitle: a\ntags: [x\n---\n",
		"bad-time.md":     "---\ntitle: a\ncreated_at: soon\n---\nx",
		"bad-file.md":     "---\ntitle: a\nfiles:\n  - a.go\n  - ../../etc/passwd\n---\nx",
		"bad-tags.md":     "---\ntags: {a: b}\n---\nx",
		"bomb.md":         "---\na: &a [x]\nb: [*a, *a]\n---\nx",
		"binary.md":       "\x7fELF\x00\x01",
		"huge.md":         "---\ntitle: x\n---\n" + strings.Repeat("x", maxFile),
		"ignored.txt":     "not a learning",
		".hidden.md":      "not a learning",
		"two\nlines.md":   "---\ntitle: x\n---\nx",
		"sub/inside.md":   "---\ntitle: x\n---\nnot looked at",
		"UPPER.md":        "---\ntitle: \"\\e[31mred\"\n---\n\x1b[31mloud",
		"latin.md":        "---\ntitle: \xe9\n---\n",
		"deep.md":         "---\na: " + strings.Repeat("[", 200) + "\n---\n",
		"empty.md":        "",
		"folder.md/x.txt": "",
	} {
		write(t, project, filepath.Join(Folder, name), content)
	}
	if err := os.Symlink(outside, filepath.Join(project, Folder, "link.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(project, Folder, "pipe.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, problems, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, l := range all {
		ids = append(ids, l.ID)
		if strings.ContainsAny(l.Title+l.Text, "\x1b") {
			t.Errorf("%s brings an escape code: %q", l.ID, l.Text)
		}
	}
	if got := strings.Join(ids, " "); got != "fine UPPER bare" {
		t.Errorf("learnings %q", got)
	}
	got := map[string]string{}
	for _, p := range problems {
		got[p.File] = p.Error()
	}
	for file, says := range map[string]string{
		"no-matter.md": ":1: ", "unclosed.md": "not closed", "bad-yaml.md": "bad-yaml.md:3: ", "bad-time.md": ":3: ", "bad-file.md": ":5: ",
		"bad-tags.md": ":2: a list", "bomb.md": "anchors", "binary.md": "UTF-8", "huge.md": "limit", "two lines.md": "printed",
		"latin.md": "UTF-8", "deep.md": "deeper", "empty.md": ":1: ", "folder.md": "regular", "link.md": "symlink", "pipe.md": "regular",
	} {
		if !strings.Contains(got[file], says) {
			t.Errorf("%s: %q does not say %q", file, got[file], says)
		}
		delete(got, file)
	}
	if len(got) != 0 {
		t.Errorf("more problems: %v", got)
	}
	found, err := s.Search(t.Context(), nil, "good secret words", 9)
	if got := titles(t, found, err); got != "Fine" {
		t.Errorf("found %q", got)
	}
	// A broken file's name is taken, and its content is somebody's.
	broken := newID(Learning{Title: "Taken", Text: "text"})
	write(t, project, filepath.Join(Folder, broken+".md"), "mine")
	if l := add(t, s, Learning{Title: "Taken", Text: "text"}); l.ID == broken || snapshotFile(t, project, broken) != "mine" {
		t.Errorf("%s was overwritten", broken)
	}
}

func snapshotFile(t *testing.T, project, id string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(project, Folder, id+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

func TestHandEditsAreNoticed(t *testing.T) {
	s, project := open(t)
	l := add(t, s, Learning{Title: "Before", Text: "old words"})
	path := filepath.Join(project, Folder, l.ID+".md")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// In place, of the same length, with the old time put back.
	if err := os.WriteFile(path, bytes.ReplaceAll([]byte(snapshotFile(t, project, l.ID)), []byte("old"), []byte("new")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	found, err := s.Search(t.Context(), nil, "new", 5)
	if got := titles(t, found, err); got != "Before" {
		t.Errorf("after an edit: %q", got)
	}
	write(t, project, Folder+"/pulled.md", "---\ntitle: Pulled\n---\nnew words")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	found, err = s.Search(t.Context(), nil, "new", 5)
	if got := titles(t, found, err); got != "Pulled" {
		t.Errorf("after a pull: %q", got)
	}
	if err := os.RemoveAll(filepath.Join(project, ".taskdaemon")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Remove(t.Context(), "pulled")
	wantKind(t, err, td.NotFound, "pulled")
	if all, _, err := s.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("without the folder: %v, %v", all, err)
	}
}

// writeMany makes so many learnings that not all are looked at before every answer, none of them changed just now.
func writeMany(t *testing.T, project string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	for i := range fewFiles + 1 {
		path := write(t, project, fmt.Sprintf("%s/n%d.md", Folder, i), fmt.Sprintf("---\ntitle: Number %d\n---\nnumber n%d", i, i))
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
}

// With many files not all of them are looked at before each answer.
func TestManyFiles(t *testing.T) {
	for name, unheard := range map[string]bool{"the kernel tells": false, "the kernel cannot tell": true} {
		t.Run(name, func(t *testing.T) {
			s, project := open(t)
			dir := filepath.Join(project, Folder)
			writeMany(t, project)
			if unheard {
				var on syscall.Statfs_t
				if err := syscall.Statfs(dir, &on); err != nil {
					t.Fatal(err)
				}
				elsewhere = append(elsewhere, uint32(on.Type))
				t.Cleanup(func() { elsewhere = elsewhere[:len(elsewhere)-1] })
			}
			settle := func() { // as if nothing had happened for a while
				t.Helper()
				old := time.Now().Add(-time.Hour)
				if err := os.Chtimes(dir, old, old); err != nil {
					t.Fatal(err)
				}
				if all, _, err := s.List(t.Context()); err != nil || len(all) < fewFiles {
					t.Fatal(len(all), err)
				}
			}
			check := func(why, ask, want string) {
				t.Helper()
				found, err := s.Search(t.Context(), nil, ask, 1)
				if got := titles(t, found, err); got != want {
					t.Errorf("%s: %q, want %q", why, got, want)
				}
			}
			settle()
			check("read", "n1234", "Number 1234")
			write(t, project, Folder+"/new.md", "---\ntitle: New\n---\nzebra")
			check("a new file", "zebra", "New")
			settle()
			write(t, project, Folder+"/new.md", "---\ntitle: New\n---\ngiraffe")
			if unheard {
				check("an edit in place, at once", "giraffe", "")
			} else {
				check("an edit in place, at once", "giraffe", "New")
			}
			s.last.at = s.last.at.Add(-lookAgain)
			check("an edit in place, later", "giraffe", "New")
			if err := os.Remove(filepath.Join(dir, "new.md")); err != nil {
				t.Fatal(err)
			}
			check("a file is gone", "giraffe", "")
			if err := os.Rename(filepath.Dir(dir), filepath.Dir(dir)+".old"); err != nil {
				t.Fatal(err)
			}
			write(t, project, Folder+"/other.md", "---\ntitle: Other\n---\nlemur")
			check("another folder in its place", "lemur", "Other")
		})
	}
}

// While the kernel tells of nothing the files are not looked at, but for once in a while.
func TestQuietFolderIsNotLookedAt(t *testing.T) {
	s, project := open(t)
	writeMany(t, project)
	looked := func(why string, want bool) {
		t.Helper()
		was := s.last.at
		if _, err := s.Search(t.Context(), nil, "n1", 1); err != nil {
			t.Fatal(err)
		}
		if got := s.last.at != was; got != want {
			t.Errorf("%s: looked at all of them: %v", why, got)
		}
	}
	looked("at first", true)
	s.last.at = s.last.at.Add(-2 * lookAgain)
	looked("nothing happened", false)
	write(t, project, Folder+"/n1.md", "---\ntitle: Number 1\n---\nnumber n1 and more")
	looked("one file changed", false)
	s.last.at = s.last.at.Add(-longAgain)
	looked("after a while", true)
	s.unwatch()
	looked("it cannot tell any more", true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.unwatch()
	write(t, project, Folder+"/unseen.md", "---\ntitle: Unseen\n---\ngnu")
	_, err := s.Search(ctx, nil, "gnu", 1)
	wantKind(t, err, td.Interrupted, "")
	found, err := s.Search(t.Context(), nil, "gnu", 1)
	if got := titles(t, found, err); got != "Unseen" {
		t.Errorf("after a look that was cut off: %q", got)
	}
	if err := s.ix.db.Exec("PRAGMA query_only=1"); err != nil {
		t.Fatal(err)
	}
	write(t, project, Folder+"/unheard.md", "---\ntitle: Unheard\n---\nokapi")
	if _, err := s.Search(ctx, nil, "okapi", 1); err == nil {
		t.Error("what cannot be written was")
	}
	if err := s.ix.db.Exec("PRAGMA query_only=0"); err != nil {
		t.Fatal(err)
	}
	found, err = s.Search(t.Context(), nil, "okapi", 1)
	if got := titles(t, found, err); got != "Unheard" {
		t.Errorf("after it could not be read: %q", got)
	}
}

func FuzzReadHeard(f *testing.F) {
	event := func(mask, length uint32, name string) []byte {
		raw := make([]byte, syscall.SizeofInotifyEvent, 64)
		binary.NativeEndian.PutUint32(raw[4:], mask)
		binary.NativeEndian.PutUint32(raw[12:], length)
		return append(raw, name...)
	}
	f.Add(append(event(syscall.IN_MODIFY, 8, "one.md\x00\x00"), event(syscall.IN_CREATE, 8, "x.tmp\x00\x00\x00")...))
	f.Add(event(syscall.IN_Q_OVERFLOW, 0, ""))
	f.Add(event(syscall.IN_MODIFY, 1<<31, "x"))
	f.Add(event(syscall.IN_MODIFY, 4, ".md\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ids, _ := readHeard(raw)
		for _, id := range ids {
			if strings.HasPrefix(id, ".") || strings.Contains(id, "\x00") {
				t.Errorf("it heard of %q", id)
			}
		}
	})
}

func TestReadHeard(t *testing.T) {
	raw := make([]byte, syscall.SizeofInotifyEvent)
	if ids, ok := readHeard(raw); !ok || len(ids) > 0 {
		t.Errorf("of the folder itself: %q, %v", ids, ok)
	}
	for _, lost := range []uint32{syscall.IN_Q_OVERFLOW, syscall.IN_IGNORED, syscall.IN_DELETE_SELF, syscall.IN_MOVE_SELF} {
		binary.NativeEndian.PutUint32(raw[4:], lost)
		if _, ok := readHeard(raw); ok {
			t.Errorf("%#x: it claims to know", lost)
		}
	}
}

func TestIndexFile(t *testing.T) {
	project, index := t.TempDir(), filepath.Join(t.TempDir(), "state", "knowledge.db")
	first := reopen(t, project, index)
	add(t, first, Learning{Title: "Kept", Text: "some words"})
	check := func(why string, s *Store, trouble string) {
		t.Helper()
		found, err := s.Search(t.Context(), nil, "words", 5)
		if got := titles(t, found, err); got != "Kept" {
			t.Errorf("%s: found %q", why, got)
		}
		_, problems, err := s.List(t.Context())
		if err != nil || (trouble == "") != (len(problems) == 0) || trouble != "" && !strings.Contains(problems[0].Msg, trouble) {
			t.Errorf("%s: problems %v, %v", why, problems, err)
		}
	}
	check("made", first, "")
	check("a second process", reopen(t, project, index), "another process")
	if err := first.ix.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openIndex(index, project)
	if err != nil || len(again.known) != 1 {
		t.Fatalf("taken up with %v, %v", again, err)
	}
	if err := again.close(); err != nil {
		t.Fatal(err)
	}
	if err := first.openIndex(); err != nil {
		t.Fatal(err)
	}
	check("taken up", first, "")
	if err := first.ix.db.Exec("DROP TABLE doc"); err != nil {
		t.Fatal(err)
	}
	check("damaged while open", first, "")
	if err := first.ix.close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(index), "knowledge.db", strings.Repeat("not a database ", 1000))
	if err := first.openIndex(); err != nil {
		t.Fatal(err)
	}
	check("garbage", first, "")
	check("in a file's place", reopen(t, project, filepath.Join(index, "sub", "x.db")), "cannot be used")
}

func TestFolderTrouble(t *testing.T) {
	t.Run("no project", func(t *testing.T) {
		s := reopen(t, filepath.Join(t.TempDir(), "none"), "")
		_, _, err := s.List(t.Context())
		wantKind(t, err, td.Unavailable, "none")
	})
	t.Run("symlink out of the project", func(t *testing.T) {
		project, elsewhere := t.TempDir(), t.TempDir()
		if err := os.Symlink(elsewhere, filepath.Join(project, ".taskdaemon")); err != nil {
			t.Fatal(err)
		}
		s := reopen(t, project, "")
		_, _, err := s.Add(t.Context(), Learning{Text: "x"})
		if err == nil {
			t.Error("it followed the symlink")
		}
		if left, _ := os.ReadDir(elsewhere); len(left) != 0 {
			t.Errorf("it wrote %v", left)
		}
		write(t, elsewhere, "knowledge/a.md", "---\ntitle: A\n---\nwords")
		if all, _, err := s.List(t.Context()); err == nil {
			t.Errorf("it read %v", all)
		}
	})
	t.Run("symlink within the project", func(t *testing.T) {
		project := t.TempDir()
		write(t, project, "secret/knowledge/a.md", "---\ntitle: A\n---\nwords")
		if err := os.Symlink("secret", filepath.Join(project, ".taskdaemon")); err != nil {
			t.Fatal(err)
		}
		s := reopen(t, project, "")
		if all, _, err := s.List(t.Context()); !td.IsKind(err, td.Refused) {
			t.Errorf("it read %v, %v", all, err)
		}
		if _, _, err := s.Add(t.Context(), Learning{Text: "x"}); !td.IsKind(err, td.Refused) {
			t.Errorf("it wrote: %v", err)
		}
	})
	t.Run("a file in its place", func(t *testing.T) {
		project := t.TempDir()
		write(t, project, Folder, "x")
		_, _, err := reopen(t, project, "").List(t.Context())
		wantKind(t, err, td.Refused, Folder)
	})
	t.Run("read-only", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root may write everywhere")
		}
		project := t.TempDir()
		write(t, project, Folder+"/a.md", "---\ntitle: A\n---\nwords")
		dir := filepath.Join(project, Folder)
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
		s := reopen(t, project, "")
		_, _, err := s.Add(t.Context(), Learning{Text: "x"})
		wantKind(t, err, td.Storage, "write")
		found, err := s.Search(t.Context(), nil, "words", 5)
		if got := titles(t, found, err); got != "A" {
			t.Errorf("found %q", got)
		}
	})
	t.Run("locked", func(t *testing.T) {
		s, project := open(t)
		add(t, s, Learning{Text: "x"})
		f, err := openFolder(project, false)
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		unlock, err := f.lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*lockWait)
		defer cancel()
		_, _, err = s.Add(ctx, Learning{Text: "y"})
		wantKind(t, err, td.Locked, "another process")
		unlock()
		add(t, s, Learning{Text: "y"})
	})
}

// Several processes add at once: each has a store of its own.
func TestManyWriters(t *testing.T) {
	project := t.TempDir()
	var wg sync.WaitGroup
	for w := range 4 {
		s := reopen(t, project, "")
		wg.Go(func() {
			for i := range 10 {
				l := Learning{Title: fmt.Sprintf("Shared %d", i), Text: fmt.Sprintf("unique%d said by writer%d", i, w)}
				if _, _, err := s.Add(t.Context(), l); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, problems, err := reopen(t, project, "").List(t.Context())
	if err != nil || len(problems) != 0 || len(all) != 10 {
		t.Fatalf("%d learnings, %v, %v", len(all), problems, err)
	}
	for _, l := range all {
		if n := len(paragraphs(l.Text)); n != 4 {
			t.Errorf("%s has %d paragraphs: an update was lost: %q", l.Title, n, l.Text)
		}
	}
}

// A process that is killed while it adds leaves the old state or the new one, and adding again completes it.
func TestKilledWhileAdding(t *testing.T) {
	if project := os.Getenv("MEMORY_TEST_PROJECT"); project != "" {
		s := reopen(t, project, "")
		for i := 0; ; i++ {
			add(t, s, Learning{Title: "Grows", Text: fmt.Sprintf("paragraph %d", i)})
			fmt.Println("added", i)
		}
	}
	for round := range 5 {
		project := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileAdding$")
		cmd.Env = append(os.Environ(), "MEMORY_TEST_PROJECT="+project)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(60+round*37)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err == nil || errors.Is(err, exec.ErrWaitDelay) {
			t.Errorf("it ended by itself: %v", err)
		}
		kill.Stop()
		acked := strings.Count(out.String(), "added ")
		s := reopen(t, project, "")
		if acked > 0 {
			l, err := s.Get(t.Context(), "grows")
			if err != nil {
				t.Fatal(err)
			}
			if n := len(paragraphs(l.Text)); n != acked && n != acked+1 {
				t.Errorf("%d paragraphs after %d were acknowledged", n, acked)
			}
		}
		l := add(t, s, Learning{Title: "Grows", Text: fmt.Sprintf("paragraph %d", acked)})
		if n := len(paragraphs(l.Text)); n != acked+1 {
			t.Errorf("%d paragraphs after the %d-th was added again", n, acked+1)
		}
		if left, _ := filepath.Glob(filepath.Join(project, Folder, ".*")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestFormatIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := clean(Learning{
			Kind: rapid.SampledFrom(td.LearningKinds).Draw(t, "kind"), Title: rapid.String().Draw(t, "title"), Text: rapid.String().Draw(t, "text") + "x", Tags: rapid.SliceOf(rapid.String()).Draw(t, "tags"),
			Feature: rapid.String().Draw(t, "feature"), Sources: rapid.SliceOf(rapid.String()).Draw(t, "sources"),
			Files:     []File{{Path: "a b: c.go"}, {Path: "1", Hash: strings.Repeat("1e", 32)}},
			CreatedAt: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0),
		})
		if err != nil {
			t.Skip("refused")
		}
		l.ID = newID(l)
		p, err := parsePage(l.ID, page{Learning: l, extra: "x: 1\n"}.format())
		if err != nil {
			t.Fatal(err)
		}
		if !same(p.Learning, l) || p.extra != "x: 1\n" {
			t.Fatal(cmp.Diff(l, p.Learning))
		}
	})
}

func FuzzParsePage(f *testing.F) {
	for _, s := range []string{
		"---\ntitle: x\nkind: Decision\ntags: [a]\nfeature: f\nsources: s\nfiles:\n  - path: a\n    hash: ''\ncreated_at: 2026-01-01\nextra: 1\n---\n\ntext\n",
		"---\nfiles: [a, {path: b}]\n---\n", "---\n---\n", "---\ntitle: |\n  x\n  y\n---\n```\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := parsePage("id", src)
		if err != nil {
			return
		}
		// What was read can be written and read again, and merging it with itself changes nothing.
		again, err := parsePage("id", p.format())
		if err != nil || !same(p.Learning, again.Learning) {
			t.Fatalf("%v\n%q", err, p.format())
		}
		if m, ok := merge(p.Learning, p.Learning); ok && !same(m, p.Learning) {
			t.Fatalf("merged with itself: %q", m.Text)
		}
	})
}
