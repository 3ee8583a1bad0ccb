package cli

import (
	"context"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type taskUpdateOptions struct {
	planOptions
	title, text, file, validate, parent string
	priority                            int
	label, unlabel                      []string
	changed                             func(flag string) bool
}

func newTaskUpdateCmd(a *app) *cobra.Command {
	o := &taskUpdateOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "update <task>", Short: "Change a planned task", Args: args(cobra.ExactArgs(1), "one task"),
		Long:    "Change a task of the project's graph. What is not given stays as it is.",
		Example: `  taskdaemon task update t-4k7q2m9x --priority 0 --label urgent`,
	}, func(ctx context.Context) error { return runTaskUpdate(ctx, *o) })
	f := cmd.Flags()
	f.StringVarP(&o.title, "title", "t", "", "one line for people")
	f.StringVar(&o.text, "text", "", "what to do")
	f.StringVarP(&o.file, "file", "f", "", "read what to do from this file, or from stdin if it is -")
	f.IntVarP(&o.priority, "priority", "p", 2, "0 (first) to 4")
	f.StringVar(&o.parent, "parent", "", `task that it is part of; "" for none`)
	f.StringSliceVarP(&o.label, "label", "l", nil, "labels to add")
	f.StringSliceVar(&o.unlabel, "unlabel", nil, "labels to take away")
	f.StringVar(&o.validate, "validate", "", `command that must exit 0 before it counts as completed; "" for none`)
	o.changed = f.Changed
	return cmd
}

func runTaskUpdate(ctx context.Context, o taskUpdateOptions) error {
	in := api.ChangePlan{Ref: o.args[0], Verb: api.PlanUpdate, AddLabels: o.label, RemoveLabels: o.unlabel}
	some := len(o.label)+len(o.unlabel) > 0
	for flag, field := range map[string]struct {
		value *string
		to    **string
	}{
		"title": {&o.title, &in.Title}, "text": {&o.text, &in.Text}, "validate": {&o.validate, &in.Validator}, "parent": {&o.parent, &in.Parent},
	} {
		if o.changed(flag) {
			*field.to, some = field.value, true
		}
	}
	if o.changed("priority") {
		in.Priority, some = &o.priority, true
	}
	if o.file != "" {
		if in.Text != nil {
			return td.Errorf(td.Invalid, "both --text and --file are given")
		}
		text, err := o.app.read(o.file)
		if err != nil {
			return err
		}
		in.Text, some = &text, true
	}
	if !some {
		return td.Errorf(td.Invalid, "there is nothing to change").WithHint("taskdaemon task update %s --priority 0", o.args[0])
	}
	return o.planOptions.changed(ctx, in, func(p api.Planned) string { return "is changed: " + plainLine(p.Title, 80) })
}

// read is a file, or stdin.
func (a *app) read(file string) (string, error) {
	if file == "-" {
		return readInput(a.stdin)
	}
	return readFile(file)
}
