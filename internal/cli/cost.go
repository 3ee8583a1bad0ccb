package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type costOptions struct {
	app   *app
	by    string
	since string
}

func newCostCmd(a *app) *cobra.Command {
	o := costOptions{app: a}
	cmd := &cobra.Command{
		Use: "cost", Short: "Show what models cost, and how the budgets stand", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Show what calls of models cost, by task, model, day or cause, what is set aside for the calls under way, and
how the budgets of the day and the month stand. Days are those of the daemon's time zone.

The causes "repeated" and "stopped" are calls whose answer was lost, by a crash or because a task was ended: they
may have been billed, and count with all that was reserved for them. Where a provider does not say what a call took, it
is estimated. Calls that a cassette answers cost nothing.`,
		Example: "  taskdaemon cost --by model --since 7d", Annotations: talks(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runCost(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.by, "by", string(api.ByTask), "how it is broken down: task, model, day or cause")
	cmd.Flags().StringVar(&o.since, "since", "", "only from this day on: 7d, 24h or 2006-01-02; everything when not given")
	cmd.AddCommand(newCostRaiseCmd(a))
	return cmd
}

func runCost(ctx context.Context, o costOptions) error {
	a := o.app
	if !slices.Contains(api.CostWays, api.CostBy(o.by)) {
		return td.Errorf(td.Invalid, "--by %s: it is task, model, day or cause", plainLine(o.by, 40))
	}
	since, err := parseDays(o.since, a.now())
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	c, err := svc.Cost(ctx, api.CostQuery{By: api.CostBy(o.by), Since: since})
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(c)
	}
	return a.printCost(c)
}

// parseDays is parseSince with days.
func parseDays(text string, now time.Time) (time.Time, error) {
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		var days int
		if n, err := fmt.Sscanf(digits, "%d", &days); err == nil && n == 1 && days >= 0 && days < 100_000 {
			return now.AddDate(0, 0, -days), nil
		}
		return time.Time{}, td.Errorf(td.Invalid, "--since %s: want 7d, 24h or 2006-01-02", plainLine(text, 40))
	}
	return parseSince(text, now)
}

func (a *app) printCost(c api.Cost) error {
	rows := [][]string{{strings.ToUpper(string(c.By)), "CALLS", "TOKENS IN", "TOKENS OUT", "COST", ""}}
	line := func(l api.CostLine) []string {
		u, note := l.Usage, plainLine(l.Title, 50)
		for _, c := range []struct {
			n    int
			what string
		}{{l.Unpriced, "of unknown price"}, {l.Estimated, "estimated"}, {l.Unknown, "reserved, outcome unknown"}, {l.Replayed, "replayed"}} {
			if c.n > 0 {
				note = strings.TrimSpace(note + " (" + plural(c.n, "call") + " " + c.what + ")")
			}
		}
		return []string{plainLine(l.Name, 60), fmt.Sprint(l.Calls), fmt.Sprint(u.Input + u.CacheRead + u.CacheWrite), fmt.Sprint(u.Output), money(l.Amount), note}
	}
	for _, l := range c.Lines {
		row := line(l)
		if c.By == api.ByCause && c.Merged > 0 {
			row[len(row)-1] = strings.TrimSpace(money(l.Amount/td.Money(c.Merged)) + " per merged change " + row[len(row)-1])
		}
		rows = append(rows, row)
	}
	total := line(c.Total)
	if c.Since != "" {
		total[len(total)-1] = strings.TrimSpace("since " + c.Since + " " + total[len(total)-1])
	}
	if err := table(a.stdout, append(rows, total)); err != nil {
		return err
	}
	if c.Merged > 0 {
		fmt.Fprintf(a.stdout, "\nmerged: %s\n", mergedWords(c.Merged, c.Total.Amount))
	}
	if c.Open > 0 {
		aside := money(c.Reserved)
		if c.ReservedTokens > 0 {
			aside += " and " + td.Tokens(c.ReservedTokens).String()
		}
		fmt.Fprintf(a.stdout, "\nset aside: %s for %s under way\n", aside, plural(c.Open, "call"))
	}
	if len(c.Budgets) == 0 {
		return nil
	}
	rows = [][]string{{"BUDGET", "", "LIMIT", "SPENT", "SET ASIDE", "LEFT", "USED"}}
	for _, b := range c.Budgets {
		rows = append(rows, []string{
			string(b.Scope), b.Key, amount(b.Scope, b.Limit), amount(b.Scope, b.Spent), amount(b.Scope, b.Reserved), amount(b.Scope, b.Left()), a.used(b),
		})
	}
	fmt.Fprintln(a.stdout)
	return table(a.stdout, rows)
}

// amount is an amount of the scope's unit.
func amount(s td.Scope, m td.Money) string {
	if s.InTokens() {
		return td.Tokens(m).Short()
	}
	return money(m)
}

// used is how much of a budget is spent, in the colour that goes with it.
func (a *app) used(b td.Balance) string {
	text := fmt.Sprintf("%d%%", b.Percent())
	switch {
	case b.Percent() >= 90:
		return a.style.red(text)
	case b.Percent() >= 50:
		return a.style.warn(text)
	}
	return text
}

func newCostRaiseCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "raise <day|month|day_tokens|month_tokens> <dollars|tokens>", Short: "Raise the budget of this day or month", Args: args(cobra.ExactArgs(2), "day or month, and the new budget in dollars; or day_tokens or month_tokens, and how many"),
		Long: `Raise the budget of this day or month, in dollars or in tokens (200k, 5M). Tasks that wait for it go on. The next day or month begins with the
config's budget again. The budget of a task is raised by answering its request, or beforehand by task add --budget or --token-budget.`,
		Example: "  taskdaemon cost raise day 50", Annotations: talks(exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCostRaise(cmd.Context(), a, td.Scope(args[0]), args[1])
		},
	}
}

