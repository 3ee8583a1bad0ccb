package engine

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/strategy"
	"taskdaemon/internal/td"
)

// Planned is what the graph knows that an iteration of one of its tasks begins with.
type Planned struct {
	Parent   *Neighbour
	Blockers []Neighbour // completed: what was done before
	// Documents are those of the PRD that the task is part of, and Feature is its slug.
	Documents []Document
	Feature   string
	// Criteria are how one can tell that the feature is done, and AutoInstall says that what it needs may be installed.
	Criteria    []string
	AutoInstall bool
	// Phases are what the work of the feature is divided into, and Phase is the number of the one that the task is in; 0: in none.
	Phases []td.PRDPart
	Phase  int
	Direct bool // the task is the feature itself
	// InTheWay says why the task may not begin anything new: it waits for another one, since somebody said so.
	InTheWay string
	// Siblings is what became of the tasks beside it, the newest first.
	Siblings []strategy.Outcome
}

// Neighbour is a task of the graph that has to do with another.
type Neighbour struct {
	Handle, Title, Text string
	// Summary is what was said of it when it was completed, by whoever did it, wherever that was.
	Summary string
	// Untrusted says that the task had read untrusted text before it said that.
	Untrusted bool
	// Inside is what was completed in it, the newest first, and More is how much of that is left out.
	Inside []Neighbour
	More   int
}

// Document is a text that belongs to a PRD.
type Document struct{ Name, Text string }

// maxNeighbour bounds the text of each task that is shown with another, in characters.
const maxNeighbour = 2000

// maxInside bounds the summary of each task that is told as part of another, in characters.
const maxInside = 300

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

// addPlanned adds what the graph knows of the task, and reports whether any of that comes from a task that had read
// untrusted text. What the project itself says stands there as it is, what others say of their work is fenced.
func (r *run) addPlanned(p Planned, opening *prose) (untrusted bool) {
	if p.Parent != nil {
		opening.add("parent", p.Parent.Handle, fmt.Sprintf("<part_of task=%q title=%q>\n%s\n</part_of>\n\n",
			p.Parent.Handle, p.Parent.Title, within("part_of", clip(p.Parent.Text, maxNeighbour))))
	}
	for _, d := range p.Documents {
		text := d.Text
		if cut := clip(text, maxDocument); cut != text {
			text = cut + "\n[The rest was left out.]"
		}
		opening.add(d.Name, "", fmt.Sprintf("<%s>\n%s\n</%s>\n\n", d.Name, within(d.Name, strings.TrimSpace(text)), d.Name))
	}
	if text := p.criteria(); text != "" {
		opening.add("criteria", "", fmt.Sprintf("<criteria>\n%s</criteria>\n\n", within("criteria", text)))
	}
	for _, b := range p.Blockers {
		told, tainted := b.told()
		untrusted = untrusted || tainted
		opening.add("completed before", b.Handle, fmt.Sprintf("<completed_before task=%q title=%q>\n%s\n</completed_before>\n\n",
			b.Handle, b.Title, within("completed_before", told)))
	}
	return untrusted
}

// criteria is what is said of when the feature is done, and of what may be done for it.
func (p Planned) criteria() string {
	var b strings.Builder
	if len(p.Criteria) > 0 {
		b.WriteString("The whole feature counts as done when all of this holds; what of it this task is about must hold after it:\n")
	}
	for _, c := range p.Criteria {
		fmt.Fprintf(&b, "- %s\n", c)
	}
	switch at := p.Phase; {
	case at > 0 && at <= len(p.Phases):
		fmt.Fprintf(&b, "This task is in phase %d/%d of the feature:\n%s", at, len(p.Phases), p.Phases[at-1])
	case p.Direct && len(p.Phases) > 0:
		b.WriteString("The work is divided into these phases, one after the other:\n")
		for _, part := range p.Phases {
			b.WriteString(part.String())
		}
	}
	if p.AutoInstall {
		b.WriteString("What the work needs, such as packages, may be installed with the project's own means.\n")
	}
	return b.String()
}

// told is what is said of a completed task, and whether a task that had read untrusted text says any of it.
func (n Neighbour) told() (text string, untrusted bool) {
	if n.Summary == "" && len(n.Inside) == 0 {
		return clip(n.Text, maxNeighbour), false
	}
	said := clip(n.Summary, maxNeighbour)
	untrusted = n.Untrusted && said != ""
	for _, in := range n.Inside {
		said += fmt.Sprintf("\n- %s (%q)", in.Handle, in.Title)
		if in.Summary != "" {
			said += ": " + strings.Join(strings.Fields(clip(in.Summary, maxInside)), " ")
			untrusted = untrusted || in.Untrusted
		}
	}
	if n.More > 0 {
		said += fmt.Sprintf("\nand %d more", n.More)
	}
	return fence.Text("What was said of it when it was completed", fence.Visible(strings.TrimSpace(said))), untrusted
}

// within keeps a text from ending the section that it stands in, however it spells that.
func within(section, text string) string {
	ends := regexp.MustCompile(`(?i)<\s*/(\s*` + regexp.QuoteMeta(section) + `)\b`)
	return ends.ReplaceAllString(text, "&lt;/$1")
}

// addHistory adds what became of earlier iterations of the task, and what people said in them.
func (r *run) addHistory(t td.Task, opening *prose) {
	if last := lastTry(t); last != nil {
		opening.add("retry", "", fmt.Sprintf(retryText, t.Iteration+1, r.retryWords(t), endingWords[last.Ending], quote(last.Reason)))
	}
	if script := r.log.Transcript(); t.Iteration > 0 && len(script.People) > 0 {
		var b strings.Builder
		for _, words := range script.People {
			fmt.Fprintf(&b, "%s\n\n", within("said_before", clip(words, maxNeighbour)))
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
	td.EndedFailed:      "the agent gave it up",
	td.EndedUnverified:  "it was found not to be done",
	td.EndedUnclear:     "it ended without a result",
	td.EndedMistaken:    "the agent spoke of another task",
	td.EndedGivenUp:     "the agent saw no use in going on",
	td.EndedInterrupted: "a person interrupted it",
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

// plannedOf asks for what the graph knows. What cannot be found out is done without, but nobody can tell then
// whether a task that a run started may begin.
func (r *run) plannedOf(ctx context.Context, t td.Task) Planned {
	if r.Planned == nil || !planned(t) {
		return Planned{}
	}
	p, err := r.Options.Planned(ctx, t)
	if err != nil {
		r.Log.Warn("look up what is planned around a task", "task", t.Handle, "err", err)
		p.InTheWay = fmt.Sprintf("the graph cannot be read: %v", err)
	}
	return p
}

// rulesOfPlanned tells an agent that has part of a plan how that is worked on.
const rulesOfPlanned = `<rules>
This is one task of a plan, and the only one you work on. Do not assume that code exists: look first. Leave working code, no stubs. Run
the tests. Say in the notes of Complete or Fail what those after you should know. If you cannot call tools, end with
<task-done>%[1]s</task-done> or <task-failed>%[1]s</task-failed>, and put notes into <journal>…</journal>.

These you may say in any answer. What is worth knowing for good:
<knowledge title="…" tags="one, two">…</knowledge>. Which model the next try should get, if there is one:
<next-model>expert</next-model> (or worker, or small). End with <promise>FAILURE</promise>, and why, only if there is no
use in going on with any task of the plan: the whole run ends then.
</rules>

`
