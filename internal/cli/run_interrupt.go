package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// interrupted lets go of the task at work and asks what is to become of the run: a word to the task, and whether to go
// on. Without a terminal there is nobody to ask. A second Ctrl-C ends the process while it asks.
func (r *runner) interrupted(ctx context.Context, t td.Task) (goOn bool, err error) {
	a := r.app
	_, err = r.svc.Command(ctx, string(t.ID), api.Command{Type: td.CmdPause, By: td.ByRun})
	if err != nil && !td.IsKind(err, td.Conflict) { // it may have ended meanwhile
		return false, err
	}
	what := " is paused after what it is doing now"
	if err != nil {
		what = " has ended meanwhile"
	}
	a.say("\n%s %s", a.talk.warn("interrupted:"), t.Handle+what)
	if a.json || !isTerminal(a.stdin) {
		return false, nil
	}
	lines := bufio.NewReader(a.stdin)
	words, err := a.prompt(lines, "a word to "+t.Handle+" (Enter for none): ")
	if err != nil {
		return false, nil // the terminal is gone
	}
	if words != "" {
		if _, err := r.svc.Command(ctx, string(t.ID), api.Command{Type: td.CmdMessage, Text: words, By: a.by()}); err != nil {
			a.printError(nil, err)
		}
	}
	answer, err := a.prompt(lines, "go on with the run? [Y/n] ")
	if err != nil {
		return false, nil
	}
	if answer != "" && !strings.HasPrefix(strings.ToLower(answer), "y") {
		return false, nil
	}
	rest := watch{app: a, service: r.svc, task: t, out: io.Discard, untilRest: true}
	_, err = rest.run(ctx) // what was in flight comes to its end first
	return true, err
}

// prompt asks on the terminal for a line.
func (a *app) prompt(in *bufio.Reader, question string) (string, error) {
	fmt.Fprint(a.stderr, question)
	line, err := in.ReadString('\n')
	return strings.TrimSpace(line), err
}
