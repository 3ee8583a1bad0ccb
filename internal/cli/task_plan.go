package cli

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// planFlags are those of task add that put a task into the project's graph.
type planFlags struct {
	plan           bool
	parent, kind   string
	after, related []string
	clash          string // a flag that only a task that starts at once can have
}

// runsAtOnce are the flags of task add that say how a task runs: a planned one runs when it is started.
var runsAtOnce = []string{"yes", "permissions", "interactive", "model", "max-turns", "budget", "token-budget", "permission-limit", "rehearse", "wait", "attach", "quiet"}

func (p *planFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&p.plan, "plan", false, "put it into the project's graph and do not start it")
	f.StringSliceVar(&p.after, "after", nil, "tasks of the graph that must be completed first (implies --plan)")
	f.StringVar(&p.parent, "parent", "", "task of the graph that it is part of (implies --plan)")
	f.StringSliceVar(&p.related, "related", nil, "tasks of the graph that have to do with it (implies --plan)")
	f.StringVar(&p.kind, "kind", "", "task, spec or prd (implies --plan)")
}

// read finds out from the flags whether the task is to be planned.
func (p *planFlags) read(cmd *cobra.Command) {
	for _, name := range []string{"after", "parent", "related", "kind"} {
		p.plan = p.plan || cmd.Flags().Changed(name)
	}
	for _, name := range runsAtOnce {
		if cmd.Flags().Changed(name) {
			p.clash = name
			return
		}
	}
}

// runTaskPlan adds a task to the project's graph.
func runTaskPlan(ctx context.Context, o taskAddOptions) error {
	a := o.app
	if o.plan.clash != "" {
		return td.Errorf(td.Invalid, "--%s is for a task that starts at once, and this one is planned", o.plan.clash)
	}
	in, err := o.request()
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	title, text := planTitle(in.Title, in.Prompt)
	added, err := svc.Plan(ctx, api.Plan{Dir: in.Dir, By: in.By, Tasks: []api.PlanTask{{
		Key: in.Key, Title: title, Text: text, Kind: td.TaskKind(o.plan.kind), Parent: o.plan.parent, Blockers: o.plan.after,
		Related: o.plan.related, Labels: in.Labels, Priority: in.Priority, Validator: in.Validator, Tier: in.Tier,
	}}})
	if err != nil {
		return err
	}
	p := added[0]
	if a.json {
		return a.printJSON(p)
	}
	if _, err := fmt.Fprintln(a.stdout, p.Handle); err != nil {
		return written(err)
	}
	if why := obstacleWords(p); why != "" {
		a.say("planned; it %s", why)
		return nil
	}
	a.say("planned; next: %s", a.typeable("taskdaemon task tree"))
	return nil
}

// planTitle makes a title of one line, and the text that does not fit into it.
func planTitle(title, prompt string) (string, string) {
	prompt = strings.TrimSpace(prompt)
	if title != "" {
		return title, prompt
	}
	const most = 100
	first, _, more := strings.Cut(prompt, "\n")
	if first = strings.TrimSpace(first); !more && utf8.RuneCountInString(first) <= most {
		return first, ""
	}
	return plainLine(first, most), prompt
}
