package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// hookName is who says what hooks add or decide.
const hookName = "hook"

// begin fires TaskCreated, TaskScheduled and TaskStarted. It is called in every run; a hook is asked once for each time
// the task begins: when it was added, and when a person let it go on.
func (r *run) begin(ctx context.Context) error {
	script, t := r.log.Transcript(), r.log.Task()
	if script.Answered {
		r.begun = true
		return nil
	}
	if err := r.created(ctx); err != nil {
		return err
	}
	key := script.BeginKey()
	if _, _, err := fire(ctx, r, key, hook.TaskScheduledPayload{
		Head: r.head(), Asked: hook.AskedOf(t.Spec), WaitedMS: r.waited.Milliseconds(),
	}); err != nil {
		return err
	}
	_, said, err := fire(ctx, r, key, hook.TaskStartedPayload{
		Head: r.head(), Asked: hook.AskedOf(t.Spec), Recovered: t.Recoveries > 0,
	})
	if err != nil {
		return err
	}
	if said.Blocked {
		return r.blocked(ctx, said)
	}
	r.begun = true
	if script.Context == nil {
		r.startWords = said.Inject // they stand in the opening
		return nil
	}
	return r.inject(ctx, key, said)
}

// created fires TaskCreated for a task of which no hook was told yet: in its first run, or when a person
// cancels it before.
func (r *run) created(ctx context.Context) error {
	if r.log.Transcript().Context != nil {
		return nil
	}
	_, _, err := fire(ctx, r, "created", hook.TaskCreatedPayload{Head: r.head(), Asked: hook.AskedOf(r.log.Task().Spec)})
	return err
}

// blocked ends the run as a hook wants it: the task pauses, or it fails with the hook's reason.
func (r *run) blocked(ctx context.Context, said hook.Result) error {
	if said.Stop {
		return r.pause(ctx, hookName+" "+said.Hook, said.Reason)
	}
	return r.fail(ctx, td.FailedData{
		Error: fmt.Sprintf("hook %s: %s", said.Hook, said.Reason), Recoverable: true,
		Hint: "taskdaemon hooks list; taskdaemon resume " + r.log.Task().Handle,
	})
}

// inject says a hook's words to the model, once for each occasion.
func (r *run) inject(ctx context.Context, key td.StepKey, said hook.Result) error {
	if len(said.Inject) == 0 || r.log.Transcript().Injected(key) {
		return nil
	}
	return r.log.Append(ctx, injected(key, said))
}

func injected(key td.StepKey, said hook.Result) td.Said {
	return td.Said{By: hookName, Why: td.Inject, Step: key, Text: strings.Join(said.Inject, "\n\n")}
}

// pause stops the task until a person lets it go on. What with holds is recorded together with that.
func (r *run) pause(ctx context.Context, by, reason string, with ...td.Body) error {
	if err := r.pausing(ctx, by, reason); err != nil {
		return err
	}
	if err := r.log.Stage(with...); err != nil {
		return err
	}
	return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Pause(t, by, reason, at) })
}

// pausing fires TaskPaused. It comes before anything that is to be recorded together with the pause.
func (r *run) pausing(ctx context.Context, by, reason string) error {
	script := r.log.Transcript()
	key := td.StepKey(fmt.Sprintf("%s.t%d", script.BeginKey(), script.Turn))
	_, _, err := fire(ctx, r, key, hook.TaskPausedPayload{Head: r.head(), Done: hook.Done{By: by, Cause: reason}})
	return err
}

// endKey is the occasion of the task's end.
func (r *run) endKey() td.StepKey { return r.log.Transcript().BeginKey() + ".end" }

// endsWith reports whether the step asks a hook at the end the task is coming to.
func (r *run) endsWith(key td.StepKey) bool {
	return strings.HasPrefix(string(key), string(hookKey(r.endKey(), hook.Spec{Point: r.ending})))
}

// failing fires TaskFailed. It comes before anything that is to be recorded together with the end.
func (r *run) failing(ctx context.Context, f td.FailedData) error {
	_, _, err := fire(ctx, r, r.endKey(), hook.TaskFailedPayload{
		Head: r.head(), Error: f.Error, Hint: f.Hint, Recoverable: f.Recoverable, Spent: hook.SpentOf(r.log.Task()),
	})
	return err
}

func (r *run) completing(ctx context.Context, summary string) error {
	_, _, err := fire(ctx, r, r.endKey(), hook.TaskCompletedPayload{
		Head: r.head(), Summary: summary, Spent: hook.SpentOf(r.log.Task()),
	})
	return err
}

