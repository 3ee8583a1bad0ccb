package engine

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

var fpSideAnswered = failpoint.New("engine.side.answered")

// side asks the small model something beside the conversation: a summary, a digest. It is a step like any
// other: recorded, paid for, and made again when a crash took its answer away. It is tried once; what
// wants an answer must be able to do without.
func (r *run) side(ctx context.Context, key td.StepKey, system, prompt string, maxTokens int) (string, error) {
	t := r.log.Task()
	model := r.smallModel(t)
	step, done := r.ctl.Step(ctx)
	defer done()
	out, err := r.log.Do(step, durable.Step{
		Intent: td.Intent{Key: key, Kind: td.SideStep, Name: model, Effect: td.Pure},
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

// aside makes one call of the small model. A failure of the model is an answer too: an error means that the
// call was interrupted.
func (r *run) aside(ctx context.Context, system, prompt string, maxTokens int) (td.SideResult, error) {
	t := r.log.Task()
	model := r.smallModel(t)
	resp, err := r.Model.Stream(ctx, llm.Request{
		Model: model, System: system, MaxTokens: maxTokens, Script: t.Rehearsal, Priority: t.Priority, Since: t.CreatedAt,
		Tokens:   window.Tokens(prompt),
		Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: prompt}}}},
	}, func(llm.Delta) {})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return td.SideResult{}, cause
		}
		return td.SideResult{Model: model, Error: err.Error()}, nil
	}
	fpSideAnswered.Hit()
	cost, _ := r.Prices.Cost(resp.Model, resp.Usage)
	return td.SideResult{Text: resp.Message.Text(), Model: resp.Model, Usage: resp.Usage, Cost: cost}, nil
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