func runCostRaise(ctx context.Context, a *app, scope td.Scope, text string) error {
	if !scope.Everybodys() {
		return td.Errorf(td.Invalid, "%s: it is the budget of the day or of the month that is raised here", plainLine(string(scope), 40)).
			WithHint("taskdaemon cost raise day %s", plainLine(text, 20))
	}
	limit, err := scope.Parse(text)
	if err != nil {
		return err
	}
	in := api.RaiseBudget{Scope: scope, Amount: limit, By: a.by()}
	if scope.InTokens() {
		in.Amount, in.Tokens = 0, td.Tokens(limit)
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	b, err := svc.RaiseBudget(ctx, in)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(b)
	}
	fmt.Fprintf(a.stdout, "The budget of the %s %s is %s; %s are left.\n", b.Scope.Base(), b.Key, amount(b.Scope, b.Limit), amount(b.Scope, b.Left()))
	return nil
}

// budgetWords are what is to say of a task's budget.
func budgetWords(t td.Task) (rows []string) {
	if t.Budget > 0 {
		rows = append(rows, money(t.Budget)+" with its subtasks")
	}
	if t.TokenBudget > 0 {
		rows = append(rows, t.TokenBudget.String()+" with its subtasks")
	}
	if lost := t.TreeSpent().Lost; lost > 0 {
		rows = append(rows, money(lost)+" of the cost is reserved for calls whose answer was lost: they may have been billed")
	}
	if t.Estimated > 0 {
		rows = append(rows, plural(t.Estimated, "call")+" estimated: the provider did not say what was used")
	}
	if t.Replayed > 0 {
		rows = append(rows, plural(t.Replayed, "call")+" replayed from a cassette, at no cost")
	}
	for _, r := range t.Reserved {
		switch {
		case r.Amount > 0:
			rows = append(rows, money(r.Amount)+" are set aside for the call under way of "+r.Model)
		case r.Tokens > 0:
			rows = append(rows, td.Tokens(r.Tokens).String()+" are set aside for the call under way of "+r.Model)
		}
	}
	for _, w := range t.Warned {
		rows = append(rows, w.String())
	}
	return rows
}