// ordered fires the points that a person's command passes, before it is carried out. It returns the
// command as hooks left it, and what they say on it.
func (r *run) ordered(ctx context.Context, c td.Command) (td.Command, hook.Result, error) {
	t := r.log.Task()
	if td.Refuse(t, c, r.log.Now()) != nil {
		return c, hook.Result{}, nil
	}
	c, said, err := r.heard(ctx, c)
	if err != nil || said.Blocked {
		return c, said, err
	}
	done := hook.Done{By: c.By, Cause: c.Text}
	for _, ev := range td.Obey(t, c, r.log.Now()) {
		m, is := ev.Body.(td.Moved)
		if !is {
			continue
		}
		switch m.Verb {
		case td.VerbPause:
			err = r.pausing(ctx, c.By, m.Status.Reason)
		case td.VerbResume, td.VerbReset:
			_, _, err = fire(ctx, r, r.log.Transcript().BeginKey(), hook.TaskResumedPayload{Head: r.head(), Done: done})
		case td.VerbCancel, td.VerbAbandon: // either way a person ended it
			if err := r.created(ctx); err != nil {
				return c, said, err
			}
			_, _, err = fire(ctx, r, r.endKey(), hook.TaskCancelledPayload{Head: r.head(), Done: done, Spent: hook.SpentOf(t)})
		}
	}
	return c, said, err
}

// orderKey is the occasion of a command.
func orderKey(c td.Command) td.StepKey { return td.StepKey("cmd." + c.Key) }

// heard fires PostUserInput.
func (r *run) heard(ctx context.Context, c td.Command) (td.Command, hook.Result, error) {
	p := hook.PostUserInputPayload{Head: r.head(), Kind: td.AskConversation, Message: c.Text, By: c.By}
	t, free := r.log.Task(), false
	switch {
	case c.Type == td.CmdMessage || c.Type == td.CmdInterrupt:
		if w := t.Status.Waiting; w != nil && w.Kind == td.AskConversation {
			p.RequestID = w.Request
		}
	case c.Type == td.CmdAnswer && c.Answer != nil:
		req, _ := t.Request(c.Answer.Request)
		p.RequestID, p.Kind, p.Choice, p.Message = req.ID, req.Kind, c.Answer.Choice, c.Answer.Words
		if free = req.About == td.AboutModel && !slices.Contains(req.Options, c.Answer.Choice); free {
			p.Choice, p.Message = "", strings.TrimSpace(c.Answer.Choice+"\n"+c.Answer.Words) // the answer is what was said
		}
	default:
		return c, hook.Result{}, nil
	}
	p, said, err := fire(ctx, r, orderKey(c), p)
	if c.Answer == nil {
		c.Text = p.Message
	} else {
		answer := *c.Answer
		if answer.Words = p.Message; free {
			answer.Choice, answer.Words = p.Message, ""
		}
		c.Answer = &answer
	}
	return c, said, err
}

// obeyed are the events of a command that hooks have looked at.
func (r *run) obeyed(c td.Command, said hook.Result) []td.Event {
	t, at := r.log.Task(), r.log.Now()
	if said.Blocked {
		why := fmt.Sprintf("hook %s: %s", said.Hook, said.Reason)
		return reopened(t, c, []td.Event{td.Ignore(t, c, why, at)})
	}
	evs := reopened(t, c, td.Obey(t, c, at))
	if _, is := evs[0].Body.(td.Said); is && c.Type == td.CmdInterrupt && r.log.Transcript().Context != nil {
		evs = slices.Insert(evs, 1, td.Event{Task: t.ID, At: at, Body: r.note(td.EndedInterrupted, c.Text)})
	}
	if len(said.Inject) > 0 {
		evs = append(evs, td.Event{Task: t.ID, At: at, Body: injected(orderKey(c), said)})
	}
	return evs
}

// reopened asks again what an answer was given to that has no effect: all answers to one asking count as one, so that another would never be taken.
func reopened(t td.Task, c td.Command, evs []td.Event) []td.Event {
	if _, ignored := evs[0].Body.(td.Ignored); !ignored || c.Answer == nil || c.Type != td.CmdAnswer {
		return evs
	}
	if r, open := t.Request(c.Answer.Request); open {
		evs = append(evs, td.Event{Task: t.ID, At: evs[0].At, Body: td.RequestAskedAgain{ID: r.ID}})
	}
	return evs
}

