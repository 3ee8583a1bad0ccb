package cli

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type taskListOptions struct {
	app    *app
	all    bool
	states []string
	dir    string
	limit  int
	plan   bool
	in     string
}

func newTaskListCmd(a *app) *cobra.Command {
	o := taskListOptions{app: a}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tasks, by priority and then age", Args: args(cobra.NoArgs, "no arguments"),
		Long: `List tasks that have not ended, by priority and then age. With --plan those of the project's graph, also those that were
never started.`,
		Example:     "  taskdaemon task list --only waiting,failed",
		Annotations: talks(exitNotFound),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.plan || o.in != "" {
				return runTaskListPlan(cmd.Context(), o)
			}
			return runTaskList(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also those that have ended")
	cmd.Flags().StringSliceVar(&o.states, "only", nil, "only tasks in these states, as in waiting,failed")
	cmd.Flags().StringVar(&o.dir, "dir", "", "only tasks of this workspace; with --plan, a folder of the project")
	cmd.Flags().IntVarP(&o.limit, "limit", "n", 0, "at most so many; 0 is all")
	cmd.Flags().BoolVar(&o.plan, "plan", false, "those of the project's graph")
	cmd.Flags().StringVar(&o.in, "in", "", "only what is in this task of the graph (implies --plan)")
	return cmd
}

func runTaskList(ctx context.Context, o taskListOptions) error {
	a := o.app
	q := api.TaskQuery{Limit: o.limit}
	var err error
	if q.States, err = o.wanted(); err != nil {
		return err
	}
	if o.dir != "" {
		if q.Dir, err = absolute(o.dir); err != nil {
			return err
		}
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	tasks, err := svc.Tasks(ctx, q)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		if tasks == nil {
			tasks = []td.Task{}
		}
		return a.printJSON(tasks)
	}
	if len(tasks) == 0 {
		if o.all {
			a.say(a.typeable(`no tasks; next: taskdaemon task add "what to do"`))
		} else {
			a.say(a.typeable("no active tasks; to see finished ones: taskdaemon task list --all"))
		}
		return nil
	}
	return a.printTasks(tasks)
}

// folderOr is the folder a person named, or the present one, as the daemon knows it.
func folderOr(dir string) (string, error) { return absolute(cmp.Or(dir, ".")) }

// wanted are the states to list; none: all.
func (o taskListOptions) wanted() ([]td.State, error) {
	list, err := states(o.states)
	if err != nil || len(list) > 0 || o.all {
		return list, err
	}
	for _, s := range td.States {
		if !s.Terminal() {
			list = append(list, s)
		}
	}
	return list, nil
}

// runTaskListPlan lists tasks of the project's graph.
func runTaskListPlan(ctx context.Context, o taskListOptions) error {
	p := planOptions{app: o.app, dir: o.dir}
	if err := p.resolve(); err != nil {
		return err
	}
	list, err := o.wanted()
	if err != nil {
		return err
	}
	none := noPlan
	if !o.all {
		none = "no open tasks; to see finished ones: taskdaemon task list --plan --all"
	}
	return p.list(ctx, api.PlanQuery{In: o.in, States: list, Limit: o.limit}, none, o.app.printPlanned)
}

// absolute is a folder as the daemon knows it: whole, with links resolved.
func absolute(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", td.Errorf(td.Invalid, "find folder: %w", err).WithHint("choose another with --dir")
	}
	return abs, nil
}
