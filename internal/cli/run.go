package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type runOptions struct {
	app      *app
	dir      string
	limit    int
	once     bool
	quiet    bool
	strategy string
	rehearse string
	budget   string
	tokens   string
	given    []string // flags that say what is wanted of the run
	in       api.StartRun
}

func newRunCmd(a *app) *cobra.Command {
	o := runOptions{app: a}
	cmd := &cobra.Command{
		Use: "run [prd | task]", Short: "Work through the planned tasks",
		Long: `Work through the planned tasks of a project, or of one PRD or task of it: what is ready and first by priority and age is
started and shown live until it has ended, then the next, until all have ended or none may run. With --parallel as many are
at work at once, and each line of what is shown says which it is of.

Each task is worked on in iterations, each a conversation with a fresh context that begins with the task, what it is part
of, what was completed before it, why the last iteration came to nothing, and notes of others. With --verify another
agent looks at an exact copy of the work before it counts as done; what it finds missing is the next iteration's to mend.

The run is in the daemon's hands: if this command is killed it goes on, and the same command shows it again. If the daemon
is killed it goes on when there is one again. Ctrl-C stops it: its tasks are paused after what they are doing now, and
with one task you are asked for a word to it, with which its next iteration begins, and whether to go on; with several, which of them to stop. A second Ctrl-C
leaves at once.

On a terminal, questions may be answered in place, by number or id where several are open; other lines are messages, and /pause, /cancel and the
other commands of task send act. Where several tasks are at work, begin with the handle of one.

How it ended: complete (0, or 1 if any task failed), failure (1: an agent saw no use in going on), limit (0), blocked (2:
tasks are open, and none may run), no plan (3: there are no tasks), interrupted (0, or 130).`,
		Example:     "  taskdaemon run --verify\n  taskdaemon run boat --parallel 3 --limit 20 --model-strategy escalate",
		Args:        args(cobra.MaximumNArgs(1), "at most one PRD or task"),
		Annotations: runExits(),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.take(cmd, args)
			return runRun(cmd.Context(), o)
		},
	}
	o.wishes(cmd, 1, "work on so many tasks at once")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "show only which task starts and how it ends")
	cmd.AddCommand(newRunStopCmd(a), newRunListCmd(a))
	return cmd
}

// wishes are the flags that say what is wanted of a run, of which parallel tasks are at work at once if nothing else is said.
func (o *runOptions) wishes(cmd *cobra.Command, parallel int, words string) {
	f := cmd.Flags()
	f.StringVarP(&o.dir, "dir", "C", "", "a folder of the project; the present one when not given")
	f.IntVarP(&o.in.Parallel, "parallel", "j", parallel, words)
	f.IntVar(&o.limit, "limit", 0, "begin at most so many iterations, also of a task found at work; 0: any number")
	f.BoolVar(&o.once, "once", false, "the same as --limit 1")
	f.BoolVar(&o.in.Verify, "verify", false, "have another agent find each task done before it counts")
	f.StringVar(&o.strategy, "model-strategy", string(td.CostOptimized), "which class of model iterations get: "+strategyNames())
	f.StringVar(&o.in.Model, "model", "", "this very model for all of them")
	f.BoolVarP(&o.in.Yes, "yes", "y", false, "grant permissions without asking")
	f.BoolVar(&o.in.InPlace, "in-place", false, "work in the project's folder itself, and not in worktrees of it")
	f.StringVar((*string)(&o.in.Permissions), "permissions", "", "what tasks may do without asking: "+modeNames()+"; the config's when not given")
	f.StringVar(&o.budget, "budget", "", "dollars each task may cost before a person is asked, instead of the config's")
	f.StringVar(&o.tokens, "token-budget", "", "tokens each task may take before a person is asked (200k, 5M), instead of the config's")
	f.BoolVar(&o.in.Force, "force", false, "take also tasks that another clone of the project has claimed")
	f.StringVar(&o.rehearse, "rehearse", "", "play this script instead of calling a model")
}

// take notes what was typed.
func (o *runOptions) take(cmd *cobra.Command, args []string) {
	if len(args) > 0 {
		o.in.Target = args[0]
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"dir", "quiet", "limit", "once"}, f.Name) && cmd.LocalNonPersistentFlags().Lookup(f.Name) != nil {
			o.given = append(o.given, "--"+f.Name)
		}
	})
}

func runExits() map[string]string {
	out := talks(exitRunNoPlan, exitInterrupted)
	out[exitKey(exitOK)] = "complete, limit reached or interrupted, and every branch has the work"
	out[exitKey(exitFailed)] = "complete and a task failed, or failure"
	out[exitKey(exitRunBlocked)] = "blocked, or a branch lacks work of the run"
	out[exitKey(exitRunNoPlan)] = "no plan"
	return out
}

