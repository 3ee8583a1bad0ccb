package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

func toolCall(c *transcript.Call) hook.ToolCall {
	return hook.ToolCall{ToolName: c.Use.Name, ToolUseID: c.Use.ID, ToolInput: c.Use.Input}
}

// beforeTool lets PreToolUse hooks look at a call before anything judges it (L-7). What they make of its
// input is what is prepared, judged, recorded and run; the conversation keeps what the model said. done
// says that the call needs no more: it has its result, or the run ends.
func (r *run) beforeTool(ctx context.Context, c *transcript.Call) (done bool, err error) {
	if _, seen := r.pre[c.Key]; seen || c.Use.Malformed != "" || c.Intent == nil && !r.Hooks.Has(hook.PreToolUse) {
		return false, nil
	}
	p := hook.PreToolUsePayload{Head: r.head(), ToolCall: toolCall(c)}
	var said hook.Result
	if c.Intent != nil {
		// It has begun: what hooks said before that counts, and none is asked any more.
		p, said = hook.Replay(p, r.heardBefore(c))
	} else {
		p, said, err = fire(ctx, r, c.Key, p)
	}
	switch {
	case err != nil:
		return true, err
	case said.Blocked:
		return true, r.answerCall(c, said, td.ToolResult{Content: said.Reason, IsError: true})
	case p.ToolResponse != nil:
		return true, r.answerCall(c, said, td.ToolResult{Content: p.ToolResponse.Content, IsError: p.ToolResponse.IsError})
	}
	c.Use.Input = p.ToolInput
	if r.pre == nil {
		r.pre = map[td.StepKey]hook.Result{}
	}
	r.pre[c.Key] = said
	return false, nil
}

// heardBefore is what hooks are recorded to have said of a call before it ran.
func (r *run) heardBefore(c *transcript.Call) (said []hook.Result) {
	script := r.log.Transcript()
	for _, key := range script.Heard(string(hookKey(c.Key, hook.Spec{Point: hook.PreToolUse}))) {
		said = append(said, readResult(hook.Spec{Name: string(key), Point: hook.PreToolUse, OnError: hook.Closed}, script.Hook(key).Result))
	}
	return said
}

// answerCall records a result that hooks gave in the tool's place.
func (r *run) answerCall(c *transcript.Call, said hook.Result, res td.ToolResult) error {
	res.Content = withWords(res.Content, said.Inject)
	return r.log.Stage(td.StepEnded{Outcome: td.Outcome{Key: c.Key, Via: td.Ran, Tool: &res}})
}

// stopping is the pause that a hook asks for with its word on a call. It follows from the records alone,
// and comes when the call has its result: a daemon that dies in between leaves it to the next one.
func (r *run) stopping() (hook.Result, bool) {
	script := r.log.Transcript()
	for _, key := range script.Heard("") {
		call, asked, _ := strings.Cut(string(key), ".hook.")
		point, _, _ := strings.Cut(asked, ".")
		switch hook.Point(point) {
		case hook.PreToolUse, hook.PostToolUse, hook.PermissionRequest:
		default:
			continue // there a block is seen to at once
		}
		open := slices.ContainsFunc(script.Calls, func(c transcript.Call) bool {
			return c.Outcome == nil && strings.HasPrefix(call+".", string(c.Key)+".")
		})
		if said := readResult(hook.Spec{Name: string(key)}, script.Hook(key).Result); said.Stop && !open {
			return said, true
		}
	}
	return hook.Result{}, false
}

func withWords(content string, words []string) string {
	if len(words) == 0 {
		return content
	}
	return strings.TrimRight(content, "\n") + "\n\n" + strings.Join(words, "\n\n")
}

// judged runs a call and lets PostToolUse hooks look at its result before it is recorded.
func (r *run) judged(c *transcript.Call, do func(context.Context) (td.Outcome, error)) func(context.Context) (td.Outcome, error) {
	return func(ctx context.Context) (td.Outcome, error) {
		began := r.Now()
		out, err := do(ctx)
		if err != nil || out.Tool == nil {
			return out, err
		}
		res, err := r.afterTool(ctx, c, *out.Tool, r.Now().Sub(began))
		out.Tool = &res
		return out, err
	}
}

// afterTool is the result of a call as PostToolUse hooks leave it, with the words that hooks add to it.
func (r *run) afterTool(ctx context.Context, c *transcript.Call, res td.ToolResult, took time.Duration) (td.ToolResult, error) {
	words := r.pre[c.Key].Inject
	if r.Hooks.Has(hook.PostToolUse) {
		r.judges = res.Untrusted
		defer func() { r.judges = false }()
		p, said, err := fireWithin(ctx, r, c.Key, hook.PostToolUsePayload{
			Head: r.head(), ToolCall: toolCall(c), TookMS: took.Milliseconds(),
			ToolResponse: hook.ToolResponse{Content: res.Content, IsError: res.IsError},
		})
		if err != nil {
			return res, err
		}
		res.Content, res.IsError = p.ToolResponse.Content, p.ToolResponse.IsError
		if said.Blocked {
			res.Content, res.IsError = said.Reason, true
		}
		if err := r.keepWords(ctx, c.Key, p.Learn); err != nil {
			return res, err
		}
		words = append(words[:len(words):len(words)], said.Inject...)
	}
	res.Content = withWords(res.Content, words)
	return res, nil
}

// requested fires PermissionRequest for a call that a person would be asked about. Another input is another question.
func (r *run) requested(ctx context.Context, call hook.ToolCall, req td.Request) (td.Request, hook.Result, error) {
	req.ID = td.NewRequestID()
	key := req.Step + td.StepKey(".in"+shortHash(call.ToolInput))
	p, said, err := fire(ctx, r, key, hook.PermissionRequestPayload{
		Head: r.head(), ToolCall: call, RequestID: req.ID, Prompt: req.Prompt,
	})
	req.Prompt = p.Prompt
	return req, said, err
}

func (r *run) granted(ctx context.Context, c *transcript.Call, rule string) error {
	_, _, err := fire(ctx, r, c.Key, hook.PermissionGrantedPayload{Head: r.head(), ToolCall: toolCall(c), Done: decidedBy(c, rule)})
	return err
}

func (r *run) denied(ctx context.Context, c *transcript.Call, rule string) error {
	_, _, err := fire(ctx, r, c.Key, hook.PermissionDeniedPayload{Head: r.head(), ToolCall: toolCall(c), Done: decidedBy(c, rule)})
	return err
}

// decidedBy is the person who answered, else the rule.
func decidedBy(c *transcript.Call, rule string) hook.Done {
	if a := c.Asked; a != nil && a.Answer != nil && a.Answer.By != "" {
		return hook.Done{By: a.Answer.By, Cause: a.Answer.Words}
	}
	return hook.Done{By: rule}
}

func (r *run) spawned(ctx context.Context, c *transcript.Call, t td.Task) error {
	_, _, err := fire(ctx, r, c.Key, hook.SubtaskSpawnedPayload{
		Head: r.head(), ToolName: c.Use.Name, Child: t.ID, ChildHandle: t.Handle, Prompt: t.Prompt, Depth: t.Depth,
	})
	return err
}

// reapHook ends a hook that still works for a task that ends, and says so.
func (r *run) reapHook(s td.StepRef) (json.RawMessage, error) {
	if err := hook.Discard(r.hookDir(tool.SpoolName(r.held.Task, s.Key.Try(s.Attempt)))); err != nil {
		r.Log.Warn("clear hook folder", "step", s.Key, "err", err)
	}
	return json.Marshal(hook.Failed(hook.Spec{Name: s.Name}, errHookStopped))
}
