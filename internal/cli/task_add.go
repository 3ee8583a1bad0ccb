package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// maxInput bounds prompts and scripts that are read from files.
const maxInput = 8 << 20

type taskAddOptions struct {
	app         *app
	words       []string
	file        string
	dir         string
	interactive bool
	tier        string
	priority    int
	rehearse    string
	budget      string
	tokens      string
	wait        bool
	attach      bool
	quiet       bool
	plan        planFlags
	task        api.AddTask
}

func newTaskAddCmd(a *app) *cobra.Command {
	o := taskAddOptions{app: a}
	cmd := &cobra.Command{
		Use: "add [prompt | -]", Aliases: []string{"create"}, Short: "Add a task",
		Long: `Add a task and print its handle. The prompt is the arguments, a file, or - for stdin.

With --wait the command stays until the task has ended or needs a person, and exits with the outcome;
with --attach it shows the loop live and stays while a person is asked, too.

With --plan the task goes into the graph of the project instead, and is not started: it may wait for others there, and
be part of one.`,
		Example: `  taskdaemon task add "make the failing test pass" --validate "go test ./..." --wait`,
		Annotations: exits(exitOK, exitFailed, exitUsage, exitNotFound, exitCancelled, exitPerson, exitConflict, exitUnavailable,
			exitInterrupted),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.words = args
			if !cmd.Flags().Changed("priority") {
				o.priority = -1
			}
			if o.plan.read(cmd); o.plan.plan {
				return runTaskPlan(cmd.Context(), o)
			}
			return runTaskAdd(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "read the prompt from this file")
	f.StringVarP(&o.dir, "dir", "C", "", "workspace; the present folder when not given")
	f.StringVarP(&o.task.Title, "title", "t", "", "one line for people; made from the prompt when not given")
	f.StringVar(&o.task.Validator, "validate", "", "command that must exit 0 in the workspace before the task counts as completed")
	f.BoolVarP(&o.task.Yes, "yes", "y", false, "grant permissions without asking")
	f.StringVar((*string)(&o.task.Permissions), "permissions", "", "what it may do without asking: "+modeNames()+"; the config's when not given")
	f.BoolVar(&o.task.InPlace, "in-place", false, "work in the folder itself, and not in a worktree of it")
	f.BoolVarP(&o.interactive, "interactive", "i", false, "wait for a message after each turn")
	f.StringVar(&o.tier, "tier", "", "class of model: small, worker or expert")
	f.StringVar(&o.task.Model, "model", "", "this very model")
	f.IntVarP(&o.priority, "priority", "p", 2, "0 (first) to 4")
	f.StringSliceVarP(&o.task.Labels, "label", "l", nil, "labels, for people")
	f.IntVar(&o.task.MaxTurns, "max-turns", 0, "turns before it pauses and asks, instead of the config's")
	f.StringVar(&o.budget, "budget", "", "dollars it may cost with its subtasks before a person is asked, instead of the config's")
	f.StringVar(&o.tokens, "token-budget", "", "tokens it may take with its subtasks before a person is asked (200k, 5M), instead of the config's")
	f.DurationVar(&o.task.Permission, "permission-limit", 0, "how long a permission request stays open, instead of the config's")
	f.StringVar(&o.rehearse, "rehearse", "", "play this script instead of calling a model")
	f.StringVar(&o.task.Key, "key", "", "the same key again adds nothing and returns the first task")
	f.BoolVarP(&o.wait, "wait", "w", false, "stay until it has ended or needs a person; exit with the outcome")
	f.BoolVarP(&o.attach, "attach", "a", false, "show the loop live; exit with the outcome")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "with --wait: show nothing meanwhile")
	o.plan.flags(cmd)
	return cmd
}

func runTaskAdd(ctx context.Context, o taskAddOptions) error {
	a := o.app
	if o.wait && o.attach {
		return td.Errorf(td.Invalid, "--wait and --attach exclude each other")
	}
	in, err := o.request()
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	t, err := svc.AddTask(ctx, in)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	a.noteUncommitted(ctx, t)
	if o.rehearse != "" {
		a.say("%s", a.talk.warn("rehearsed from "+o.rehearse+": no model is called"))
	}
	if o.wait || o.attach {
		return o.stay(ctx, svc, t)
	}
	if a.json {
		return a.printJSON(t)
	}
	if _, err := fmt.Fprintln(a.stdout, t.Handle); err != nil {
		return written(err)
	}
	a.say("next: %s", a.typeable("taskdaemon loop attach "+t.Handle))
	return nil
}

