package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// verifierMark stands before each line of a verifier.
const verifierMark = "  ┊ "

// watchedVerifier is a verifier that is shown below the task whose work it looks at.
type watchedVerifier struct {
	id   td.TaskID
	task td.Task // as its records make it
	view *view
}

// verifierOf is who looks at the work, as the record of a verify step names them.
func verifierOf(in td.Intent) td.TaskID {
	var of td.Verification
	if in.Kind != td.VerifyStep || json.Unmarshal(in.Evidence, &of) != nil {
		return ""
	}
	return of.Task
}

// verifies reports whether, with a record of the task, a verifier is to be shown that is not yet. The stream must be opened
// anew for it: before, nobody knew of it.
func (w *watch) verifies(v *view, t td.Task, ev td.Event) bool {
	b := t.Status.Blocked
	if w.json || b == nil || b.Child == "" || b.Child != v.verifier || ev.Seq <= w.skip && ev.Seq < w.task.Head {
		return false
	}
	if w.verifier != nil && w.verifier.id == b.Child {
		return false // it waits for the same one again, after a crash
	}
	below := newView(w.app, &indented{w: w.out, mark: w.style.dim(verifierMark)}, w.style)
	below.thoughts, below.quiet = w.thoughts, w.quiet
	w.verifier = &watchedVerifier{id: b.Child, view: below}
	v.showBelow(below)
	return true
}

// verifiers shows an item that is the verifier's, and reports whether it was.
func (w *watch) verifiers(v *view, it api.Item) bool {
	f := w.verifier
	switch {
	case f == nil:
		return false
	case it.Event != nil && it.Event.Task != f.id, it.Live != nil && it.Live.Task != f.id && it.Live.Task != "":
		f.view.settle()
		return false
	case it.Live != nil && f.task.Status.State.Terminal():
		return false // a gap, and what is left out was not its
	}
	v.settle()
	if it.Live != nil {
		f.view.live(*it.Live)
		return true
	}
	f.task = fold(f.task, *it.Event)
	f.view.event(*it.Event, f.task, true)
	return true
}

// asked is who waits for an answer of the person at the terminal, and what for: the verifier, else the task itself.
func (w *watch) asked(v *view) (td.TaskID, []td.Request) {
	if t, is := v.asksBelow(); is {
		return t.ID, t.Requests
	}
	return w.task.ID, v.open(w.task)
}

// indented writes a mark before each line, and the text as it comes.
type indented struct {
	w      io.Writer
	mark   string
	within bool // a line
}

// Write takes any piece of text.
func (i *indented) Write(p []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(p) {
		if !i.within {
			out = append(out, i.mark...)
		}
		out = append(out, line...)
		i.within = !bytes.HasSuffix(line, []byte("\n"))
	}
	if _, err := i.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
