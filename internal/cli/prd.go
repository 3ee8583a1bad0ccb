package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func newPRDCmd(a *app) *cobra.Command {
	cmd := group("prd", "Plan features: from a spec and a plan to tasks", `taskdaemon prd create "Remember me" --spec spec.md --plan plan.md`,
		newPRDCreateCmd(a), newPRDListCmd(a), newPRDShowCmd(a), newPRDDeleteCmd(a))
	cmd.Aliases = []string{"feature"}
	return cmd
}

type prdListOptions struct{ planOptions }

func newPRDListCmd(a *app) *cobra.Command {
	o := &prdListOptions{planOptions{app: a}}
	return o.command(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List features and how far they are", Args: args(cobra.NoArgs, "no arguments"),
		Long: `List the features of the project and how far they are.

  draft     a document is missing      planned   both are there, and no tasks yet      ready   it has tasks
  running   one of them was begun      done      all are completed                     failed  one of them failed`,
		Example: "  taskdaemon prd list",
	}, func(ctx context.Context) error { return runPRDList(ctx, *o) })
}

func runPRDList(ctx context.Context, o prdListOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	all, err := svc.PRDs(ctx, o.dir)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(append([]api.PRD{}, all...))
	}
	if len(all) == 0 {
		a.say("%s", a.typeable(`there are none; next: taskdaemon prd create "what it is called"`))
		return nil
	}
	rows := [][]string{{"PRD", "PHASE", "TASKS", "SLUG", "TITLE"}}
	for _, p := range all {
		rows = append(rows, []string{
			p.Task.Handle, string(p.Phase), prdTasks(p), plainLine(p.Slug, 60), a.style.state(p.Task.State, plainLine(p.Task.Title, 60)),
		})
	}
	return table(a.stdout, rows)
}

// prdTasks is how many tasks of a PRD are done.
func prdTasks(p api.PRD) string {
	if p.Tasks == 0 {
		return "-"
	}
	words := fmt.Sprintf("%d/%d", p.Completed, p.Tasks)
	if p.Failed > 0 {
		words += fmt.Sprintf(", %d failed", p.Failed)
	}
	return words
}

type prdShowOptions struct {
	planOptions
	spec, plan bool
}

func newPRDShowCmd(a *app) *cobra.Command {
	o := &prdShowOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "show <prd>", Short: "Show a feature, its documents and its tasks", Args: args(cobra.ExactArgs(1), "one PRD, by its slug or handle"),
		Long: `Show a feature: how far it is, where its documents are, who prepares it, and its tasks. With --spec or --plan the document
itself goes to stdout.`,
		Example: "  taskdaemon prd show remember-me --spec",
	}, func(ctx context.Context) error { return runPRDShow(ctx, *o) })
	cmd.Flags().BoolVar(&o.spec, "spec", false, "only the spec")
	cmd.Flags().BoolVar(&o.plan, "plan", false, "only the plan")
	cmd.MarkFlagsMutuallyExclusive("spec", "plan")
	return cmd
}

func runPRDShow(ctx context.Context, o prdShowOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	p, err := svc.PRD(ctx, o.dir, o.args[0])
	if err != nil {
		return err
	}
	switch {
	case o.spec || o.plan:
		name := td.DocSpec
		if o.plan {
			name = td.DocPlan
		}
		return a.printDocument(p, name)
	case a.json:
		return a.printJSON(p)
	}
	parts, err := svc.Planned(ctx, api.PlanQuery{Dir: o.dir, In: string(p.Task.ID), Tree: true})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s  %s\n\n", a.style.bold(p.Task.Handle), plainLine(p.Task.Title, 100))
	rows := [][]string{{"phase", string(p.Phase)}}
	for _, d := range p.Documents {
		rows = append(rows, []string{string(d.Name), documentWords(d)})
	}
	switch {
	case p.Direct:
		rows = append(rows, []string{"tasks", "none: it is worked on itself"})
	case p.Tasks > 0:
		rows = append(rows, []string{"tasks", prdTasks(p)})
	}
	if p.Problem != "" {
		rows = append(rows, []string{"problem", plainLine(p.Problem, 300)})
	}
	for _, part := range p.Phases {
		rows = append(rows, partRows(part, p.At, len(p.Phases))...)
	}
	for _, c := range p.Criteria {
		rows = append(rows, []string{"done when", plainLine(c, 300)})
	}
	if p.AutoInstall {
		rows = append(rows, []string{"install", "what it needs may be installed, as far as the rules allow"})
	}
	for _, au := range p.Authors {
		rows = append(rows, []string{"author", fmt.Sprintf("%s %s, %s (%s)", stateMark(au.State), au.Handle, au.State, au.Phase)})
	}
	if err := table(a.stdout, append(rows, planTies(p.Task)...)); err != nil {
		return err
	}
	if p.Next != "" {
		a.say("next: %s", a.typeable("taskdaemon prd create "+p.Slug))
	}
	if p.Next == td.AuthorWork && p.Phase == td.PRDPlanned {
		a.say("or, if it is small: %s", a.typeable("taskdaemon run "+p.Slug))
	}
	if len(parts) < 2 {
		return nil
	}
	if _, err := fmt.Fprintln(a.stdout); err != nil {
		return written(err)
	}
	return a.printTree(parts[1:])
}

// partRows are the rows of a phase; at is the number of the present one, of so many.
func partRows(part td.PRDPart, at, of int) [][]string {
	name := fmt.Sprintf("phase %d/%d", part.Number, of)
	line := plainLine(part.Name, 200)
	if part.Number == at {
		line += " (now)"
	}
	rows := [][]string{{name, line}}
	for _, r := range part.Requirements {
		rows = append(rows, []string{"", "requires " + plainLine(r, 300)})
	}
	for _, c := range part.Criteria {
		rows = append(rows, []string{"", "done when " + plainLine(c, 300)})
	}
	return rows
}

func documentWords(d api.Document) string {
	switch {
	case d.Problem != "":
		return plainLine(d.Problem, 300)
	case !d.There:
		return "missing"
	}
	return fmt.Sprintf("%s, %s", plainLine(d.Path, 300), plural(d.Size, "byte"))
}

// printDocument writes a document as it is, and to a terminal what can be shown of it.
func (a *app) printDocument(p api.PRD, name td.DocName) error {
	d := p.Document(name)
	switch {
	case d.Problem != "":
		return td.Errorf(td.Invalid, "%s", d.Problem)
	case !d.There:
		return td.Errorf(td.NotFound, "%s has no %s", p.Task.Handle, name).WithHint("taskdaemon prd create %s --%s FILE", p.Slug, name)
	case a.json:
		return a.printJSON(d)
	}
	text := d.Text
	if isTerminal(a.stdout) {
		text = plainText(text)
	}
	_, err := io.WriteString(a.stdout, strings.TrimRight(text, "\n")+"\n")
	return written(err)
}
