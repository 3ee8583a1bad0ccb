package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type loopQueryOptions struct {
	app      *app
	ref      string
	question string
}

func newLoopQueryCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "query <task> <question…>", Short: "Ask about a task without disturbing it",
		Long: `Ask about a task, running or not, without disturbing it. What is asked most often is answered from the records, at once
and for nothing: the files it changed, its state, what it cost, its progress, its last words. For any other question the
small model reads the conversation; that takes up to 30 seconds, is booked as cost of the task with the cause "query", and
nothing of it enters the conversation.`,
		Args:        args(cobra.MinimumNArgs(2), "a task and a question"),
		Example:     `  taskdaemon loop query t-4k7q2m9x "which files did you change?"`,
		Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, given []string) error {
			return runLoopQuery(cmd.Context(), loopQueryOptions{a, given[0], strings.Join(given[1:], " ")})
		},
	}
}

func runLoopQuery(ctx context.Context, o loopQueryOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	answer, err := svc.Query(ctx, o.ref, api.Query{Question: o.question, By: a.by()})
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(answer)
	}
	if answer.Model != "" {
		a.say("%s", a.talk.dim(fmt.Sprintf("%s read the conversation of %s, for %s", plainLine(answer.Model, 60), answer.Task, answer.Cost)))
	}
	_, err = fmt.Fprintln(a.stdout, quotedWhole(answer.Text))
	return err
}
