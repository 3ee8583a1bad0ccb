package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

var (
	fpBeforeCall = failpoint.New("engine.model.before_call")
	fpAnswered   = failpoint.New("engine.model.answered")
	fpFailed     = failpoint.New("engine.model.failed")
	fpRetryWait  = failpoint.New("engine.model.before_retry_wait")
	fpEscalated  = failpoint.New("engine.model.escalated")
)

// RetryTable says how long to wait before each further attempt of a failed model call (L-6); when a
// class's waits are used up the next model of the chain is asked, and without one the task rests.
type RetryTable struct {
	Network     []time.Duration
	Overloaded  []time.Duration
	RateLimited []time.Duration // when the provider names no time of its own
	// Rest is how long a task lies blocked before its models are asked once more, each time; the last one counts for all further
	// times. RestMax bounds all of them together; zero: the task fails at once.
	Rest    []time.Duration
	RestMax time.Duration
}

// mostTooLong bounds how often a call that the provider finds too long is made smaller.
const mostTooLong = 2

// mostEndless bounds how often an answer is asked for again that came without an end.
const mostEndless = 1

// after is when to ask the model again after the failures so far, the newest of which is f.
func (r RetryTable) after(model string, f llm.Error, earlier []td.ModelFailure, now time.Time) time.Time {
	n := 0
	for _, e := range earlier {
		if e.Class == f.Class && e.Model == model {
			n++
		}
	}
	var waits []time.Duration
	switch f.Class {
	case td.Network:
		waits = r.Network
	case td.Overloaded:
		waits = r.Overloaded
	case td.RateLimited:
		waits = r.RateLimited
	case td.TooLong:
		waits = make([]time.Duration, mostTooLong) // it is made smaller, not waited for
	case td.Endless:
		waits = make([]time.Duration, mostEndless)
	}
	if n >= len(waits) {
		return time.Time{}
	}
	wait := waits[n]
	if f.Class == td.RateLimited && f.RetryAfter > 0 {
		wait = f.RetryAfter
		if r.rests() && wait > r.Rest[0] {
			return time.Time{} // nobody holds a place for that long
		}
	}
	return now.Add(jittered(wait))
}

// jittered is up to a tenth more, so that many loops that failed together do not come back together.
func jittered(wait time.Duration) time.Duration {
	return wait + time.Duration(rand.Int64N(int64(wait)/10+1))
}

// call is one attempt at an answer, ready to be made.
type call struct {
	req     llm.Request
	answer  string // that a hook gave in the model's place
	key     td.StepKey
	why     string // this model
	again   bool   // an earlier life began it
	reserve *td.Reserve
}

// callModel makes one attempt at the next answer. It is on the stack while the model answers: what it needs no more by then
// is left to others.
func (r *run) callModel(ctx context.Context) error {
	c, err := r.nextCall(ctx)
	if err != nil || c == nil {
		return err
	}
	step, done := r.ctl.Brief(ctx)
	defer done()
	_, err = r.log.Do(step, durable.Step{
		Intent: td.Intent{Key: c.key, Kind: td.ModelStep, Name: c.req.Model, Effect: td.Pure, Attempt: c.req.Attempt, Why: c.why, Reserve: c.reserve},
		Again:  c.again,
		Run: func(ctx context.Context) (td.Outcome, error) {
			if c.answer != "" {
				return spoken(c.answer), nil
			}
			return r.stream(ctx, c.key, &c.req)
		},
	})
	return err
}

// nextCall is the call to make now, or nil if something else came of it.
func (r *run) nextCall(ctx context.Context) (*call, error) {
	t, script := r.log.Task(), r.log.Transcript()
	if limit := r.turnLimit(t); t.Turns-t.TurnsAtResume >= limit {
		why := fmt.Sprintf("%d turns without an end; resume to allow as many again", limit)
		return nil, r.pause(ctx, "taskdaemon", why, td.Drifted{Signal: td.DriftTurns, Action: td.DriftStuck, Detail: fmt.Sprintf("%d turns", limit)})
	}
	if n := len(script.Model.Failures); n > 0 && !script.Model.InFlight {
		// A clock that was set back must not make the wait longer than it was meant to be.
		if last := script.Model.Failures[n-1]; !last.RetryAt.IsZero() {
			if waited, err := r.wait(ctx, min(last.RetryAt.Sub(r.Now()), last.Wait)); err != nil || !waited {
				return nil, err
			}
		}
	}
	if raised, err := r.escalate(ctx); err != nil || raised {
		return nil, err
	}
	model, why, ok := r.choose(r.model(t), script.Model.Lately())
	if !ok {
		return nil, r.noAnswer(ctx, script.Model, waitsForAnswer)
	}
	req, err := r.request(t, model)
	if err != nil {
		return nil, err
	}
	c := &call{why: why}
	if c.req, c.answer, ok, err = r.beforeCall(ctx, req); err != nil || !ok {
		return nil, err
	}
	if c.answer == "" {
		c.reserve = r.reserveTurn(c.req)
		if err := r.warnBudget(ctx, c.reserve.Caps); err != nil {
			return nil, err
		}
	}
	c.key = script.ModelKey()
	c.again = script.Model.InFlight && script.Model.Intent.Name == c.req.Model
	return c, nil
}

