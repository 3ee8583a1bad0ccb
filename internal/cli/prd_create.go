package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type prdCreateOptions struct {
	planOptions
	spec, plan, tasks string // files
	rehearse          string
	force, yes, small bool
}

func newPRDCreateCmd(a *app) *cobra.Command {
	o := &prdCreateOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "create <name>", Short: "Write a feature's spec and plan, and make tasks of them", Args: args(cobra.ExactArgs(1), "one name"),
		Long: `Create a feature and bring it as far as to its tasks: an agent asks you what is wanted and writes the spec, another reviews
it; the same for the plan; a third makes tasks of the plan. They write these two documents and nothing else, and run no
commands. What is there already, or given as a file, is skipped, so that the same command goes on where it was left.

Its folder is .taskdaemon/prds/<slug>: the slug is the name in lower case, with a dash for all that is neither a letter
nor a digit. The same name again means the same feature.

With --small there is only the spec, and a plan if you give one, and no tasks are made: taskdaemon run <slug> works on the
feature as on one task.

Where there is no terminal nobody can be asked: give both documents, or tasks, as files. With --yes it goes on without
asking between the phases, and interviews you even there: taskdaemon task answer is how you answer. Commands that are to
check tasks are asked about before they are planned, unless --yes is given.`,
		Example: `  taskdaemon prd create "Remember me"
  taskdaemon prd create "Remember me" --spec spec.md --plan plan.md
  taskdaemon prd create "Remember me" --spec spec.md --tasks TODO.md`,
	}, func(ctx context.Context) error { return runPRDCreate(ctx, *o) })
	cmd.Annotations = talks(exitNotFound, exitCancelled, exitConflict, exitStorage, exitInterrupted)
	f := cmd.Flags()
	f.StringVar(&o.spec, "spec", "", "file with what is wanted, or - for stdin")
	f.StringVar(&o.plan, "plan", "", "file with how it is done, or - for stdin")
	f.StringVar(&o.tasks, "tasks", "", "file with its tasks, as import takes them, instead of having them made")
	f.BoolVar(&o.force, "force", false, "replace documents that say something else")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask between the phases nor for permissions, and interview without a terminal, too")
	f.BoolVar(&o.small, "small", false, "it is small: make no plan and no tasks, it is run as it is")
	cmd.MarkFlagsMutuallyExclusive("small", "tasks")
	f.StringVar(&o.rehearse, "rehearse", "", "play this script instead of calling a model")
	return cmd
}

func runPRDCreate(ctx context.Context, o prdCreateOptions) error {
	a := o.app
	in, tasks, script, err := o.read()
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	if err := o.possible(ctx, svc, in, len(tasks) > 0); err != nil {
		return err
	}
	p, err := svc.CreatePRD(ctx, in)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if !a.json {
		if _, err := fmt.Fprintln(a.stdout, p.Task.Handle); err != nil {
			return written(err)
		}
	}
	if len(tasks) > 0 {
		if err := o.planned(ctx, svc, p, tasks); err != nil {
			return err
		}
	}
	if p, err = o.authored(ctx, svc, p, script); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	switch {
	case o.leaves(p):
		a.say("%s has a spec; next: %s", p.Task.Handle, a.typeable("taskdaemon run "+p.Slug))
	case p.Next == "":
		a.say("%s is %s, with %s; next: %s", p.Task.Handle, p.Phase, plural(p.Tasks, "task"), a.typeable("taskdaemon task tree "+p.Slug))
	}
	return nil
}

// read reads what is given as files, before anything is changed.
func (o prdCreateOptions) read() (in api.CreatePRD, tasks []api.PlanTask, script string, err error) {
	in = api.CreatePRD{Dir: o.dir, Name: o.args[0], Force: o.force, By: o.app.by()}
	if o.spec == "-" && o.plan == "-" {
		return in, nil, "", td.Errorf(td.Invalid, "--spec and --plan cannot both be read from stdin")
	}
	if _, err := td.Slug(in.Name); err != nil {
		return in, nil, "", err
	}
	for _, f := range []struct {
		flag, path string
		into       *string
	}{{"spec", o.spec, &in.Spec}, {"plan", o.plan, &in.Plan}, {"rehearse", o.rehearse, &script}} {
		switch f.path {
		case "":
			continue
		case "-":
			*f.into, err = readInput(o.app.stdin)
		default:
			*f.into, err = readFile(f.path)
		}
		if err == nil && f.flag == "rehearse" {
			err = notEmpty(f.path, script)
		}
		if err != nil {
			return in, nil, "", fmt.Errorf("--%s: %w", f.flag, err)
		}
		if strings.TrimSpace(*f.into) == "" {
			return in, nil, "", td.Errorf(td.Invalid, "--%s: %s is empty", f.flag, plainLine(f.path, 100))
		}
	}
	if o.tasks != "" {
		from := importOptions{planOptions: o.planOptions}
		from.args = []string{o.tasks}
		plan, err := from.read()
		if err != nil {
			return in, nil, "", fmt.Errorf("--tasks: %w", err)
		}
		tasks = from.tasks(plan)
	}
	return in, tasks, script, nil
}

