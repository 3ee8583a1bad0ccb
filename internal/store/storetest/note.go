package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/words"
)

// noted is a task of a project whose iterations left these notes, all in one run.
func (f *fixture) noted(project, title, run string, notes ...string) (td.Task, td.Claim) {
	f.t.Helper()
	s := spec(title, f.tick())
	s.Project = project
	task, err := f.Create(f.ctx, s, "")
	must(f.t, err)
	c := f.claim(task.ID, 1)
	task = f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) })
	for i, text := range notes {
		task = f.append(c, task.Head, td.Event{At: f.tick(), Body: td.IterationEnded{Iteration: i + 1, Ending: td.EndedUnclear, Notes: text, Run: run}})
	}
	return task, c
}

// texts are the notes that a query finds, in its order.
func (f *fixture) texts(q store.NoteQuery) []string {
	f.t.Helper()
	found, err := f.Notes(f.ctx, q)
	must(f.t, err)
	var out []string
	for _, n := range found {
		out = append(out, n.Notes)
	}
	return out
}

func notesNewest(t *testing.T, f *fixture) {
	equal(t, "of nothing", f.texts(store.NoteQuery{Project: "/p"}), nil)
	a, _ := f.noted("/p", "first", "r1", "one", "two")
	b, c := f.noted("/p", "second", "r2")
	full := td.IterationEnded{
		Iteration: 7, Ending: td.EndedUnverified, Reason: "the test is red", Notes: "three", Run: "r2", Tier: td.Expert,
		Model: "m", Hint: td.Small, Files: []string{"a.go", "b/c.go"}, Took: time.Minute,
	}
	at := f.tick()
	b = f.append(c, b.Head, f.said("between"), td.Event{At: at, Body: full})
	reach := td.Intent{Key: "s", Kind: td.ToolStep, Name: "WebFetch", Effect: td.Pure, Reach: []string{td.ReachHost + "example.com"}}
	f.append(c, b.Head, td.Event{At: f.tick(), Body: td.StepIntended{Intent: reach}}) // taints it
	f.noted("/other", "third", "r2", "four")
	f.noted("", "alone", "r2", "five")

	for range 2 {
		equal(t, "all", f.texts(store.NoteQuery{Project: "/p"}), []string{"three", "two", "one"})
		equal(t, "newest", f.texts(store.NoteQuery{Project: "/p", Limit: 2}), []string{"three", "two"})
		equal(t, "of a run", f.texts(store.NoteQuery{Project: "/p", Run: "r1", Limit: 1}), []string{"two"})
		equal(t, "of no run", f.texts(store.NoteQuery{Project: "/p", Run: "r3"}), nil)
		equal(t, "of no project", f.texts(store.NoteQuery{}), []string{"five"})
		got, err := f.Notes(f.ctx, store.NoteQuery{Project: "/p", Limit: 2})
		must(t, err)
		equal(t, "the note", got[0], store.Note{
			IterationEnded: full, Cursor: got[0].Cursor, At: at, Task: b.ID, Handle: b.Handle, Title: "second", Untrusted: true,
		})
		equal(t, "whose", []any{got[1].Task, got[1].Untrusted}, []any{a.ID, false})
		equal(t, "the rest", f.texts(store.NoteQuery{Project: "/p", Except: []uint64{got[0].Cursor, got[1].Cursor}}), []string{"one"})
		equal(t, "matching but known", f.texts(store.NoteQuery{Project: "/p", Match: "two one", Except: []uint64{got[1].Cursor}}), []string{"one"})
		f.sound()
		f.again()
	}
}

func notesBest(t *testing.T, f *fixture) {
	f.noted("/p", "parser", "r", "The lexer wants a token stream.", "Nothing to see.", "Tokens come from the lexer of parseConfigFile, lexer first.")
	f.noted("/p", "writer", "r", "Flush the buffers before closing.")
	f.noted("/p", "windows", "r", strings.Repeat("padding words that say little ", 30)+"lexer")
	f.noted("/other", "secret", "r", "The lexer wants a token stream.")
	finds := func(match string, want ...string) {
		t.Helper()
		got := f.texts(store.NoteQuery{Project: "/p", Match: match})
		for i, text := range got {
			got[i], _, _ = strings.Cut(text, " ")
		}
		equal(t, match, got, want)
	}
	for range 2 {
		finds("BUFFER flushing flush", "Flush")
		finds("parse_config_file", "Tokens")
		finds("stream", "The")
		finds("lexer stream", "The", "Tokens", "padding") // two words before one, the short before the long
		finds("writer", "Flush")                          // by the title of the task
		finds("the of and")                               // they say nothing
		finds("nowhere")
		equal(t, "at most", f.texts(store.NoteQuery{Project: "/p", Match: "lexer stream", Limit: 1}), []string{"The lexer wants a token stream."})
		f.again()
	}
	// Of equals the newest is first.
	f.noted("/q", "one", "r", "same thing", "same thing")
	found, err := f.Notes(f.ctx, store.NoteQuery{Project: "/q", Match: "thing"})
	must(t, err)
	equal(t, "order of equals", []int{found[0].Iteration, found[1].Iteration}, []int{2, 1})
	f.sound()
}

