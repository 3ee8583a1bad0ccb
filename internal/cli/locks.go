package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

type locksOptions struct{ app *app }

func newLocksCmd(a *app) *cobra.Command {
	o := locksOptions{a}
	return &cobra.Command{
		Use: "locks", Short: "Show what tasks have leased, and who waits for it", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Show every lease: the resource, how it is held, the task and the call that has it, since when, and its
fence; below it the tasks that wait for the resource, first come first. A lease ends with its call, or with the
background job that the call started.`,
		Example: "  taskdaemon locks", Annotations: talks(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runLocks(cmd.Context(), o) },
	}
}

func runLocks(ctx context.Context, o locksOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	locks, err := svc.Locks(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(locks)
	}
	if len(locks.Held)+len(locks.Waiters) == 0 {
		a.say("nothing is leased")
		return nil
	}
	return table(a.stdout, lockRows(locks, time.Now()))
}

// Locks are what tasks have leased, and who waits for it.
func (s *session) Locks(ctx context.Context) (td.Locks, error) {
	return again(ctx, s, func() (td.Locks, error) { return s.Client.Locks(ctx) })
}

// lockRows is a row for each lease, and below those of a resource one for each task that waits for it.
func lockRows(l td.Locks, now time.Time) [][]string {
	rows := [][]string{{"resource", "mode", "task", "call", "since", "fence", "title"}}
	since := func(t time.Time) string { return age(max(now.Sub(t), 0)) }
	waiting := func(resource string) {
		for _, w := range l.Waiters {
			for _, want := range w.Wants {
				if want.Resource == resource {
					rows = append(rows, []string{"  waits", want.Mode(), w.Handle, "", since(w.Since), "", plainLine(w.Title, 60)})
				}
			}
		}
	}
	shown := map[string]bool{}
	for i, h := range l.Held {
		call := h.Name
		if h.Job != "" {
			call = fmt.Sprintf("%s, job %s", h.Name, h.Job)
		}
		rows = append(rows, []string{
			plainLine(h.Resource, 80), h.Mode(), h.Handle, plainLine(call, 40), since(h.Since), fmt.Sprint(h.Fence), plainLine(h.Title, 60),
		})
		if i == len(l.Held)-1 || l.Held[i+1].Resource != h.Resource {
			shown[h.Resource] = true
			waiting(h.Resource)
		}
	}
	// What is free already and waits for those that want it to take it, or for something else they want.
	for _, w := range l.Waiters {
		for _, want := range w.Wants {
			if !shown[want.Resource] {
				shown[want.Resource] = true
				rows = append(rows, []string{plainLine(want.Resource, 80), "free", "", "", "", "", ""})
				waiting(want.Resource)
			}
		}
	}
	return rows
}
