package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// planOptions are what the commands on a project's graph share.
type planOptions struct {
	app  *app
	dir  string
	args []string
}

// command makes a command on a graph: its codes, --dir, and a run with the folder made whole.
func (o *planOptions) command(cmd *cobra.Command, run func(ctx context.Context) error) *cobra.Command {
	cmd.Annotations = talks(exitNotFound, exitConflict, exitStorage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.args = args
		if err := o.resolve(); err != nil {
			return err
		}
		return run(cmd.Context())
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the project; the present one when not given")
	return cmd
}

func (o *planOptions) resolve() (err error) {
	o.dir, err = folderOr(o.dir)
	return err
}

// list asks for tasks of the graph and prints them: as data, or the way that show does it. none is said when there are none; empty: where the others are.
func (o *planOptions) list(ctx context.Context, q api.PlanQuery, none string, show func([]api.Planned) error) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	q.Dir = o.dir
	all, err := svc.Planned(ctx, q)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(append([]api.Planned{}, all...))
	}
	if len(all) == 0 {
		if none == "" {
			if none, err = o.nothingTo(ctx, svc, q.In); err != nil {
				return err
			}
		}
		a.say("%s", a.typeable(none))
		return nil
	}
	return show(all)
}

// nothingTo says of planned tasks of which none is ready, or none blocked, where the others are: a hint must lead to some.
func (o *planOptions) nothingTo(ctx context.Context, svc api.Service, in string) (string, error) {
	all, err := svc.Planned(ctx, api.PlanQuery{Dir: o.dir, In: in})
	if err != nil {
		return "", err
	}
	ready, blocked, open := 0, 0, 0
	for _, p := range all {
		switch {
		case p.Container || p.State.Terminal():
		case p.Ready && p.Claimed == "":
			ready++
		case p.Obstacle != "":
			blocked++
		default:
			open++
		}
	}
	switch {
	case ready > 0:
		return fmt.Sprintf("none is blocked, %d may run; to see which: taskdaemon task ready", ready), nil
	case blocked > 0:
		return fmt.Sprintf("none may run now, %d blocked; to see why: taskdaemon task blocked", blocked), nil
	case open > 0:
		return fmt.Sprintf("none; %s at work; next: taskdaemon status", plural(open, "planned task")), nil
	case len(all) > 0:
		return `none: all that was planned has ended; next: taskdaemon task add "what to do" --plan`, nil
	}
	return noPlan, nil
}

// change changes a task of the graph.
func (o *planOptions) change(ctx context.Context, in api.ChangePlan) (api.Planned, error) {
	svc, err := o.app.service(ctx)
	if err != nil {
		return api.Planned{}, err
	}
	in.Dir, in.By = o.dir, o.app.by()
	return svc.ChangePlan(ctx, in)
}

// changed changes a task of the graph and says what came of it.
func (o *planOptions) changed(ctx context.Context, in api.ChangePlan, words func(api.Planned) string) error {
	p, err := o.change(ctx, in)
	if err != nil {
		return err
	}
	if o.app.json {
		return o.app.printJSON(p)
	}
	o.app.say("%s %s", p.Handle, words(p))
	return nil
}

// planMark is a picture of where a planned task stands.
func planMark(p api.Planned) string {
	switch {
	case p.State == td.Queued && p.Ready:
		return "○"
	case p.State == td.Queued:
		return "·"
	}
	return stateMark(p.State)
}

func stateMark(s td.State) string {
	switch s {
	case td.Completed:
		return "✓"
	case td.Failed, td.Abandoned:
		return "✗"
	case td.Cancelled:
		return "–"
	case td.Running:
		return "▸"
	case td.Waiting:
		return "?"
	case td.Paused:
		return "‖"
	case td.Blocked:
		return "!"
	}
	return "·"
}

// planState is a planned task's state in a word.
func planState(p api.Planned) string {
	switch {
	case p.State == td.Queued && p.Ready:
		return "ready"
	case p.State == td.Queued && p.Container:
		return "open"
	case p.State == td.Queued && p.Obstacle != "":
		return "waits"
	}
	return string(p.State)
}

// obstacleWords says what is in a task's way, or nothing.
func obstacleWords(p api.Planned) string {
	names := make([]string, len(p.By))
	for i, r := range p.By {
		names[i] = planName(r)
	}
	by := strings.Join(unique(names), ", ")
	switch p.Obstacle {
	case "":
		return ""
	case "waits":
		return "waits for " + by
	case "failed":
		return "cannot go on: " + by + " did not succeed"
	case "unknown":
		return "waits for what is not in the graph: " + by
	case "claimed":
		return "claimed by " + plainLine(p.Claimed, 100)
	case "cycle":
		return "waits for itself: " + strings.Join(names, " → ")
	}
	return plainLine(p.Obstacle, 40) + ": " + by
}

// unique are the words of a list, each where it comes first.
func unique(list []string) []string {
	var out []string
	for _, w := range list {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// planName names another task by handle and title.
func planName(r api.PlanRef) string {
	name := plainLine(r.Handle, 40)
	if r.Title != "" {
		name += " (" + plainLine(r.Title, 40) + ")"
	}
	return name
}

// planNameState names another task with its state.
func planNameState(r api.PlanRef) string {
	if r.Deleted {
		return planName(r) + ", deleted"
	}
	if r.State == "" {
		return planName(r) + ", not in the graph"
	}
	return stateMark(r.State) + " " + planName(r) + ", " + string(r.State)
}

// noPlan is what is said of a graph without tasks.
const noPlan = `nothing is planned; next: taskdaemon task add "what to do" --plan`
