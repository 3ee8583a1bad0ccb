package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// interrupted asks what is to become of a run whose viewer was interrupted, and reports whether it is to be shown on.
// Without a terminal there is nobody to ask: the run is stopped. A second Ctrl-C ends the process while it asks.
func (r *runner) interrupted(ctx context.Context) (goOn bool, err error) {
	if r.run.Parallel > 1 && !r.app.json && isTerminal(r.app.stdin) {
		return r.askWhich(ctx)
	}
	stopped, err := r.svc.StopRun(ctx, api.StopRun{Run: r.run.Run, By: r.app.by()})
	if err != nil {
		return false, err
	}
	if goOn, err = r.askOn(ctx, stopped); err != nil || goOn {
		return goOn, err
	}
	return false, r.end(ctx)
}

// askOn says which tasks were let go of, and asks for a word to the one that was shown, and whether to go on.
func (r *runner) askOn(ctx context.Context, stopped api.Run) (goOn bool, err error) {
	a := r.app
	handles := make([]string, len(stopped.AtWork))
	for i, t := range stopped.AtWork {
		handles[i] = t.Handle
	}
	switch len(handles) {
	case 0:
		a.say("\n%s nothing was at work for this run any more", a.talk.warn("interrupted:"))
	case 1:
		a.say("\n%s %s is paused after what it is doing now", a.talk.warn("interrupted:"), handles[0])
	default:
		a.say("\n%s %s are paused after what they are doing now", a.talk.warn("interrupted:"), strings.Join(handles, ", "))
	}
	if a.json || !isTerminal(a.stdin) {
		return false, nil
	}
	lines := bufio.NewReader(a.stdin)
	if len(handles) == 1 {
		words, err := a.prompt(lines, "a word to "+handles[0]+", for a fresh start (Enter: it goes on as it was): ")
		if err != nil {
			return false, nil // the terminal is gone
		}
		if words != "" {
			if _, err := r.svc.Command(ctx, string(stopped.AtWork[0].ID), api.Command{Type: td.CmdInterrupt, Text: words, By: a.by()}); err != nil {
				a.printError(nil, err)
			}
		}
	}
	answer, err := a.prompt(lines, "go on with the run? [Y/n] ")
	if err != nil || answer != "" && !strings.HasPrefix(strings.ToLower(answer), "y") {
		return false, nil
	}
	for _, t := range stopped.AtWork {
		rest := watch{app: a, service: r.svc, task: t, out: io.Discard, untilRest: true}
		if _, err := rest.run(ctx); err != nil { // what was in flight comes to its end first
			return false, err
		}
	}
	r.in.Run = r.run.Run
	if r.limit > 0 {
		r.in.Limit = r.limit - stopped.Iterations
	}
	return r.limit == 0 || r.in.Limit > 0, nil
}

// askWhich asks which of several tasks to stop, while the run goes on.
func (r *runner) askWhich(ctx context.Context) (goOn bool, err error) {
	a := r.app
	byHandle := map[string]td.Task{}
	for _, t := range r.watched {
		byHandle[t.Handle] = t
	}
	a.say("\n%s the run goes on with %s", a.talk.warn("interrupted:"), strings.Join(slices.Sorted(maps.Keys(byHandle)), ", "))
	answer, err := a.prompt(bufio.NewReader(a.stdin), "stop which? (a handle, all, none, or leave it to itself) [all] ")
	answer = strings.ToLower(answer)
	switch t, named := byHandle[answer]; {
	case err != nil || answer == "leave":
		a.say("the run %s goes on; to see it: %s", r.run.Run, a.typeable("taskdaemon run"))
		return false, nil
	case named:
		if _, err := r.svc.Command(ctx, string(t.ID), api.Command{Type: td.CmdPause, By: a.by()}); err != nil {
			a.printError(nil, err)
		}
		return true, nil
	case answer == "" || answer == "all":
		if _, err := r.svc.StopRun(ctx, api.StopRun{Run: r.run.Run, By: a.by()}); err != nil {
			return false, err
		}
		return false, r.end(ctx)
	case answer != "none":
		a.say("no task that is at work is called %s", plainLine(answer, 40))
	}
	return true, nil
}

// prompt asks on the terminal for a line.
func (a *app) prompt(in *bufio.Reader, question string) (string, error) {
	fmt.Fprint(a.stderr, question)
	line, err := in.ReadString('\n')
	a.at.entered()
	return strings.TrimSpace(line), err
}
