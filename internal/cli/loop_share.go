package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type tellOptions struct {
	app *app
	in  api.Tell
}

func newLoopShareCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "share <task>… <words | ->", Short: "Share something with tasks that run",
		Long: `Share something with one task or several: each reads it before its next turn, once. The last argument is what they read,
or - for standard input, at most 1 MiB. It does not answer what a task asks, and wakes none that waits: task send does.`,
		Args:        args(cobra.MinimumNArgs(2), "tasks and what to share"),
		Example:     `  taskdaemon loop share t-4k7q2m9x "FYI: the auth API changed, see docs/api.md"`,
		Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, given []string) error {
			last := len(given) - 1
			text, err := a.wordsOr(given[last])
			if err != nil {
				return err
			}
			return runTell(cmd.Context(), tellOptions{a, api.Tell{To: given[:last], Text: text}})
		},
	}
}

func newLoopNotifyCmd(a *app) *cobra.Command {
	var in api.Tell
	cmd := &cobra.Command{
		Use: "notify <words… | ->", Short: "Tell all tasks of a project something",
		Long: `Tell all tasks of a project that have not ended something: each reads it before its next turn, once. With --type only those
are told that listen to that type: a task that was added with labels like listen:api_changed wants these types and no
others, one without such labels wants all.`,
		Args:        args(cobra.MinimumNArgs(1), "what to tell them"),
		Example:     `  taskdaemon loop notify --type api_changed "the auth API changed, see docs/api.md"`,
		Annotations: talks(),
		RunE: func(cmd *cobra.Command, given []string) error {
			var err error
			if in.Text, err = a.wordsOr(strings.Join(given, " ")); err != nil {
				return err
			}
			if in.Dir, err = folderOr(in.Dir); err != nil {
				return err
			}
			return runTell(cmd.Context(), tellOptions{a, in})
		},
	}
	cmd.Flags().StringVar(&in.Type, "type", "", "the kind of event: a-z, 0-9, _, . and -")
	cmd.Flags().StringVar(&in.Dir, "dir", "", "a folder of the project; the present one when not given")
	return cmd
}

// wordsOr is what a person gave as words, or standard input for -.
func (a *app) wordsOr(text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	return readInput(a.stdin)
}

func runTell(ctx context.Context, o tellOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	o.in.By = a.by()
	told, err := svc.Tell(ctx, o.in)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(told)
	}
	if len(told.To) == 0 {
		a.say("no task of the project listens now")
		return nil
	}
	a.say("told %s", strings.Join(told.To, ", "))
	if len(o.in.Text) > td.MailShown {
		a.say("a model reads the first %d of its %d bytes: put what is long into a file and name the file", td.MailShown, len(o.in.Text))
	}
	return nil
}
