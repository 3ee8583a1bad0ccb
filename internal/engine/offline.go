package engine

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

// offline adds to the result of a command that failed that it had no network, and how it gets one.
func offline(d policy.Decision, do func(context.Context) (td.Outcome, error)) func(context.Context) (td.Outcome, error) {
	if len(d.Offline) == 0 {
		return do
	}
	return func(ctx context.Context) (td.Outcome, error) {
		out, err := do(ctx)
		if err == nil && out.Tool != nil && out.Tool.IsError && out.Tool.Exit != nil && *out.Tool.Exit != notFound {
			out.Tool.Content += fmt.Sprintf("\n[%s ran without a network, and without the services of this machine. If that is why it failed, tell the person, who can allow it: %s]",
				strings.Join(d.Offline, ", "), td.Typed("taskdaemon permissions add allow %s", "Bash("+d.Offline[0]+" *)"))
		}
		return out, err
	}
}

// notFound is how a shell ends that does not find a program.
const notFound = 127
