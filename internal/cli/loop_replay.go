package cli

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// longestPause bounds how long a replay waits between two records: nobody wants to wait again until a person answered.
const longestPause = 3 * time.Second

type loopReplayOptions struct {
	app   *app
	ref   string
	speed float64
	to    string
}

func newLoopReplayCmd(a *app) *cobra.Command {
	o := loopReplayOptions{app: a}
	cmd := &cobra.Command{
		Use: "replay <task>", Short: "Show again what a loop did, from its records",
		Long: `Show again what a loop did, all its iterations from the first record on, as loop attach showed it live. It reads records
and nothing else: no tool is run, no model is called, and the task is not changed. What retention has let go is read
from the git mirror. To go on from a step with another model or prompt, use loop fork.

With --speed it takes as long as it took, divided by that number, and no pause is longer than three seconds. With --to it ends
after that step. With --json every record is one line, as loop attach prints it.`,
		Args:    args(cobra.ExactArgs(1), "one task"),
		Example: "  taskdaemon loop replay t-4k7q2m9x --speed 10", Annotations: talks(exitNotFound, exitInterrupted),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return runLoopReplay(cmd.Context(), o)
		},
	}
	cmd.Flags().Float64Var(&o.speed, "speed", 0, "so many times as fast as it was; 0: without pauses")
	cmd.Flags().StringVar(&o.to, "to", "", "the last step to show, as loop steps lists it")
	return cmd
}

func runLoopReplay(ctx context.Context, o loopReplayOptions) error {
	a := o.app
	if o.speed < 0 || math.IsInf(o.speed, 0) || math.IsNaN(o.speed) {
		return td.Errorf(td.Invalid, "--speed %v: it must be a number that is not negative", o.speed)
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	h, err := svc.History(ctx, o.ref)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	events, err := o.chosen(h)
	if err != nil {
		return err
	}
	if !a.json {
		a.sayGone(h)
		a.say("%s", a.talk.dim("replay of "+h.Task.Handle+": "+plural(len(events), "record")+"; nothing is run"))
	}
	w := watch{app: a, task: h.Task, out: a.stdout, style: a.style, json: a.json}
	v := newView(a, w.out, w.style)
	v.found = h.Task
	t := td.Task{}
	for i, ev := range events {
		if i > 0 && !o.pause(ctx, ev.At.Sub(events[i-1].At)) {
			return outcome(exitInterrupted)
		}
		if err := w.show(v, &t, api.Item{Event: &ev}); err != nil {
			return err
		}
	}
	if !a.json {
		v.endLine()
		a.say("%s", a.talk.dim("end of the replay; "+h.Task.Handle+" is "+stateWords(h.Task)+" now"))
	}
	return nil
}

// chosen are the records up to the end of the step that is named, or all.
func (o loopReplayOptions) chosen(h api.History) ([]td.Event, error) {
	if o.to == "" {
		return h.Events, nil
	}
	for i := len(h.Events) - 1; i >= 0; i-- {
		if b, is := h.Events[i].Body.(td.StepEnded); is && string(b.Key) == o.to {
			return h.Events[:i+1], nil
		}
	}
	return nil, td.Errorf(td.NotFound, "%s has ended no step %q", h.Task.Handle, o.to).WithHint("taskdaemon loop steps %s", h.Task.Handle)
}

// pause waits as long as the loop took, by the speed; false: ctx has ended.
func (o loopReplayOptions) pause(ctx context.Context, took time.Duration) bool {
	if o.speed == 0 || took <= 0 {
		return ctx.Err() == nil
	}
	wait := longestPause
	if d := float64(took) / o.speed; d < float64(wait) {
		wait = time.Duration(d)
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
