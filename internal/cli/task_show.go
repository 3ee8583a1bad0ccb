package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type taskShowOptions struct {
	app *app
	ref string
	dir string
}

func newTaskShowCmd(a *app) *cobra.Command {
	o := taskShowOptions{app: a}
	cmd := &cobra.Command{
		Use: "show <task>", Short: "Show everything about a task", Args: args(cobra.ExactArgs(1), "one task"),
		Long: `Show everything about a task: how it runs, what it asks and who answered it, and, if it is planned in the graph of a project, what it is
part of, what it waits for and what waits for it.`,
		Example: "  taskdaemon task show t-4k7q2m9x", Annotations: talks(exitNotFound),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return runTaskShow(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the project it is planned in; the present one when not given")
	return cmd
}

func runTaskShow(ctx context.Context, o taskShowOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	t, err := svc.Task(ctx, o.ref)
	if td.IsKind(err, td.NotFound) {
		return o.showPlanned(ctx, svc, err)
	}
	if err != nil {
		return err
	}
	a.notePeer(svc)
	planned := plannedToo(ctx, svc, t)
	answers, err := answersTo(ctx, svc, t)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			td.Task
			Planned *api.Planned `json:"planned,omitempty"`
			Answers []answered   `json:"answers,omitempty"`
		}{t, planned, answers})
	}
	fmt.Fprintf(a.stdout, "%s  %s\n\n", a.style.bold(t.Handle), plainLine(t.Title, 100))
	rows := append(taskRows(a, t), worktreeRows(ctx, svc, t)...)
	if planned != nil {
		rows = append(rows, plannedAs(*planned, t)...)
		rows = append(rows, planTies(*planned)...)
	}
	if err := table(a.stdout, rows); err != nil {
		return err
	}
	a.printAnswers(answers)
	for _, r := range t.Requests {
		fmt.Fprintln(a.stdout)
		a.printRequest(a.stdout, a.style, t, r)
	}
	fmt.Fprintf(a.stdout, "\n%s\n", quotedWhole(strings.TrimSpace(t.Prompt)))
	next := whatNext(t)
	if openAgain(planned, t) {
		next = "taskdaemon run " + t.Handle
	}
	if next != "" {
		a.say("\nnext: %s", a.typeable(next))
	}
	return nil
}

func taskRows(a *app, t td.Task) [][]string {
	now := a.now()
	state := stateWords(t) + " for " + age(now.Sub(t.Status.Since))
	if t.Status.Reason != "" {
		state += ": " + plainLine(t.Status.Reason, 100)
	}
	rows := [][]string{{"state", a.style.state(t.Status.State, state)}}
	add := func(name, format string, args ...any) {
		rows = append(rows, []string{name, plainLine(fmt.Sprintf(format, args...), 300)})
	}
	rows = append(rows, statusRows(t.Status)...)
	if st := t.Status; t.LastText != "" && st.Completed == nil && (st.State.Terminal() || st.State == td.Paused) {
		add("last words", "%s", t.LastText)
	}
	if f := t.Retrying; f != nil {
		add("retrying", "at %s (%s: %s)", clock(a.now(), f.RetryAt), f.Class, f.Message)
	}
	if b := t.Status.Blocked; b != nil && b.Outage != nil {
		add("retrying", "%s", a.outageWords(*b.Outage))
		if b.Outage.Hint != "" {
			add("hint", "%s", b.Outage.Hint)
		}
	}
	if c := t.Resolving; c != nil && t.Worktree != nil {
		who := "the agent was told to merge it"
		if c.Later {
			who = "it is resolved when the work is merged"
		}
		add("conflict", "with %.12s of %s in %s: %s", c.Onto, t.Worktree.Trunk, cmp.Or(strings.Join(c.Files, ", "), "some files"), who)
	}
	for _, s := range t.InFlight {
		add("in flight", "%s %s since %s", s.Name, s.Key, age(now.Sub(s.At)))
	}
	for _, j := range t.Jobs {
		add("job", "%s since %s: %s", j.ID, age(now.Sub(j.Since)), j.Command)
	}
	add("folder", "%s", t.Dir)
	add("mode", "%s, tier %s, priority %d", t.Mode, t.Tier, t.Priority)
	if model := cmp.Or(t.ModelOverride, t.Model, t.LastModel); model != "" {
		add("model", "%s", model)
	}
	if t.Rehearsal != "" {
		add("rehearsal", "plays a script: no model is called")
	}
	if t.Validator != "" {
		add("validator", "%s", t.Validator)
	}
	if t.Yes {
		add("permissions", "granted without asking")
	}
	if len(t.Labels) > 0 {
		add("labels", "%s", strings.Join(t.Labels, ", "))
	}
	add("work", "%s, iteration %d", plural(t.Turns, "turn"), max(t.Iteration, 1))
	if n := len(t.Tries); n > 0 {
		add("last try", "%s: %s", t.Tries[n-1].Ending, plainLine(t.Tries[n-1].Reason, 300))
	}
	if o := t.Ordered; o != nil {
		add("run", "%s, %s", o.Strategy, map[bool]string{true: "verified", false: "not verified"}[o.Verify])
	}
	add("cost", "%s", costWords(t.Booked(), t.TreeSpent().Booked(), t.TreeSpent().Unpriced))
	for _, row := range budgetWords(t) {
		add("budget", "%s", row)
	}
	if t.Source != "" {
		add("verifies", "%s, in a checkout that is thrown away", t.Source)
	}
	if t.Parent != "" {
		add("parent", "%s", td.Handle(td.TaskHandle, string(t.Parent), td.HandleLength))
	}
	add("tokens", "%s", usageWords(t.Usage))
	if t.Recoveries > 0 || t.Resets > 0 {
		add("lives", "recovered %s, started again %s", plural(t.Recoveries, "time"), plural(t.Resets, "time"))
	}
	add("created", "%s by %s", t.CreatedAt.Local().Format("2006-01-02 15:04:05"), cmp.Or(t.CreatedBy, "somebody"))
	add("id", "%s", t.ID)
	return rows
}

