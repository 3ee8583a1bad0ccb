package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type loopInspectOptions struct {
	app     *app
	ref     string
	context bool
}

func newLoopInspectCmd(a *app) *cobra.Command {
	o := loopInspectOptions{app: a}
	cmd := &cobra.Command{
		Use: "inspect <task>", Short: "Show how a loop stands and what the model is told", Args: args(cobra.ExactArgs(1), "one task"),
		Long: `Show how a loop stands, and what is in its next call of the model: instructions, tools, skills, learnings, the task and
the conversation, with about how many tokens each takes, and how much of the last call came from the cache. With --context
the call alone is shown.`,
		Example: "  taskdaemon loop inspect t-4k7q2m9x --context", Annotations: talks(),
		RunE: func(cmd *cobra.Command, given []string) error {
			o.ref = given[0]
			return runLoopInspect(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.context, "context", false, "only the parts of the context")
	return cmd
}

func runLoopInspect(ctx context.Context, o loopInspectOptions) error {
	a := o.app
	svc, t, err := a.task(ctx, o.ref)
	if err != nil {
		return err
	}
	c, err := svc.Context(ctx, string(t.ID))
	if err != nil {
		return err
	}
	a.notePeer(svc)
	switch {
	case a.json && o.context:
		return a.printJSON(c)
	case a.json:
		return a.printJSON(struct {
			td.Task
			Context api.Context `json:"context"`
		}{t, c})
	case !o.context:
		if err := table(a.stdout, taskRows(a, t)); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	return table(a.stdout, contextRows(c))
}

func contextRows(c api.Context) [][]string {
	rows := [][]string{{"part", "tokens", ""}}
	for _, p := range c.Parts {
		rows = append(rows, []string{p.Name, fmt.Sprint(p.Tokens), plainLine(p.Source, 80)})
	}
	rows = append(rows, []string{"in all", fmt.Sprint(c.Tokens), fmt.Sprintf("%d %% of %d; compacted above %d", 100*c.Tokens/max(c.Window, 1), c.Window, c.Limit)})
	sent := c.Last.Input + c.Last.CacheRead + c.Last.CacheWrite
	last := fmt.Sprintf("%d sent, %d of them from the cache, %d answered", sent, c.Last.CacheRead, c.Last.Output)
	if c.Prefix != nil {
		last += fmt.Sprintf("; %d %% of the prompt unchanged", 100*c.Prefix.Shared/max(c.Prefix.Sent, 1))
		if c.Prefix.Miss != "" {
			last += " (" + plainLine(c.Prefix.Miss, 120) + ")"
		}
	}
	conversation := plural(c.Messages, "message") + ", " + plural(c.Turns, "turn")
	if c.Compacted > 0 {
		conversation += ", compacted " + plural(c.Compacted, "time")
	}
	return append(rows, []string{"conversation", "", conversation}, []string{"model", "", c.Model}, []string{"last call", "", last},
		[]string{"all calls", "", usageWords(c.Total)}, []string{"cost", "", costWords(c.Cost, c.TreeCost, c.Unpriced)})
}
