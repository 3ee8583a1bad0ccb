package graph

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// project makes a folder with an empty graph.
func project(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, Folder), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, root, "")
	return root
}

func write(t testing.TB, root, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, Folder, LogFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, root string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, Folder, LogFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func open(t testing.TB, root, index string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Root: root, Index: index})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func fresh(t testing.TB) (*Store, string) {
	root := project(t)
	return open(t, root, filepath.Join(t.TempDir(), "index.db")), root
}

func add(t testing.TB, s *Store, tasks ...Task) []Task {
	t.Helper()
	got, err := s.Add(t.Context(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func ready(t testing.TB, s *Store) (titles []string) {
	t.Helper()
	var found []td.TaskID
	if err := s.View(t.Context(), func(g *workgraph.Graph) { found = slices.Collect(g.Ready("")) }); err != nil {
		t.Fatal(err)
	}
	for _, id := range found {
		task, err := s.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		titles = append(titles, task.Title)
	}
	return titles
}

func wants(t testing.TB, s *Store, want ...string) {
	t.Helper()
	if got := ready(t, s); !slices.Equal(got, want) {
		t.Errorf("ready: %q, not %q", got, want)
	}
}

func TestAddEditEnd(t *testing.T) {
	s, root := fresh(t)
	a := add(t, s, Task{Title: " first \n thing ", Text: "do it", Labels: []string{"ui"}, CreatedBy: "ana"})[0]
	b := add(t, s, Task{Title: "second", Blockers: []td.TaskID{a.ID}, Priority: 0, Validator: "make test"})[0]
	if a.Title != "first thing" || a.Text != "do it" || a.Kind != td.KindTask || a.Handle == "" || a.CreatedAt.IsZero() {
		t.Errorf("added %+v", a)
	}
	wants(t, s, "first thing")
	text, four := "do it well", 4
	if _, err := s.Edit(t.Context(), b.ID, Edit{Text: &text, Priority: &four, AddLabels: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), a.ID, Verdict{State: td.Completed, Summary: "was easy", Run: "r1"}); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "second")
	size := len(content(t, root))
	if err := s.End(t.Context(), a.ID, Verdict{State: td.Completed, Summary: "said again", Run: "r1"}); err != nil || len(content(t, root)) != size {
		t.Errorf("an end that is said again is written again (%v)", err)
	}
	if err := s.Reopen(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "first thing")
	if err := s.Delete(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "second")
	if _, err := s.Task(t.Context(), a.ID); !td.IsKind(err, td.NotFound) {
		t.Errorf("a deleted task: %v", err)
	}
	for id, want := range map[td.TaskID]bool{a.ID: true, b.ID: false, td.NewTaskID(): false} {
		if actor, deleted, err := s.Deleted(t.Context(), id); err != nil || deleted != want || (actor != "") != want {
			t.Errorf("%s was deleted by %q: %v (%v)", id, actor, deleted, err)
		}
	}
	history, err := s.History(t.Context(), a.ID)
	if err != nil || len(history) != 4 {
		t.Errorf("%d changes of the deleted task (%v)", len(history), err)
	}
	// Everything is in the file: another index says the same.
	other := open(t, root, filepath.Join(t.TempDir(), "other.db"))
	mine, _ := s.Task(t.Context(), b.ID)
	theirs, err := other.Task(t.Context(), b.ID)
	if diff := cmp.Diff(mine, theirs); err != nil || diff != "" {
		t.Errorf("another reader: %v\n%s", err, diff)
	}
	if mine.Text != text || mine.Priority != 4 || !slices.Equal(mine.Labels, []string{"x"}) {
		t.Errorf("edited: %+v", mine)
	}
}

func TestABatchIsAllOrNone(t *testing.T) {
	s, root := fresh(t)
	ids := []td.TaskID{td.NewTaskID(), td.NewTaskID()}
	_, err := s.Add(t.Context(), Task{ID: ids[0], Title: "good"}, Task{ID: ids[1], Title: "bad", Blockers: []td.TaskID{td.NewTaskID()}})
	if !td.IsKind(err, td.NotFound) {
		t.Errorf("an edge to nowhere: %v", err)
	}
	if content(t, root) != "" {
		t.Error("half of the batch was written")
	}
	wants(t, s)
	add(t, s, Task{ID: ids[0], Title: "good"}, Task{ID: ids[1], Title: "bad", Blockers: ids[:1]})
	wants(t, s, "good")
}

func TestSiblingsMayWaitForEachOther(t *testing.T) {
	s, _ := fresh(t)
	box := add(t, s, Task{Title: "box"})[0]
	a := add(t, s, Task{Title: "a", Parent: box.ID})[0]
	add(t, s, Task{Title: "b", Parent: box.ID, Blockers: []td.TaskID{a.ID}})
	wants(t, s, "a")
}

func TestKeysCountOnce(t *testing.T) {
	s, root := fresh(t)
	a := add(t, s, Task{Title: "a", Key: "k"})
	b := add(t, s, Task{Title: "b", Key: "k"}, Task{Title: "c", Key: "l"})
	if a[0].ID != b[0].ID || b[0].Title != "a" || strings.Count(content(t, root), "\n") != 2 {
		t.Errorf("added twice under one key: %+v", b)
	}
}

func TestRefused(t *testing.T) {
	s, _ := fresh(t)
	a := add(t, s, Task{Title: "a"})[0]
	b := add(t, s, Task{Title: "b", Blockers: []td.TaskID{a.ID}})[0]
	box := add(t, s, Task{Title: "box"})[0]
	in := add(t, s, Task{Title: "in", Parent: box.ID})[0]
	s.SetState(b.ID, td.Running)
	self := func(err error) error { return err }
	edit := func(id td.TaskID, e Edit) error { _, err := s.Edit(t.Context(), id, e); return err }
	plus := func(task Task) error { _, err := s.Add(t.Context(), task); return err }
	for name, c := range map[string]struct {
		err  error
		kind td.Kind
		says string
	}{
		"circle":             {edit(a.ID, Edit{AddBlockers: []td.TaskID{b.ID}}), td.Conflict, a.Handle + " → " + b.Handle + " → " + a.Handle},
		"waits for itself":   {edit(a.ID, Edit{AddBlockers: []td.TaskID{a.ID}}), td.Conflict, a.Handle + " → " + a.Handle},
		"waits for its box":  {edit(in.ID, Edit{AddBlockers: []td.TaskID{box.ID}}), td.Conflict, "dependency cycle"},
		"box in what it has": {edit(box.ID, Edit{Parent: &in.ID}), td.Conflict, "dependency cycle"},
		"new, waits for box": {plus(Task{Title: "x", Parent: box.ID, Blockers: []td.TaskID{box.ID}}), td.Conflict, `"x" → ` + box.Handle},
		"parent runs":        {plus(Task{Title: "x", Parent: b.ID}), td.Conflict, "is running"},
		"no title":           {plus(Task{Title: " \n"}), td.Invalid, "needs a title"},
		"long title":         {plus(Task{Title: strings.Repeat("x", 301)}), td.Invalid, "300"},
		"long text":          {plus(Task{Title: "x", Text: strings.Repeat("x", maxText+1)}), td.Invalid, "1024 KiB"},
		"no text":            {plus(Task{Title: "x", Text: "a\x00b"}), td.Invalid, "no text"},
		"broken text":        {plus(Task{Title: "x", Text: "a\xff"}), td.Invalid, "no text"},
		"priority":           {plus(Task{Title: "x", Priority: 5}), td.Invalid, "priority"},
		"kind":               {plus(Task{Title: "x", Kind: "epic"}), td.Invalid, "epic"},
		"label":              {plus(Task{Title: "x", Labels: []string{" "}}), td.Invalid, "label"},
		"no such task":       {edit(td.NewTaskID(), Edit{}), td.NotFound, "no task"},
		"ends a container":   {s.End(t.Context(), box.ID, Verdict{State: td.Completed}), td.Conflict, "holds other tasks"},
		"no end":             {s.End(t.Context(), a.ID, Verdict{State: td.Running}), td.Invalid, "no end"},
	} {
		if err := self(c.err); !td.IsKind(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v of kind %s", name, err, td.KindOf(err))
		}
	}
}

// TestOthersWrite is two processes with an index each, and a person with an editor.
func TestOthersWrite(t *testing.T) {
	s, root := fresh(t)
	other := open(t, root, filepath.Join(t.TempDir(), "other.db"))
	a := add(t, s, Task{Title: "a"})[0]
	add(t, other, Task{Title: "b", Blockers: []td.TaskID{a.ID}})
	wants(t, s, "a")
	wants(t, other, "a")
	if err := s.End(t.Context(), a.ID, Verdict{State: td.Completed}); err != nil {
		t.Fatal(err)
	}
	wants(t, other, "b")
	// A hand edit takes the end back, in the middle of nothing that was appended.
	lines := strings.SplitAfter(content(t, root), "\n")
	write(t, root, strings.Join(lines[:2], ""))
	wants(t, s, "a")
	wants(t, other, "a")
	// A rewrite by a rename, as git does it.
	tmp := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(tmp, []byte(lines[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(root, Folder, LogFile)); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "a")
	if h, err := s.Health(t.Context()); err != nil || h.Tasks != 1 {
		t.Errorf("after a rewrite there are %d tasks (%v)", h.Tasks, err)
	}
	add(t, s, Task{Title: "c"})
	wants(t, other, "a", "c")
}

func TestTornAndBadLines(t *testing.T) {
	s, root := fresh(t)
	add(t, s, Task{Title: "a"})
	good := content(t, root)
	write(t, root, "<<<<<<< HEAD\n"+good+"=======\n{\"op\":1}\n>>>>>>> other\nnonsense\n"+`{"op":"019a`)
	wants(t, s, "a")
	h, err := s.Health(t.Context())
	if err != nil || len(h.Bad) != 5 || h.Bad[0].Line != 1 || h.Bad[4].Line != 6 {
		t.Errorf("bad lines: %v (%v)", h.Bad, err)
	}
	add(t, s, Task{Title: "b"}) // behind a torn line
	wants(t, s, "a", "b")
	if h, err := s.Health(t.Context()); err != nil || len(h.Bad) != 6 {
		t.Errorf("bad lines: %v (%v)", h.Bad, err)
	}
	for _, keep := range []string{"<<<<<<< HEAD\n", "nonsense\n", "{\"op\":\"019a\n"} {
		if !strings.Contains(content(t, root), keep) {
			t.Errorf("%q is gone from the file", keep)
		}
	}
	other := open(t, root, filepath.Join(t.TempDir(), "other.db"))
	wants(t, other, "a", "b")
}

// TestACircleComesIn by a merge: it is reported, and the rest goes on.
func TestACircleComesIn(t *testing.T) {
	s, root := fresh(t)
	tasks := add(t, s, Task{Title: "a"}, Task{Title: "b"}, Task{Title: "c"})
	clone := project(t)
	write(t, clone, content(t, root))
	other := open(t, clone, filepath.Join(t.TempDir(), "other.db"))
	for store, e := range map[*Store][2]td.TaskID{s: {tasks[0].ID, tasks[1].ID}, other: {tasks[1].ID, tasks[0].ID}} {
		if _, err := store.Edit(t.Context(), e[0], Edit{AddBlockers: []td.TaskID{e[1]}}); err != nil {
			t.Fatal(err)
		}
	}
	both := string(jsonl.Merge([]byte(content(t, root)), []byte(content(t, clone))))
	write(t, root, both)
	wants(t, s, "c")
	h, err := s.Health(t.Context())
	if err != nil || len(h.Problems) != 2 || !strings.Contains(h.Problems[0].Why, "waits for itself") {
		t.Errorf("problems: %+v (%v)", h.Problems, err)
	}
	if _, err := s.Edit(t.Context(), tasks[0].ID, Edit{RemoveBlockers: []td.TaskID{tasks[1].ID}}); err != nil {
		t.Fatal(err)
	}
	wants(t, s, "a", "c")
}

func TestTheIndexMayGo(t *testing.T) {
	root := project(t)
	index := filepath.Join(t.TempDir(), "index.db")
	s, err := Open(t.Context(), Options{Root: root, Index: index})
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, Task{Title: "a"}, Task{Title: "b"})
	s.Close()
	for name, spoil := range map[string]func() error{
		"deleted": func() error { return os.Remove(index) },
		"torn":    func() error { return os.Truncate(index, 1000) },
		"foreign": func() error { return os.WriteFile(index, []byte("not a database, not at all"), 0o600) },
		"kept":    func() error { return nil },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Options{Root: root, Index: index})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wants(t, s, "a", "b")
		s.Close()
	}
	// One of another project is not believed.
	elsewhere := project(t)
	s = open(t, elsewhere, index)
	wants(t, s)
}

func TestWrongTypesAreProblems(t *testing.T) {
	s, root := fresh(t)
	id := td.NewTaskID()
	write(t, root, `{"op":"019a86d3b5c0-000000-ana","set":{"title":["x"],"priority":"high","kind":"epic","verdict":{"state":"running"},"parent":"`+string(id)+`"},"task":"`+string(id)+`"}`+"\n")
	task, err := s.Task(t.Context(), id)
	if err != nil || task.Kind != td.KindTask || task.Priority != defaultPriority || task.Verdict != nil || len(task.Problems) != 6 {
		t.Errorf("%+v (%v)", task, err)
	}
}

func TestNoGraph(t *testing.T) {
	root := t.TempDir()
	if _, err := Open(t.Context(), Options{Root: root, Index: filepath.Join(root, "i")}); !td.IsKind(err, td.NotFound) || td.HintOf(err) == "" {
		t.Errorf("without a graph: %v", err)
	}
	if _, ok := Find(root); ok {
		t.Error("found a graph where none is")
	}
	root = project(t)
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if found, ok := Find(deep); !ok || found != root {
		t.Errorf("found %q", found)
	}
	link := filepath.Join(root, Folder, LogFile)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Root: root, Index: filepath.Join(t.TempDir(), "i")}); !td.IsKind(err, td.Invalid) {
		t.Errorf("a link: %v", err)
	}
}