// statusRows are what the present state carries.
func statusRows(st td.Status) [][]string {
	var rows [][]string
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, plainLine(text, 500)})
		}
	}
	switch {
	case st.Running != nil:
		add("step", st.Running.Step)
	case st.Blocked != nil:
		add("cause", st.Blocked.Cause)
		add("resource", st.Blocked.Resource)
		add("holder", st.Blocked.Holder)
	case st.Completed != nil:
		add("summary", st.Completed.Summary)
		evidenceRows(st.Completed.Evidence, add)
	case st.Failed != nil:
		add("error", st.Failed.Error)
		add("hint", st.Failed.Hint)
	}
	return rows
}

// outageWords say how long no model has answered, when it is asked again and how long that goes on.
func (a *app) outageWords(o td.Outage) string {
	end := "then the task fails"
	if o.Left > 0 {
		end = "gives up after another " + age(o.Left)
	}
	return fmt.Sprintf("at %s, no answer since %s (%s); %s", clock(a.now(), o.RetryAt), clock(a.now(), o.Since), plural(o.Rests, "rest"), end)
}

// clock is a time of the day, with the day if that is another one.
func clock(now, at time.Time) string {
	if now, at = now.Local(), at.Local(); now.YearDay() != at.YearDay() || now.Year() != at.Year() {
		return at.Format("2006-01-02 15:04:05")
	}
	return at.Format("15:04:05")
}

func usageWords(u td.Usage) string {
	return fmt.Sprintf("%d in, %d out, %d read from cache, %d written to cache", u.Input, u.Output, u.CacheRead, u.CacheWrite)
}

// whatNext is the command a person most likely wants.
func whatNext(t td.Task) string {
	if b := t.Status.Blocked; b != nil && b.Child != "" {
		return td.Typed("taskdaemon loop attach %s", b.Resource)
	}
	if b := t.Status.Blocked; b != nil && len(b.Wants) > 0 {
		return "taskdaemon locks"
	}
	if b := t.Status.Blocked; b != nil && b.Budget != nil {
		if !b.Budget.Scope.Everybodys() {
			return "taskdaemon cost"
		}
		if len(t.Requests) > 0 {
			return "" // what to answer is said with it
		}
		return fmt.Sprintf("taskdaemon cost raise %s %s", b.Budget.Scope, b.Budget.Scope.Typed(b.Budget.Raise()))
	}
	switch t.Status.State {
	case td.Paused, td.Failed, td.Cancelled, td.Abandoned, td.Blocked:
		return "taskdaemon resume " + t.Handle
	case td.Completed:
		return "taskdaemon loop history " + t.Handle
	case td.Waiting:
		return ""
	default:
		return "taskdaemon loop attach " + t.Handle
	}
}
