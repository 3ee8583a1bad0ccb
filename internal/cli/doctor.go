package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type doctorOptions struct {
	app     *app
	fix     bool
	rebuild bool
}

func newDoctorCmd(a *app) *cobra.Command {
	o := doctorOptions{app: a}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Prove that journal, mirrors and processes agree", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Prove that journal, mirrors and processes agree, and say what --fix would repair.

--rebuild makes the journal again when it was lost or damaged, while no daemon runs: tasks and what they said from the
repository of conversations, how planned ones ended from the graphs of their projects. What was there is kept under another
name. Nothing goes on by itself: what had not ended is paused. It says what it could not restore.`,
		Example: "  taskdaemon doctor --fix", Annotations: talks(exitStorage),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rebuild {
				return runRebuild(cmd.Context(), o)
			}
			return runDoctor(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.fix, "fix", false, "repair what can be repaired")
	cmd.Flags().BoolVar(&o.rebuild, "rebuild", false, "make a journal again that was lost or damaged")
	return cmd
}

func runDoctor(ctx context.Context, o doctorOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	var d api.Diagnosis
	err = a.saying("reading every record of the journal and every object of the conversations", patience, func() (err error) {
		d, err = svc.Doctor(ctx, api.DoctorRequest{Fix: o.fix})
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(d)
	} else {
		err = a.printDiagnosis(d)
	}
	if err == nil && d.Problems > 0 {
		return outcome(exitStorage)
	}
	return err
}

// fixCommand is what a check names that can repair what it found.
const fixCommand = "taskdaemon doctor --fix"

// mostFindings is how many findings of one check a person is shown.
const mostFindings = 10

func (a *app) printDiagnosis(d api.Diagnosis) error {
	fixable, open := false, 0
	for _, c := range d.Checks {
		mark := a.style.green("ok   ")
		switch {
		case c.Fixed:
			mark = a.style.warn("fixed")
		case !c.OK:
			mark = a.style.red("bad  ")
			fixable = fixable || c.Fix == fixCommand
		}
		line := mark + " " + c.Name
		if c.Detail != "" {
			line += ": " + plainText(c.Detail)
		}
		if _, err := fmt.Fprintln(a.stdout, line); err != nil {
			return written(err)
		}
		for _, f := range c.Findings[:min(len(c.Findings), mostFindings)] {
			fmt.Fprintf(a.stdout, "        %s\n", plainLine(f, 300))
		}
		if more := len(c.Findings) - mostFindings; more > 0 {
			fmt.Fprintf(a.stdout, "        … and %d more: %s\n", more, a.typeable("taskdaemon doctor --json"))
		}
		for _, o := range c.Open {
			fmt.Fprintf(a.stdout, "        %s\n", plainLine(o, 600))
		}
		open += len(c.Open)
		if !c.OK && !c.Fixed && c.Fix != "" {
			fmt.Fprintf(a.stdout, "      %s %s\n", a.style.dim("→"), a.typeable(plainText(c.Fix)))
		}
	}
	switch {
	case d.Problems == 0 && open > 0:
		a.say("nothing is damaged; work that waits for you is named above")
	case d.Problems == 0:
		a.say("all is well")
	case fixable:
		a.say("%s; next: %s", plural(d.Problems, "problem"), a.typeable(fixCommand))
	default:
		a.say("%s", plural(d.Problems, "problem"))
	}
	return nil
}
