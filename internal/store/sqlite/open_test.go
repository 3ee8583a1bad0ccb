package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"taskdaemon/internal/td"
)

// wantError checks an error's kind, and that it names what a person needs to know.
func wantError(t *testing.T, err error, kind td.Kind, words ...string) {
	t.Helper()
	if !td.IsKind(err, kind) {
		t.Fatalf("got %v of kind %s, want %s", err, td.KindOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error()+td.HintOf(err), w) {
			t.Errorf("%q does not say %q (hint %q)", err, w, td.HintOf(err))
		}
	}
}

// refuses opens a folder that must be refused, and checks that the journal's files stay as they are.
func refuses(t *testing.T, dir string, kind td.Kind, words ...string) {
	t.Helper()
	before := files(t, dir)
	s, err := Open(t.Context(), Options{Dir: dir})
	if err == nil {
		_ = s.Close()
	}
	wantError(t, err, kind, append(words, filepath.Join(dir, "journal.db"))...)
	after := files(t, dir)
	for name, raw := range before {
		if !bytes.Equal(raw, after[name]) {
			t.Errorf("%s was changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there were %d files, now %d", len(before), len(after))
	}
}

// files are the journal's database and log.
func files(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range []string{"journal.db", "journal.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			out[name] = raw
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return out
}

// filled makes a closed journal with some tasks in it.
func filled(t testing.TB, tasks int) string {
	t.Helper()
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	w := scribbler{s: s}
	for i := range tasks {
		task, c := w.begin(t)
		if _, err := s.Append(t.Context(), c, task.Head, said(fmt.Sprint("hello ", i)), said(strings.Repeat("long ", 200))); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tamper changes a closed journal with SQL, as no program of ours would.
func tamper(t testing.TB, dir, sql string, args ...any) {
	t.Helper()
	c, err := dial(filepath.Join(dir, "journal.db"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.exec(sql, args...), c.exec("PRAGMA wal_checkpoint(truncate)"), c.close()); err != nil {
		t.Fatal(err)
	}
}

// Where people keep their state is none of our business.
func TestOpenAnywhere(t *testing.T) {
	for _, name := range []string{"a space", "per%cent", "per%20cent", "que?stion", "ha#sh", "a+b", "a&b=c", "ünïcödé", "quo\"te", "apos'trophe", "back\\slash", strings.Repeat("long", 40)} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, Options{Dir: dir})
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		openTest(t, Options{Dir: dir})
	}
}

func TestOpenForeign(t *testing.T) {
	other := func(t *testing.T) []byte {
		path := filepath.Join(t.TempDir(), "other.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := dial(path, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.exec("CREATE TABLE precious (x)"), c.close()); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, raw := range map[string][]byte{
		"empty": {}, "text": []byte(strings.Repeat("dear diary\n", 50)), "short text": []byte("hello"), "another program's": other(t),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "journal.db"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
			refuses(t, dir, td.Corrupt, "left as it is")
		})
	}
}

func TestOpenNewer(t *testing.T) {
	dir := filled(t, 1)
	tamper(t, dir, "PRAGMA user_version = 99")
	refuses(t, dir, td.Newer, "99", fmt.Sprint(len(steps)))
}

func TestOpenLocked(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	_, err := Open(t.Context(), Options{Dir: dir})
	wantError(t, err, td.Locked, fmt.Sprint(os.Getpid()), dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, Options{Dir: dir})
}

func TestOpenDamaged(t *testing.T) {
	garbage := bytes.Repeat([]byte("garbage "), 512)
	damages := map[string]func(raw []byte) []byte{
		"a page":         func(raw []byte) []byte { copy(raw[5*4096:], garbage); return raw },
		"the first page": func(raw []byte) []byte { copy(raw[100:4096], garbage); return raw },
		"cut off":        func(raw []byte) []byte { return raw[:len(raw)/2] },
		"cut to header":  func(raw []byte) []byte { return raw[:60] },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, 20)
			tamper(t, dir, "UPDATE meta SET value = 'no' WHERE key = 'clean'") // as after a crash
			path := filepath.Join(dir, "journal.db")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			refuses(t, dir, td.Corrupt, ".clone")
		})
	}
	t.Run("gone, with its log left", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "journal.db-wal"), garbage, 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, dir, td.Corrupt)
	})
	t.Run("without a table", func(t *testing.T) {
		dir := filled(t, 1)
		tamper(t, dir, "DROP TABLE meta")
		refuses(t, dir, td.Corrupt)
	})
}