// prompted fires PreUserPrompt for a request that is about to be opened.
func (r *run) prompted(ctx context.Context, req td.Request) (td.Request, error) {
	if req.ID == "" {
		req.ID = td.NewRequestID()
	}
	if !r.Hooks.Has(hook.PreUserPrompt) {
		return req, nil
	}
	sum := sha256.Sum256([]byte(req.Prompt))
	key := td.StepKey(fmt.Sprintf("t%d.%s.ask%x", r.log.Transcript().Turn, req.Step, sum[:4]))
	p, _, err := fire(ctx, r, key, hook.PreUserPromptPayload{Head: r.head(), Question: hook.Question{
		RequestID: req.ID, Kind: req.Kind, Prompt: req.Prompt, Options: req.Options,
	}})
	req.Prompt = p.Prompt
	return req, err
}

// beforeContext fires PreContextAssembly: what it returns is the task as the context is to tell of it, and words for the opening. ok is
// false when a hook ended the run.
func (r *run) beforeContext(ctx context.Context) (t td.Task, words []string, ok bool, err error) {
	t = r.log.Task()
	if !r.Hooks.Has(hook.PreContextAssembly) {
		return t, nil, true, nil
	}
	was := hook.PreContextAssemblyPayload{
		Head: r.head(), Tier: t.Tier, Model: t.Spec.Model, MaxTurns: r.turnLimit(t), Prompt: t.Prompt, Labels: t.Labels,
	}
	p, said, err := fire(ctx, r, r.contextKey(), was)
	if err != nil {
		return t, nil, false, err
	}
	if said.Blocked {
		return t, nil, false, r.blocked(ctx, said)
	}
	model := p.Model
	if model == was.Model && p.Tier != was.Tier {
		model = string(p.Tier)
	}
	if model != was.Model && model != t.ModelOverride {
		err = r.log.Stage(td.ModelChosen{Model: model, By: hookName})
	}
	t = r.log.Task()
	t.Prompt, t.Labels = p.Prompt, p.Labels
	if p.MaxTurns != was.MaxTurns {
		t.MaxTurns = p.MaxTurns
	}
	return t, said.Inject, true, err
}

func (r *run) contextKey() td.StepKey {
	return td.StepKey(fmt.Sprintf("c%d", r.log.Task().Iteration+1))
}

// afterContext fires PostContextAssembly for what is about to stand before the conversation. The first of
// its parts, so many, are of the system prompt.
func (r *run) afterContext(ctx context.Context, ofSystem int, set td.ContextSet) (_ td.ContextSet, ok bool, err error) {
	if !r.Hooks.Has(hook.PostContextAssembly) {
		return set, true, nil
	}
	messages := []td.Message{set.Opening}
	p, said, err := fire(ctx, r, r.contextKey(), hook.PostContextAssemblyPayload{
		Head: r.head(), System: set.System, Messages: messages,
		Tokens: int64(window.Count(set.System, set.Tools, messages).Total()), Window: int64(r.Budget(r.model(r.log.Task())).Window),
		Hash: hashOf(set.System, set.Tools, messages),
	})
	if err != nil {
		return set, false, err
	}
	if said.Blocked {
		return set, false, r.blocked(ctx, said)
	}
	changed := func(what string, text string) {
		set.Parts = append(set.Parts, td.ContextPart{Name: "hook", Source: what, Tokens: window.Tokens(text)})
	}
	if p.System != set.System {
		set.System, set.Parts = p.System, slices.Clone(set.Parts[ofSystem:])
		changed("the system prompt, changed at PostContextAssembly", p.System)
	}
	if _, is := said.Changes["messages"]; is {
		set.Opening = p.Messages[0]
		changed("the opening, changed at PostContextAssembly", set.Opening.Text())
	}
	return set, true, nil
}

// hookParts adds words of hooks to a text of the context, each as a part of its own.
func hookParts(to *prose, point hook.Point, words []string) {
	for _, w := range words {
		to.add("hook", string(point), "<hook point=\""+string(point)+"\">\n"+w+"\n</hook>\n\n")
	}
}

