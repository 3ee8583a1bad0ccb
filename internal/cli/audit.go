package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// audited are the types of record that belong to the audit log (S-7).
var audited = func() []td.EventType {
	var out []td.EventType
	for _, b := range []td.Body{
		td.Created{},
		td.Moved{},
		td.ContextSet{},
		td.StepIntended{},
		td.StepEnded{},
		td.Said{},
		td.Discarded{},
		td.ModelChosen{},
		td.BudgetRaised{},
		td.BudgetKept{},
		td.RulesKept{},
		td.PermissionsChosen{},
		td.AnomalyFound{},
		td.Decided{},
		td.RequestOpened{},
		td.RequestAskedAgain{},
		td.RequestAnswered{},
		td.RequestExpired{},
		td.JobsEnded{},
		td.Rewound{},
		td.Ignored{},
		td.DaemonStarted{},
		td.DaemonStopped{},
		td.Recovered{},
		td.OrphansKilled{},
		td.DiskFilled{},
		td.Retained{},
	} {
		if b.Type().Audited() {
			out = append(out, b.Type())
		}
	}
	return out
}()

type auditOptions struct {
	app    *app
	refs   []string
	since  string
	follow bool
}

func newAuditCmd(a *app) *cobra.Command {
	o := auditOptions{app: a}
	cmd := &cobra.Command{
		Use: "audit [task…]", Short: "Export the audit log as JSON lines",
		Long: `Export who asked, decided, allowed, started and stopped what, one JSON object a line, oldest first;
of all tasks or of those named. Records are kept as long as retention.audit says.`,
		Example: "  taskdaemon audit --since 24h > audit.jsonl", Annotations: talks(exitNotFound),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.refs = args
			return runAudit(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.since, "since", "", "only newer ones: 24h, 2006-01-02 or 2006-01-02T15:04:05Z")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "stay and print what comes")
	return cmd
}

func runAudit(ctx context.Context, o auditOptions) error {
	a := o.app
	since, err := parseSince(o.since, a.now())
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	q := api.EventQuery{Refs: o.refs, Types: audited, Since: since, Follow: o.follow}
	for it, err := range svc.Events(ctx, q) {
		if err != nil {
			return err
		}
		if it.Event == nil {
			continue
		}
		if err := encodeJSON(a.stdout, it.Event, ""); err != nil {
			return err
		}
	}
	return nil
}

// parseSince reads a time, or how long ago it was.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, td.Errorf(td.Invalid, "--since %s: want 24h, 2006-01-02 or 2006-01-02T15:04:05Z", plainLine(text, 40))
}