// TestQuarantine damages single records and wants everything else to go on.
func TestQuarantine(t *testing.T) {
	dir := filled(t, 3)
	s := openTest(t, Options{Dir: dir})
	tasks, err := s.Tasks(t.Context(), allTasks)
	if err != nil {
		t.Fatal(err)
	}
	victim := tasks[1].ID
	c, err := s.Claim(t.Context(), victim, td.Holder{Pid: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), c, tasks[1].Head, said(strings.Repeat("b", blobOver))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, dir, "UPDATE events SET body = CAST('{\"text\": 5' AS BLOB) WHERE seq = 2 AND task = (SELECT n FROM tasks WHERE id = ?)", string(victim))
	tamper(t, dir, "UPDATE events SET type = 'never heard of' WHERE seq = 3 AND task = (SELECT n FROM tasks WHERE id = ?)", string(victim))
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
	if err != nil || len(blobs) != 1 {
		t.Fatal(blobs, err)
	}
	raw, err := os.ReadFile(blobs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blobs[0], bytes.ReplaceAll(raw, []byte("bbb"), []byte("bbc")), 0o600); err != nil {
		t.Fatal(err)
	}

	s = openTest(t, Options{Dir: dir})
	var read []td.Event
	for ev, err := range s.Read(t.Context(), victim, 0) {
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, ev)
	}
	if len(read) != 4 {
		t.Fatalf("read %d events", len(read))
	}
	for _, ev := range read[1:] {
		if u, ok := ev.Body.(td.Unreadable); !ok || u.Err == "" {
			t.Errorf("event %d is %#v", ev.Seq, ev.Body)
		}
	}
	found, err := s.Check(t.Context())
	if err != nil || len(found) != 3 {
		t.Fatalf("check found %+v, %v", found, err)
	}
	for _, p := range found {
		if p.Task != victim {
			t.Errorf("blamed %+v", p)
		}
	}
	c, err = s.Claim(t.Context(), victim, td.Holder{Pid: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), c, read[3].Seq, said("goes on")); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFinds(t *testing.T) {
	for name, sql := range map[string]string{
		"another fold":     "UPDATE lives SET live = CAST(replace(CAST(live AS TEXT), '\"turns\":0', '\"turns\":7') AS BLOB) WHERE task = 2",
		"the newest event": "DELETE FROM events WHERE seq = 3 AND task = 2",
		"a missing event":  "DELETE FROM events WHERE seq = 2 AND task = 2",
		"a request":        "INSERT INTO requests VALUES (2, '00000000-0000-7000-8000-000000000001', 'q-x')",
		"an illegal event": "UPDATE events SET type = 'moved', body = CAST('{\"verb\":\"reset\",\"from\":\"failed\"}' AS BLOB) WHERE seq = 2 AND task = 2",
		"no live":          "UPDATE lives SET live = x'00' WHERE task = 2",
		"no spec":          "DELETE FROM specs WHERE task = 2",
		"another state":    "UPDATE tasks SET state = 'failed' WHERE n = 2",
		"wrong counts":     "UPDATE counts SET tasks = tasks + 1",
		"a lost tally":     "UPDATE tallies SET count = count - 1 WHERE type = 'created'",
		"wrong sums":       "INSERT INTO spend_sums VALUES ('2030-01-02', 'm', 'turn', 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t, 3)
			s := openTest(t, Options{Dir: dir})
			if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
				t.Fatalf("found %+v, %v in a sound journal", found, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			tamper(t, dir, sql)
			s = openTest(t, Options{Dir: dir})
			found, err := s.Check(t.Context())
			if err != nil || len(found) == 0 {
				t.Fatalf("found %+v, %v", found, err)
			}
			if _, err := s.Tasks(t.Context(), allTasks); err != nil {
				t.Fatalf("one bad task hides all others: %v", err)
			}
		})
	}
}

