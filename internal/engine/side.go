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
	"taskdaemon/internal/transcript"
	"taskdaemon/internal/window"
)

var fpSideAnswered = failpoint.New("engine.side.answered")

// side asks the small model something beside the conversation: a summary, a digest. It is a step like any
// other: recorded, paid for, and made again when a crash took its answer away. Whatever wants an answer must
// be able to do without.
func (r *run) side(ctx context.Context, key td.StepKey, why td.Cause, system, prompt string, maxTokens int) (string, error) {
	return r.sideAgain(ctx, key, why, system, prompt, maxTokens, transcript.ModelCall{})
}

// sideAgain is side for a call that has failed before: as after a rest of the task, it is then made once.
func (r *run) sideAgain(ctx context.Context, key td.StepKey, why td.Cause, system, prompt string, maxTokens int, was transcript.ModelCall) (string, error) {
	t := r.log.Task()
	model := r.smallModel(t)
	step, done := r.ctl.Step(ctx)
	defer done()
	out, err := r.log.Do(step, durable.Step{
		Intent: td.Intent{Key: key, Kind: td.SideStep, Name: model, Effect: td.Pure, Attempt: len(was.Failures), Reserve: r.reserveSide(system+prompt, maxTokens, why)},
		Run: func(ctx context.Context) (td.Outcome, error) {
			retry := r.Retry
			if was.Outage != nil {
				retry = retry.once()
			}
			out, err := r.aside(ctx, r.log.Task(), system, prompt, maxTokens, retry, len(was.Failures))
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

// Aside asks the small model of a task, and those it falls back on, as patiently as any other. A failure of all of
// them is an answer too: an error means that the call was interrupted. Nothing is recorded: that is for whoever
// makes the call a step. A call that a crash cut off begins anew.
func (e *Engine) Aside(ctx context.Context, t td.Task, system, prompt string, maxTokens int) (td.SideResult, error) {
	return e.aside(ctx, t, system, prompt, maxTokens, e.Retry, 0)
}

// aside is Aside for a call that was tried so many times before, and is tried again by the table.
func (e *Engine) aside(ctx context.Context, t td.Task, system, prompt string, maxTokens int, retry RetryTable, tried int) (td.SideResult, error) {
	var failed []td.ModelFailure
	var lost squandered // by those
	for {
		model, _, ok := e.choose(e.smallModel(t), failed)
		if !ok {
			return lost.with(td.SideResult{Model: failed[len(failed)-1].Model, Error: gaveUp(failed).Error, Failures: failed}), nil
		}
		resp, err := e.Model.Stream(ctx, llm.Request{
			Model: model, System: system, MaxTokens: maxTokens, Script: t.Rehearsal, Priority: t.Priority, Since: t.CreatedAt,
			Tokens: window.Tokens(prompt), Attempt: tried + len(failed),
			Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: prompt}}}},
		}, func(llm.Delta) {})
		if err == nil {
			fpSideAnswered.Hit()
			paid := e.billed(model, &resp, window.Tokens(system+prompt))
			return lost.with(td.SideResult{
				Text: atMost(resp.Message.Text(), maxTokens*bytesOfToken), Model: resp.Model, Usage: resp.Usage,
				Cost: paid.cost, Unpriced: paid.unpriced, Estimated: paid.estimated, Replayed: resp.Replayed,
			}), nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return td.SideResult{}, cause
		}
		f := retry.failure(model, err, failed, e.Now())
		failed = append(failed, *f)
		lost.add(e.paidFor(model, err, window.Tokens(system+prompt)))
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= f.Wait {
			return lost.with(td.SideResult{Model: model, Error: f.Message}), nil // in a tool, which can do without
		}
		select {
		case <-time.After(f.Wait):
		case <-ctx.Done():
			return td.SideResult{}, context.Cause(ctx)
		}
	}
}

// squandered is what attempts took that failed after an answer had begun.
type squandered td.Paid

func (s *squandered) add(p *td.Paid) {
	if p != nil {
		s.Usage, s.Cost = s.Usage.Add(p.Usage), s.Cost+p.Cost
		s.Unpriced, s.Estimated = s.Unpriced || p.Unpriced, s.Estimated || p.Estimated
	}
}

// with adds it to what came of the call in the end.
func (s squandered) with(r td.SideResult) td.SideResult {
	r.Usage, r.Cost = r.Usage.Add(s.Usage), r.Cost+s.Cost
	r.Unpriced, r.Estimated = r.Unpriced || s.Unpriced, r.Estimated || s.Estimated
	return r
}

// bytesOfToken is more than a token ever stands for, on average over a text.
const bytesOfToken = 16

// atMost is the beginning of a text: a server that does not keep to max_tokens fills no journal.
func atMost(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "\n[cut: the answer was longer than asked for]"
}

func (e *Engine) smallModel(t td.Task) string {
	if e.provider(t) == llm.Rehearsal {
		return e.model(t)
	}
	return e.Models[td.Small]
}

// noAnswerError says that a side call came to nothing: whoever wanted it does without.
type noAnswerError struct{ text string }

func (e *noAnswerError) Error() string { return e.text }
