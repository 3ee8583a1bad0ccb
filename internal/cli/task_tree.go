package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type taskTreeOptions struct{ planOptions }

func newTaskTreeCmd(a *app) *cobra.Command {
	o := &taskTreeOptions{planOptions{app: a}}
	return o.command(&cobra.Command{
		Use: "tree [task]", Short: "Show planned tasks and what they are part of", Args: args(cobra.MaximumNArgs(1), "one task, or none"),
		Long: `Show the tasks of the project's graph, each below the one it is part of, or only those in one task.

  ○ may run now   · waits   ▸ runs   ? asks a person   ‖ paused   ! cannot go on   ✓ completed   ✗ failed   – cancelled`,
		Example: "  taskdaemon task tree",
	}, func(ctx context.Context) error { return runTaskTree(ctx, *o) })
}

func runTaskTree(ctx context.Context, o taskTreeOptions) error {
	q := api.PlanQuery{Tree: true}
	if len(o.args) > 0 {
		q.In = o.args[0]
	}
	return o.list(ctx, q, noPlan, o.app.printTree)
}

// printTree draws tasks that come with containers before what they hold.
func (a *app) printTree(all []api.Planned) error {
	base := all[0].Depth
	for _, p := range all {
		base = min(base, p.Depth)
	}
	last := lastOnes(all)
	var open []bool // whether more comes on the level of each line to the left
	for i, p := range all {
		depth := min(p.Depth-base, len(open))
		open = append(open[:depth], !last[i])
		text := fmt.Sprintf("%s %s  %s", planMark(p), p.Handle, plainLine(p.Title, 80))
		line := treeLines(open, depth) + a.style.state(p.State, text)
		if why := obstacleWords(p); why != "" {
			line += a.style.dim("  " + why)
		}
		if _, err := fmt.Fprintln(a.stdout, line); err != nil {
			return written(err)
		}
	}
	return nil
}

// lastOnes says of each task whether it is the last that its container holds.
func lastOnes(all []api.Planned) []bool {
	last := make([]bool, len(all))
	more := map[int]bool{} // by depth: another one comes below the same container
	for i := len(all) - 1; i >= 0; i-- {
		d := all[i].Depth
		last[i] = !more[d]
		more[d] = true
		for deeper := range more {
			if deeper > d {
				delete(more, deeper)
			}
		}
	}
	return last
}

func treeLines(open []bool, depth int) string {
	if depth == 0 {
		return ""
	}
	var b strings.Builder
	for _, more := range open[1:depth] {
		if more {
			b.WriteString("│  ")
		} else {
			b.WriteString("   ")
		}
	}
	if open[depth] {
		b.WriteString("├─ ")
	} else {
		b.WriteString("└─ ")
	}
	return b.String()
}
