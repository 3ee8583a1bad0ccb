package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func newTSCmd(a *app) *cobra.Command {
	return group("ts", "Make task specs of a PRD", "taskdaemon ts decompose remember-me", newTSDecomposeCmd(a))
}

type tsDecomposeOptions struct {
	planOptions
	rehearse string
	yes      bool
}

// decomposed is a PRD and the task specs in it, as --json prints it.
type decomposed struct {
	PRD     api.PRD       `json:"prd"`
	Created []api.Planned `json:"created"`
	Known   []api.Planned `json:"known"`
}

func newTSDecomposeCmd(a *app) *cobra.Command {
	o := &tsDecomposeOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "decompose <prd>", Short: "Make task specs of a PRD", Args: args(cobra.ExactArgs(1), "one PRD, by its slug or handle"),
		Long: `Have an agent make task specs of a PRD that has a spec and a plan: each small enough for one run, with those that it depends on.
The agent reads and plans, and does nothing else. A PRD that was decomposed is left as it is, and its task specs are listed; one that was cut
off goes on with the same agent. It is the last phase of prd create.

Commands that are to check tasks are asked about before they are planned, unless --yes is given.`,
		Example: "  taskdaemon ts decompose remember-me\n  taskdaemon start remember-me",
	}, func(ctx context.Context) error { return runTSDecompose(ctx, *o) })
	cmd.Annotations = talks(exitNotFound, exitCancelled, exitConflict, exitStorage, exitInterrupted)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "grant permissions without asking")
	cmd.Flags().StringVar(&o.rehearse, "rehearse", "", "play this script instead of calling a model")
	return cmd
}

func runTSDecompose(ctx context.Context, o tsDecomposeOptions) error {
	a := o.app
	script := ""
	if o.rehearse != "" {
		var err error
		if script, err = readScript(o.rehearse); err != nil {
			return err
		}
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	var out decomposed
	if out.PRD, err = svc.PRD(ctx, o.dir, o.args[0]); err != nil {
		return err
	}
	a.notePeer(svc)
	if out.Known, err = o.specs(ctx, svc, out.PRD, nil); err != nil {
		return err
	}
	switch next := out.PRD.Next; {
	case out.PRD.Direct:
		return td.Errorf(td.Conflict, "%s is worked on itself, without tasks", out.PRD.Task.Handle).WithHint("taskdaemon prd show %s", out.PRD.Slug)
	case next == td.AuthorWork:
		in := api.AuthorPRD{Dir: o.dir, Ref: string(out.PRD.Task.ID), Phase: next, Yes: o.yes, Rehearsal: script}
		if err := a.author(ctx, svc, in, "taskdaemon ts decompose "+out.PRD.Slug); err != nil {
			return err
		}
		if out.PRD, err = svc.PRD(ctx, o.dir, string(out.PRD.Task.ID)); err != nil {
			return err
		}
		if out.Created, err = o.specs(ctx, svc, out.PRD, out.Known); err != nil {
			return err
		}
	case next != "":
		return td.Errorf(td.Conflict, "%s cannot be decomposed yet: next is the phase %q", out.PRD.Task.Handle, next).WithHint("taskdaemon prd create %s", out.PRD.Slug)
	}
	return a.printDecomposed(out)
}

// specs are what a PRD was decomposed into, in the order of the tree, without those that are known.
func (o tsDecomposeOptions) specs(ctx context.Context, svc api.Service, p api.PRD, known []api.Planned) ([]api.Planned, error) {
	parts, err := svc.Planned(ctx, api.PlanQuery{Dir: o.dir, In: string(p.Task.ID), Tree: true})
	if err != nil {
		return nil, err
	}
	old := map[td.TaskID]bool{p.Task.ID: true}
	for _, k := range known {
		old[k.ID] = true
	}
	out := []api.Planned{}
	for _, part := range parts {
		if !old[part.ID] {
			out = append(out, part)
		}
	}
	return out, nil
}

func (a *app) printDecomposed(d decomposed) error {
	if d.Created == nil {
		d.Created = []api.Planned{}
	}
	if a.json {
		for i := range d.PRD.Documents {
			d.PRD.Documents[i].Text = ""
		}
		return a.printJSON(d)
	}
	for _, list := range []struct {
		word  string
		tasks []api.Planned
	}{{"Known", d.Known}, {"Created", d.Created}} {
		for _, t := range list.tasks {
			if _, err := fmt.Fprintf(a.stdout, "%s %s: %s%s\n", list.word, t.Handle, plainLine(t.Title, 100), dependsWords(t)); err != nil {
				return written(err)
			}
		}
	}
	if len(d.Created) == 0 {
		a.say("%s is %s and has %s already", d.PRD.Task.Handle, d.PRD.Phase, plural(d.PRD.Tasks, "task"))
	}
	a.say("next: %s", a.typeable("taskdaemon start "+d.PRD.Slug))
	return nil
}

// dependsWords names what a task waits for.
func dependsWords(t api.Planned) string {
	var on []string
	for _, b := range t.Blockers {
		if !b.Deleted {
			on = append(on, b.Handle)
		}
	}
	if len(on) == 0 {
		return ""
	}
	return " (depends on " + strings.Join(on, ", ") + ")"
}