// possible fails if a person would have to be interviewed and nobody is there.
func (o prdCreateOptions) possible(ctx context.Context, svc api.Service, in api.CreatePRD, tasks bool) error {
	if tasks || o.yes || isTerminal(o.app.stdin) && !o.app.json {
		return nil
	}
	has := map[td.DocName]bool{td.DocSpec: in.Spec != "", td.DocPlan: in.Plan != ""}
	slug, err := td.Slug(in.Name)
	if err != nil {
		return err
	}
	switch p, err := svc.PRD(ctx, o.dir, slug); {
	case err == nil && p.Slug == slug:
		if p.Tasks > 0 || p.Task.State.Terminal() {
			return nil
		}
		for _, d := range p.Documents {
			has[d.Name] = has[d.Name] || d.There
		}
	case err != nil && !td.IsKind(err, td.NotFound) && !td.IsKind(err, td.Ambiguous):
		return err
	}
	var missing []string
	for _, name := range td.DocNames {
		if !has[name] && (name == td.DocSpec || !o.small) {
			missing = append(missing, string(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	flags := ""
	for _, name := range missing {
		flags += " --" + name + " FILE"
	}
	return td.Errorf(td.Invalid, "%s has no %s, and there is no terminal at which you could be asked for it", slug, strings.Join(missing, " and no ")).
		WithHint("taskdaemon prd create %s%s", in.Name, td.Words(flags))
}

// planned puts the tasks of a file into the PRD, each once.
func (o prdCreateOptions) planned(ctx context.Context, svc api.Service, p api.PRD, tasks []api.PlanTask) error {
	for i := range tasks {
		tasks[i].Key = "prd/" + string(p.Task.ID) + "/" + tasks[i].Key // the same file may be of several
		if tasks[i].Parent == "" {
			tasks[i].Parent = string(p.Task.ID)
		}
	}
	_, err := svc.Plan(ctx, api.Plan{Dir: o.dir, Tasks: tasks, By: o.app.by()})
	return err
}

// authored has one author after the other do what is left to do, and shows them.
func (o prdCreateOptions) authored(ctx context.Context, svc api.Service, p api.PRD, script string) (api.PRD, error) {
	a := o.app
	var done td.AuthorPhase
	for {
		var err error
		if p, err = svc.PRD(ctx, o.dir, string(p.Task.ID)); err != nil || p.Next == "" || o.leaves(p) {
			return p, err
		}
		if p.Next == done {
			return p, td.Errorf(td.Conflict, "%s: the phase %q came to nothing", p.Task.Handle, done).WithHint("taskdaemon prd show %s", p.Slug)
		}
		if !o.goOn(p, done) {
			a.say("next: %s", a.typeable("taskdaemon prd create "+p.Slug))
			return p, nil
		}
		err = a.author(ctx, svc, api.AuthorPRD{Dir: o.dir, Ref: string(p.Task.ID), Phase: p.Next, Yes: o.yes, Rehearsal: script}, "taskdaemon prd create "+p.Slug)
		if err != nil {
			return p, err
		}
		done = p.Next
	}
}

// author has the author of a phase do it, and shows that. Again is what to type if it came to nothing.
func (a *app) author(ctx context.Context, svc api.Service, in api.AuthorPRD, again string) error {
	in.By = a.by()
	t, err := svc.AuthorPRD(ctx, in)
	if err != nil {
		return err
	}
	a.say("%s", a.talk.bold(t.Handle+" "+plainLine(t.Title, 80)))
	w := watch{app: a, service: svc, task: t, out: a.stderr, style: a.talk}
	if a.json {
		w.out = io.Discard
	}
	var closeDesk func()
	w.desk, closeDesk = a.openDesk(ctx, svc)
	last, err := w.run(ctx)
	closeDesk()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		a.say("no longer watching; %s goes on. To come back: %s", t.Handle, a.typeable(again))
		return outcome(exitInterrupted)
	case last.Status.State != td.Completed:
		a.say("%s was not completed; to try again: %s", t.Handle, a.typeable(again))
		return outcomeOf(last)
	}
	return nil
}

// leaves reports whether the feature is left as it is: it is small, and a run can work on it.
func (o prdCreateOptions) leaves(p api.PRD) bool {
	return o.small && (p.Next == td.AuthorPlan || p.Next == td.AuthorWork)
}

// goOn asks the person, who can look at what was written, before the next document and before tasks are made.
func (o prdCreateOptions) goOn(p api.PRD, done td.AuthorPhase) bool {
	a := o.app
	if o.yes || a.json || !isTerminal(a.stdin) || done == "" || p.Next == td.ReviewSpec || p.Next == td.ReviewPlan {
		return true
	}
	what := "write the plan"
	if p.Next == td.AuthorWork {
		what = "make tasks of it"
	}
	return a.agrees(fmt.Sprintf("Look at %s. Go on and %s?", plainLine(p.Document(done.Document()).Path, 200), what), true)
}
