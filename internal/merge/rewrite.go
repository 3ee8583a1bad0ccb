package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Rewriting tells whether validators change the files that they are to judge: one that does passes for other files than those that are merged.
type Rewriting struct {
	// Altered are the files of a commit that were changed in its checkout.
	Altered func(ctx context.Context, dir, commit string) ([]string, error)

	seen []string
}

// Said is what to say of a command that passed, or nothing. A task's validator may make new files, and what the commands before it changed does not count;
// the one that makes a checkout ready, which is no task's, may change what it likes.
func (r *Rewriting) Said(ctx context.Context, w Work, dir, commit string) (string, error) {
	now, err := r.Altered(ctx, dir, commit)
	if cause := context.Cause(ctx); cause != nil {
		return "", cause
	}
	if err != nil {
		return fmt.Sprintf("`%s` passed, but what it left cannot be looked at: %v", w.Check, err), nil
	}
	var changed []string
	for _, file := range now {
		if !slices.Contains(r.seen, file) {
			changed = append(changed, file)
		}
	}
	r.seen = append(r.seen, changed...)
	if w.Task == "" || len(changed) == 0 {
		return "", nil
	}
	more := ""
	if n := len(changed) - mostRewritten; n > 0 {
		changed, more = changed[:mostRewritten], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("`%s` passed, but it changed files that it is to judge: %s%s. What it wrote is not merged, so nobody knows whether the work passes without it. "+
		"Make these changes part of the work, or let the validator only look", w.Check, strings.Join(changed, ", "), more), nil
}

// mostRewritten is how many files are named.
const mostRewritten = 20
