package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

type statusOptions struct{ app *app }

func newStatusCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the daemon, what runs and what waits for you", Args: args(cobra.NoArgs, "no arguments"),
		Example: "  taskdaemon status", Annotations: talks(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), statusOptions{a}) },
	}
}

func runStatus(ctx context.Context, o statusOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	st, err := svc.Status(ctx)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(st)
	}
	if err := a.printDaemon(st); err != nil {
		return err
	}
	if len(st.Running) > 0 {
		fmt.Fprintln(a.stdout, "\nrunning")
		if err := a.printTasks(st.Running); err != nil {
			return err
		}
	}
	if len(st.Waiting) > 0 {
		fmt.Fprintln(a.stdout, "\nwaiting for you")
		for _, t := range st.Waiting {
			for _, r := range t.Requests {
				a.printRequest(a.stdout, a.style, t, r)
			}
		}
	}
	return nil
}

// states turns words into states.
func states(words []string) ([]td.State, error) {
	var out []td.State
	for _, w := range words {
		s := td.State(w)
		known := false
		for _, k := range td.States {
			known = known || k == s
		}
		if !known {
			return nil, td.Errorf(td.Invalid, "%q is not a state: want one of %v", w, td.States)
		}
		out = append(out, s)
	}
	return out, nil
}
