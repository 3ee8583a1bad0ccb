package engine

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/strategy"
	"taskdaemon/internal/td"
)

// Planned is what the graph knows that an iteration of one of its tasks begins with.
type Planned struct {
	Parent   *Neighbour
	Blockers []Neighbour // completed: what was done before
	// Documents are those of the PRD that the task is part of.
	Documents []Document
	// InTheWay says why the task may not begin anything new: it waits for another one, since somebody said so.
	InTheWay string
	// Siblings is what became of the tasks beside it, the newest first.
	Siblings []strategy.Outcome
}

// Neighbour is a task of the graph that has to do with another.
type Neighbour struct {
	Handle, Title, Text string
}

// Document is a text that belongs to a PRD.
type Document struct{ Name, Text string }

// maxNeighbour bounds the text of each task that is shown with another, in characters.
const maxNeighbour = 2000

// maxDocument bounds each document, in characters: it is paid for in every call.
const maxDocument = 60_000

// tierFor is the class of model that an iteration gets, by the strategy of the run. Without one it is the task's own.
func (r *run) tierFor(t td.Task, p Planned) (tier td.Tier, why string) {
	if t.Ordered == nil || t.Spec.Model != "" {
		return "", ""
	}
	last := t.Chosen
	if t.Raised != "" {
		last = t.Raised
	}
	return strategy.Choose(t.Ordered.Strategy, strategy.Signals{
		Iteration: t.Iteration + 1, Own: t.Tier, Tries: t.Tries, Last: last, Hint: t.Hint, Siblings: p.Siblings,
	})
}

// addPlanned adds what the graph knows of the task, what became of earlier iterations, and what people said in them.
func (r *run) addPlanned(t td.Task, p Planned, opening *prose) {
	if p.Parent != nil {
		opening.add("parent", p.Parent.Handle, fmt.Sprintf("<part_of task=%q title=%q>\n%s\n</part_of>\n\n",
			p.Parent.Handle, p.Parent.Title, clip(p.Parent.Text, maxNeighbour)))
	}
	for _, d := range p.Documents {
		text := d.Text
		if cut := clip(text, maxDocument); cut != text {
			text = cut + "\n[The rest was left out.]"
		}
		opening.add(d.Name, "", fmt.Sprintf("<%s>\n%s\n</%s>\n\n", d.Name, strings.TrimSpace(text), d.Name))
	}
	for _, b := range p.Blockers {
		opening.add("completed before", b.Handle, fmt.Sprintf("<completed_before task=%q title=%q>\n%s\n</completed_before>\n\n",
			b.Handle, b.Title, clip(b.Text, maxNeighbour)))
	}
}

// addHistory adds what became of earlier iterations of the task, and what people said in them.
func (r *run) addHistory(t td.Task, opening *prose) {
	if last := lastTry(t); last != nil {
		opening.add("retry", "", fmt.Sprintf(retryText, t.Iteration+1, r.retryWords(t), endingWords[last.Ending], quote(last.Reason)))
	}
	if script := r.log.Transcript(); t.Iteration > 0 && len(script.People) > 0 {
		var b strings.Builder
		for _, words := range script.People {
			fmt.Fprintf(&b, "%s\n\n", clip(words, maxNeighbour))
		}
		opening.add("people", "", "<said_before>\nWhat people told those who worked on this task before you:\n\n"+b.String()+"</said_before>\n\n")
	}
}

func (r *run) retryWords(t td.Task) string {
	if t.Unverified == 0 {
		return ""
	}
	return fmt.Sprintf(" It is retry %d of %d.", t.Unverified, r.Verifications)
}

var endingWords = map[td.Ending]string{
	td.EndedFailed:     "the agent gave it up",
	td.EndedUnverified: "it was found not to be done",
	td.EndedUnclear:    "it ended without a result",
	td.EndedMistaken:   "the agent spoke of another task",
	td.EndedGivenUp:    "the agent saw no use in going on",
}

const retryText = `<retry>
This is iteration %d of this task; what was done before is in the workspace.%s The last one came to nothing: %s.

%s

Deal with that first.
</retry>

`

func quote(text string) string {
	if text == "" {
		return "> (no reason was given)"
	}
	return "> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ")
}

// plannedOf asks for what the graph knows. What cannot be found out is done without.
func (r *run) plannedOf(ctx context.Context, t td.Task) Planned {
	if r.Planned == nil || !planned(t) {
		return Planned{}
	}
	p, err := r.Options.Planned(ctx, t)
	if err != nil {
		r.Log.Warn("look up what is planned around a task", "task", t.Handle, "err", err)
	}
	return p
}

// rulesOfPlanned tells an agent that has part of a plan how that is worked on.
const rulesOfPlanned = `<rules>
This is one task of a plan, and the only one you work on. Do not assume that code exists: look first. Leave working code, no stubs. Run
the tests. Say in the notes of Complete or Fail what those after you should know. If you cannot call tools, end with
<task-done>%[1]s</task-done> or <task-failed>%[1]s</task-failed>, and put notes into <journal>…</journal>.
</rules>

`