// stay watches the new task to its end. What is watched goes to stderr: stdout has the handle, or with
// --json the task as it ended.
func (o taskAddOptions) stay(ctx context.Context, svc api.Service, t td.Task) error {
	a := o.app
	if !a.json {
		if _, err := fmt.Fprintln(a.stdout, t.Handle); err != nil {
			return written(err)
		}
	}
	w := watch{app: a, service: svc, task: t, out: a.stderr, style: a.talk, untilPerson: o.wait}
	if o.quiet || a.json {
		w.out = io.Discard
	}
	var closeDesk func()
	w.desk, closeDesk = a.openDesk(ctx, svc)
	defer closeDesk()
	stop := a.callForInput(ctx, svc)
	last, err := w.run(ctx)
	stop()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		a.say("%s", a.typeable("detached; the task runs on: taskdaemon loop attach "+t.Handle))
		return outcome(exitInterrupted)
	}
	if a.json {
		if err := a.printJSON(last); err != nil {
			return err
		}
	}
	a.notify(last)
	return outcomeOf(last)
}

// request puts together what the flags say.
func (o taskAddOptions) request() (api.AddTask, error) {
	in := o.task
	var err error
	if in.Prompt, err = o.prompt(); err != nil {
		return in, err
	}
	if in.Dir, err = folderOr(o.dir); err != nil {
		return in, err
	}
	if o.budget != "" {
		if in.Budget, err = td.ParseDollars(o.budget); err != nil {
			return in, fmt.Errorf("--budget: %w", err)
		}
	}
	if o.tokens != "" {
		if in.TokenBudget, err = td.ParseTokens(o.tokens); err != nil {
			return in, fmt.Errorf("--token-budget: %w", err)
		}
	}
	if o.rehearse != "" {
		raw, err := readScript(o.rehearse)
		if err != nil {
			return in, err
		}
		in.Rehearsal = raw
	}
	if o.interactive {
		in.Mode = td.Interactive
	}
	if o.priority >= 0 {
		in.Priority = &o.priority
	}
	in.Tier, in.By = td.Tier(o.tier), o.app.by()
	return in, nil
}

func (o taskAddOptions) prompt() (string, error) {
	switch {
	case o.file != "" && len(o.words) > 0:
		return "", td.Errorf(td.Invalid, "both a prompt and --file are given")
	case o.file == "-" || len(o.words) == 1 && o.words[0] == "-":
		return readInput(o.app.stdin)
	case o.file != "":
		return readFile(o.file)
	case len(o.words) == 0:
		return "", td.Errorf(td.Invalid, "there is no prompt").WithHint(`taskdaemon task add "what to do"`)
	}
	return strings.Join(o.words, " "), nil
}

// readScript reads a rehearsal script. Without one a model would be called, and paid.
func readScript(path string) (string, error) {
	script, err := readFile(path)
	if err != nil {
		return "", err
	}
	return script, notEmpty(path, script)
}

func notEmpty(path, script string) error {
	if strings.TrimSpace(script) == "" {
		return td.Errorf(td.Invalid, "the rehearsal script %s is empty: it needs turns", path).WithHint("see docs/rehearsal.md, or leave --rehearse out to call the model")
	}
	return nil
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", td.Errorf(td.Invalid, "read file: %w", err)
	}
	defer f.Close()
	return readInput(f)
}

func readInput(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return "", td.Errorf(td.Invalid, "read input: %w", err)
	}
	if len(raw) > maxInput {
		return "", td.Errorf(td.Invalid, "input is larger than %d MiB", maxInput>>20)
	}
	return string(raw), nil
}

// uncommittedLimit bounds the look at a person's folder after a task was added.
const uncommittedLimit = 3 * time.Second

// noteUncommitted says that a task in a worktree does not see what is not committed.
func (a *app) noteUncommitted(ctx context.Context, t td.Task) {
	if t.Worktree == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, uncommittedLimit)
	defer cancel()
	files, _, err := git.Uncommitted(ctx, t.Worktree.Repo)
	if err != nil || len(files) == 0 {
		return // it is a courtesy
	}
	a.say("%s", a.talk.warn(plural(len(files), "file")+" with changes that are not committed: the task works in "+t.Worktree.Path+" without them")+
		"; commit them first, or work here with --in-place")
}
