package planfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// issue is a line of beads' file, as far as it counts here.
type issue struct {
	ID           string       `json:"id"`
	Title        string       `json:"title"`
	Description  string       `json:"description"`
	Design       string       `json:"design"`
	Acceptance   string       `json:"acceptance_criteria"`
	Notes        string       `json:"notes"`
	Status       string       `json:"status"`
	Priority     int          `json:"priority"` // one that is not there is 0: beads leaves out zeros
	Type         string       `json:"issue_type"`
	Labels       []string     `json:"labels"`
	Dependencies []dependency `json:"dependencies"`
	Assignee     string       `json:"assignee"`
	CreatedBy    string       `json:"created_by"`
	CreatedAt    string       `json:"created_at"`
	UpdatedAt    string       `json:"updated_at"`
	ClosedAt     string       `json:"closed_at"`
	CloseReason  string       `json:"close_reason"`
	DueAt        string       `json:"due_at"`
	DeferUntil   string       `json:"defer_until"`
	Comments     []comment    `json:"comments"`

	line              int
	parent            *issue
	blockers, related []*issue
	place             int // 0: not placed, -1: being placed, else its place from 1
}

type comment struct {
	Author    string `json:"author"`
	Text      string `json:"text"`
	CreatedAt string `json:"created_at"`
}

type dependency struct {
	Issue     string `json:"issue_id"`
	DependsOn string `json:"depends_on_id"`
	Type      string `json:"type"`
}

// Beads reads the issues of beads, one JSON object a line. Open ones may be worked on, closed ones are done, deleted ones left
// out; all others are held, for beads knows that somebody is at work or that they are to wait. Of the ties
// "blocks" and "parent-child" are what they are here, all others become related.
func Beads(raw []byte) (Plan, error) {
	all, err := lines(raw)
	if err != nil {
		return Plan{}, err
	}
	var issues []*issue
	byID := map[string]*issue{}
	for i, line := range all {
		if strings.TrimSpace(line) == "" {
			continue
		}
		is := &issue{line: i + 1}
		if err := json.Unmarshal([]byte(line), is); err != nil {
			return Plan{}, td.Errorf(td.Invalid, "line %d: this is no issue of beads: %w", i+1, err)
		}
		if err := is.check(byID); err != nil {
			return Plan{}, err
		}
		byID[is.ID] = is
		issues = append(issues, is)
	}
	p := Plan{}
	for _, is := range issues {
		is.tie(&p, byID)
	}
	issues = slices.DeleteFunc(issues, func(is *issue) bool { return is.gone() })
	if len(issues) == 0 {
		return p, td.Errorf(td.Invalid, "there is no issue in it").WithHint("beads keeps them in .beads/issues.jsonl")
	}
	for _, is := range issues {
		is.untangle(&p)
	}
	order, err := sorted(issues)
	if err != nil {
		return p, err
	}
	for _, is := range order {
		for _, r := range is.related {
			r.related = append(r.related, is) // whichever comes later names the other
		}
	}
	for _, is := range order {
		p.Items = append(p.Items, is.item())
	}
	p.containersEndByThemselves()
	p.containersHoldTheirParts()
	slices.SortStableFunc(p.Notes, func(a, b Note) int { return a.Line - b.Line })
	return p, nil
}

func (is *issue) gone() bool { return is.Status == "tombstone" }

func (is *issue) check(known map[string]*issue) error {
	switch other := known[is.ID]; {
	case is.ID == "":
		return td.Errorf(td.Invalid, "line %d: the issue has no id", is.line)
	case other != nil:
		return td.Errorf(td.Invalid, "line %d: the issue %s is on line %d already", is.line, is.ID, other.line)
	case strings.TrimSpace(is.Title) == "" && !is.gone():
		return td.Errorf(td.Invalid, "line %d: the issue %s has no title", is.line, is.ID)
	case strings.ContainsRune(is.Title+is.text()+is.held()+is.ID+is.Type+strings.Join(is.Labels, ""), 0):
		return td.Errorf(td.Invalid, "line %d: the issue %s has bytes that are no text", is.line, is.ID)
	case is.Priority < 0 || is.Priority > 4:
		return td.Errorf(td.Invalid, "line %d: the issue %s has priority %d, not 0 to 4", is.line, is.ID, is.Priority)
	}
	return nil
}

// tie ties an issue to those it names.
func (is *issue) tie(p *Plan, byID map[string]*issue) {
	if is.gone() {
		return
	}
	for _, d := range is.Dependencies {
		from, to := is, byID[d.DependsOn]
		if other := byID[d.Issue]; d.Issue != "" && other != nil {
			from = other
		}
		if to == nil || to.gone() || from.gone() {
			p.note(is.line, fmt.Sprintf("%s: its tie to %s is left out: there is no such issue", is.ID, d.DependsOn))
			continue
		}
		switch d.Type {
		case "parent-child":
			if from.parent != nil && from.parent != to {
				p.note(is.line, fmt.Sprintf("%s is in %s already, and becomes related to %s", from.ID, from.parent.ID, to.ID))
				from.related = append(from.related, to)
				continue
			}
			from.parent = to
		case "blocks", "":
			from.blockers = append(from.blockers, to)
		default:
			from.related = append(from.related, to)
		}
	}
}

