// Package sigil reads what an agent says to taskdaemon in the midst of its text: that a task is done or cannot be,
// what it wants others to know, what it found when it verified.
//
// The parser is total. Any text has a meaning, if only that it says nothing; what looks like a sigil and is none is
// reported, and the time it takes grows with the length of the text alone. A sigil in a code block or in inline code is
// talk about sigils and does not count; of nested ones the outermost counts, and its body is text. Of several of a
// kind the last counts.
package sigil

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// Sigils is what a text says. The zero value says nothing.
type Sigils struct {
	Done   string // the task that the agent calls done, as it names it
	Failed string // the task it gives up; empty where Done is not: done beats failed
	// Complete promises that the whole plan is done, GivenUp that there is no use in going on with any task.
	Complete, GivenUp bool
	Next              td.Tier // the class of model it wants for the next iteration
	Notes             []string
	Knowledge         []Entry
	Verdict           *Verdict // of a verifier; nil: it gave none
	Problems          []string // what looks like a sigil and does not count, a sentence each
}

// Entry is something that the agent wants to be remembered for good.
type Entry struct {
	Kind  td.LearningKind
	Title string
	Tags  []string
	Body  string
}

// Verdict is what a verifier found. One that contradicts itself is no pass.
type Verdict struct {
	Pass   bool
	Reason string // why not
}

// The names, as they stand in the tags.
const (
	taskDone   = "task-done"
	taskFailed = "task-failed"
	promise    = "promise"
	nextModel  = "next-model"
	journal    = "journal"
	knowledge  = "knowledge"
	verifyPass = "verify-pass"
	verifyFail = "verify-fail"
)

var names = []string{taskDone, taskFailed, promise, nextModel, journal, knowledge, verifyPass, verifyFail}

// tiers are the words for classes of models: ours, and those that many agents know.
var tiers = map[string]td.Tier{
	"small": td.Small, "worker": td.Worker, "expert": td.Expert,
	"haiku": td.Small, "sonnet": td.Worker, "opus": td.Expert,
}

const (
	maxID       = 100 // bytes of the name of a task
	maxProblems = 20  // that are reported one by one
	maxQuoted   = 60  // characters of a foreign text in a sentence of ours
)

// Parse reads the sigils of a text.
func Parse(text string) Sigils {
	s, _ := parse(text)
	return s
}

// Rest is the text without its sigils: what the agent says to people.
func Rest(text string) string {
	r := reader{text: text}
	r.read()
	match(r.tags)
	var out strings.Builder
	from := 0
	for i := 0; i < len(r.tags); i++ {
		t := r.tags[i]
		if t.broken || t.closing || t.mate < 0 {
			continue
		}
		out.WriteString(text[from:t.start])
		from, i = r.tags[t.mate].end, t.mate
	}
	out.WriteString(text[from:])
	return strings.TrimSpace(out.String())
}

// parse also says how many bytes were looked at, some of them more than once.
func parse(text string) (Sigils, int) {
	r := reader{text: text}
	r.read()
	match(r.tags)
	var s reading
	for i := 0; i < len(r.tags); i++ {
		switch t := r.tags[i]; {
		case t.broken:
			s.problem("<%s is not followed by what makes it a tag.", t.name)
		case t.closing:
			s.problem("</%s> closes nothing.", t.name)
		case t.mate < 0:
			s.problem("<%s> is never closed.", t.name)
		default:
			s.take(t, text[t.end:max(t.end, r.tags[t.mate].start)])
			i = t.mate // what is inside is text
		}
	}
	if r.hidden {
		s.problem("A code block is never closed, and what it hides was not looked at.")
	}
	if r.shoved {
		s.problem("What stands indented behind a blank line is code, and what it says does not count.")
	}
	return s.sigils(), r.looked
}

// match gives each opening tag the index of the closing one that belongs to it, the nearest of its name. A tag that closes
// itself is its own mate.
func match(tags []tag) {
	open := map[string][]int{}
	for i, t := range tags {
		switch stack := open[t.name]; {
		case t.broken:
		case t.empty:
			tags[i].mate = i
		case !t.closing:
			open[t.name] = append(stack, i)
		case len(stack) > 0:
			tags[stack[len(stack)-1]].mate = i
			open[t.name] = stack[:len(stack)-1]
		}
	}
}

// reading gathers what the sigils of one text say, in their order.
type reading struct {
	Sigils
	more int // problems that are not told one by one
}

// take is one sigil that counts by its place.
func (s *reading) take(t tag, body string) {
	body = strings.TrimSpace(body)
	switch t.name {
	case taskDone:
		s.id(t.name, body, &s.Done)
	case taskFailed:
		s.id(t.name, body, &s.Failed)
	case promise:
		switch body {
		case "COMPLETE", "FAILURE":
			s.Complete, s.GivenUp = body == "COMPLETE", body == "FAILURE"
		default:
			s.problem("<promise> is COMPLETE or FAILURE, not %s.", quote(body))
		}
	case nextModel:
		if tier, ok := tiers[body]; ok {
			s.Next = tier
		} else {
			s.problem("<next-model> is small, worker or expert, not %s.", quote(body))
		}
	case journal:
		if body == "" {
			s.problem("<journal> is empty.")
			return
		}
		s.Notes = append(s.Notes, body)
	case knowledge:
		s.entry(t, body)
	case verifyPass:
		if s.Verdict == nil {
			s.Verdict = &Verdict{Pass: true}
		}
	case verifyFail:
		s.Verdict = &Verdict{Reason: body}
	}
}

// id keeps the name of a task, if it can be one: whether it is the right task is for others to say.
func (s *reading) id(name, body string, to *string) {
	if body == "" || len(body) > maxID || strings.ContainsFunc(body, notInID) {
		s.problem("<%s> names no task: %s.", name, quote(body))
		return
	}
	*to = body
}

func notInID(r rune) bool {
	return r == '<' || r == '>' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
}

func (s *reading) entry(t tag, body string) {
	e := Entry{Title: strings.Join(strings.Fields(t.attrs["title"]), " "), Body: body}
	for tag := range strings.SplitSeq(t.attrs["tags"], ",") {
		if tag = strings.Join(strings.Fields(tag), " "); tag != "" {
			e.Tags = append(e.Tags, tag)
		}
	}
	var err error
	e.Kind, err = td.LearningKindOf(strings.ToLower(strings.TrimSpace(t.attrs["kind"])))
	switch {
	case err != nil:
		s.problem("<knowledge> has a kind that is neither learning nor decision: %s.", quote(t.attrs["kind"]))
	case e.Title == "":
		s.problem("<knowledge> has no title: %s.", quote(body))
	case e.Body == "":
		s.problem("<knowledge> is empty: %s.", quote(e.Title))
	default:
		s.Knowledge = append(s.Knowledge, e)
	}
}

func (s *reading) problem(format string, args ...any) {
	if len(s.Problems) == maxProblems {
		s.more++
		return
	}
	s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
}

func (s *reading) sigils() Sigils {
	if s.Done != "" {
		s.Failed = ""
	}
	if s.more > 0 {
		s.Problems = append(s.Problems, fmt.Sprintf("There are %d more like these.", s.more))
	}
	return s.Sigils
}

// quote is the beginning of a foreign text, fit for one line.
func quote(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxQuoted {
			return fmt.Sprintf("%q…", text[:i])
		}
	}
	return fmt.Sprintf("%q", text)
}
