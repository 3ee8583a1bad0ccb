package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/planfile"
	"taskdaemon/internal/td"
)

// maxImport bounds a file of plans.
const maxImport = 32 << 20

type importOptions struct {
	planOptions
	format string
	parent string
	dryRun bool
}

func newImportCmd(a *app) *cobra.Command {
	o := &importOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "import <file | ->", Short: "Plan tasks from a checklist or from beads", Args: args(cobra.ExactArgs(1), "one file, or - for stdin"),
		Long: `Put what a file plans into the project's graph, all of it or nothing. What was imported before is not added again.

markdown: "- [ ] item" is a task, "- [x] item" a completed one; items that are indented below another, and all that is below
a heading, are part of it; text below an item is what to do. Who imports the same list in another clone gets the same tasks.

beads: a file like .beads/issues.jsonl. Closed issues are completed, deleted ones left out, and those that are neither open
nor closed (in progress, blocked, deferred) are paused until "task reset"; blocks and parent-child are kept as they are, all
other ties become related. Who imports the same issues in another clone gets the same tasks.`,
		Example: "  taskdaemon import TODO.md --dry-run",
	}, func(ctx context.Context) error { return runImport(ctx, *o) })
	cmd.Flags().StringVar(&o.format, "format", "", "markdown or beads; by the file's name when not given")
	cmd.Flags().StringVar(&o.parent, "parent", "", "task of the graph that all of it becomes part of")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would be added")
	return cmd
}

func runImport(ctx context.Context, o importOptions) error {
	a := o.app
	plan, err := o.read()
	if err != nil {
		return err
	}
	for _, n := range plan.Notes {
		a.say("%s", a.talk.warn(fmt.Sprintf("line %d: %s", n.Line, plainLine(n.Text, 300))))
	}
	tasks := o.tasks(plan)
	if o.dryRun {
		return o.preview(plan, tasks)
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	known := map[td.TaskID]bool{}
	before, err := svc.Planned(ctx, api.PlanQuery{Dir: o.dir})
	if err != nil {
		return err
	}
	for _, p := range before {
		known[p.ID] = true
	}
	all, err := svc.Plan(ctx, api.Plan{Dir: o.dir, Tasks: tasks, By: a.by()})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(all)
	}
	added := 0
	for _, p := range all {
		if known[p.ID] {
			continue
		}
		added++
		if _, err := fmt.Fprintf(a.stdout, "%s  %s\n", p.Handle, plainLine(p.Title, 80)); err != nil {
			return written(err)
		}
	}
	a.say("%s added, %d there already; next: %s", plural(added, "task"), len(all)-added, a.typeable("taskdaemon task tree"))
	return nil
}

// read reads the file in its format.
func (o importOptions) read() (planfile.Plan, error) {
	name, in := o.args[0], o.app.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return planfile.Plan{}, td.Errorf(td.Invalid, "read file: %w", err)
		}
		defer f.Close()
		in = f
	}
	format := o.format
	if format == "" {
		switch strings.ToLower(filepath.Ext(name)) {
		case ".md", ".markdown":
			format = "markdown"
		case ".jsonl":
			format = "beads"
		default:
			return planfile.Plan{}, td.Errorf(td.Invalid, "%s: its name does not say what it is", plainLine(name, 100)).
				WithHint("taskdaemon import %s --format markdown", name)
		}
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err != nil {
		return planfile.Plan{}, td.Errorf(td.Invalid, "read file: %w", err)
	}
	if len(raw) > maxImport {
		return planfile.Plan{}, td.Errorf(td.Invalid, "%s is larger than %d MiB", plainLine(name, 100), maxImport>>20)
	}
	var plan planfile.Plan
	switch format {
	case "markdown":
		plan, err = planfile.Markdown(raw, filepath.Base(name))
	case "beads":
		plan, err = planfile.Beads(raw)
	default:
		return plan, td.Errorf(td.Invalid, "--format %s: it is markdown or beads", plainLine(format, 40))
	}
	if err != nil {
		return plan, fmt.Errorf("import %s: %w", plainLine(name, 100), err)
	}
	return plan, nil
}

// tasks are the items as the graph takes them.
func (o importOptions) tasks(plan planfile.Plan) []api.PlanTask {
	refs := func(items []int) (out []string) {
		for _, i := range items {
			out = append(out, fmt.Sprintf("@%d", i+1))
		}
		return out
	}
	out := make([]api.PlanTask, len(plan.Items))
	for i, it := range plan.Items {
		out[i] = api.PlanTask{
			Key: it.Key, Source: it.Source, Local: it.Local, Held: it.Held, Title: it.Title, Text: it.Text, Parent: o.parent, Blockers: refs(it.Blockers), Related: refs(it.Related),
			Labels: it.Labels, Priority: it.Priority, Done: it.Done,
		}
		if it.Parent >= 0 {
			out[i].Parent = refs([]int{it.Parent})[0]
		}
	}
	return out
}

// preview shows what would be added.
func (o importOptions) preview(plan planfile.Plan, tasks []api.PlanTask) error {
	a := o.app
	if a.json {
		return a.printJSON(tasks)
	}
	depth := make([]int, len(plan.Items))
	for i, it := range plan.Items {
		if it.Parent >= 0 {
			depth[i] = depth[it.Parent] + 1
		}
		mark := "·"
		if it.Done {
			mark = "✓"
		}
		if it.Held != "" {
			mark = "‖"
		}
		line := strings.Repeat("  ", depth[i]) + mark + " " + plainLine(it.Title, 80)
		if len(it.Blockers) > 0 {
			names := make([]string, len(it.Blockers))
			for j, b := range it.Blockers {
				names[j] = plainLine(plan.Items[b].Title, 40)
			}
			line += a.style.dim("  waits for " + strings.Join(names, ", "))
		}
		if _, err := fmt.Fprintln(a.stdout, line); err != nil {
			return written(err)
		}
	}
	a.say("%s would be added, unless they are there already", plural(len(plan.Items), "task"))
	return nil
}
