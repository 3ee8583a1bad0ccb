package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

var fpAnomaly = failpoint.New("engine.anomaly.recorded")

// odd looks, after each call of a tool and before each of the model, whether the task did something it does not
// usually do (G-7). It is recorded and told; the config or a hook may have the task paused. It reports whether
// there was something.
func (r *run) odd(ctx context.Context) (bool, error) {
	script := r.log.Transcript()
	begun := func(c transcript.Call) bool { return c.Intent != nil && c.Outcome == nil || c.Validation.Intent != nil }
	if script.Model.Intent != nil || slices.ContainsFunc(script.Calls, begun) {
		return false, nil // a call that was begun is carried through first
	}
	sign, found := script.Anomaly(r.Anomalies)
	if !found {
		return false, nil
	}
	action, by, why := r.AnomalyAction, "taskdaemon", sign.Detail
	if r.Hooks.Has(hook.AnomalyDetected) {
		key := td.StepKey(fmt.Sprintf("t%d.odd%d", script.Turn, script.AnomaliesFound()))
		_, said, err := fire(ctx, r, key, hook.AnomalyDetectedPayload{Head: r.head(), Anomaly: string(sign.Anomaly), Detail: sign.Detail})
		if err != nil {
			return true, err
		}
		if said.Blocked {
			action, by, why = td.AnomalyPause, hookName+" "+said.Hook, said.Reason
		}
	}
	if action == td.AnomalyPause {
		if err := r.pausing(ctx, by, why); err != nil {
			return true, err
		}
	}
	if err := r.log.Stage(td.AnomalyFound{Anomaly: sign.Anomaly, Action: action, Detail: sign.Detail}); err != nil {
		return true, err
	}
	var err error
	if action == td.AnomalyPause {
		err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Pause(t, by, why, at) })
	} else {
		err = r.log.Flush(ctx)
	}
	fpAnomaly.Hit()
	return true, err
}