// untangle leaves out what a container and what is in it would wait for in each other: it ends when they do.
func (is *issue) untangle(p *Plan) {
	is.blockers = slices.DeleteFunc(is.blockers, func(b *issue) bool {
		if b != is && (b.within(is) || is.within(b)) {
			p.note(is.line, fmt.Sprintf("%s does not wait for %s: one is part of the other", is.ID, b.ID))
			return true
		}
		return false
	})
}

// within reports whether an issue is in another. It ends even where issues are in each other.
func (is *issue) within(other *issue) bool {
	slow := is
	for up, odd := is.parent, false; up != nil; up, odd = up.parent, !odd {
		if up == other {
			return true
		}
		if odd {
			slow = slow.parent
		}
		if up == slow {
			return false
		}
	}
	return false
}

// sorted is the issues in an order in which each follows its parent and its blockers. It walks with a stack of its
// own: chains may be long.
func sorted(issues []*issue) ([]*issue, error) {
	var out []*issue
	for _, first := range issues {
		for stack := []*issue{first}; len(stack) > 0; {
			is := stack[len(stack)-1]
			if is.place > 0 {
				stack = stack[:len(stack)-1]
				continue
			}
			is.place = -1
			before := is.before()
			if before == nil {
				out = append(out, is)
				is.place = len(out)
				stack = stack[:len(stack)-1]
				continue
			}
			if before.place < 0 {
				return nil, td.Errorf(td.Invalid, "line %d: dependency cycle: %s", before.line, circle(stack, before))
			}
			stack = append(stack, before)
		}
	}
	return out, nil
}

// before is an issue that has to be placed before this one, or nil.
func (is *issue) before() *issue {
	if is.parent != nil && is.parent.place <= 0 {
		return is.parent
	}
	for _, b := range is.blockers {
		if b.place <= 0 {
			return b
		}
	}
	return nil
}

func circle(stack []*issue, from *issue) string {
	var names []string
	for _, is := range stack[slices.Index(stack, from):] {
		names = append(names, is.ID)
	}
	return strings.Join(append(names, from.ID), " → ")
}

// text is all that the issue says beside its title.
func (is *issue) text() string {
	text := []string{strings.TrimSpace(is.Description)}
	comments := make([]string, len(is.Comments))
	for i, c := range is.Comments {
		comments[i] = strings.Join(strings.Fields(c.Author+" "+c.CreatedAt), ", ") + ":\n\n" + strings.TrimSpace(c.Text)
	}
	for _, part := range [][2]string{
		{"Design", is.Design}, {"Acceptance criteria", is.Acceptance}, {"Notes", is.Notes}, {"Comments", strings.Join(comments, "\n\n")}, {"In beads", is.record()},
	} {
		if t := strings.TrimSpace(part[1]); t != "" {
			text = append(text, "## "+part[0]+"\n\n"+t)
		}
	}
	return strings.TrimSpace(strings.Join(text, "\n\n"))
}

// record is who had to do with the issue, and when.
func (is *issue) record() string {
	var out []string
	for _, fact := range [][2]string{
		{"assignee", is.Assignee}, {"created", strings.TrimSpace(is.CreatedAt + " " + is.CreatedBy)}, {"updated", is.UpdatedAt},
		{"closed", strings.TrimSpace(is.ClosedAt + " " + is.CloseReason)}, {"due", is.DueAt}, {"deferred until", is.DeferUntil},
	} {
		if fact[1] != "" {
			out = append(out, "- "+fact[0]+": "+strings.Join(strings.Fields(fact[1]), " "))
		}
	}
	return strings.Join(out, "\n")
}

// held is why an issue is not to be worked on though it is not closed; empty: it may be.
func (is *issue) held() string {
	switch is.Status {
	case "", "open", "closed", "tombstone":
		return ""
	}
	why := "it is " + strings.ReplaceAll(is.Status, "_", " ") + " in beads"
	if is.Assignee != "" {
		why += ", assigned to " + is.Assignee
	}
	if is.DeferUntil != "" {
		why += ", until " + is.DeferUntil
	}
	return why
}

func (is *issue) item() Item {
	priority := is.Priority
	it := Item{
		// Lists of two projects may have the same ids, but hardly of the same instant.
		Line: is.line, Key: "beads:" + is.ID, Source: strings.Join([]string{"beads", is.ID, cmp.Or(is.CreatedAt, is.Title)}, "\n"),
		Parent: -1, Labels: is.labels(), Priority: &priority, Done: is.Status == "closed", Held: is.held(),
	}
	it.Title, it.Text = titled(is.Title, is.text())
	if is.parent != nil {
		it.Parent = is.parent.place - 1
	}
	it.Blockers = places(is.blockers, is.place)
	it.Related = places(is.related, is.place)
	return it
}

// labels are those of the issue, and its type where that says more than that it is a task.
func (is *issue) labels() []string {
	var out []string
	for _, l := range append(slices.Clone(is.Labels), is.Type) {
		if l = strings.TrimSpace(l); l != "" && l != "task" && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// places are the places of issues before one.
func places(issues []*issue, before int) []int {
	var out []int
	for _, is := range issues {
		if at := is.place - 1; is.place < before && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}
