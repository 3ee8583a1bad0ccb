package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type syncOptions struct{ planOptions }

func newSyncCmd(a *app) *cobra.Command {
	o := &syncOptions{planOptions{app: a}}
	return o.command(&cobra.Command{
		Use: "sync", Short: "Exchange the project's graph with others", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Exchange changes of the project's graph with those who share its repository: fetch theirs, merge, and push ours. Changes of
both sides to one task are joined field by field, and the newer one wins; nobody has to resolve anything. A task at work here
that somebody closed or deleted there is stopped; what it did stays.`,
		Example: "  taskdaemon sync",
	}, func(ctx context.Context) error { return runSync(ctx, *o) })
}

func runSync(ctx context.Context, o syncOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	s, err := svc.SyncPlan(ctx, o.dir)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	if s.Pulled == 0 && s.Pushed == 0 {
		a.say("nothing new on either side")
	} else {
		a.say("%s came, %s went", plural(s.Pulled, "commit"), plural(s.Pushed, "commit"))
	}
	for _, file := range s.Conflicts {
		a.say("%s %s", a.talk.warn("both versions were kept:"), plainLine(file, 200))
	}
	for _, words := range s.Stopped {
		a.say("%s %s", a.talk.warn("stopped:"), plainLine(words, 300))
	}
	for _, p := range s.Problems {
		a.say("%s %s", a.talk.warn("problem:"), plainLine(p, 300))
	}
	return nil
}