// beforeCall fires PreLLMCall. ok is false when a hook ended the run; the answer is one a hook gave in the
// model's place.
func (r *run) beforeCall(ctx context.Context, req llm.Request) (_ llm.Request, answer string, ok bool, err error) {
	if !r.Hooks.Has(hook.PreLLMCall) {
		return req, "", true, nil
	}
	script, t := r.log.Transcript(), r.log.Task()
	p, said, err := fire(ctx, r, script.ModelKey().Try(req.Attempt), hook.PreLLMCallPayload{
		Head: r.head(), Model: req.Model, Tier: tierOf(t), MaxTokens: req.MaxTokens, Thinking: req.Thinking, Temperature: req.Temperature,
		CostUSD:  r.reserveTurn(req).Amount.Dollars(),
		Messages: len(req.Messages), Tokens: int64(window.Count(req.System, script.Context.Tools, req.Messages).Total()),
		Attempt: req.Attempt, Hash: hashOf(req.System, req.Tools, req.Messages),
	})
	if err != nil {
		return req, "", false, err
	}
	if said.Blocked {
		return req, "", false, r.pause(ctx, hookName+" "+said.Hook, said.Reason)
	}
	req.Model, req.MaxTokens, req.Thinking, req.Temperature = p.Model, p.MaxTokens, p.Thinking, p.Temperature
	req.Wire = r.wire(req.Model)
	return req, p.Answer, true, nil
}

// hashOf is the same for the same values, in every life.
func hashOf(values ...any) string {
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode(values) // a hash does not fail
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// spoken is the outcome of a call that a hook answered in the model's place.
func spoken(answer string) td.Outcome {
	return td.Outcome{Model: &td.ModelResult{
		Message:    td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: answer}}},
		StopReason: td.EndTurn,
	}}
}

// afterCall fires PostLLMCall for an answer of which nothing was acted on yet, and reports whether it
// changed it.
func (r *run) afterCall(ctx context.Context) (changed bool, err error) {
	script := r.log.Transcript()
	if !script.Untouched || script.Newest == nil || !r.Hooks.Has(hook.PostLLMCall) {
		return false, nil
	}
	m := script.Newest.Model
	was := script.Latest()
	key := td.StepKey(fmt.Sprintf("t%d.model", script.Turn))
	p, said, err := fire(ctx, r, key, hook.PostLLMCallPayload{
		Head: r.head(), Model: m.Model, StopReason: m.StopReason, Message: m.Message,
		Usage: m.Usage, CostUSD: m.Cost.Dollars(), TookMS: script.Newest.Took.Milliseconds(), Hash: hashOf(m.Message),
	})
	if err != nil {
		return false, err
	}
	if _, is := said.Changes["message"]; is {
		if changed, err := r.rewrite(ctx, was, p.Message); err != nil || changed {
			return changed, err
		}
	}
	return false, r.keepWords(ctx, key, p.Learn)
}

// rewrite puts another message in the place of the newest answer, unless it is that already.
func (r *run) rewrite(ctx context.Context, was, next td.Message) (bool, error) {
	a, err := json.Marshal(was)
	if err != nil {
		return false, fmt.Errorf("compare the answer: %w", err)
	}
	if next = window.Worded(next); len(next.Blocks) == 0 {
		return false, nil // no provider takes back an answer without a word
	}
	b, err := json.Marshal(next)
	if err != nil {
		return false, fmt.Errorf("compare the answer: %w", err)
	}
	if bytes.Equal(a, b) {
		return false, nil
	}
	return true, r.log.Append(ctx, td.AnswerChanged{Message: next, By: hookName})
}

// turned fires LoopIteration when a turn is over. It reports whether the run has something new to look at.
func (r *run) turned(ctx context.Context) (bool, error) {
	script := r.log.Transcript()
	if script.Turn == 0 || !script.Answered || script.Model.Intent != nil || !r.Hooks.Has(hook.LoopIteration) {
		return false, nil
	}
	var tools []string
	for i := len(script.Messages) - 1; i >= 0; i-- {
		if m := script.Messages[i]; m.Role == td.Assistant {
			for _, use := range m.ToolUses() {
				tools = append(tools, use.Name)
			}
			break
		}
	}
	key := td.StepKey(fmt.Sprintf("t%d.turn", script.Turn))
	_, said, err := fire(ctx, r, key, hook.LoopIterationPayload{
		Head: r.head(), StopReason: script.Stop, Tools: tools, Failures: script.Failures(), Spent: hook.SpentOf(r.log.Task()),
	})
	switch {
	case err != nil:
		return true, err
	case said.Blocked:
		return true, r.pause(ctx, hookName+" "+said.Hook, said.Reason)
	case len(said.Inject) > 0 && !script.Injected(key):
		return true, r.inject(ctx, key, said)
	}
	return false, nil
}
