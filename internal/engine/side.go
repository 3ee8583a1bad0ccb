package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

var fpSideAnswered = failpoint.New("engine.side.answered")

// side asks the small model something beside the conversation: a summary, a digest. It is a step like any
// other: recorded, paid for, and made again when a crash took its answer away. Whatever wants an answer must
// be able to do without.
func (r *run) side(ctx context.Context, key td.StepKey, why td.Cause, system, prompt string, maxTokens int) (string, error) {
	t := r.log.Task()
	model := r.smallModel(t)
	step, done := r.ctl.Step(ctx)
	defer done()
	out, err := r.log.Do(step, durable.Step{
		Intent: td.Intent{Key: key, Kind: td.SideStep, Name: model, Effect: td.Pure, Reserve: r.reserveSide(system+prompt, maxTokens, why)},
		Run: func(ctx context.Context) (td.Outcome, error) {
			out, err := r.aside(ctx, system, prompt, maxTokens)
			return td.Outcome{Side: &out}, err
		},
	})
	if err != nil {
		return "", err
	}
	if out.Side.Error != "" || strings.TrimSpace(out.Side.Text) == "" {
		return "", &noAnswerError{fmt.Sprintf("%s gave no answer: %s", out.Side.Model, out.Side.Error)}
	}
	return out.Side.Text, nil
}

// aside asks the small model, and those it falls back on, as patiently as any other. A failure of all of
// them is an answer too: an error means that the call was interrupted. Attempts leave no record of their own:
// a call that a crash cut off begins anew.
func (r *run) aside(ctx context.Context, system, prompt string, maxTokens int) (td.SideResult, error) {
	t := r.log.Task()
	var failed []td.ModelFailure
	for {
		model, _, ok := r.choose(r.smallModel(t), failed)
		if !ok {
			return td.SideResult{Model: failed[len(failed)-1].Model, Error: gaveUp(failed).Error}, nil
		}
		resp, err := r.Model.Stream(ctx, llm.Request{
			Model: model, System: system, MaxTokens: maxTokens, Script: t.Rehearsal, Priority: t.Priority, Since: t.CreatedAt,
			Tokens: window.Tokens(prompt), Attempt: len(failed),
			Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: prompt}}}},
		}, func(llm.Delta) {})
		if err == nil {
			fpSideAnswered.Hit()
			cost, unpriced := r.cost(model, resp)
			return td.SideResult{Text: resp.Message.Text(), Model: resp.Model, Usage: resp.Usage, Cost: cost, Unpriced: unpriced}, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return td.SideResult{}, cause
		}
		f := r.failure(model, err, failed)
		failed = append(failed, *f)
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= f.Wait {
			return td.SideResult{Model: model, Error: f.Message}, nil // in a tool, which can do without
		}
		select {
		case <-time.After(f.Wait):
		case <-ctx.Done():
			return td.SideResult{}, context.Cause(ctx)
		}
	}
}

func (r *run) smallModel(t td.Task) string {
	if r.provider(t) == llm.Rehearsal {
		return r.model(t)
	}
	return r.Models[td.Small]
}

// noAnswerError says that a side call came to nothing: whoever wanted it does without.
type noAnswerError struct{ text string }

func (e *noAnswerError) Error() string { return e.text }