func strategyNames() string {
	names := make([]string, len(td.ModelStrategies))
	for i, s := range td.ModelStrategies {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// read takes in what the flags say.
func (o *runOptions) read() (err error) {
	if o.once {
		if o.limit > 1 {
			return td.Errorf(td.Invalid, "--once and --limit %d exclude each other", o.limit)
		}
		o.limit = 1
	}
	if o.limit < 0 {
		return td.Errorf(td.Invalid, "--limit %d: it must not be negative", o.limit)
	}
	if o.in.Parallel < 1 && slices.Contains(o.given, "--parallel") {
		return td.Errorf(td.Invalid, "--parallel %d: it is at least 1", o.in.Parallel)
	}
	if o.in.Dir, err = folderOr(o.dir); err != nil {
		return err
	}
	if o.budget != "" {
		if o.in.Budget, err = td.ParseDollars(o.budget); err != nil {
			return fmt.Errorf("--budget: %w", err)
		}
	}
	if o.tokens != "" {
		if o.in.TokenBudget, err = td.ParseTokens(o.tokens); err != nil {
			return fmt.Errorf("--token-budget: %w", err)
		}
	}
	if o.rehearse != "" {
		if o.in.Rehearsal, err = readScript(o.rehearse); err != nil {
			return err
		}
	}
	o.in.Strategy, o.in.By, o.in.Limit = td.ModelStrategy(o.strategy), o.app.by(), o.limit
	return nil
}

func runRun(ctx context.Context, o runOptions) error {
	if err := o.read(); err != nil {
		return err
	}
	svc, err := o.app.reviving(ctx)
	if err != nil {
		return err
	}
	defer o.app.clearTyped() // typed while it asked what is to become of the run
	return (&runner{runOptions: o, svc: svc}).loop(ctx)
}

// ran is what a run came to, as --json prints it.
type ran struct {
	Outcome    td.RunOutcome `json:"outcome"`
	Run        string        `json:"run"`
	Iterations int           `json:"iterations"`
	Completed  int           `json:"completed"`
	Failed     int           `json:"failed"`
	Cancelled  int           `json:"cancelled,omitempty"`
	Open       int           `json:"open"`
	Tasks      []ranTask     `json:"tasks,omitempty"`
	InTheWay   []api.Planned `json:"in_the_way,omitempty"`
	Unlanded   []td.Unlanded `json:"unlanded,omitempty"`
}

type ranTask struct {
	Handle string   `json:"handle"`
	Title  string   `json:"title"`
	State  td.State `json:"state"`
}

// endRun says how a run ended, and exits with that.
func (a *app) endRun(run api.Run, tasks []ranTask) error {
	out := ran{
		Outcome: run.End.Outcome, Run: run.Run, Iterations: run.Iterations, Completed: run.Completed, Failed: run.Failed, Cancelled: run.Cancelled, Open: run.Remaining,
		Tasks: tasks, InTheWay: run.InTheWay, Unlanded: run.End.Unlanded,
	}
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		a.printRunEnd(out)
	}
	switch {
	case out.Outcome == td.RunFailure, out.Outcome == td.RunComplete && out.Failed > 0:
		return outcome(exitFailed)
	case out.Outcome == td.RunNoPlan:
		return outcome(exitRunNoPlan)
	case out.Outcome == td.RunBlocked, len(out.Unlanded) > 0:
		return outcome(exitRunBlocked)
	}
	return nil
}

func (a *app) printRunEnd(r ran) {
	counts := runCounts(r.Completed, r.Failed, r.Cancelled, r.Open, r.Iterations)
	next := ""
	switch r.Outcome {
	case td.RunComplete:
		words := a.style.green("complete")
		if r.Failed > 0 {
			words = a.style.red("complete, with failures")
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", words, counts)
	case td.RunUnlanded:
		fmt.Fprintf(a.stdout, "%s: %s\n", a.style.warn("finished, but not everything is on its branch"), counts)
	case td.RunBlocked:
		fmt.Fprintf(a.stdout, "%s: %s\n", a.style.warn("blocked"), counts)
		for _, p := range r.InTheWay {
			fmt.Fprintf(a.stdout, "  %s  %s  %s\n", p.Handle, plainLine(p.Title, 60), a.style.dim(obstacleOrState(p)))
		}
		next = "taskdaemon task blocked"
	case td.RunNoPlan:
		fmt.Fprintln(a.stdout, a.style.warn("no plan")+": there are no tasks")
		next = `taskdaemon task add "…" --plan, or taskdaemon prd create`
	case td.RunFailure:
		fmt.Fprintf(a.stdout, "%s: the agent sees no use in going on; %s\n", a.style.red("failure"), counts)
	case td.RunLimit:
		fmt.Fprintf(a.stdout, "limit reached: %s\n", counts)
		next = "taskdaemon run"
	case td.RunInterrupted:
		fmt.Fprintf(a.stdout, "interrupted: %s\n", counts)
		next = "taskdaemon run"
	}
	if len(r.Unlanded) > 0 {
		a.printUnlanded(r.Unlanded)
		a.say("taskdaemon keeps trying; to see how it stands: %s", a.typeable("taskdaemon status"))
	}
	if next != "" {
		a.say("next: %s", a.typeable(next))
	}
}

// runCounts says how the tasks of a run stand.
func runCounts(completed, failed, cancelled, open, iterations int) string {
	words := fmt.Sprintf("%d completed, %d failed, ", completed, failed)
	if cancelled > 0 {
		words += fmt.Sprintf("%d cancelled, ", cancelled)
	}
	return words + fmt.Sprintf("%d open; %s", open, plural(iterations, "iteration"))
}

// obstacleOrState says why a task does not run.
func obstacleOrState(p api.Planned) string {
	if p.Obstacle != "" {
		return obstacleWords(p)
	}
	return "is " + string(p.State)
}
