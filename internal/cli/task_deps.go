package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

func newTaskDepsCmd(a *app) *cobra.Command {
	return group("deps", "What planned tasks wait for", "taskdaemon task deps add t-4k7q2m9x t-9p3h6c2d",
		newTaskDepsAddCmd(a), newTaskDepsRmCmd(a), newTaskDepsListCmd(a))
}

type taskDepsOptions struct {
	planOptions
	related bool
}

func (o *taskDepsOptions) flag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&o.related, "related", false, "they only have to do with each other; the order stays")
	return cmd
}

func newTaskDepsAddCmd(a *app) *cobra.Command {
	o := &taskDepsOptions{planOptions: planOptions{app: a}}
	return o.flag(o.command(&cobra.Command{
		Use: "add <task> <blocker…>", Short: "Make a task wait for others", Args: args(cobra.MinimumNArgs(2), "a task, and what it waits for"),
		Long: `Make a task wait for others: the first task runs only when all that follow are completed. What would close a circle is
refused, and the circle named.`,
		Example: "  taskdaemon task deps add t-4k7q2m9x t-9p3h6c2d   # t-4k7q2m9x waits for t-9p3h6c2d",
	}, func(ctx context.Context) error { return runTaskDepsAdd(ctx, *o) }))
}

func runTaskDepsAdd(ctx context.Context, o taskDepsOptions) error {
	in := api.ChangePlan{Ref: o.args[0], Verb: api.PlanUpdate, AddBlockers: o.args[1:]}
	if o.related {
		in.AddBlockers, in.AddRelated = nil, o.args[1:]
	}
	return o.changed(ctx, in, o.tied)
}

// tied says what a task is tied to.
func (o taskDepsOptions) tied(p api.Planned) string {
	refs, words, none := p.Blockers, "waits for ", "waits for nothing"
	if o.related {
		refs, words, none = p.Related, "is related to ", "is related to nothing"
	}
	if len(refs) == 0 {
		return none
	}
	for i, r := range refs {
		if i > 0 {
			words += ", "
		}
		words += planName(r)
	}
	return words
}

func newTaskDepsRmCmd(a *app) *cobra.Command {
	o := &taskDepsOptions{planOptions: planOptions{app: a}}
	return o.flag(o.command(&cobra.Command{
		Use: "rm <task> <blocker…>", Short: "Make a task no longer wait for others", Args: args(cobra.MinimumNArgs(2), "a task, and what it shall no longer wait for"),
		Long:    "Make a task no longer wait for others: the first task does not wait for those that follow any more.",
		Example: "  taskdaemon task deps rm t-4k7q2m9x t-9p3h6c2d",
	}, func(ctx context.Context) error { return runTaskDepsRm(ctx, *o) }))
}

func runTaskDepsRm(ctx context.Context, o taskDepsOptions) error {
	in := api.ChangePlan{Ref: o.args[0], Verb: api.PlanUpdate, RemoveBlockers: o.args[1:]}
	if o.related {
		in.RemoveBlockers, in.RemoveRelated = nil, o.args[1:]
	}
	return o.changed(ctx, in, o.tied)
}

func newTaskDepsListCmd(a *app) *cobra.Command {
	o := &taskDepsOptions{planOptions: planOptions{app: a}}
	return o.command(&cobra.Command{
		Use: "list <task>", Aliases: []string{"ls"}, Short: "List what a task waits for, and what waits for it", Args: args(cobra.ExactArgs(1), "one task"),
		Example: "  taskdaemon task deps list t-4k7q2m9x",
	}, func(ctx context.Context) error { return runTaskDepsList(ctx, *o) })
}

func runTaskDepsList(ctx context.Context, o taskDepsOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	p, err := svc.PlannedTask(ctx, o.dir, o.args[0])
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{
			"task": p.Handle, "blockers": refList(p.Blockers), "blocks": refList(p.Blocks), "related": refList(p.Related),
		})
	}
	rows := tieRows(p)
	if len(rows) == 0 {
		a.say("%s", a.typeable(fmt.Sprintf("%s is tied to nothing; next: taskdaemon task deps add %s BLOCKER", p.Handle, p.Handle)))
		return nil
	}
	return table(a.stdout, rows)
}

func refList(refs []api.PlanRef) []api.PlanRef { return append([]api.PlanRef{}, refs...) }

// tieRows are what a task waits for, what waits for it, and what it is related to.
func tieRows(p api.Planned) (rows [][]string) {
	for _, kind := range []struct {
		name string
		refs []api.PlanRef
	}{{"waits for", p.Blockers}, {"blocks", p.Blocks}, {"related", p.Related}} {
		for _, r := range kind.refs {
			name := kind.name
			if r.Deleted && name == "waits for" {
				name = "waited for"
			}
			rows = append(rows, []string{name, planNameState(r)})
		}
	}
	return rows
}