func TestCompact(t *testing.T) {
	s, root := fresh(t)
	a := add(t, s, Task{Title: "a"})[0]
	for i := range 20 {
		text := strings.Repeat("x", i+1)
		if _, err := s.Edit(t.Context(), a.ID, Edit{Text: &text}); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := s.Task(t.Context(), a.ID)
	was, is, err := s.Compact(t.Context(), s.now().Add(1e9))
	if err != nil || is >= was || strings.Count(content(t, root), "\n") != 1 {
		t.Errorf("compacted %d to %d (%v)", was, is, err)
	}
	after, err := s.Task(t.Context(), a.ID)
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	add(t, s, Task{Title: "b"})
	wants(t, s, "a", "b")
}

// A task that was started is given no parts; one that got some by a merge ends all the same, and no run says so twice.
func TestPartsOfWhatRuns(t *testing.T) {
	s, root := fresh(t)
	a := add(t, s, Task{Title: "a"})[0]
	s.SetState(a.ID, td.Queued)
	if _, err := s.Add(t.Context(), Task{Title: "part", Parent: a.ID}); !td.IsKind(err, td.Conflict) {
		t.Errorf("a part of what was started: %v", err)
	}
	other := open(t, root, filepath.Join(t.TempDir(), "other.db"))
	part := add(t, other, Task{Title: "part", Parent: a.ID})[0]
	before := content(t, root)
	for range 2 {
		if err := s.End(t.Context(), a.ID, Verdict{State: td.Completed, Run: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(content(t, root), "\n") - strings.Count(before, "\n"); got != 1 {
		t.Errorf("its end was written %d times", got)
	}
	s.SetState(a.ID, "")
	if err := s.View(t.Context(), func(g *workgraph.Graph) {
		if st, _ := g.Standing(a.ID); st.State != td.Queued || !st.Container {
			t.Errorf("what has an open part is %+v", st)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), a.ID, Verdict{State: td.Completed}); !td.IsKind(err, td.Conflict) {
		t.Errorf("a person closes what has parts: %v", err)
	}
	if err := s.Delete(t.Context(), part.ID); err != nil {
		t.Fatal(err)
	}
	if got := ready(t, s); len(got) != 0 {
		t.Errorf("what has ended is ready again: %v", got)
	}
}

// TestFolderThatIsALink: the log is not read, and none is begun, where a link in the place of its folder leads.
func TestFolderThatIsALink(t *testing.T) {
	s, root := fresh(t)
	other := t.TempDir()
	if err := os.Rename(filepath.Join(root, Folder), filepath.Join(other, "graph")); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(other, "graph", LogFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(other, "graph"), filepath.Join(root, Folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(filepath.Join(root, Folder, LogFile), false); !td.IsKind(err, td.Invalid) {
		t.Errorf("it is read: %v", err)
	}
	if err := Make(root); !td.IsKind(err, td.Invalid) {
		t.Errorf("it is made: %v", err)
	}
	if err := s.WriteDocument(t.Context(), td.NewTaskID(), td.DocSpec, "words", true); err == nil {
		t.Error("a document is written")
	}
	if after, err := os.ReadFile(filepath.Join(other, "graph", LogFile)); err != nil || string(after) != string(before) {
		t.Errorf("the log beyond it is %q, %v", after, err)
	}
	if all, err := os.ReadDir(filepath.Join(other, "graph")); err != nil || len(all) != 1 {
		t.Errorf("beyond it are %v, %v", all, err)
	}
}