// relink is what docs/journal.md says to do after a repair.
const relink = `UPDATE events SET prev = x.p FROM (SELECT cursor AS c, lag(cursor, 1, 0) OVER (PARTITION BY task ORDER BY seq) AS p
    FROM events) AS x WHERE x.c = events.cursor AND x.p <> events.prev;
  UPDATE lives SET newest = x.c FROM (SELECT task AS t, max(cursor) AS c FROM events GROUP BY task) AS x WHERE x.t = lives.task;
  DELETE FROM counts; INSERT INTO counts SELECT state, count(*) FROM tasks WHERE n > 0 GROUP BY state;
  DELETE FROM spend_sums; INSERT INTO spend_sums SELECT day, model, cause, sum(amount), sum(calls), sum(unpriced), sum(input),
    sum(output), sum(cache_read), sum(cache_write), sum(estimated), sum(replayed), sum(tokens) FROM spend GROUP BY day, model, cause;`

// TestRepair does word for word what the hint of a damaged journal and the documentation say.
func TestRepair(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("the repair needs the sqlite3 shell")
	}
	doc, err := os.ReadFile("../../../docs/journal.md")
	if err != nil || !bytes.Contains(doc, []byte(relink)) {
		t.Errorf("docs/journal.md does not have the words that mend the chains (%v)", err)
	}
	dir := filled(t, 40)
	path := filepath.Join(dir, "journal.db")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(raw, []byte("hello 20")) / 4096 * 4096 // a page of events
	copy(raw[at:], bytes.Repeat([]byte{0xff}, 4096))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	tamper(t, dir, "UPDATE meta SET value = 'no' WHERE key = 'clean'")
	_, err = Open(t.Context(), Options{Dir: dir})
	_, commands, _ := strings.Cut(td.HintOf(err), "can be read: ")
	commands, _, _ = strings.Cut(commands, "; docs/")
	sh := exec.Command("sh", "-c", commands+" && sqlite3 fixed.db \""+relink+"\" && mv fixed.db journal.db && rm -f journal.db-wal journal.db-shm")
	sh.Dir = dir
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := openTest(t, Options{Dir: dir})
	tasks, err := s.Tasks(t.Context(), allTasks)
	if err != nil || len(tasks) != 40 {
		t.Fatalf("%d tasks came back, %v", len(tasks), err)
	}
	whole := 0
	for _, task := range tasks {
		n := 0
		for _, err := range s.Read(t.Context(), task.ID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n == 3 {
			whole++
		}
	}
	if whole < 30 {
		t.Errorf("only %d of 40 tasks are whole", whole)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) == 0 {
		t.Errorf("check found %v, %v: it does not say what was lost", found, err)
	}
}

