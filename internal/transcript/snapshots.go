package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// snapshots is the part of the fold that ties steps to what the workspace held. It follows what was done to the files,
// so that it knows nothing of what was cut from the conversation.
type snapshots struct {
	last    *td.Snapshotted
	pending td.StepKey // ended, with nothing done to the files since, and not snapshotted
	open    map[td.StepKey]bool
	rewind  *td.Intent // in flight
}

// Snapshot is the newest record of what the workspace held, or nil.
func (t *Transcript) Snapshot() *td.Snapshotted { return t.snapshots.last }

// Unsnapped is the step after which no snapshot was taken though nothing has touched the files since, or empty.
func (t *Transcript) Unsnapped() td.StepKey { return t.snapshots.pending }

// Touching reports whether something may be at work on the files: a step that can change them has no outcome.
func (t *Transcript) Touching() bool { return len(t.snapshots.open) > 0 }

// Rewinding is the intent of the rewind in flight, or nil.
func (t *Transcript) Rewinding() *td.Intent { return t.snapshots.rewind }

// startSuffix ends the names of snapshots that were taken before a turn: at the start of a run.
const startSuffix = ".start"

// StartKey names what the workspace holds before the next answer.
func (t *Transcript) StartKey() td.StepKey {
	return td.StepKey(fmt.Sprintf("t%d%s", t.Turn+1, startSuffix))
}

// Intended reports whether the records tell that a step of a turn may have begun, or what a snapshot was taken of before it: the answer that wants it is
// among them, and its own intent, if it has one. turns are the answers that were recorded, also where retention has let
// them go. Of a step that is of no turn it cannot be told, and counts as begun.
func (t *Transcript) Intended(key td.StepKey, turns int) bool {
	n, rest, ok := turnOf(key)
	switch {
	case !ok || n < turns:
		return true
	case n > turns:
		return n == turns+1 && rest == startSuffix
	}
	for _, c := range t.Calls {
		if c.Key == key.Base() {
			return c.Intent != nil || c.Outcome != nil
		}
	}
	return true
}

// turnOf is the turn that a step is of, and what names the step within it.
func turnOf(key td.StepKey) (turn int, rest string, ok bool) {
	number, is := strings.CutPrefix(string(key.Base()), "t")
	if at := strings.IndexByte(number, '.'); is && at > 0 {
		n, err := strconv.Atoi(number[:at])
		return n, number[at:], err == nil && n > 0
	}
	return 0, "", false
}

// touches reports whether a step may change the files of the workspace.
func touches(in td.Intent) bool { return in.Kind == td.ToolStep && in.Effect != td.Pure }

// apply folds what is about snapshots alone. The map is copied: an older copy of the fold keeps its own.
func (s *snapshots) apply(body td.Body) {
	switch b := body.(type) {
	case td.StepIntended:
		switch {
		case b.Kind == td.RewindStep:
			in := b.Intent
			s.rewind = &in
		case touches(b.Intent):
			s.pending, s.open = "", with(s.open, b.Key, true)
		}
	case td.StepEnded:
		if s.open[b.Key] {
			s.pending = b.Key
			s.open = without(s.open, b.Key)
		}
		if s.rewind != nil && s.rewind.Key == b.Key {
			s.rewind = nil
		}
	case td.Snapshotted:
		s.last = &b
		if b.Step == s.pending {
			s.pending = ""
		}
	case td.Rewound:
		*s = snapshots{last: &td.Snapshotted{Step: b.To, Tree: b.Tree}}
	case td.Discarded:
		s.open = nil
	case td.Moved:
		if b.Status.State.Terminal() || b.Verb == td.VerbRetry {
			s.open = nil
		}
	}
}

func without(m map[td.StepKey]bool, key td.StepKey) map[td.StepKey]bool {
	var next map[td.StepKey]bool
	for k := range m {
		if k != key {
			next = with(next, k, true)
		}
	}
	return next
}

// pass takes in a record that was cut from the conversation: what was done is not undone, and no name is given twice.
func (t *Transcript) pass(ev td.Event) {
	t.anomalies.apply(ev)
	t.snapshots.apply(ev.Body)
	switch b := ev.Body.(type) {
	case td.StepEnded:
		if b.Model != nil {
			t.Turn++
		}
	case td.Moved:
		if b.Verb == td.VerbReset || b.Verb == td.VerbResume {
			t.Begun++
		}
	case td.Unreadable:
		t.Bad++
	}
}

