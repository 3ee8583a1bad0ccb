package cli

import (
	"encoding/json"
	"fmt"

	"taskdaemon/internal/td"
)

// verdict shows what a verifier found. Why it did not pass is said by the end of the iteration.
func (v *view) verdict(r *td.ToolResult) {
	var ev td.Evidence
	if r.IsError || json.Unmarshal([]byte(r.Content), &ev) != nil {
		v.line(v.s.red("  ✗ not verified") + v.s.dim(byVerifier(r.Child)))
		return
	}
	v.line(v.s.green("  ✓ verified") + ": " + plainLine(ev.Verdict, 300) + v.s.dim(" · tree "+shortHash(ev.Tree)+" · "+money(ev.Cost)))
}

func byVerifier(c *td.ChildResult) string {
	if c == nil {
		return ""
	}
	return " by " + td.Handle(td.TaskHandle, string(c.Task), td.HandleLength)
}

// verificationWords are which tree is looked at, and by whom.
func verificationWords(in td.Intent) string {
	var of td.Verification
	if json.Unmarshal(in.Evidence, &of) != nil {
		return "the work"
	}
	words := fmt.Sprintf("tree %s: %s", shortHash(of.Tree), td.Handle(td.TaskHandle, string(of.Task), td.HandleLength))
	if in.Attempt > 0 {
		words += ", for the files have changed"
	}
	return words
}

// showBelow names the view of who looks at the work.
func (v *view) showBelow(below *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.below = below
}

// asksBelow is who looks at the work, if that one asks something.
func (v *view) asksBelow() (td.Task, bool) {
	v.mu.Lock()
	below := v.below
	v.mu.Unlock()
	if below == nil {
		return td.Task{}, false
	}
	below.mu.Lock()
	defer below.mu.Unlock()
	return below.task, len(below.task.Requests) > 0
}

// settle ends the line before another view writes to the same screen.
func (v *view) settle() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.endLine()
}

// shortHash is as much of a hash as people read.
func shortHash(hash string) string {
	hash = plainLine(hash, 64)
	return hash[:min(len(hash), 12)]
}

// evidenceRows are what a completed task was found done by.
func evidenceRows(ev *td.Evidence, add func(name, text string)) {
	if ev == nil {
		return
	}
	tree := ev.Tree
	if tree == "" {
		tree = "(no git)"
	}
	if ev.Command != "" {
		add("evidence", fmt.Sprintf("%s ended with %d on tree %s", ev.Command, ev.Exit, tree))
	}
	if ev.Verifier != "" {
		add("verified", fmt.Sprintf("tree %s by %s for %s: %s", tree, td.Handle(td.TaskHandle, string(ev.Verifier), td.HandleLength), money(ev.Cost), ev.Verdict))
	}
	if m := ev.Merged; m != nil {
		add("merged", fmt.Sprintf("into %s at %.12s", m.Into, m.Commit))
	}
}