func (r *run) turnLimit(t td.Task) int {
	if set := r.log.Transcript().Context; set != nil && set.MaxTurns > 0 {
		return set.MaxTurns
	}
	if t.MaxTurns > 0 {
		return t.MaxTurns
	}
	return r.Turns
}

// request is the call as the records have it: the same bytes in every life.
func (r *run) request(t td.Task, model string) (llm.Request, error) {
	script := r.log.Transcript()
	if r.beginning.of != script.Context {
		var err error
		if r.beginning, err = r.common(script.Context); err != nil {
			return llm.Request{}, err
		}
	}
	return llm.Request{
		Model:     model,
		Priority:  t.Priority,
		Since:     t.CreatedAt,
		Tokens:    script.Changed(),
		System:    script.Context.System,
		Tools:     r.beginning.kit.tools,
		Messages:  script.Messages,
		MaxTokens: r.MaxTokens,
		Thinking:  r.Thinking,

		Temperature: r.Temperature,
		Attempt:     len(script.Model.Failures),
		Answers:     script.Answers,
		Script:      t.Rehearsal,
		Wire:        r.wire(model),
	}, nil
}

// wire is what keeps the encoded history for the provider of a model.
func (r *run) wire(model string) *llm.Wire {
	provider, _, named := strings.Cut(model, "/")
	if !named {
		provider = ""
	}
	if r.wires == nil {
		r.wires = map[string]*llm.Wire{}
	}
	if r.wires[provider] == nil {
		r.wires[provider] = &llm.Wire{}
	}
	return r.wires[provider]
}

// escalate hands the work to the next tier when attempts failed (L-4), and reports whether it did. A
// model that a person or the task chose is kept.
func (r *run) escalate(ctx context.Context) (bool, error) {
	t, script := r.log.Task(), r.log.Transcript()
	failed := t.Resets + script.Refused
	if r.Escalate == 0 || t.ModelOverride != "" || t.Spec.Model != "" || script.Model.Intent != nil {
		return false, nil
	}
	tiers := []td.Tier{td.Small, td.Worker, td.Expert}
	at := slices.Index(tiers, t.Tier)
	want := min(at+failed/r.Escalate, len(tiers)-1)
	if at < 0 || want <= max(at, slices.Index(tiers, t.Raised)) {
		return false, nil
	}
	err := r.log.Append(ctx, td.Escalated{Tier: tiers[want], Why: fmt.Sprintf("%d attempts failed", failed)})
	fpEscalated.Hit()
	return true, err
}

// provider is who answers the task: one that brings a script is rehearsed whatever the provider is.
func (e *Engine) provider(t td.Task) string {
	if t.Rehearsal != "" {
		return llm.Rehearsal
	}
	return e.Model.Provider()
}

// model is the one for the next call: what a person chose, else the task's own, else its tier's. A
// rehearsal carries no model's name.
func (e *Engine) model(t td.Task) string {
	if e.provider(t) == llm.Rehearsal {
		return llm.Rehearsal + "/" + llm.Rehearsal
	}
	for _, m := range []string{t.ModelOverride, t.Spec.Model} {
		if tiered, ok := e.Models[td.Tier(m)]; ok {
			return tiered
		}
		if m != "" {
			return m
		}
	}
	return e.Models[tierOf(t)]
}

func (r *run) stream(ctx context.Context, key td.StepKey, req *llm.Request) (td.Outcome, error) {
	fpBeforeCall.Hit()
	said := map[api.LiveKind]*redact.Stream{}
	resp, err := r.Model.Stream(ctx, *req, func(d llm.Delta) {
		kind := liveKind(d.Kind)
		if said[kind] == nil {
			said[kind] = &redact.Stream{Redactor: r.Redact, Known: true}
		}
		r.live(key, kind, said[kind].Write([]byte(d.Text)))
	})
	for kind, s := range said {
		r.live(key, kind, s.Close())
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return td.Outcome{}, cause
		}
		fpFailed.Hit()
		was, retry := r.log.Transcript().Model, r.Retry
		if was.Outage != nil {
			retry = retry.once()
		}
		failure := retry.failure(req.Model, err, was.Lately(), r.log.Now())
		failure.Paid = r.paidFor(req.Model, err, r.toSend())
		return td.Outcome{Failure: failure}, nil
	}
	fpAnswered.Hit()
	paid := r.billed(req.Model, &resp, r.toSend())
	prefix := r.prefix(*req, resp)
	r.calibration.learn(req.Model, resp.Usage, prefix.Estimated)
	return td.Outcome{Model: &td.ModelResult{
		Prefix:     prefix,
		Message:    whole(resp),
		StopReason: resp.StopReason,
		Model:      resp.Model,
		Usage:      resp.Usage,
		Cost:       paid.cost,
		Unpriced:   paid.unpriced,
		Estimated:  paid.estimated,
		Replayed:   resp.Replayed,
		FirstToken: resp.FirstToken,
		Cut:        resp.Cut,
	}}, nil
}

