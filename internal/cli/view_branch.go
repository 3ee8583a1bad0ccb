package cli

import (
	"encoding/json"
	"fmt"

	"taskdaemon/internal/td"
)

// branchWords say what became of a task's worktree and branch; empty for what goes wrong there, and for other steps.
func branchWords(kind td.StepKind, o td.Outcome) string {
	if o.Tool.IsError {
		return ""
	}
	words, said := "", plainLine(o.Tool.Content, 200)
	switch {
	case kind == td.PlaceStep && o.Key == td.PlaceKey:
		words = "works in " + said
	case kind == td.CommitStep && o.Tool.Unchanged:
		words = "no changes to merge"
	case kind == td.CommitStep:
		words = fmt.Sprintf("committed %.12s", said)
	case kind == td.RebaseStep:
		words = fmt.Sprintf("rebased onto %.12s", said)
	case kind == td.FollowStep:
		words = plainLine(o.Tool.Content, mostTyped) // it ends in what to type
	case kind == td.MergeStep:
		var m td.Merged
		if json.Unmarshal([]byte(o.Tool.Content), &m) != nil {
			return ""
		}
		words = plainLine(fmt.Sprintf("merged into %s at %.12s", m.Into, m.Commit), 200)
		if n := len(m.Beside); n > 0 {
			words += fmt.Sprintf(", with the work of %s that waited", plural(n, "task"))
		}
	default:
		return ""
	}
	if via := how[o.Via]; via != "" {
		words += " (" + via + ")"
	}
	return words
}
