package engine

import (
	"context"
	"strings"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

// offline adds to the result of a command line that failed that it had no network and, where a rule can be offered for that, how it gets one. Which of its programs ran nobody knows.
func offline(d policy.Decision, do func(context.Context) (td.Outcome, error)) func(context.Context) (td.Outcome, error) {
	if !d.Offline {
		return do
	}
	return func(ctx context.Context) (td.Outcome, error) {
		out, err := do(ctx)
		if err == nil && out.Tool != nil && out.Tool.IsError && out.Tool.Exit != nil && *out.Tool.Exit != notFound {
			out.Tool.Content += "\n[There was no network, and none of the services of this machine. If that is why it failed, tell the person" + howToLift(d.Lifts) + "]"
		}
		return out, err
	}
}

// howToLift is what a person types to give a command its network, at the end of a sentence.
func howToLift(rules []string) string {
	if len(rules) == 0 {
		return "."
	}
	lines := make([]string, len(rules))
	for i, rule := range rules {
		lines[i] = td.Typed("taskdaemon permissions add allow %s", rule)
	}
	return ", who can allow it: " + strings.Join(lines, " && ")
}

// notFound is how a shell ends that does not find a program.
const notFound = 127
