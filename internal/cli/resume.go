package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type resumeOptions struct {
	app   *app
	trunk string
	dir   string
}

// newResumeCmd is the control of one task, and of all that a branch's loss has paused.
func newResumeCmd(a *app) *cobra.Command {
	o := resumeOptions{app: a}
	cmd := newControlCmd(a, "", controls["resume"])
	one, check := cmd.RunE, cmd.Args
	cmd.Use = "resume <task> [reason] | --trunk <branch>"
	cmd.Long += `

A branch that tasks work for and that loses commits (reset, amended, rebased) or is deleted pauses all of them and the runs that
would start more. With --trunk all of it goes on: each task's own work is brought onto what the branch is now. So is work that was merged
before and that the branch never had; its validators run again. If it conflicts, the files are named and nothing changes.`
	cmd.Example += "\n  taskdaemon resume --trunk main"
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if o.trunk != "" {
			return args(cobra.NoArgs, "no task beside --trunk")(cmd, given)
		}
		return check(cmd, given)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.trunk == "" {
			return one(cmd, args)
		}
		return runResumeTrunk(cmd.Context(), o)
	}
	cmd.Flags().StringVar(&o.trunk, "trunk", "", "everything that was paused or left behind because this branch lost commits or was deleted")
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the branch's repository; the present one when not given")
	return cmd
}

func runResumeTrunk(ctx context.Context, o resumeOptions) error {
	a := o.app
	dir, err := folderOr(o.dir)
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	out, err := svc.ResumeTrunk(ctx, api.ResumeTrunk{Dir: dir, Trunk: o.trunk, By: a.by()})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(out)
	}
	for _, u := range out.Work {
		if u.Reason == "" {
			a.say("%s updated with the work of %s", u.Trunk, strings.Join(u.Tasks, ", "))
			continue
		}
		a.say("%s not updated with the work of %s: %s", u.Trunk, strings.Join(u.Tasks, ", "), u.Reason)
		if u.Hint != "" {
			a.say("%s", a.typeable(u.Hint))
		}
	}
	for _, t := range out.Tasks {
		a.say("%s goes on: %s", t.Handle, plainLine(t.Title, 80))
	}
	for _, run := range out.Runs {
		a.say("run %s goes on", run)
	}
	if len(out.Tasks)+len(out.Runs)+len(out.Work) == 0 {
		fmt.Fprintf(a.stderr, "nothing is paused because of %s\n", o.trunk)
	}
	return nil
}
