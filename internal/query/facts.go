package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

// Facts are what is known of a loop without asking anybody.
type Facts struct {
	Task  td.Task
	Now   time.Time
	Wrote []string // files that its tools wrote, in all iterations, in the order of the first time
	// Changed are the files of its workspace that differ from the last commit; Tracked says that it is under git.
	Changed []string
	Tracked bool
	// Committed are those that commits of its own branch changed.
	Committed []string
	Todo      string // its list of what is to be done, as it last gave it
	Said      string // the last words of its model
	Gone      int    // records that are nowhere any more
	script    *transcript.Transcript
}

// FactsOf folds the records of a task.
func FactsOf(t td.Task, events []td.Event) Facts {
	f := Facts{Task: t, script: &transcript.Transcript{}}
	names := map[td.StepKey]string{}
	for _, ev := range events {
		f.script.Apply(ev)
		switch b := ev.Body.(type) {
		case td.StepIntended:
			names[b.Key] = b.Name
		case td.StepEnded:
			if b.Model != nil {
				if words := b.Model.Message.Text(); words != "" {
					f.Said = words
				}
			}
			if b.Tool != nil && !b.Tool.IsError {
				f.used(names[b.Key], b.Tool)
			}
		}
	}
	if f.Said == "" {
		f.Said = t.LastText // the records of its answers may be gone
	}
	return f
}

func (f *Facts) used(tool string, r *td.ToolResult) {
	switch tool {
	case "Todo":
		f.Todo = r.Content
	case "Write", "Edit", "MultiEdit":
		for _, file := range r.Files {
			if !slices.Contains(f.Wrote, file) {
				f.Wrote = append(f.Wrote, file)
			}
		}
	}
}

// Answer is what the facts say to a question of a kind; nothing for a free one.
func (f Facts) Answer(k Kind) string {
	switch k {
	case Files:
		return f.files()
	case State:
		return f.state()
	case Cost:
		return f.cost()
	case Progress:
		return f.progress()
	case Words:
		if f.Said == "" && f.Gone > 0 {
			return "What it said is lost: retention removed it from the journal, and conversations.git does not have it."
		}
		if f.Said == "" {
			return "It has said nothing yet."
		}
		return f.Said
	}
	return ""
}

// maxFiles bounds how many files of each sort are listed.
const maxFiles = 200

func (f Facts) files() string {
	var b strings.Builder
	list := func(title string, files []string) {
		if len(files) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s:\n", title)
		for _, file := range files[:min(len(files), maxFiles)] {
			fmt.Fprintf(&b, "  %s\n", file)
		}
		if more := len(files) - maxFiles; more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	list("Written by its tools", f.Wrote)
	list("Committed on its branch", f.Committed)
	list("Changed in its workspace since the last commit", f.Changed)
	if b.Len() == 0 && f.Tracked {
		return "No tool of it has written a file, and its workspace is as it was committed."
	}
	if b.Len() == 0 {
		return "No tool of it has written a file; its workspace is not under git."
	}
	return strings.TrimRight(b.String(), "\n")
}

func (f Facts) state() string {
	t := f.Task
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s", t.Handle, t.Status.State)
	if !t.Status.Since.IsZero() && f.Now.After(t.Status.Since) {
		fmt.Fprintf(&b, " for %s", f.Now.Sub(t.Status.Since).Round(time.Second))
	}
	if r := t.Status.Running; r != nil {
		fmt.Fprintf(&b, ", in phase %s", r.Phase)
		if r.Step != "" {
			fmt.Fprintf(&b, " (%s)", r.Step)
		}
	}
	switch {
	case t.Status.Blocked != nil:
		fmt.Fprintf(&b, ": %s", t.Status.Blocked.Cause)
	case t.Status.Failed != nil:
		fmt.Fprintf(&b, ": %s", t.Status.Failed.Error)
	case t.Status.Reason != "":
		fmt.Fprintf(&b, ": %s", t.Status.Reason)
	}
	fmt.Fprintf(&b, ". Iteration %d, %d model responses.", max(t.Iteration, 1), t.Turns)
	for _, r := range t.Requests {
		fmt.Fprintf(&b, "\nIt asks (%s): %s", r.Handle(), r.Prompt)
	}
	return b.String()
}

func (f Facts) cost() string {
	all := f.Task.TreeSpent()
	u := f.Task.Usage
	text := fmt.Sprintf("%s spent %s: %d tokens in, %d from the cache, %d out.",
		f.Task.Handle, f.Task.Cost, u.Input+u.CacheWrite, u.CacheRead, u.Output)
	if all.Cost != f.Task.Cost {
		text += fmt.Sprintf(" With its subtasks it is %s.", all.Cost)
	}
	if all.Lost > 0 {
		text += fmt.Sprintf(" Calls without an answer may have cost %s more.", all.Lost)
	}
	if all.Unpriced > 0 {
		text += fmt.Sprintf(" What %d calls cost is not known.", all.Unpriced)
	}
	if f.Task.TokenBudget > 0 {
		text += fmt.Sprintf(" Its token budget is %s.", f.Task.TokenBudget)
	}
	if f.Task.Budget > 0 {
		text += fmt.Sprintf(" Its budget is %s.", f.Task.Budget)
	}
	return text
}

func (f Facts) progress() string {
	if done := f.Task.Status.Completed; done != nil {
		return "It is completed: " + done.Summary
	}
	if f.Todo == "" {
		return "It keeps no list. " + f.state()
	}
	return strings.TrimRight(f.Todo, "\n")
}
