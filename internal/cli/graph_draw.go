package cli

import (
	"fmt"
	"io"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// picture writes the lines of a drawing and remembers the first failure.
type picture struct {
	w   io.Writer
	err error
}

func (p *picture) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// ties calls f for each pair of tasks that are both in the list.
func ties(all []api.Planned, refs func(api.Planned) []api.PlanRef, f func(p api.Planned, other api.PlanRef)) {
	there := map[td.TaskID]bool{}
	for _, p := range all {
		there[p.ID] = true
	}
	for _, p := range all {
		for _, r := range refs(p) {
			if there[r.ID] {
				f(p, r)
			}
		}
	}
}

func blockersOf(p api.Planned) []api.PlanRef { return p.Blockers }
func relatedOf(p api.Planned) []api.PlanRef  { return p.Related }
func parentOf(p api.Planned) []api.PlanRef {
	if p.Parent == nil {
		return nil
	}
	return []api.PlanRef{*p.Parent}
}

// drawDot writes the graph for Graphviz. An arrow leads from a task to what waits for it.
func drawDot(_ *app, w io.Writer, all []api.Planned) error {
	d := &picture{w: w}
	d.line("digraph tasks {")
	d.line("  rankdir=LR;")
	d.line("  node [shape=box, style=rounded, fontname=sans];")
	for _, p := range all {
		shape := ""
		if p.Container {
			shape = ", shape=folder"
		}
		d.line("  %s [label=%s%s%s];", dotQuote(p.Handle), dotQuote(planMark(p)+" "+plainLine(p.Title, 60)+"\n"+p.Handle), shape, dotColour(p))
	}
	ties(all, blockersOf, func(p api.Planned, b api.PlanRef) { d.line("  %s -> %s;", dotQuote(b.Handle), dotQuote(p.Handle)) })
	ties(all, parentOf, func(p api.Planned, b api.PlanRef) {
		d.line("  %s -> %s [style=dotted, arrowhead=odiamond];", dotQuote(p.Handle), dotQuote(b.Handle))
	})
	ties(all, relatedOf, func(p api.Planned, b api.PlanRef) {
		d.line("  %s -> %s [style=dashed, dir=none, constraint=false];", dotQuote(p.Handle), dotQuote(b.Handle))
	})
	d.line("}")
	return written(d.err)
}

// dotQuote makes a string of Graphviz. Handles come from ids, which others may have written.
func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(plainText(s)) + `"`
}

func dotColour(p api.Planned) string {
	switch {
	case p.State == td.Completed:
		return ", color=forestgreen"
	case p.State == td.Failed || p.State == td.Abandoned || p.State == td.Blocked:
		return ", color=firebrick"
	case p.State == td.Running:
		return ", color=royalblue, penwidth=2"
	case p.Ready:
		return ", penwidth=2"
	}
	return ""
}

// drawMermaid writes the graph for Mermaid. Containers hold what is in them.
func drawMermaid(_ *app, w io.Writer, all []api.Planned) error {
	d := &picture{w: w}
	d.line("flowchart LR")
	below := map[td.TaskID][]api.Planned{}
	inner := map[td.TaskID]bool{}
	ties(all, parentOf, func(p api.Planned, in api.PlanRef) {
		below[in.ID] = append(below[in.ID], p)
		inner[p.ID] = true
	})
	drawn := map[td.TaskID]bool{}
	var draw func(p api.Planned, indent string)
	draw = func(p api.Planned, indent string) {
		if drawn[p.ID] {
			return
		}
		drawn[p.ID] = true
		label := mermaidQuote(planMark(p) + " " + plainLine(p.Title, 60))
		if len(below[p.ID]) == 0 {
			d.line("%s%s[%s]", indent, mermaidName(p.Handle), label)
			return
		}
		d.line("%ssubgraph %s [%s]", indent, mermaidName(p.Handle), label)
		for _, c := range below[p.ID] {
			draw(c, indent+"  ")
		}
		d.line("%send", indent)
	}
	for _, outer := range []bool{true, false} { // those that are in each other come last
		for _, p := range all {
			if inner[p.ID] != outer {
				draw(p, "  ")
			}
		}
	}
	ties(all, blockersOf, func(p api.Planned, b api.PlanRef) {
		d.line("  %s --> %s", mermaidName(b.Handle), mermaidName(p.Handle))
	})
	ties(all, relatedOf, func(p api.Planned, b api.PlanRef) {
		d.line("  %s -.- %s", mermaidName(p.Handle), mermaidName(b.Handle))
	})
	return written(d.err)
}

// mermaidName is a handle as a name: letters, digits and underscores.
func mermaidName(handle string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, handle)
}

// mermaidQuote makes a label. Mermaid knows characters by name, and reads Markdown and HTML in the others.
func mermaidQuote(s string) string {
	return `"` + strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;").Replace(s) + `"`
}
