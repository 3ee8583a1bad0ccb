// Package cli is taskdaemon's command line: one file per command, each an options struct, a newXCmd that
// fills it from flags and a runX that does the work with what it was given.
//
// stdout is data and stderr is talk; --json makes the data machine-readable on every command. Commands
// that need the daemon start it when it is not there. Text that came from a model or a tool never
// reaches the terminal without its control characters made visible.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
)

// Main runs the command in os.Args and returns the exit code.
func Main() int {
	var stops interrupts
	var at cursor
	ctx := stops.arm(context.Background())
	a := &app{
		at: &at, stdin: os.Stdin, stdout: onScreen(os.Stdout, &at, os.Getenv), stderr: onScreen(os.Stderr, &at, os.Getenv),
		getenv: os.Getenv, environ: os.Environ, now: time.Now, rearm: stops.arm,
	}
	go stops.listen() // it ends with the process
	a.style = styleFor(a.stdout, a.getenv)
	a.talk = styleFor(a.stderr, a.getenv)
	a.service = a.connect
	return a.run(ctx, os.Args[1:])
}

// app is what commands share: the world outside, and the flags every command has.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	at      *cursor // of the terminal that stdout and stderr write to; nil: none
	getenv  func(string) string
	environ func() []string
	now     func() time.Time
	// rearm gives a context that the next signal ends, to a command that went on after one.
	rearm func(context.Context) context.Context
	style style // of stdout
	talk  style // of stderr

	// service reaches the daemon, and starts it if need be. It is called when a command needs it.
	service func(ctx context.Context) (api.Service, error)

	state  string
	addr   string
	config string
	json   bool
}

func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCmd(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[outcome](err); ok {
		return int(code)
	}
	a.printError(cmd, err)
	return exitCode(err)
}

func newRootCmd(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "taskdaemon",
		Short: "Runs coding agents as durable, supervised work",
		Long: `taskdaemon runs coding agents as durable, supervised work. Kill it at any instant and it
goes on: nothing lost, nothing done twice.

Without a key it plays the built-in rehearsal model, and says so. For completion in a shell see
taskdaemon completion --help.`,
		Example:       `  taskdaemon task add "make the failing test pass" --attach`,
		Annotations:   exits(exitOK, exitUsage),
		Args:          cobra.ArbitraryArgs, // so that an unknown command comes to holdsOthers
		RunE:          holdsOthers,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.state, "state", "", "state folder, instead of $XDG_STATE_HOME/taskdaemon; each has its own daemon")
	flags.StringVar(&a.addr, "addr", "", "host and port of a daemon's API over TCP, instead of the state folder's own daemon; also $TASKDAEMON_ADDR")
	root.MarkFlagsMutuallyExclusive("state", "addr")
	flags.StringVar(&a.config, "config", "", "config file, instead of $XDG_CONFIG_HOME/taskdaemon/config.yaml")
	flags.BoolVar(&a.json, "json", false, "machine-readable output")
	root.AddCommand(
		newInitCmd(a), newVersionCmd(a), newStatusCmd(a), newStatsCmd(a), newDaemonCmd(a), newPRDCmd(a), newTSCmd(a), newTaskCmd(a), newLoopCmd(a),
		newRecoverCmd(a), newResumeCmd(a), newCheckpointCmd(a), newDoctorCmd(a),
		newConfigCmd(a), newHooksCmd(a), newAuditCmd(a), newKnowledgeCmd(a), newMCPCmd(a), newSkillsCmd(a), newSandboxCmd(a), newCostCmd(a),
		newLocksCmd(a), newWorktreeCmd(a), newGraphCmd(a), newImportCmd(a), newSyncCmd(a), newRunCmd(a), newStartCmd(a),
		newApproveCmd(a), newDenyCmd(a), newPermissionsCmd(a), newPolicyCmd(a),
	)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(a.stdout, cmd) })
	root.SetUsageFunc(func(cmd *cobra.Command) error { writeHelp(a.stderr, cmd); return nil })
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return td.Errorf(td.Invalid, "%w", err).WithHint("%s --help", td.Words(cmd.CommandPath()))
	})
	return root
}

// group is a command that only holds others.
func group(use, short, example string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: "  " + example, Annotations: exits(exitOK, exitUsage),
		RunE: holdsOthers, SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(children...)
	return cmd
}

// holdsOthers helps whoever called a command that only holds others.
func holdsOthers(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	e := td.Errorf(td.Invalid, "unknown command %q for %s", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return e.WithHint("%s %s", td.Words(cmd.CommandPath()), near[0])
	}
	return e.WithHint("%s --help", td.Words(cmd.CommandPath()))
}

// args is cobra's check of the arguments, with an error a person can act on.
func args(check cobra.PositionalArgs, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return td.Errorf(td.Invalid, "want %s", want).WithHint("%s --help", td.Words(cmd.CommandPath()))
		}
		return nil
	}
}

// stateDir is the state folder of this machine's daemon.
func (a *app) stateDir() (string, error) {
	if addr := a.address(); addr != "" {
		return "", td.Errorf(td.Invalid, "this command is for a daemon on this machine, and not for the one at %s", addr).
			WithHint("leave out --addr, and unset TASKDAEMON_ADDR")
	}
	return config.StateDir(a.state, a.getenv)
}

func (a *app) configFile() (string, bool, error) { return config.File(a.config, a.getenv) }

// by is who gives the commands, for the record.
func (a *app) by() string {
	for _, name := range []string{"USER", "LOGNAME"} {
		if u := a.getenv(name); u != "" {
			return u
		}
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// typeable makes a hint the words a person has to type to reach the same daemon: hints must work as they stand.
func (a *app) typeable(hint string) string {
	switch {
	case a.state != "":
		return strings.ReplaceAll(hint, "taskdaemon ", "taskdaemon --state "+td.ShellWord(a.state)+" ")
	case a.addr != "":
		return strings.ReplaceAll(hint, "taskdaemon ", "taskdaemon --addr "+td.ShellWord(a.addr)+" ")
	}
	return hint
}