// hostileMatches are texts that mean something to a full-text index, or nothing to anybody.
var hostileMatches = []string{
	`"`, `"lexer`, `""""`, `lexer"`, `'; DROP TABLE notes; --`, `lexer*`, `*`, `lexer NEAR token`, `NEAR(lexer token, 2)`, `lexer AND`, `AND OR NOT`, `NOT lexer`,
	`words : lexer`, `{words} : lexer`, `-words : lexer`, `^lexer`, `(lexer`, `lexer)`, `lexer + token`, `\`, "lexer\x00token", "\x00", "\xff\xfe", "l\u00e9xer", "e\u0301", "字句解析",
	"ไทย", "\u202elexer", "🙂", "_", "__lexer__", "?1", "%", "a b c", strings.Repeat("lexer ", 5000), strings.Repeat("x", 1<<17),
}

func notesHostile(t *testing.T, f *fixture) {
	f.noted("/p", "parser", "r", "lexer", "字句解析 of lexers", "nothing")
	for _, match := range append(slices.Clone(hostileMatches), "") {
		_, err := f.Notes(f.ctx, store.NoteQuery{Project: "/p", Match: match})
		if err != nil {
			t.Errorf("%.40q: %v", match, err)
		}
	}
	equal(t, "in quotes", f.texts(store.NoteQuery{Project: "/p", Match: `"lexer`}), []string{"lexer", "字句解析 of lexers"})
	equal(t, "without letters", f.texts(store.NoteQuery{Project: "/p", Match: `*"(^`}), nil)
	equal(t, "without spaces", f.texts(store.NoteQuery{Project: "/p", Match: "句解"}), []string{"字句解析 of lexers"})
	equal(t, "not a word", f.texts(store.NoteQuery{Project: "/p", Match: "NOT lexer"}), []string{"lexer", "字句解析 of lexers"})
	equal(t, "without a question", len(f.texts(store.NoteQuery{Project: "/p"})), 3)
	for i, text := range hostileMatches { // and as what is searched
		f.noted("/q", name("task %d %s", i, text), text, text)
	}
	equal(t, "hostile notes", len(f.texts(store.NoteQuery{Project: "/q"})), len(hostileMatches))
	f.sound()
	f.again()
	f.sound()
}

func notesTrimmed(t *testing.T, f *fixture) {
	task, c := f.noted("/p", "done", "r", "short", strings.Repeat("long ", 30000))
	task = f.append(c, task.Head, f.said("bye"))
	f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Complete(t, "done", nil, at) })
	f.noted("/p", "live", "r", "young")
	last, err := f.Last(f.ctx)
	must(t, err)
	equal(t, "after two days", f.trim(retention(f.now.Add(2*day), last)).Events, 1)
	equal(t, "done", f.kinds(task.ID), "created moved iteration_ended iteration_ended -said moved")
	equal(t, "all", len(f.texts(store.NoteQuery{Project: "/p"})), 3)
	equal(t, "by its words", f.texts(store.NoteQuery{Project: "/p", Match: "short"}), []string{"short"})
	f.sound()
	f.trim(retention(f.now.Add(91*day), last))
	for range 2 {
		equal(t, "after three months", f.texts(store.NoteQuery{Project: "/p"}), []string{"young"})
		equal(t, "by its words", f.texts(store.NoteQuery{Project: "/p", Match: "short long young"}), []string{"young"})
		f.sound()
		f.again()
	}
}

// notesModel asks for random words of random notes, and compares what is found with what has them.
func notesModel(t *testing.T, open Open) {
	vocabulary := []string{"lexer", "token", "parseConfig", "x", "the", "Größe", "буфер", "解析器", "it's", "a_b", "NEAR", "9"}
	text := rapid.Custom(func(r *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 0, 6).Draw(r, "words"), rapid.SampledFrom([]string{" ", "\n", ", ", `"`}).Draw(r, "between"))
	})
	f := newFixture(t, open)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		ours, other := name("/ours%d", round), name("/other%d", round)
		notes := rapid.SliceOfN(text, 1, 8).Draw(r, "notes")
		f.noted(ours, "", "r", notes...)
		f.noted(other, "", "r", rapid.SliceOfN(text, 1, 3).Draw(r, "notes of another project")...)
		for range 5 {
			match := text.Draw(r, "match")
			var want []string
			for _, note := range slices.Backward(notes) {
				if match == "" || words.Shared(words.Set(match, 99), words.Set(note, 99)) > 0 {
					want = append(want, note)
				}
			}
			got := f.texts(store.NoteQuery{Project: ours, Match: match})
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				r.Fatalf("%q found %q, want %q", match, got, want)
			}
		}
	})
	f.sound()
}
