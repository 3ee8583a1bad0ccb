package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
	in       api.RunNext
}

func newRunCmd(a *app) *cobra.Command {
	o := runOptions{app: a}
	cmd := &cobra.Command{
		Use: "run [prd | task]", Short: "Work through the planned tasks",
		Long: `Work through the planned tasks of a project, or of one PRD or task of it: the one that is ready and first by priority and
age is started and shown live until it has ended, then the next, until all have ended or none may run.

Each task is worked on in iterations, each a conversation with a fresh context that begins with the task, what it is part
of, what was completed before it, why the last iteration came to nothing, and notes of others. With --verify another
agent looks at an exact copy of the work before it counts as done; what it finds missing is the next iteration's to mend.

Ctrl-C pauses the task, asks for a word to it, and whether to go on; a second one leaves at once. What was started is in the
daemon's hands: if this command is killed, the task runs on, and the next run takes up what it finds. If the daemon is
killed it is started again.

How it ended: complete (0, or 1 if any task failed), failure (1: an agent saw no use in going on), limit (0), blocked (2:
tasks are open, and none may run), no plan (3: there are no tasks), interrupted (0, or 130).`,
		Example:     "  taskdaemon run --verify\n  taskdaemon run boat --limit 20 --model-strategy escalate",
		Args:        args(cobra.MaximumNArgs(1), "at most one PRD or task"),
		Annotations: runExits(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.in.Target = args[0]
			}
			return runRun(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.dir, "dir", "C", "", "a folder of the project; the present one when not given")
	f.IntVar(&o.limit, "limit", 0, "begin at most so many iterations; 0: any number")
	f.BoolVar(&o.once, "once", false, "the same as --limit 1")
	f.BoolVar(&o.in.Verify, "verify", false, "have another agent find each task done before it counts")
	f.StringVar(&o.strategy, "model-strategy", string(td.CostOptimized), "which class of model iterations get: "+strategyNames())
	f.StringVar(&o.in.Model, "model", "", "this very model for all of them")
	f.BoolVarP(&o.in.Yes, "yes", "y", false, "grant permissions without asking")
	f.StringVar((*string)(&o.in.Permissions), "permissions", "", "what tasks may do without asking: "+modeNames()+"; the config's when not given")
	f.StringVar(&o.budget, "budget", "", "dollars each task may cost before a person is asked, instead of the config's")
	f.StringVar(&o.rehearse, "rehearse", "", "play this script instead of calling a model")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show only which task starts and how it ends")
	return cmd
}

func runExits() map[string]string {
	out := talks(exitRunNoPlan, exitInterrupted)
	out[exitKey(exitOK)] = "complete, limit reached or interrupted"
	out[exitKey(exitFailed)] = "complete and a task failed, or failure"
	out[exitKey(exitRunBlocked)] = "blocked"
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

// The outcomes that are the run's own; the graph decides the others.
const (
	runFailure     api.RunOutcome = "failure"
	runLimit       api.RunOutcome = "limit_reached"
	runInterrupted api.RunOutcome = "interrupted"
)

// ran is what a run came to, as --json prints it.
type ran struct {
	Outcome    api.RunOutcome `json:"outcome"`
	Run        string         `json:"run"`
	Iterations int            `json:"iterations"`
	Completed  int            `json:"completed"`
	Failed     int            `json:"failed"`
	Open       int            `json:"open"`
	Tasks      []ranTask      `json:"tasks,omitempty"`
	InTheWay   []api.Planned  `json:"in_the_way,omitempty"`
}

type ranTask struct {
	Handle string   `json:"handle"`
	Title  string   `json:"title"`
	State  td.State `json:"state"`
}

func runRun(ctx context.Context, o runOptions) error {
	a := o.app
	if err := o.read(); err != nil {
		return err
	}
	svc, err := a.reviving(ctx)
	if err != nil {
		return err
	}
	r := &runner{runOptions: o, svc: svc, out: ran{Run: o.in.Run}, followed: map[td.TaskID]int{}}
	return r.loop(ctx)
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
	if o.in.Dir, err = folderOr(o.dir); err != nil {
		return err
	}
	if o.budget != "" {
		if o.in.Budget, err = td.ParseDollars(o.budget); err != nil {
			return fmt.Errorf("--budget: %w", err)
		}
	}
	if o.rehearse != "" {
		if o.in.Rehearsal, err = readFile(o.rehearse); err != nil {
			return err
		}
	}
	o.in.Strategy, o.in.By = td.ModelStrategy(o.strategy), o.app.by()
	o.in.Run = "r-" + string(td.NewRunID())
	return nil
}

// runner is a run on its way.
type runner struct {
	runOptions
	svc      api.Service
	out      ran
	followed map[td.TaskID]int // iterations of each task that are counted
}

// loop takes one task after the other until there is an outcome.
func (r *runner) loop(ctx context.Context) error {
	for first := true; ; first = false {
		if ctx.Err() != nil {
			return r.end(context.WithoutCancel(ctx), runInterrupted) // between two tasks
		}
		if r.limit > 0 && r.out.Iterations >= r.limit {
			return r.atLimit(ctx)
		}
		if r.limit > 0 {
			r.in.Left = r.limit - r.out.Iterations
		}
		step, err := r.svc.RunNext(context.WithoutCancel(ctx), r.in) // what it starts must be known
		if err != nil {
			return err
		}
		if first {
			r.app.notePeer(r.svc)
		}
		r.count(step)
		if step.Task == nil {
			r.out.InTheWay = step.InTheWay
			return r.end(ctx, step.Outcome)
		}
		t, err := r.follow(ctx, step)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			again, err := r.interrupted(context.WithoutCancel(ctx), t)
			if err != nil || !again {
				return r.endAfter(context.WithoutCancel(ctx), err)
			}
			ctx = r.app.rearm(ctx)
			continue
		}
		if t.Status.State == td.Paused && t.GivenUp() {
			return r.end(ctx, runFailure)
		}
	}
}

func (r *runner) count(step api.RunStep) {
	r.out.Completed, r.out.Failed, r.out.Open = step.Completed, step.Failed, step.Open
}

// follow shows a task until it rests.
func (r *runner) follow(ctx context.Context, step api.RunStep) (td.Task, error) {
	a, t := r.app, *step.Task
	how := "started"
	switch {
	case !step.Started:
		how = "at work"
	case t.Iteration > 0:
		how = "taken up again"
	}
	a.say("%s %s %s", a.talk.bold(t.Handle), plainLine(t.Title, 100), a.talk.dim("("+how+")"))
	w := watch{
		app: a, service: r.svc, task: t, out: a.stderr, style: a.talk, answers: true, untilRest: true, thoughts: true, quiet: r.quiet || a.json,
		skip: t.Head, // a record of its creation would say the same again
	}
	last, err := w.run(ctx)
	if last.Head == 0 {
		last = t
	}
	r.countIterations(t, last)
	if err == nil && ctx.Err() == nil {
		r.noteTask(last)
		a.notify(last)
	}
	return last, err
}

// countIterations counts those that were begun for this run. The first look at a task may come after it began one.
func (r *runner) countIterations(was, is td.Task) {
	if is.Ordered == nil || is.Ordered.Run != r.in.Run {
		return
	}
	from, known := r.followed[is.ID]
	if !known {
		from = was.IterationsFrom
	}
	r.out.Iterations += max(0, is.Iteration-from)
	r.followed[is.ID] = is.Iteration
}

// atLimit ends a run that may begin nothing more: if nothing is left that is as good an end as any.
func (r *runner) atLimit(ctx context.Context) error {
	look := r.in
	look.Look = true
	step, err := r.svc.RunNext(ctx, look)
	if err != nil {
		return err
	}
	if step.Open > 0 {
		return r.end(ctx, runLimit)
	}
	r.count(step)
	return r.end(ctx, api.RunComplete)
}

func (r *runner) noteTask(t td.Task) {
	if r.quiet {
		r.app.say("%s %s", t.Handle, r.app.talk.state(t.Status.State, string(t.Status.State)))
	}
	r.out.Tasks = append(r.out.Tasks, ranTask{t.Handle, t.Title, t.Status.State})
}

func (r *runner) endAfter(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return r.end(ctx, runInterrupted)
}

// end says how it ended, and exits with that.
func (r *runner) end(ctx context.Context, how api.RunOutcome) error {
	a := r.app
	r.out.Outcome = how
	if how == runFailure || how == runLimit || how == runInterrupted {
		look := r.in
		look.Look = true
		if step, err := r.svc.RunNext(ctx, look); err == nil {
			r.count(step)
		}
	}
	if a.json {
		if err := a.printJSON(r.out); err != nil {
			return err
		}
	} else {
		r.printEnd(how)
	}
	switch how {
	case api.RunComplete:
		if r.out.Failed > 0 {
			return outcome(exitFailed)
		}
		return nil
	case runFailure:
		return outcome(exitFailed)
	case api.RunBlocked:
		return outcome(exitRunBlocked)
	case api.RunNoPlan:
		return outcome(exitRunNoPlan)
	}
	return nil
}

func (r *runner) printEnd(how api.RunOutcome) {
	a := r.app
	counts := fmt.Sprintf("%d completed, %d failed, %d open; %s", r.out.Completed, r.out.Failed, r.out.Open, plural(r.out.Iterations, "iteration"))
	switch how {
	case api.RunComplete:
		words := a.style.green("complete")
		if r.out.Failed > 0 {
			words = a.style.red("complete, with failures")
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", words, counts)
	case api.RunBlocked:
		fmt.Fprintf(a.stdout, "%s: %s\n", a.style.warn("blocked"), counts)
		for _, p := range r.out.InTheWay {
			fmt.Fprintf(a.stdout, "  %s  %s  %s\n", p.Handle, plainLine(p.Title, 60), a.style.dim(obstacleOrState(p)))
		}
		a.say("next: %s", a.typeable("taskdaemon task blocked"))
	case api.RunNoPlan:
		fmt.Fprintln(a.stdout, a.style.warn("no plan")+": there are no tasks")
		a.say("next: %s", a.typeable(`taskdaemon task add "…" --plan, or taskdaemon prd create`))
	case runFailure:
		fmt.Fprintf(a.stdout, "%s: the agent sees no use in going on; %s\n", a.style.red("failure"), counts)
	case runLimit:
		fmt.Fprintf(a.stdout, "limit reached: %s\n", counts)
		a.say("next: %s", a.typeable("taskdaemon run"))
	case runInterrupted:
		fmt.Fprintf(a.stdout, "interrupted: %s\n", counts)
		a.say("next: %s", a.typeable("taskdaemon run"))
	}
}

// obstacleOrState says why a task does not run.
func obstacleOrState(p api.Planned) string {
	if p.Obstacle != "" {
		return obstacleWords(p)
	}
	return "is " + string(p.State)
}
