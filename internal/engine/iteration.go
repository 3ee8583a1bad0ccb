package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpIterationEnded = failpoint.New("engine.iteration.before_over")
	fpStartedOver    = failpoint.New("engine.iteration.over")
	fpIterationLimit = failpoint.New("engine.iteration.limit")
)

// mayIterate looks before an iteration begins whether it may: a run is told how many there may be, and however many
// that is, a person is asked when they lead nowhere (L-12). It reports whether the task goes on.
func (r *run) mayIterate(ctx context.Context, plan Planned) (bool, error) {
	t := r.log.Task()
	if t.Ordered == nil {
		return true, nil
	}
	if plan.InTheWay != "" {
		return false, r.pause(ctx, td.ByRun, plan.InTheWay)
	}
	if until := t.Ordered.Until; until > 0 && t.Iteration >= until {
		defer fpIterationLimit.Hit()
		return false, r.pause(ctx, td.ByRun, "the run may begin no more iterations")
	}
	if n := t.Iteration - t.IterationsFrom; r.Iterations > 0 && n >= r.Iterations {
		detail := fmt.Sprintf("%d iterations came to nothing", n)
		if last := lastTry(t); last != nil && last.Reason != "" {
			detail += ", the last because: " + clip(last.Reason, 300)
		}
		req, err := r.prompted(ctx, td.Request{
			Kind: td.AskQuestion, About: td.AboutDrift, Options: []string{td.Yes, td.No},
			Prompt: fmt.Sprintf("%s seems to go nowhere: %s. Go on?", t.Handle, detail),
			Detail: "yes allows as many again, no pauses it; taskdaemon task send " + t.Handle + " \"…\" first, to say what to do differently",
		})
		if err != nil {
			return false, err
		}
		if err := r.log.Stage(td.Drifted{Signal: td.DriftIterations, Action: td.DriftStuck, Detail: detail}); err != nil {
			return false, err
		}
		defer fpIterationLimit.Hit()
		return false, r.openRequest(ctx, req)
	}
	return true, nil
}

// startOver ends an iteration that came to nothing. The next one begins with a fresh context and is told why, until the
// verifier has said no too often.
func (r *run) startOver(ctx context.Context, ending td.Ending, reason string) error {
	t := r.log.Task()
	if ending == td.EndedUnverified && t.Unverified >= r.Verifications {
		end := r.note(ending, reason)
		return r.fail(ctx, td.FailedData{
			Error: fmt.Sprintf("not verified after %d retries: %s", r.Verifications, reason), Recoverable: true,
			Hint: "taskdaemon task reset " + t.Handle + ", then taskdaemon run " + t.Handle,
		}, end)
	}
	if err := r.learn(ctx); err != nil {
		return err
	}
	if err := r.reap(ctx, "the iteration ended"); err != nil {
		return err
	}
	fpIterationEnded.Hit()
	end := r.note(ending, reason)
	err := r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.StartOver(t, end, at) })
	fpStartedOver.Hit()
	return err
}

// note is what the iteration leaves for those after it.
func (r *run) note(ending td.Ending, reason string, notes ...string) td.IterationEnded {
	t, script := r.log.Task(), r.log.Transcript()
	out := td.IterationEnded{
		Iteration: max(t.Iteration, 1), Ending: ending, Reason: clip(reason, maxNote), Tier: tierOf(t), Model: t.LastModel,
	}
	if t.Ordered != nil {
		out.Run = t.Ordered.Run
	}
	if !script.Began.IsZero() {
		out.Took = r.log.Now().Sub(script.Began)
	}
	for _, f := range script.Wrote {
		if rel, err := filepath.Rel(t.Dir, f); err == nil && filepath.IsLocal(rel) {
			f = rel
		}
		out.Files = append(out.Files, f)
	}
	said, next := script.Said()
	notes, out.Hint = append(notes, said...), next
	out.Notes = clip(strings.TrimSpace(strings.Join(notes, "\n\n")), maxNote)
	return out
}

// maxNote bounds what an iteration may leave in words.
const maxNote = 8000

// planned reports whether what the task's iterations come to is of use to others: it is part of a graph.
func planned(t td.Task) bool { return t.Project != "" }

// tierOf is the class of model that works on the task now.
func tierOf(t td.Task) td.Tier {
	for _, tier := range []td.Tier{t.Raised, t.Chosen} {
		if tier != "" {
			return tier
		}
	}
	return t.Tier
}

func lastTry(t td.Task) *td.Try {
	if len(t.Tries) == 0 {
		return nil
	}
	return &t.Tries[len(t.Tries)-1]
}
