package notify

import (
	"fmt"
	"strconv"
	"strings"

	"taskdaemon/internal/td"
)

// Event is what people are told about: a task and where it stands now.
type Event struct {
	Task    td.TaskID
	Handle  string
	Title   string
	Dir     string
	State   td.State
	Summary string // what was done, what went wrong, or what is asked
	Turns   int
	Cost    td.Money
}

// Of is the event of a task as it stands. Effect: none.
func Of(t td.Task) Event {
	e := Event{
		Task: t.ID, Handle: t.Handle, Title: t.Spec.Title, Dir: t.Dir, State: t.Status.State, Summary: t.Status.Reason,
		Turns: t.Turns, Cost: t.TreeSpent().Cost,
	}
	switch s := t.Status; {
	case s.Completed != nil:
		e.Summary = s.Completed.Summary
	case s.Failed != nil:
		e.Summary = s.Failed.Error
	case s.Waiting != nil:
		e.Summary = s.Waiting.Prompt
		if r, open := t.Request(s.Waiting.Request); open {
			e.Summary = r.Question()
		}
	}
	return e
}

// OfReport is the event of a start: what it found and did. Effect: none.
func OfReport(r td.Report) Event {
	return Event{Handle: "taskdaemon", State: "recovered", Summary: r.String()}
}

// OfDisk is the event of a disk that fills up. Effect: none.
func OfDisk(u td.DiskUse) Event {
	return Event{Handle: "taskdaemon", State: "disk", Summary: u.String()}
}

// NeedsInput says in one line that a task waits for a person. Effect: none.
func NeedsInput(t td.Task) string {
	e := Of(t)
	s := "⚠ " + e.name()
	if title := line(e.Title, maxName); title != "" {
		s += " " + title
	}
	return s + " needs input"
}

// What is told is bounded: a sentence is read aloud, the rest goes into an environment.
const (
	maxSentence = 300
	maxName     = 100
	maxSummary  = 2_000
)

// Sentence is the event in one line, as in "t-abc make the test pass: completed, 12 turns, $0.34". What
// went wrong or is asked for is said as well; what was done is not, it takes longer to hear than to
// read. Effect: none.
func (e Event) Sentence() string {
	parts := []string{orElse(line(string(e.State), maxName), "changed")}
	switch {
	case e.Turns == 1:
		parts = append(parts, "1 turn")
	case e.Turns > 1:
		parts = append(parts, strconv.Itoa(e.Turns)+" turns")
	}
	if c := cost(e.Cost); c != "" {
		parts = append(parts, c)
	}
	s := strings.Join(parts, ", ")
	if name := line(e.Title, maxName); name != "" {
		s = name + ": " + s
	}
	s = e.name() + " " + s
	if why := line(e.Summary, maxSentence); why != "" && e.State != td.Completed {
		s += ": " + why
	}
	return line(s, maxSentence)
}

// name is the task's short name. A command may get it as its first word, so it never looks like a flag.
func (e Event) name() string {
	return orElse(strings.TrimLeft(line(e.Handle, maxName), "- "), "task")
}

// Env is the event as variables for a command: TASK_ID, TASK_HANDLE, TASK_TITLE, TASK_STATE,
// TASK_SUMMARY, TASK_TURNS, TASK_COST in dollars, TASK_DIR, and TASK_SENTENCE with the whole in one
// line. Each is a single printable line. They are not called TASKDAEMON_…, because those names set the
// program's own configuration, its state folder for one, and a command may well call the program. A
// person's command line reads them as variables; nothing is ever put into the line itself, where a shell
// would take a title for a command.
//
// Effect: none. Running the command is opaque: it is a step under the shim like any other, and an
// interrupted one is adopted or reported, never run again by itself.
func (e Event) Env() []string {
	return []string{
		"TASK_ID=" + line(string(e.Task), maxName),
		"TASK_HANDLE=" + e.name(),
		"TASK_TITLE=" + line(e.Title, maxSentence),
		"TASK_STATE=" + line(string(e.State), maxName),
		"TASK_SUMMARY=" + line(e.Summary, maxSummary),
		"TASK_TURNS=" + strconv.Itoa(e.Turns),
		"TASK_COST=" + strconv.FormatFloat(e.Cost.Dollars(), 'f', 4, 64),
		"TASK_DIR=" + line(e.Dir, maxSummary),
		"TASK_SENTENCE=" + e.Sentence(),
	}
}

// cost is an amount as people say it; nothing is said about nothing.
func cost(m td.Money) string {
	switch {
	case m <= 0:
		return ""
	case m < 10_000:
		return "less than $0.01"
	}
	return fmt.Sprintf("$%.2f", m.Dollars())
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