// toSend is an estimate of the tokens of the next request.
func (r *run) toSend() int {
	script := r.log.Transcript()
	return script.Scale.Of(script.Estimate())
}

// whole leaves out what may not be acted on: a tool call that the token limit cut in two. One that it cut
// before the input began looks like a call without input; the model is asked for it again.
func whole(resp llm.Response) td.Message {
	m := resp.Message
	if resp.StopReason != td.MaxTokens && !resp.Cut {
		return m
	}
	var blocks []td.Block
	for i, b := range m.Blocks {
		last := i == len(m.Blocks)-1
		if b.Type == td.ToolUseBlock && (b.Malformed != "" || resp.Cut || last && noInput(b.Input)) {
			continue
		}
		blocks = append(blocks, b)
	}
	m.Blocks = blocks
	return m
}

func noInput(raw json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(raw, &fields) == nil && len(fields) == 0
}

func (r RetryTable) failure(model string, err error, earlier []td.ModelFailure, now time.Time) *td.ModelFailure {
	var why *llm.Error
	if !errors.As(err, &why) {
		why = &llm.Error{Class: td.Network, Err: err}
	}
	f := &td.ModelFailure{Model: model, Class: why.Class, Status: why.Status, Message: why.Error(), Hint: why.Hint, RetryAfter: why.RetryAfter}
	f.RetryAt = r.after(model, *why, earlier, now)
	if !f.RetryAt.IsZero() {
		f.Wait = f.RetryAt.Sub(now)
	}
	return f
}

// wait lets time pass. It gives up early, saying so, when the run should look around.
func (r *run) wait(ctx context.Context, d time.Duration) (waited bool, err error) {
	if err := r.log.Flush(ctx); err != nil {
		return false, err
	}
	fpRetryWait.Hit()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-r.ctl.Wake():
		r.ctl.Poke() // the safe point reads it
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

func liveKind(k llm.DeltaKind) api.LiveKind {
	switch k {
	case llm.ThinkingDelta:
		return api.LiveThinking
	case llm.ToolDelta:
		return api.LiveTool
	default:
		return api.LiveText
	}
}

// endTurn routes an answer that asked for no tool (L-5).
func (r *run) endTurn(ctx context.Context) error {
	script := r.log.Transcript()
	switch {
	case script.Stop == td.Refusal:
		return r.fail(ctx, td.FailedData{Error: "the model refused: " + script.LastText(), Hint: "rephrase the task and add it again"})
	case script.Stop == td.WindowExceeded && script.Exceeded < 2:
		// The estimate was too low: make room, and let it go on.
		return r.log.Append(ctx, td.CompactionWanted{By: "taskdaemon"}, td.Said{By: "taskdaemon", Why: td.Continue, Text: continueText})
	case script.Stop == td.WindowExceeded:
		return r.fail(ctx, td.FailedData{
			Error: "the conversation no longer fits the model's window",
			Hint:  "split the task, or choose a model with a larger window: taskdaemon task send " + r.log.Task().Handle + " /model NAME",
		})
	case script.Stop == td.MaxTokens || script.Cut:
		return r.log.Append(ctx, td.Said{By: "taskdaemon", Why: td.Continue, Text: continueText})
	case script.Stop != "" && !script.Stop.Known():
		return r.fail(ctx, td.FailedData{
			Error:       fmt.Sprintf("the model stopped for a reason that is not known: %q", string(script.Stop)),
			Recoverable: true,
			Hint:        "taskdaemon resume " + r.log.Task().Handle + " to let it go on, or choose another model with /model",
		})
	}
	if done, err := r.concludeInWords(ctx); err != nil || done {
		return err
	}
	switch t := r.log.Task(); {
	case t.Mode == td.Interactive:
		return r.ask(ctx, td.Request{Kind: td.AskConversation, About: td.AboutTurn, Prompt: script.LastText()})
	case script.Reminded < r.Reminders:
		return r.log.Append(ctx, td.Said{By: "taskdaemon", Why: td.Remind, Text: remindText + misread(script.LastText())})
	case t.Ordered != nil:
		return r.startOver(ctx, td.EndedUnclear, "the agent ended its turn without saying whether the task is done")
	default:
		return r.fail(ctx, td.FailedData{
			Error:       "the model ended its turn without saying whether the task is done",
			Recoverable: true,
			Hint:        "taskdaemon task show " + t.Handle + "; taskdaemon resume " + t.Handle + " to let it go on",
		})
	}
}

const (
	continueText = "Your answer was cut short. Go on exactly where it ended; do not repeat what you already said."
	remindText   = "You ended your turn, but this task runs on its own: nobody reads along. If the work is done, call " +
		"Complete with a summary. If it cannot be done, call Fail with the reason. Otherwise go on working."
)