// rewound makes the place that the conversation was taken back to one that the model can go on from. Calls of the
// newest answer that were not made by then are taken out of it.
func (t *Transcript) rewound() {
	if n := len(t.Messages); len(t.Calls) > 0 && n > 0 {
		var made []Call
		undone := map[string]bool{}
		for _, c := range t.Calls {
			if c.Outcome != nil {
				made = append(made, c)
			} else {
				undone[c.Use.ID] = true
			}
		}
		m := t.Messages[n-1]
		m.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), func(b td.Block) bool { return b.Type == td.ToolUseBlock && undone[b.ID] })
		t.Messages = slices.Clone(t.Messages[:n-1])
		if len(m.Blocks) > 0 {
			t.Messages = append(t.Messages, m)
		}
		t.Calls = made
		t.closeCalls()
		t.carried, t.same = t.carried.upTo(n-1), t.same.upTo(n-1)
	}
	t.Calls, t.said, t.held, t.InWords = nil, nil, nil, Call{}
	t.Stop, t.Cut, t.Ended, t.Model, t.Reminded, t.Untouched = "", false, false, ModelCall{}, 0, false
	t.Rewrote = "the conversation was rewound"
}

// forked begins with the conversation of another task, behind a context of its own.
func (t *Transcript) forked(b td.Forked) {
	t.Messages, t.Answers, t.Ended = slices.Clip(b.Messages), b.Answers, false
	t.Rewrote = "the conversation was forked"
}

// Step is something that was done to the workspace, and what that held then.
type Step struct {
	Key   td.StepKey
	Name  string // the tool's; empty: what the workspace held before a turn
	Gist  string // what it was called with, or the beginning of that
	At    time.Time
	Error bool // it failed
	Cut   bool // the conversation was taken back to before it
	// Seq is the last record of a conversation that ends there.
	Seq    uint64
	Before string         // the tree before; empty: not known
	Tree   td.Snapshotted // no tree: none was taken
}

// Steps lists what was done to the workspace, in order, by a whole stream.
func Steps(events []td.Event) (list []Step) {
	cuts := cutsOf(events)
	open, gists := map[td.StepKey]td.Intent{}, map[td.StepKey]string{}
	asked := map[td.StepKey]uint64{} // the record before the call for an answer
	turn, newest := 0, ""
	at := func(key td.StepKey) *Step {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].Key == key {
				return &list[i]
			}
		}
		return nil
	}
	for _, ev := range events {
		switch b := ev.Body.(type) {
		case td.StepIntended:
			if b.Kind == td.ModelStep && asked[b.Key] == 0 {
				asked[b.Key] = ev.Seq - 1
				if s := at(startOf(b.Key)); s != nil {
					s.Seq = ev.Seq - 1
				}
			}
			if touches(b.Intent) {
				open[b.Key] = b.Intent
			}
		case td.StepEnded:
			if b.Model != nil {
				turn++
				for i, use := range b.Model.Message.ToolUses() {
					gists[td.StepKey(fmt.Sprintf("t%d.%d", turn, i))] = gist(use.Input)
				}
			}
			if in, is := open[b.Key]; is && b.Tool != nil {
				delete(open, b.Key)
				list = append(list, Step{Key: b.Key, Name: in.Name, Gist: gists[b.Key], At: ev.At, Error: b.Tool.IsError, Cut: cuts.Has(ev.Seq), Seq: ev.Seq})
			}
		case td.Snapshotted:
			s := at(b.Step)
			if s == nil || strings.HasSuffix(string(b.Step), startSuffix) {
				seq := ev.Seq
				if before := asked[modelOf(b.Step)]; before > 0 {
					seq = before // it was taken while the model was asked
				}
				list = append(list, Step{Key: b.Step, At: ev.At, Cut: cuts.Has(seq), Seq: seq, Before: newest, Tree: b})
			} else {
				s.Before, s.Tree = newest, b
			}
			newest = b.Tree
		case td.Rewound:
			newest = b.Tree
		}
	}
	return list
}

// gist is what a call is about, as far as one word of its input says so.
func gist(input json.RawMessage) string {
	var in struct{ Command, Path, Title, Prompt, Question string }
	if json.Unmarshal(input, &in) != nil {
		return string(input)
	}
	return cmp.Or(in.Command, in.Path, in.Title, in.Prompt, in.Question, string(input))
}

func startOf(model td.StepKey) td.StepKey {
	return td.StepKey(strings.TrimSuffix(string(model), ".model") + startSuffix)
}

func modelOf(start td.StepKey) td.StepKey {
	return td.StepKey(strings.TrimSuffix(string(start), startSuffix) + ".model")
}

func cutsOf(events []td.Event) (cuts td.Cuts) {
	for _, ev := range events {
		if b, is := ev.Body.(td.Rewound); is {
			cuts = cuts.Rewind(b.Seq, ev.Seq)
		}
	}
	return cuts
}

// At is the conversation of a stream as it was at one of its records, ready to go on from.
func At(events []td.Event, seq uint64) *Transcript {
	n, _ := slices.BinarySearchFunc(events, seq, func(ev td.Event, seq uint64) int {
		if ev.Seq <= seq {
			return -1
		}
		return 1
	})
	t := Of(events[:n])
	t.rewound()
	return t
}
