package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type loopStepsOptions struct {
	app *app
	ref string
}

func newLoopStepsCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "steps <task>", Short: "List the steps of a task that may have changed files",
		Long: `List the steps of a task that may have changed files, and what each changed. One with a tree can be gone back to
with loop rewind: the tree is what the workspace held after it. A step that ends in .start changed nothing: it is what
the workspace held before that turn.`,
		Args:    args(cobra.ExactArgs(1), "one task"),
		Example: "  taskdaemon loop steps t-4k7q2m9x", Annotations: talks(exitNotFound),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLoopSteps(cmd.Context(), loopStepsOptions{a, args[0]})
		},
	}
}

func runLoopSteps(ctx context.Context, o loopStepsOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	got, err := svc.Steps(ctx, o.ref)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(got)
	}
	if len(got.Steps) == 0 {
		a.say("%s has changed no files", got.Task.Handle)
		return nil
	}
	rows := [][]string{{"STEP", "TREE", "WHAT", "CHANGED"}}
	for _, s := range got.Steps {
		rows = append(rows, []string{plainLine(string(s.Step), 30), short(s.Tree), stepWords(s), stepChanges(s)})
	}
	if err := table(a.stdout, rows); err != nil {
		return err
	}
	a.say("%s keeps the trees", got.Ref)
	return nil
}

// short is the beginning of a hash, by which people know it.
func short(hash string) string {
	if hash == "" {
		return "-"
	}
	return plainLine(hash[:min(len(hash), 10)], 10)
}

func stepWords(s api.Step) string {
	words := "before the turn"
	if s.Tool != "" {
		words = plainLine(s.Tool+" "+s.Input, 50)
	}
	if s.Error {
		words += " (failed)"
	}
	if s.Cut {
		words += " (rewound)"
	}
	return words
}

// shownChanges is how many changed files stand in a line.
const shownChanges = 3

func stepChanges(s api.Step) string {
	n := min(len(s.Changed), shownChanges)
	words := plainLine(strings.Join(s.Changed[:n], ", "), 100)
	if more := len(s.Changed) - n + s.More; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}
