package cli

import (
	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

func newApproveCmd(a *app) *cobra.Command {
	o := taskAnswerOptions{app: a}
	var always bool
	cmd := &cobra.Command{
		Use: "approve <task or request>", Short: "Say yes to what a task asks",
		Long: `Say yes to what a task asks (task answer … yes). With --always a rule is kept, so that the like is not asked again: the
narrowest of those that the request offers, or the one given with --rule, for this project unless --scope says otherwise.

It says what was agreed to. A task's name is refused where the request before was settled without you, because time was up or
somebody else answered: what you saw is gone then, and the request has to be named.`,
		Args: args(cobra.ExactArgs(1), "a task or request"), Example: "  taskdaemon approve q-7h2m4k9x --always",
		Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref, o.words = args[0], []string{td.Yes}
			if always || o.scope != "" || len(o.rules) > 0 {
				o.words = []string{td.Always}
			}
			return runTaskAnswer(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&always, "always", false, "and keep a rule")
	o.keepFlags(cmd)
	return cmd
}

func newDenyCmd(a *app) *cobra.Command {
	o := taskAnswerOptions{app: a}
	var never bool
	cmd := &cobra.Command{
		Use: "deny <task or request> [words]", Short: "Say no to what a task asks",
		Long: `Say no to what a task asks (task answer … no). Words go to the model: a no with a reason helps it to find another way.
With --never a rule is kept, so that the like is not asked again.`,
		Args: args(cobra.MinimumNArgs(1), "a task or request"), Example: `  taskdaemon deny q-7h2m4k9x "not on this branch"`,
		Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref, o.words = args[0], append([]string{td.No}, args[1:]...)
			if never || o.scope != "" || len(o.rules) > 0 {
				o.words[0] = td.Never
			}
			return runTaskAnswer(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&never, "never", false, "and keep a rule")
	o.keepFlags(cmd)
	return cmd
}
