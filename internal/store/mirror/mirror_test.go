package mirror

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// task makes the same id for the same number in every run of a test.
func task(n int) td.TaskID { return td.TaskID(fmt.Sprintf("01890000-0000-7000-8000-%012x", n*7919)) }

func handle(n int) string { return td.Handle(td.TaskHandle, string(task(n)), td.HandleLength) }

func newMirror(t *testing.T, j *journal, path string) *Mirror {
	t.Helper()
	return New(Options{Journal: j, Path: path, Window: 5 * time.Millisecond, Retry: 10 * time.Millisecond})
}

// during runs the mirror while f does its work.
func during(t *testing.T, m *Mirror, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	f()
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited too long: %s", what)
		}
	}
}

// catchUp runs a new mirror until it has everything.
func catchUp(t *testing.T, j *journal, path string) {
	t.Helper()
	m := newMirror(t, j, path)
	during(t, m, func() { until(t, "mirrored", func() bool { return m.Mirrored() >= j.last() }) })
}

func gitOut(t *testing.T, path string, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"--git-dir", path}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

func refs(t *testing.T, path string) string {
	return gitOut(t, path, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
}

func fsck(t *testing.T, path string) {
	t.Helper()
	repo, err := git.OpenBare(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Fsck(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReadsWithPlainGit(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "conversations.git")
	j.add(task(1), life(task(1), 2)...)
	catchUp(t, j, path)

	log := gitOut(t, path, "log", "--reverse", "--format=%s", handle(1))
	want := strings.Join([]string{
		"created: make the test pass",
		"context set: iteration 1, rehearsal",
		"turn 1: I run the tests.",
		"turn 2: I run the tests.",
		"completed: the test passes",
	}, "\n")
	if log != want {
		t.Errorf("log:\n%s\nwant:\n%s", log, want)
	}
	if got := gitOut(t, path, "log", "-1", "--format=%an <%ae> %at %(trailers:key=Taskdaemon-Seq)%(trailers:key=Taskdaemon-Task)", handle(1)); got !=
		fmt.Sprintf("taskdaemon <taskdaemon@localhost> %d Taskdaemon-Seq: 12\nTaskdaemon-Task: %s", start.Unix()+12, task(1)) {
		t.Errorf("newest commit: %q", got)
	}
	if got := gitOut(t, path, "log", "-1", "--format=%b", handle(1)+"~"); !strings.HasPrefix(got, "- Bash go test ./...\n\nTaskdaemon-Seq: 11\n") {
		t.Errorf("body of a turn: %q", got)
	}
	files := gitOut(t, path, "ls-tree", "-r", "--name-only", handle(1))
	for _, f := range []string{"task.md", "spec.json", "state.json", "messages/0001-user.md", "messages/0002-assistant.md", "messages/0003-tool-Bash.md", "context/0001-system.md"} {
		if !slices.Contains(strings.Split(files, "\n"), f) {
			t.Errorf("no %s in:\n%s", f, files)
		}
	}
	page := gitOut(t, path, "show", handle(1)+":task.md")
	for _, w := range []string{"# make the test pass", "/home/ann/prog", "completed (the test passes)", "turns: 2", "cost: $0.0030", "Make it pass."} {
		if !strings.Contains(page, w) {
			t.Errorf("task.md does not say %q:\n%s", w, page)
		}
	}
	if got := gitOut(t, path, "show", handle(1)+":messages/0002-assistant.md"); !strings.Contains(got, "```json\n{\n  \"command\": \"go test ./...\"\n}\n```") {
		t.Errorf("answer:\n%s", got)
	}
	fsck(t, path)
}

// The same events give the same commits, however often and wherever the mirror was stopped.
func TestSameCommitsAfterAnyCut(t *testing.T) {
	whole := newJournal()
	lives := [][]td.Body{life(task(1), 3), life(task(2), 2), life(task(3), 0)}
	feed := func(j *journal, n int) { // the n-th body of each task, in turns
		for i, l := range lives {
			if n < len(l) {
				j.add(task(i+1), l[n])
			}
		}
	}
	for n := range lives[0] {
		feed(whole, n)
	}
	ref := filepath.Join(t.TempDir(), "whole.git")
	catchUp(t, whole, ref)

	for _, crash := range []string{"none", "before cursor", "cursor lost"} {
		t.Run(crash, func(t *testing.T) {
			j, path := newJournal(), filepath.Join(t.TempDir(), "cut.git")
			for n := range lives[0] {
				feed(j, n)
				if crash == "before cursor" {
					// A mirror that imports and dies before it records how far it has come.
					m := newMirror(t, j, path)
					repo, err := m.open(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for i := range lives {
						if _, err := m.sync(t.Context(), repo, task(i+1), false); err != nil {
							t.Fatal(err)
						}
					}
				}
				catchUp(t, j, path)
				if crash == "cursor lost" {
					if err := os.Remove(filepath.Join(path, cursorFile)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got, want := refs(t, path), refs(t, ref); got != want {
				t.Errorf("refs:\n%s\nwant:\n%s", got, want)
			}
			fsck(t, path)
		})
	}
}

func TestRebuildsDeletedRepository(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	j.add(task(1), life(task(1), 2)...)
	j.add(task(2), life(task(2), 1)[:3]...)
	m := newMirror(t, j, path)
	during(t, m, func() {
		until(t, "mirrored", func() bool { return m.Mirrored() == j.last() })
		before := refs(t, path)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		rest := life(task(2), 1)[3:]
		j.add(task(2), rest...)
		until(t, "rebuilt", func() bool { return m.Mirrored() == j.last() })
		after := refs(t, path)
		if l := strings.Split(before, "\n"); !strings.Contains(after, l[0]) && !strings.Contains(after, l[1]) {
			t.Errorf("the untouched branch changed:\n%s\nwas:\n%s", after, before)
		}
	})
	fresh := filepath.Join(t.TempDir(), "fresh.git")
	catchUp(t, j, fresh)
	if got, want := refs(t, path), refs(t, fresh); got != want {
		t.Errorf("refs:\n%s\nwant:\n%s", got, want)
	}
}

func TestFlush(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	m := New(Options{Journal: j, Path: path, Window: time.Hour}) // only a flush ends a batch
	l := life(task(1), 1)
	during(t, m, func() {
		for i, b := range l {
			j.add(task(1), b)
			tip, err := m.Flush(t.Context(), task(1))
			if err != nil {
				t.Fatal(err)
			}
			if want := gitOut(t, path, "rev-parse", handle(1)); tip != want || tip == "" {
				t.Errorf("flush %d: %q, want %q", i, tip, want)
			}
		}
	})
	if got := gitOut(t, path, "log", "-1", "--format=%s", handle(1)); got != "completed: the test passes" {
		t.Errorf("tip is %q", got)
	}
	if _, err := m.Flush(t.Context(), task(2)); !td.IsKind(err, td.NotFound) {
		t.Errorf("a task nobody knows: %v", err)
	}
}

// Who flushes in the middle of a turn finds what there is of it; what comes later is in a commit of its own, and nothing is there twice.
func TestFlushCutsATurn(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	l := life(task(1), 1)
	answered := slices.IndexFunc(l, func(b td.Body) bool { return b.Type() == td.StepEnded{}.Type() })
	j.add(task(1), l[:answered+2]...)
	catchUp(t, j, path)
	if got := gitOut(t, path, "log", "-1", "--format=%s", handle(1)); got != "context set: iteration 1, rehearsal" {
		t.Errorf("before the call has ended: %q", got)
	}
	m := newMirror(t, j, path)
	if _, err := m.Flush(t.Context(), task(1)); err != nil {
		t.Fatal(err)
	}
	if got := gitOut(t, path, "log", "-1", "--format=%s", handle(1)); got != "turn 1: I run the tests." {
		t.Errorf("flushed: %q", got)
	}
	if got := gitOut(t, path, "show", handle(1)+":messages/0002-assistant.md"); !strings.Contains(got, "go test ./...") {
		t.Errorf("answer: %q", got)
	}
	j.add(task(1), l[answered+2:]...)
	for _, m := range []*Mirror{m, newMirror(t, j, path)} { // the same mirror, and one that knows only what is in git
		if _, err := m.Flush(t.Context(), task(1)); err != nil {
			t.Fatal(err)
		}
	}
	want := "turn 1: I run the tests.\nturn 1: Bash go test ./...\ncompleted: the test passes"
	if got := gitOut(t, path, "log", "-3", "--reverse", "--format=%s", handle(1)); got != want {
		t.Errorf("log: %q", got)
	}
	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	kept, _, err := r.Tasks()
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	if evs, err := r.Records(kept[0]); err != nil || len(evs) != len(l) {
		t.Errorf("%d records, %v, want %d", len(evs), err, len(l))
	}
}

func TestStaleLockIsRemoved(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	j.add(task(1), life(task(1), 1)[:3]...)
	catchUp(t, j, path)
	old := time.Now().Add(-time.Minute)
	for _, name := range []string{"packed-refs.lock", "refs/heads/" + handle(1) + ".lock"} {
		lock := filepath.Join(path, name)
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(lock, old, old); err != nil {
			t.Fatal(err)
		}
	}
	j.add(task(1), life(task(1), 1)[3:]...)
	catchUp(t, j, path)
}

// A lock that is young may belong to a git that lives: it is waited for.
func TestYoungLockIsWaitedFor(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	j.add(task(1), life(task(1), 1)[:3]...)
	catchUp(t, j, path)
	lock := filepath.Join(path, "refs/heads/"+handle(1)+".lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j.add(task(1), life(task(1), 1)[3:]...)
	m := New(Options{Journal: j, Path: path, Window: time.Millisecond, Retry: 10 * time.Millisecond, StaleLock: 300 * time.Millisecond})
	during(t, m, func() { until(t, "mirrored", func() bool { return m.Mirrored() == j.last() }) })
	if st, err := os.Stat(lock); err == nil {
		t.Errorf("the lock is still there, from %s", st.ModTime())
	}
	if got := gitOut(t, path, "log", "-1", "--format=%s", handle(1)); got != "completed: the test passes" {
		t.Errorf("tip is %q", got)
	}
}

// A branch someone wrote to, moved or broke is kept and does not hold up the others.
func TestForeignBranches(t *testing.T) {
	full := func(n int) []td.Body { return life(task(n), 1) }
	for _, c := range []struct {
		name string
		harm func(t *testing.T, path string)
		kept bool
	}{
		{"deleted", func(t *testing.T, path string) { gitOut(t, path, "update-ref", "-d", "refs/heads/"+handle(1)) }, false},
		{"moved back", func(t *testing.T, path string) { gitOut(t, path, "branch", "-f", handle(1), handle(1)+"~1") }, false},
		{"other root", func(t *testing.T, path string) {
			tree := gitOut(t, path, "rev-parse", handle(1)+":messages")
			commit := gitOut(t, path, "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", tree, "-m", "mine")
			gitOut(t, path, "branch", "-f", handle(1), commit)
		}, true},
		{"objects lost", func(t *testing.T, path string) {
			lost := strings.Repeat("7", 40) + "\n"
			if err := os.WriteFile(filepath.Join(path, "refs/heads", handle(1)), []byte(lost), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/running=%v", c.name, running), func(t *testing.T) {
				j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
				m := newMirror(t, j, path)
				start := func() {
					j.add(task(1), full(1)[:4]...)
					j.add(task(2), full(2)[:4]...)
					until(t, "mirrored", func() bool { return m.Mirrored() == j.last() })
				}
				end := func() {
					c.harm(t, path)
					j.add(task(1), full(1)[4:]...)
					j.add(task(2), full(2)[4:]...)
					until(t, "mirrored", func() bool { return m.Mirrored() == j.last() })
				}
				if running {
					during(t, m, func() { start(); end() })
				} else {
					during(t, m, start)
					m = newMirror(t, j, path)
					during(t, m, end)
				}
				fresh := filepath.Join(t.TempDir(), "fresh.git")
				catchUp(t, j, fresh)
				if got, want := refs(t, path), refs(t, fresh); got != want {
					t.Errorf("refs:\n%s\nwant:\n%s", got, want)
				}
				if aside := gitOut(t, path, "for-each-ref", "refs/taskdaemon/aside"); (aside != "") != c.kept {
					t.Errorf("kept aside: %q", aside)
				}
			})
		}
	}
}

func TestCursorFailureIsRetried(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	j.noCursor = true
	j.add(task(1), life(task(1), 1)...)
	m := newMirror(t, j, path)
	during(t, m, func() {
		until(t, "imported", func() bool { return m.Mirrored() == j.last() })
		j.mu.Lock()
		j.noCursor = false
		j.mu.Unlock()
		j.add(task(2), life(task(2), 1)...)
		until(t, "recorded", func() bool { j.mu.Lock(); defer j.mu.Unlock(); return j.cursor == uint64(len(j.events)) })
	})
	if got := gitOut(t, path, "rev-list", "--count", handle(1)); got != "4" {
		t.Errorf("%s commits, want 4", got)
	}
}
