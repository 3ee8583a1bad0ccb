package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type statsOptions struct {
	app   *app
	since string
}

func newStatsCmd(a *app) *cobra.Command {
	o := statsOptions{app: a}
	cmd := &cobra.Command{
		Use: "stats", Short: "Show what loops did, how often it failed and how long it took", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Show what all loops of the daemon did in a time: tasks that were added and that ended, calls of models with their tokens and cost,
work that was merged and what models cost for each piece of it (failed work is paid for, too), what people were asked, and every kind of step with how many there were, how many failed, and in what time half, 95 and 99 of 100 of
them were done. Steps are counted where they ended in that time. Times are at most a sixteenth too long.

The journal tallies it as it happens, by ten minutes, and keeps it for as long as the audit: --since is rounded down to ten
minutes. What models cost in all is in taskdaemon cost.`,
		Example: "  taskdaemon stats --since 7d\n  taskdaemon stats --json > stats.json", Annotations: talks(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runStats(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.since, "since", "24h", "from this time on: 24h, 7d or 2006-01-02; all that was tallied when empty")
	return cmd
}

func runStats(ctx context.Context, o statsOptions) error {
	a := o.app
	since, err := parseDays(o.since, a.now())
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	s, err := svc.Stats(ctx, api.StatsQuery{Since: since})
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(s)
	}
	return a.printStats(s)
}

func (a *app) printStats(s api.Stats) error {
	perHour := func(n int) string { return fmt.Sprintf("%.1f", float64(n)/s.Hours()) }
	rows := [][]string{
		{"since", s.Since.Local().Format(time.DateTime)},
		{"now", counts(s.Now)},
		{"ended", fmt.Sprintf("%s; %d added", counts(s.Ended), s.Added)},
		{"models", fmt.Sprintf("%s, %s an hour; %s, %s", plural(s.Calls, "call"), perHour(s.Calls), usageWords(s.Usage), money(s.Cost))},
		{"merged", mergedWords(s.Merged, s.Cost)},
		{"asked", plural(s.Asked, "question") + " to people, " + plural(s.Letters, "message") + " to loops"},
		{"crashes", plural(s.Crashes, "start") + " after a crash"},
	}
	if err := table(a.stdout, rows); err != nil {
		return err
	}
	if len(s.Steps) == 0 {
		return nil
	}
	fmt.Fprintln(a.stdout)
	rows = [][]string{{"STEP", "COUNT", "AN HOUR", "FAILED", "P50", "P95", "P99"}}
	for _, l := range s.Steps {
		failed := fmt.Sprint(l.Failed)
		if l.Failed > 0 {
			failed += fmt.Sprintf(" (%.0f %%)", 100*float64(l.Failed)/float64(l.Count))
		}
		rows = append(rows, []string{
			plainLine(strings.TrimSpace(string(l.Kind)+" "+l.Name), 50), fmt.Sprint(l.Count), perHour(l.Count), failed, millis(l.P50), millis(l.P95), millis(l.P99),
		})
	}
	return table(a.stdout, rows)
}

// mergedWords are how much work was merged, and what models cost for each piece of it.
func mergedWords(n int, cost td.Money) string {
	if n == 0 {
		return "0 changes"
	}
	return fmt.Sprintf("%s, %s each", plural(n, "change"), money(cost/td.Money(n)))
}

// millis is a number of milliseconds as people say it.
func millis(ms float64) string {
	if ms < 10 {
		return fmt.Sprintf("%.1fms", ms)
	}
	return took(time.Duration(ms * float64(time.Millisecond)))
}

// Stats are what loops did in a time.
func (s *session) Stats(ctx context.Context, q api.StatsQuery) (api.Stats, error) {
	return again(ctx, s, func() (api.Stats, error) { return s.Client.Stats(ctx, q) })
}
