package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

var (
	fpBeforeRest = failpoint.New("engine.outage.before_block")
	fpRested     = failpoint.New("engine.outage.blocked")
)

// What a task waits for that rests.
const (
	waitsForAnswer  = "no answer from the model"
	waitsForSummary = "no summary of what does not fit the window"
)

// noAnswer is for a call that no model is left for, what says what it would have brought. What passes by itself is waited for: the task rests and asks again, with
// growing waits, so that an outage costs time and not the work. Anything else is for a person to mend.
func (r *run) noAnswer(ctx context.Context, call transcript.ModelCall, what string) error {
	failed := gaveUp(call.Lately())
	now := r.log.Now()
	out := r.Retry.rest(call.Outage, call.Lately(), now)
	if out == nil {
		if last := call.Lately()[len(call.Lately())-1]; last.Class == td.BadRequest && failed.Hint == "" {
			failed.Hint = fmt.Sprintf("to drop the last answer and ask again: taskdaemon task send %s /retry", r.log.Task().Handle)
		}
		if call.Outage != nil {
			failed.Error = fmt.Sprintf("%s for %s: %s", what, now.Sub(call.Failing).Round(time.Second), failed.Error)
		}
		return r.fail(ctx, failed)
	}
	out.Since, out.Hint = call.Failing, failed.Hint
	fpBeforeRest.Hit()
	err := r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		return td.BlockOn(t, td.BlockedData{Cause: what + ": " + failed.Error, Outage: out}, at)
	})
	fpRested.Hit()
	return err
}

func (r RetryTable) rests() bool { return r.RestMax > 0 && len(r.Rest) > 0 }

// once is the table for a call after a rest: it is made once, and if that fails the task rests again.
func (r RetryTable) once() RetryTable {
	r.Network, r.Overloaded, r.RateLimited = nil, nil, nil
	return r
}

// rest is the next rest after these failures, the last one having been was, or nil if the task may not rest any more. It counts
// the time that it rested and not the time that passed: a machine that slept through the night has not tried.
func (r RetryTable) rest(was *td.Outage, failed []td.ModelFailure, now time.Time) *td.Outage {
	if !r.rests() || !slices.ContainsFunc(failed, func(f td.ModelFailure) bool { return f.RetryAt.IsZero() && f.Passes() }) {
		return nil
	}
	var out td.Outage
	if was != nil {
		out = *was
	}
	if out.Rested >= r.RestMax {
		return nil
	}
	out.Wait = r.Rest[min(out.Rests, len(r.Rest)-1)]
	for _, f := range failed {
		out.Wait = max(out.Wait, f.RetryAfter)
	}
	out.Wait = max(time.Millisecond, min(jittered(out.Wait), r.RestMax-out.Rested))
	out.Rests++
	out.Rested += out.Wait
	out.Left = r.RestMax - out.Rested
	out.RetryAt = now.Add(out.Wait)
	return &out
}