// TestMigrate runs a step that is not released yet, first one that fails.
func TestMigrate(t *testing.T) {
	dir := filled(t, 2)
	released := steps
	defer func() { steps = released }()
	steps = append(steps[:len(steps):len(steps)], step{sql: "CREATE TABLE fresh (x); CREATE TABLE tasks (x)"})
	_, err := Open(t.Context(), Options{Dir: dir})
	wantError(t, err, td.Internal, fmt.Sprintf("version %d", len(released)+1))
	steps = released
	if err := openTest(t, Options{Dir: dir}).Close(); err != nil { // nothing of it stayed
		t.Fatal(err)
	}
	steps = append(steps[:len(steps):len(steps)], step{sql: "CREATE TABLE fresh (x)", then: func(_ *Store, c *conn) error {
		return c.exec("INSERT INTO fresh SELECT count(*) FROM tasks")
	}})
	if err := openTest(t, Options{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := openTest(t, Options{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	steps = released
	refuses(t, dir, td.Newer, fmt.Sprint(len(steps)+1), fmt.Sprint(len(steps)))
}

func TestSweepSparesWhatIsNeeded(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	body := func(c string) []byte { return bytes.Repeat([]byte(c), blobOver+1) }
	orphan, release, err := s.blobs.put(body("o"))
	if err != nil {
		t.Fatal(err)
	}
	release()
	busy, releaseBusy, err := s.blobs.put(body("b"))
	if err != nil {
		t.Fatal(err)
	}
	w := scribbler{s: s}
	task, c := w.begin(t)
	if _, err := s.Append(t.Context(), c, task.Head, said(string(body("k")))); err != nil {
		t.Fatal(err)
	}
	exists := func(h hash) bool { _, err := os.Stat(s.blobs.path(h)); return err == nil }
	if n, err := s.sweep(t.Context()); err != nil || n != 1 || exists(orphan) || !exists(busy) {
		t.Fatalf("swept %d, %v", n, err)
	}
	releaseBusy()
	if n, err := s.sweep(t.Context()); err != nil || n != 1 {
		t.Fatalf("swept %d, %v", n, err)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Fatalf("found %+v, %v", found, err)
	}
}

// TestGroupIsolates puts an op that the database refuses into one group with others.
func TestGroupIsolates(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir()})
	hold, held := make(chan struct{}), make(chan struct{})
	results := make(chan error, 3)
	go func() {
		results <- s.w.do(t.Context(), func(*tx) error { close(held); <-hold; return nil })
	}()
	<-held
	insert := func(n int) func(*tx) error {
		return func(t *tx) error { return t.exec("INSERT INTO cursors VALUES (?, 1)", fmt.Sprint(n)) }
	}
	go func() { results <- s.w.do(t.Context(), insert(1)) }()
	go func() {
		results <- s.w.do(t.Context(), func(t *tx) error { return t.exec("INSERT INTO cursors VALUES (NULL, NULL)") })
	}()
	for queued := 0; queued < 2; {
		s.w.mu.Lock()
		queued = len(s.w.queue)
		s.w.mu.Unlock()
	}
	close(hold)
	failed := 0
	for range 3 {
		if <-results != nil {
			failed++
		}
	}
	if at, err := s.Cursor(t.Context(), "1"); failed != 1 || at != 1 || err != nil {
		t.Fatalf("%d failed, the good one is at %d, %v", failed, at, err)
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := filled(t, 2)
	if info, err := os.Stat(filepath.Join(dir, "journal.db-wal")); err == nil && info.Size() > 0 {
		t.Errorf("the log has %d bytes after Close", info.Size())
	}
}

// TestOpenIsQuick opens a journal of many tasks, after a crash and after an orderly stop.
func TestOpenIsQuick(t *testing.T) {
	tasks := 10_000
	if testing.Short() {
		tasks = 1000
	}
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	done := make(chan error)
	const writers = 64
	for range writers {
		go func() {
			for range tasks / writers {
				id := td.NewTaskID()
				task, err := s.Create(t.Context(), td.Spec{ID: id, Prompt: strings.Repeat("do it ", 50), Dir: "/w"}, "")
				if err != nil {
					done <- err
					return
				}
				c, err := s.Claim(t.Context(), id, td.Holder{Pid: 1})
				if err == nil {
					_, err = s.Append(t.Context(), c, task.Head, said(strings.Repeat("x", 500)), said("y"), said("z"))
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, clean := range []string{"yes", "no"} {
		tamper(t, dir, "UPDATE meta SET value = ? WHERE key = 'clean'", clean)
		start := time.Now()
		s := openTest(t, Options{Dir: dir})
		took := time.Since(start)
		info, err := os.Stat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("clean: %s, %d MiB: opened in %v", clean, info.Size()>>20, took)
		if took > time.Minute {
			t.Errorf("opening took %v", took)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
