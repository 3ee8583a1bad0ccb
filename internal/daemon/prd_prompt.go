package daemon

import (
	_ "embed"
	"strings"

	"taskdaemon/internal/td"
)

// The prompts of a PRD's authors. Their holes are names in braces and nothing else: a template that can call methods by name keeps every
// method of every library in the binary, a third of its size.
var (
	//go:embed prompts/interview_spec.md
	interviewSpec string
	//go:embed prompts/review_spec.md
	reviewSpec string
	//go:embed prompts/interview_plan.md
	interviewPlan string
	//go:embed prompts/review_plan.md
	reviewPlan string
	//go:embed prompts/decompose.md
	decomposePlan string

	authorPrompts = map[td.AuthorPhase]string{
		td.AuthorSpec: interviewSpec, td.ReviewSpec: reviewSpec, td.AuthorPlan: interviewPlan, td.ReviewPlan: reviewPlan, td.AuthorWork: decomposePlan,
	}
)

// briefing is what the author of a phase is told about a PRD.
type briefing struct {
	name       string
	path       string // of the document to write, if there is one
	spec, plan string // the paths of both
	phases     []td.PRDPart
	criteria   []string
	planned    string // a list
}

func (b briefing) prompt(phase td.AuthorPhase) string {
	return strings.NewReplacer("{name}", b.name, "{path}", b.path, "{spec}", b.spec, "{plan}", b.plan, "{known}", b.known()).
		Replace(authorPrompts[phase])
}

// known says what is settled before the first task is planned.
func (b briefing) known() string {
	var s strings.Builder
	section := func(head, list string) {
		if list != "" {
			s.WriteString("\n" + head + "\n" + list)
		}
	}
	var phases strings.Builder
	for _, p := range b.phases {
		phases.WriteString(p.String())
	}
	section("The work is divided into these phases. Say of each task which it is in (phase: its number), and let the tasks of one wait for those of the one before where they need them:", phases.String())
	section("The feature counts as done when all of this holds. Each is the business of at least one task, whose text says so:", bullets(b.criteria))
	section("These are planned already; add what is missing, nothing twice:", b.planned)
	return s.String()
}

func bullets(items []string) string {
	var s strings.Builder
	for _, i := range items {
		s.WriteString("- " + i + "\n")
	}
	return s.String()
}
