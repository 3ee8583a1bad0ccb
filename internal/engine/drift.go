package engine

import (
	"context"
	"fmt"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var fpDrifted = failpoint.New("engine.drift.recorded")

// drifting looks before each call of the model whether the loop is going nowhere (L-12): the model is
// nudged, or a person is asked. It reports whether it did either.
func (r *run) drifting(ctx context.Context) (bool, error) {
	t, script := r.log.Task(), r.log.Transcript()
	if script.Model.Intent != nil {
		return false, nil // a call that was begun is carried through first
	}
	sign, found := script.Drift(r.log.Now(), r.Drift)
	if !found {
		return false, nil
	}
	req := td.Request{
		Kind: td.AskQuestion, About: td.AboutDrift, Options: []string{td.Yes, td.No},
		Prompt: fmt.Sprintf("%s seems to go nowhere: %s. Go on?", t.Handle, sign.Detail),
		Detail: "yes lets it go on, no pauses it; taskdaemon task send " + t.Handle + " \"…\" first, to say what to do differently",
	}
	var err error
	if sign.Action == td.DriftStuck {
		if req, err = r.prompted(ctx, req); err != nil { // before the sign is recorded: the request goes with it
			return true, err
		}
	}
	if err := r.log.Stage(td.Drifted{Signal: sign.Signal, Action: sign.Action, Detail: sign.Detail}); err != nil {
		return true, err
	}
	if sign.Action == td.DriftWarn {
		err = r.log.Append(ctx, td.Said{By: "taskdaemon", Why: td.Nudge, Text: fmt.Sprintf(nudgeText, sign.Detail)})
	} else {
		err = r.openRequest(ctx, req)
	}
	fpDrifted.Hit()
	return true, err
}

const nudgeText = "Notice from taskdaemon: %s. Look at what you know, and try something else; if you cannot get further, call Fail with the reason or Ask."
