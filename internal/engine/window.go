package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

var (
	fpBeforeCompact = failpoint.New("engine.window.before_compact")
	fpCompacted     = failpoint.New("engine.window.compacted")
)

// Budget is how much of a model's window a conversation may take.
func (e *Engine) Budget(model string) window.Budget {
	return window.Budget{Window: e.Windows.Of(model, e.Window), Reserve: e.MaxTokens, Share: e.Share}
}

// fit makes the conversation smaller, one decision at a time, until the next call fits the window (L-3) or
// a person's wish for it is fulfilled. It reports whether it did something.
func (r *run) fit(ctx context.Context) (bool, error) {
	script := r.log.Transcript()
	wanted := script.Wanted > 0
	if script.Model.InFlight || script.Model.Intent != nil && !wanted {
		return false, nil // a call that was begun is carried through first
	}
	model, _, ok := r.choose(r.model(r.log.Task()), script.Model.Lately())
	if !ok {
		return false, nil // no model is left to ask
	}
	budget := r.Budget(model)
	scale, exact := r.scale(ctx, model, budget.Limit())
	if !wanted && script.Sent > 0 && scale.Of(script.Estimate()) <= budget.Limit() {
		return false, nil
	}
	fixed := window.Count(script.Context.System, script.Context.Tools, nil)
	o := window.Options{NoSummary: script.NoSummary != "", NoDrop: wanted && script.Gentle, Scale: scale}
	if wanted {
		budget = window.Budget{Window: scale.Of(script.Wanted)}
	}
	d := window.Plan(script.Messages, fixed, budget, o)
	unsummed := script.NoSummary != "" || len(script.Summary.Lately()) > 0
	loses := d.Do == window.Summarise || d.Do == window.Compact && d.Compaction.Strategy == td.Dropped
	switch {
	case unsummed && loses && !wanted && d.Tokens <= budget.Room():
		return false, nil // there is room for this call: a summary is asked for again before the next one
	case unsummed && d.Do == window.Summarise && script.Gentle:
		return true, r.compact(ctx, td.Compaction{Strategy: td.Dropped, Before: d.Tokens, After: d.Tokens, Why: gaveUp(script.Summary.Lately()).Error})
	case unsummed && d.Do == window.Summarise:
		return true, r.noAnswer(ctx, script.Summary, waitsForSummary)
	case d.Do == window.Compact:
		if d.Compaction.Strategy == td.Dropped && script.NoSummary != "" {
			d.Compaction.Why = "there is no summary of it: " + script.NoSummary
		}
		return true, r.compact(ctx, d.Compaction)
	case d.Do == window.Summarise:
		return true, r.summarise(ctx, d.Summary)
	case wanted: // there is nothing more to leave out
		return true, r.compact(ctx, td.Compaction{Strategy: td.Dropped, Before: d.Tokens, After: d.Tokens})
	case d.Do == window.Fits:
		return false, nil
	case !exact && window.MayFit(d) && !slices.ContainsFunc(script.Model.Failures, func(f td.ModelFailure) bool { return f.Class == td.TooLong }):
		return false, nil // the estimate is high: the provider says whether it fits
	}
	failed := td.FailedData{Error: d.Err.Error()}
	var e *td.Error
	if errors.As(d.Err, &e) {
		failed.Hint = e.Hint
	}
	return true, r.fail(ctx, failed)
}

// mostCompactions bounds how often a conversation is made smaller before one call: a plan needs a few.
const mostCompactions = 20

// compact records a compaction. The provider's cache is of no use after it.
func (r *run) compact(ctx context.Context, c td.Compaction) error {
	script := r.log.Transcript()
	_, err := window.Apply(script.Messages, c)
	if err == nil && script.Compacted >= mostCompactions {
		err = fmt.Errorf("it was made smaller %d times", script.Compacted)
	}
	if err != nil {
		return r.fail(ctx, td.FailedData{Error: fmt.Sprintf("the conversation cannot be made to fit the window: %v", err)})
	}
	fpBeforeCompact.Hit()
	if err := r.log.Append(ctx, td.Compacted{Compaction: c}); err != nil {
		return err
	}
	fpCompacted.Hit()
	r.wires = nil
	return nil
}

// summarise replaces old messages by what the small model makes of them. When it cannot be reached the next look at the records
// lets the task rest; when it gives nothing, or is not to be had at all, the next plan does without.
func (r *run) summarise(ctx context.Context, s window.Summary) error {
	script := r.log.Transcript()
	text, err := r.sideAgain(ctx, script.SummaryKey(), td.CauseSummary, summarySystem, s.Prompt, s.MaxTokens, script.Summary)
	var none *noAnswerError
	if errors.As(err, &none) {
		return nil // as the records say
	}
	if err != nil {
		return err
	}
	c, err := s.Compaction(text)
	if err != nil {
		return err
	}
	return r.compact(ctx, c)
}

const summarySystem = "You summarise conversations between a person and a coding agent, so that the agent can go on without the original."
