package rebuild

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/graph"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// state is a state folder and what was in its journal.
type state struct {
	dir  string
	root string                   // a project with a graph
	had  map[td.TaskID][]td.Event // the records of each task
	were map[td.TaskID]td.State   // how each stood
	ids  map[string]td.TaskID     // by title
}

func (s *state) options() Options {
	return Options{StateDir: s.dir, Repo: filepath.Join(s.dir, "conversations.git"), Graphs: filepath.Join(s.dir, "graphs"), Version: "test"}
}

func open(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	j, err := sqlite.Open(t.Context(), sqlite.Options{Dir: dir, Alive: func(td.Holder) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// bodies are what a task does: it asks a model, runs a command with a lease and a budget, and says something large.
func bodies(n int) (out []td.Body) {
	for i := range n {
		key := td.StepKey(fmt.Sprintf("t%d.model", i+1))
		out = append(out,
			td.StepIntended{Intent: td.Intent{Key: key, Kind: td.ModelStep, Name: "model", Effect: td.Pure, Reserve: &td.Reserve{
				Amount: 10, Input: 5, Cause: td.CauseTurn, Day: "2030-01-02", Caps: []td.Cap{{Scope: td.OfDay, Key: "2030-01-02", Limit: 1000}},
			}}},
			td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Model: &td.ModelResult{Model: "m", Cost: 7, StopReason: td.StopToolUse, Message: td.Message{
				Role: td.Assistant, Blocks: []td.Block{{Type: td.ToolUseBlock, ID: fmt.Sprint("u", i), Name: "Bash", Input: json.RawMessage(`{"command":"make"}`)}},
			}}}},
			td.StepIntended{Intent: td.Intent{Key: td.StepKey(fmt.Sprintf("t%d.0", i+1)), Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque,
				Wants: []td.Want{{Resource: "port:1"}}}},
			td.StepEnded{Outcome: td.Outcome{Key: td.StepKey(fmt.Sprintf("t%d.0", i+1)), Via: td.Ran, Tool: &td.ToolResult{Content: strings.Repeat("ok ", 1+40_000*(i%2))}}},
		)
	}
	return out
}

// lost makes a state folder with tasks in all sorts of states, mirrors them, and closes it.
func lost(t testing.TB) *state {
	t.Helper()
	dir := t.TempDir()
	s := &state{dir: filepath.Join(dir, "state"), root: filepath.Join(dir, "proj"), had: map[td.TaskID][]td.Event{}, were: map[td.TaskID]td.State{}, ids: map[string]td.TaskID{}}
	if err := graph.Make(s.root); err != nil {
		t.Fatal(err)
	}
	g, err := graph.Open(t.Context(), graph.Options{Root: s.root, Index: graph.IndexPath(filepath.Join(s.dir, "graphs"), s.root)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	j := open(t, s.dir)
	for i, title := range []string{"done", "failed", "works", "waits", "fresh", "closed", "undone"} {
		s.tell(t, j, g, i, title)
	}
	m := mirror.New(mirror.Options{Journal: j, Path: s.options().Repo, Window: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	last, err := j.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); m.Mirrored() < last; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not mirrored")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *state) tell(t testing.TB, j store.Journal, g *graph.Store, i int, title string) {
	t.Helper()
	ctx := t.Context()
	planned, err := g.Add(ctx, graph.Task{Title: title, CreatedBy: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	id := planned[0].ID
	s.ids[title] = id
	task, err := j.Create(ctx, td.Spec{
		ID: id, Handle: planned[0].Handle, Kind: td.KindTask, Title: title, Prompt: "do " + title, Dir: "/src/proj", Project: s.root, Mode: td.Autonomous,
		CreatedAt: start.Add(time.Duration(i) * time.Minute), CreatedBy: "ann",
	}, string(id))
	if err != nil {
		t.Fatal(err)
	}
	c, err := j.Claim(ctx, id, td.Holder{Host: "here", Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := start.Add(time.Duration(i) * time.Minute)
	tell := func(bodies ...td.Body) {
		t.Helper()
		for _, b := range bodies {
			at = at.Add(time.Second)
			if task, err = j.Append(ctx, c, task.Head, td.Event{Task: id, At: at, Body: b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	move := func(m td.Move, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range m.Events {
			tell(ev.Body)
		}
	}
	if title != "fresh" {
		move(td.Start(task, "run", at))
		tell(td.ContextSet{Iteration: 1, Provider: "p", System: "be good", Opening: td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "do"}}}})
		if title == "waits" {
			s.copy(t, s.dir, s.early())
		}
		tell(bodies(3)...)
	}
	verdict := func(v graph.Verdict) {
		if err := g.End(ctx, id, v); err != nil {
			t.Fatal(err)
		}
	}
	switch title {
	case "done":
		move(td.Complete(task, "it is done", nil, at))
		verdict(graph.Verdict{State: td.Completed, Summary: "it is done", Run: "run"})
	case "failed":
		move(td.Fail(task, td.FailedData{Error: "no wood"}, at))
		verdict(graph.Verdict{State: td.Failed, Reason: "no wood", Run: "run"})
	case "waits":
		move(td.Ask(task, td.Request{ID: td.NewRequestID(), Kind: td.AskQuestion, Prompt: "Which?", AskedAt: at}, at))
	case "closed": // its end came to the graph, and was not mirrored any more
		verdict(graph.Verdict{State: td.Completed, Summary: "it is closed", Run: "run"})
	case "undone": // it was reset
		move(td.Complete(task, "it is undone", nil, at))
		move(td.Reset(task, "again", at))
		move(td.Cancel(task, "not again", at))
		verdict(graph.Verdict{State: td.Completed, Summary: "by hand", By: "ann"})
	}
	for ev, err := range j.Read(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		s.had[id] = append(s.had[id], ev)
	}
	s.were[id] = task.Status.State
	if err := j.Release(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// want is how tasks stand after a rebuild.
var want = map[string]td.State{
	"done": td.Completed, "failed": td.Failed, "works": td.Paused, "waits": td.Paused, "fresh": td.Paused, "closed": td.Completed, "undone": td.Cancelled,
}

// check looks at a journal that was made again.
func (s *state) check(t testing.TB) {
	t.Helper()
	j := open(t, s.dir)
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	for title, state := range want {
		id := s.ids[title]
		task, err := j.Task(t.Context(), id)
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		if task.Status.State != state {
			t.Errorf("%s is %s, want %s", title, task.Status.State, state)
		}
		if task.Title != title || task.Prompt != "do "+title || task.Project != s.root {
			t.Errorf("%s has become %+v", title, task.Spec)
		}
		var got []td.Event
		for ev, err := range j.Read(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev)
		}
		// What was not mirrored is after the newest commit; that a task is at rest comes after that.
		n := len(got)
		if s.were[id] != state {
			n--
		}
		for i := range min(n, len(s.had[id])) {
			had := s.had[id][i]
			had.Cursor, had.Body, got[i].Body = got[i].Cursor, unbound(had.Body), unbound(got[i].Body)
			if diff := cmp.Diff(had, got[i]); diff != "" {
				t.Errorf("%s: record %d (-had +got):\n%s", title, i+1, diff)
			}
		}
		if short := len(s.had[id]) - n; short > 1 {
			t.Errorf("%s: %d of %d records", title, n, len(s.had[id]))
		}
	}
	problems, err := j.Check(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("the journal disagrees with itself: %+v, %v", problems, err)
	}
	if at, err := j.Cursor(t.Context(), graphCursor); err != nil || at == 0 {
		t.Errorf("the graphs would be told of all that is past: %d, %v", at, err)
	}
}

// early is a folder with the journal as it was while the fourth task worked.
func (s *state) early() string { return filepath.Join(filepath.Dir(s.dir), "early") }

func (s *state) copy(t testing.TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"", "-wal"} {
		raw, err := os.ReadFile(filepath.Join(from, journalFile+end))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, journalFile+end), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// rollBack puts an older journal into the place of the newest.
func rollBack(t testing.TB, s *state) {
	t.Helper()
	s.copy(t, s.early(), s.dir)
}

func remove(t testing.TB, s *state) {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(s.dir, journalFile+end)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "blobs")); err != nil {
		t.Fatal(err)
	}
}

func damage(t testing.TB, s *state) {
	t.Helper()
	path := filepath.Join(s.dir, journalFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 200; i < len(raw); i += 100 {
		raw[i] ^= 0xff
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRebuild(t *testing.T) {
	for name, harm := range map[string]func(testing.TB, *state){"deleted": remove, "damaged": damage, "rolled back": rollBack} {
		t.Run(name, func(t *testing.T) {
			s := lost(t)
			harm(t, s)
			before, err := os.ReadFile(filepath.Join(s.dir, journalFile))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), s.options())
			if err != nil {
				t.Fatal(err)
			}
			missing := len(want)
			if name == "rolled back" {
				missing -= 2 // of those that had ended nothing is missing
			}
			if len(r.Restored) != missing || len(r.Lost) == 0 || r.Damaged == "" {
				t.Errorf("the report is %+v", r)
			}
			if len(r.Projects) != 1 || r.Projects[0].Root != s.root || r.Projects[0].Tasks != len(want) || r.Projects[0].Open != 3 {
				t.Errorf("the projects are %+v", r.Projects)
			}
			for _, one := range r.Restored {
				if one.State == td.Paused && !strings.Contains(one.What, "not known") {
					t.Errorf("what is not known of %s is not said: %q", one.Title, one.What)
				}
			}
			if name == "damaged" {
				if kept, err := os.ReadFile(r.Aside[0]); err != nil || string(kept) != string(before) {
					t.Errorf("what was there is not kept as it was: %v, %v", r.Aside, err)
				}
			}
			s.check(t)
			again, err := Run(t.Context(), s.options())
			if err != nil || len(again.Restored) != 0 || again.There != len(want) || len(again.Aside) != 0 {
				t.Errorf("the second time: %+v, %v", again, err)
			}
			s.check(t)
			if _, err := os.Stat(filepath.Join(s.dir, folder)); !os.IsNotExist(err) {
				t.Errorf("something is left: %v", err)
			}
		})
	}
}

// A journal that a daemon made meanwhile keeps what it has.
func TestRebuildAddsToWhatIsThere(t *testing.T) {
	s := lost(t)
	remove(t, s)
	if err := os.Remove(filepath.Join(s.dir, markFile)); err != nil {
		t.Fatal(err)
	}
	j := open(t, s.dir)
	id := td.NewTaskID()
	if _, err := j.Create(t.Context(), td.Spec{ID: id, Handle: "t-newcomer", Title: "new", Prompt: "new", CreatedAt: start}, "its key"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), s.options())
	if err != nil || len(r.Restored) != len(want)+1 || len(r.Aside) != 1 { // the new one is paused, too
		t.Fatalf("%+v, %v", r, err)
	}
	s.check(t)
	j = open(t, s.dir)
	defer func() { _ = j.Close() }()
	if again, err := j.Create(t.Context(), td.Spec{ID: td.NewTaskID(), Handle: "t-another1", Title: "x", Prompt: "x", CreatedAt: start}, "its key"); err != nil || again.ID != id {
		t.Errorf("the task that was there is %+v, %v", again.Spec, err)
	}
}

func TestRebuildIsLockedOut(t *testing.T) {
	s := lost(t)
	j := open(t, s.dir)
	defer func() { _ = j.Close() }()
	if _, err := Run(t.Context(), s.options()); !td.IsKind(err, td.Locked) {
		t.Errorf("beside somebody who has the journal open: %v", err)
	}
}

func TestNoConversations(t *testing.T) {
	s := lost(t)
	remove(t, s)
	if err := os.RemoveAll(s.options().Repo); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), s.options())
	if err != nil || len(r.Restored) != 0 || len(r.Lost) == 0 || len(r.Projects) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
