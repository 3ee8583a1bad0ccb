package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type graphOptions struct {
	planOptions
	format string
	in     string
	impact string
	path   bool
}

// graphFormats are the ways to draw a graph.
var graphFormats = map[string]func(a *app, w io.Writer, all []api.Planned) error{
	"text":    (*app).drawLayers,
	"dot":     drawDot,
	"mermaid": drawMermaid,
	"json": func(a *app, _ io.Writer, all []api.Planned) error {
		return a.printJSON(append([]api.Planned{}, all...))
	},
}

func newGraphCmd(a *app) *cobra.Command {
	o := &graphOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "graph", Short: "Draw the planned tasks of a project and what they wait for", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Draw the graph of the project: in layers, where a task waits only for tasks of layers before its own, or as input for
Graphviz or Mermaid.

  ○ may run now   · waits   ▸ runs   ? asks a person   ‖ paused   ! cannot go on   ✓ completed   ✗ failed   – cancelled`,
		Example: "  taskdaemon graph --format dot | dot -Tsvg > graph.svg",
	}, func(ctx context.Context) error { return runGraph(ctx, *o) })
	cmd.Flags().StringVar(&o.format, "format", "text", "text, dot, mermaid or json")
	cmd.Flags().StringVar(&o.in, "in", "", "only what is in this task")
	cmd.Flags().BoolVar(&o.path, "path", false, "only the longest chain of tasks that wait for each other")
	cmd.Flags().StringVar(&o.impact, "impact", "", "only what waits for this task")
	cmd.AddCommand(newGraphMergeCmd(a))
	return cmd
}

func runGraph(ctx context.Context, o graphOptions) error {
	a := o.app
	draw, ok := graphFormats[o.format]
	if !ok {
		return td.Errorf(td.Invalid, "--format %s: it is text, dot, mermaid or json", plainLine(o.format, 40))
	}
	if o.path && o.format == "text" {
		draw = (*app).drawChain
	}
	if a.json {
		draw = graphFormats["json"]
	}
	if o.path && o.impact != "" {
		return td.Errorf(td.Invalid, "--path and --impact exclude each other")
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	q := api.PlanQuery{Dir: o.dir, In: o.in, Impact: o.impact, Path: o.path, Tree: !o.path && o.impact == ""}
	all, err := svc.Planned(ctx, q)
	if err != nil {
		return err
	}
	if len(all) == 0 && !a.json && o.format == "text" {
		none := noPlan
		switch {
		case o.impact != "":
			none = "nothing waits for it"
		case o.path:
			none = "no task is open"
		}
		a.say("%s", a.typeable(none))
		return nil
	}
	return draw(a, a.stdout, all)
}

// drawLayers writes the tasks that run, layer by layer.
func (a *app) drawLayers(w io.Writer, all []api.Planned) error {
	layers, knots := layered(all)
	for i, layer := range layers {
		for j, p := range layer {
			head := ""
			if j == 0 {
				head = strconv.Itoa(i + 1)
			}
			if err := a.drawLine(w, head, p); err != nil {
				return err
			}
		}
	}
	for i, p := range knots {
		if i == 0 {
			if _, err := fmt.Fprintln(w, a.style.warn("in no layer, because they wait for each other or for such as do:")); err != nil {
				return written(err)
			}
		}
		if err := a.drawLine(w, "", p); err != nil {
			return err
		}
	}
	return nil
}

// drawChain writes tasks that follow each other.
func (a *app) drawChain(w io.Writer, all []api.Planned) error {
	for i, p := range all {
		if err := a.drawLine(w, strconv.Itoa(i+1), p); err != nil {
			return err
		}
	}
	return nil
}

// drawLine writes a task and what it waits for.
func (a *app) drawLine(w io.Writer, head string, p api.Planned) error {
	text := a.style.state(p.State, fmt.Sprintf("%s %s  %s", planMark(p), p.Handle, plainLine(p.Title, 80)))
	if len(p.Blockers) > 0 {
		names := ""
		for _, b := range p.Blockers {
			names += " " + plainLine(b.Handle, 40)
		}
		text += a.style.dim("  ←" + names)
	}
	_, err := fmt.Fprintf(w, "%3s  %s\n", head, text)
	return written(err)
}

// layered puts the tasks that run by themselves into layers: a task waits only for those of layers before its own.
// What waits in a circle is in none.
func layered(all []api.Planned) (layers [][]api.Planned, knots []api.Planned) {
	before := waitsFor(all)
	waits := map[td.TaskID]int{}
	after := map[td.TaskID][]td.TaskID{}
	byID := map[td.TaskID]api.Planned{}
	var layer []api.Planned
	for _, p := range all {
		byID[p.ID] = p
		if p.Container {
			continue
		}
		waits[p.ID] = len(before[p.ID])
		for _, b := range before[p.ID] {
			after[b] = append(after[b], p.ID)
		}
		if waits[p.ID] == 0 {
			layer = append(layer, p)
		}
	}
	placed := map[td.TaskID]bool{}
	for len(layer) > 0 {
		layers = append(layers, layer)
		var next []api.Planned
		for _, p := range layer {
			placed[p.ID] = true
			for _, id := range after[p.ID] {
				if waits[id]--; waits[id] == 0 {
					next = append(next, byID[id])
				}
			}
		}
		layer = next
	}
	for _, p := range all {
		if !p.Container && !placed[p.ID] {
			knots = append(knots, p)
		}
	}
	return layers, knots
}

// waitsFor are, of each task that runs by itself, the others of the list that must be completed first: what it waits
// for and what the containers it is in wait for, a container taken as the tasks in it.
func waitsFor(all []api.Planned) map[td.TaskID][]td.TaskID {
	byID := map[td.TaskID]api.Planned{}
	for _, p := range all {
		byID[p.ID] = p
	}
	// up are a task and what it is in, as far as it is in the list. It ends even where they are in each other.
	up := func(p api.Planned) (chain []api.Planned) {
		for ok := true; ok && len(chain) <= len(all); {
			chain = append(chain, p)
			if p.Parent == nil {
				break
			}
			p, ok = byID[p.Parent.ID]
		}
		return chain
	}
	leaves := map[td.TaskID][]td.TaskID{}
	for _, p := range all {
		if p.Container {
			continue
		}
		for _, c := range up(p) {
			leaves[c.ID] = append(leaves[c.ID], p.ID)
		}
	}
	out := map[td.TaskID][]td.TaskID{}
	for _, p := range all {
		if p.Container {
			continue
		}
		seen := map[td.TaskID]bool{}
		for _, c := range up(p) {
			for _, b := range c.Blockers {
				for _, leaf := range leaves[b.ID] {
					if !seen[leaf] {
						seen[leaf] = true
						out[p.ID] = append(out[p.ID], leaf)
					}
				}
			}
		}
	}
	return out
}
