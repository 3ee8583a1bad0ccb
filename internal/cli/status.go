package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type statusOptions struct {
	app    *app
	target string
}

func newStatusCmd(a *app) *cobra.Command {
	o := statusOptions{app: a}
	return &cobra.Command{
		Use: "status [prd | task]", Short: "Show the daemon, what runs and what waits for you", Args: args(cobra.MaximumNArgs(1), "at most one PRD or task"),
		Long: `Show the daemon, how many loops run and wait and what models cost today; in a project the runs that are under way and the
planned tasks that have not ended, each with its state, and where one is at work its phase and iteration; and what waits for
you.`,
		Example: "  taskdaemon status\n  taskdaemon status login", Annotations: talks(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.target = args[0]
			}
			return runStatus(cmd.Context(), o)
		},
	}
}

// standing is what status shows, as --json prints it.
type standing struct {
	api.Status
	Today api.CostLine `json:"today"`
	Runs  []api.Run    `json:"runs,omitempty"`
	Plan  []planStatus `json:"plan,omitempty"`
}

func runStatus(ctx context.Context, o statusOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	st := standing{}
	if st.Status, err = svc.Status(ctx); err != nil {
		return err
	}
	bill, err := svc.Cost(ctx, api.CostQuery{By: api.ByDay, Since: a.now()})
	if err != nil {
		return err
	}
	st.Today = bill.Total
	if err := o.project(ctx, svc, &st); err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(st)
	}
	if err := a.printDaemon(st.Status, []string{"loops", loopWords(st.Tasks)}, []string{"today", todayWords(st.Today)}); err != nil {
		return err
	}
	a.printPlanStatus(st)
	if running := notIn(st.Running, st.Plan); len(running) > 0 {
		fmt.Fprintln(a.stdout, "\nrunning")
		if err := a.printTasks(running); err != nil {
			return err
		}
	}
	if len(st.Resting) > 0 {
		fmt.Fprintln(a.stdout, "\nno answer from the model")
		for _, t := range st.Resting {
			fmt.Fprintf(a.stdout, "  %s %s: %s\n", t.Handle, plainLine(t.Title, 60), plainLine(t.Status.Reason, 400))
			fmt.Fprintf(a.stdout, "  %s; to try now: %s\n", a.outageWords(*t.Status.Blocked.Outage), a.typeable(whatNext(t)))
		}
	}
	if len(st.Stuck) > 0 {
		fmt.Fprintln(a.stdout, "\nstopped")
		for _, t := range st.Stuck {
			fmt.Fprintf(a.stdout, "  %s %s: %s\n", t.Handle, plainLine(t.Title, 60), plainLine(t.Status.Reason, 400))
			fmt.Fprintf(a.stdout, "  %s %s\n", a.style.dim("→"), a.typeable(whatNext(t)))
		}
	}
	if len(st.Unlanded) > 0 {
		fmt.Fprintln(a.stdout, "\nnot on its branch yet")
		a.printUnlanded(st.Unlanded)
	}
	a.printClashes(st.Clashes)
	a.printWarnings(st.Damaged)
	a.printWarnings(st.Crowded)
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

// loopWords are how many loops there are.
func loopWords(n map[td.State]int) string {
	return fmt.Sprintf("%d running, %d queued, %d waiting or blocked", n[td.Running], n[td.Queued], n[td.Waiting]+n[td.Blocked])
}

// todayWords are what models did today.
func todayWords(l api.CostLine) string {
	return fmt.Sprintf("%s, %s, %s", plural(l.Calls, "call"), usageWords(l.Usage), l.Amount)
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
