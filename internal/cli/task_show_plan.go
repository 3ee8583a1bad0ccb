package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// plannedToo is what the graph of a task's project says of it, or nil.
func plannedToo(ctx context.Context, svc api.Service, t td.Task) *api.Planned {
	p, err := svc.PlannedTask(ctx, t.Dir, string(t.ID))
	if err != nil {
		return nil // it is planned nowhere, or its project is gone: the journal has what counts
	}
	return &p
}

// openAgain reports whether a task has ended by its records, and is to be done again by the graph.
func openAgain(p *api.Planned, t td.Task) bool {
	return p != nil && t.Status.State.Terminal() && !p.State.Terminal()
}

// plannedAs says what the graph has of a task, if that is not what its records say: a person has closed it or opened it
// again.
func plannedAs(p api.Planned, t td.Task) [][]string {
	if p.State == t.Status.State {
		return nil
	}
	words := planState(p)
	switch {
	case openAgain(&p, t):
		words += ": it was reset, to be done again"
		if why := obstacleWords(p); why != "" {
			words += "; " + why
		}
	case p.Summary+p.Reason != "":
		words += ": " + p.Summary + p.Reason
	}
	return [][]string{{"planned as", plainLine(words, 300)}}
}

// showPlanned shows a task that the journal does not know, if the graph does.
func (o taskShowOptions) showPlanned(ctx context.Context, svc api.Service, unknown error) error {
	a := o.app
	where := planOptions{app: a, dir: o.dir}
	if err := where.resolve(); err != nil {
		return err
	}
	p, err := svc.PlannedTask(ctx, where.dir, o.ref)
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Invalid) {
		return unknown
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	fmt.Fprintf(a.stdout, "%s  %s\n\n", a.style.bold(p.Handle), plainLine(p.Title, 100))
	if err := table(a.stdout, append(plannedRows(a, p), planTies(p)...)); err != nil {
		return err
	}
	if text := strings.TrimSpace(p.Text); text != "" {
		fmt.Fprintf(a.stdout, "\n%s\n", quotedWhole(text))
	}
	return nil
}

func plannedRows(a *app, p api.Planned) [][]string {
	state := planMark(p) + " " + planState(p)
	if why := obstacleWords(p); why != "" {
		state += ": " + why
	}
	rows := [][]string{{"state", a.style.state(p.State, state)}}
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, plainLine(text, 300)})
		}
	}
	add("summary", p.Summary)
	add("reason", p.Reason)
	add("kind", fmt.Sprintf("%s, priority %d", p.Kind, p.Priority))
	add("tier", string(p.Tier))
	add("validator", p.Validator)
	add("labels", strings.Join(p.Labels, ", "))
	add("created", p.CreatedAt.Local().Format("2006-01-02 15:04:05")+" by "+cmp.Or(p.CreatedBy, "somebody"))
	add("changed", p.UpdatedAt.Local().Format("2006-01-02 15:04:05"))
	add("id", string(p.ID))
	return rows
}

// planTies are what a task of a graph is tied to, and what is wrong with it there.
func planTies(p api.Planned) (rows [][]string) {
	if p.Parent != nil {
		rows = append(rows, []string{"part of", planNameState(*p.Parent)})
	}
	rows = append(rows, tieRows(p)...)
	for _, problem := range p.Problems {
		rows = append(rows, []string{"problem", plainLine(problem, 300)})
	}
	return rows
}
