package engine

import (
	"context"
	"encoding/json"
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
	if _, seen := r.pre[c.Key]; seen || c.Use.Malformed != "" || !r.Hooks.Has(hook.PreToolUse) {
		return false, nil
	}
	p := hook.PreToolUsePayload{Head: r.head(), ToolCall: toolCall(c)}
	var said hook.Result
	if c.Intent != nil {
		p, said, err = r.replay(ctx, c, p)
	} else {
		p, said, err = fire(ctx, r, c.Key, p)
	}
	switch {
	case err != nil:
		return true, err
	case said.Blocked:
		return true, r.answerCall(ctx, c, said, td.ToolResult{Content: said.Reason, IsError: true})
	case p.ToolResponse != nil:
		return true, r.answerCall(ctx, c, said, td.ToolResult{Content: p.ToolResponse.Content, IsError: p.ToolResponse.IsError})
	}
	c.Use.Input = p.ToolInput
	if r.pre == nil {
		r.pre = map[td.StepKey]hook.Result{}
	}
	r.pre[c.Key] = said
	return false, nil
}

// replay is for a call that has begun: what hooks said before that counts, and none is asked any more.
func (r *run) replay(ctx context.Context, c *transcript.Call, p hook.PreToolUsePayload) (hook.PreToolUsePayload, hook.Result, error) {
	return hook.Fire(ctx, r.Hooks, p, func(_ context.Context, s hook.Spec, _ hook.PreToolUsePayload) (hook.Result, error) {
		a := &asking{r: r, spec: s, key: hookKey(c.Key, s)}
		if known := r.log.Transcript().Hook(a.key); known.Result != nil {
			return a.read(known.Result), nil
		}
		return hook.Result{}, nil
	})
}

// answerCall records a result that hooks gave in the tool's place.
func (r *run) answerCall(ctx context.Context, c *transcript.Call, said hook.Result, res td.ToolResult) error {
	if err := r.stopping(ctx, said); err != nil {
		return err
	}
	res.Content = withWords(res.Content, said.Inject)
	return r.log.Stage(td.StepEnded{Outcome: td.Outcome{Key: c.Key, Via: td.Ran, Tool: &res}})
}

// stopping readies the pause a hook asks for with its block. It is recorded together with the result of
// the call, by useTools.
func (r *run) stopping(ctx context.Context, said hook.Result) error {
	if !said.Stop {
		return nil
	}
	if err := r.pausing(ctx, hookName+" "+said.Hook, said.Reason); err != nil {
		return err
	}
	r.stop = &said
	return nil
}

// stopped carries out the pause that a hook asked for in a tool call.
func (r *run) stopped(ctx context.Context) error {
	said := r.stop
	if said == nil {
		return nil
	}
	r.stop = nil
	return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		return td.Pause(t, hookName+" "+said.Hook, said.Reason, at)
	})
}

func withWords(content string, words []string) string {
	if len(words) == 0 {
		return content
	}
	return strings.TrimRight(content, "\n") + "\n\n" + strings.Join(words, "\n\n")
}

// judged runs a call and lets PostToolUse hooks look at its result before it is recorded.
func (r *run) judged(c *transcript.Call, do func(context.Context) (td.Outcome, error)) func(context.Context) (td.Outcome, error) {
	if r.Hooks == nil {
		return do
	}
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
			if err := r.stopping(ctx, said); err != nil {
				return res, err
			}
		}
		if err := r.keepWords(ctx, c.Key, p.Learn); err != nil {
			return res, err
		}
		words = append(words[:len(words):len(words)], said.Inject...)
	}
	res.Content = withWords(res.Content, words)
	return res, nil
}

// requested fires PermissionRequest for a call that a person would be asked about.
func (r *run) requested(ctx context.Context, c *transcript.Call, req td.Request) (td.Request, hook.Result, error) {
	req.ID = td.NewRequestID()
	p, said, err := fire(ctx, r, c.Key, hook.PermissionRequestPayload{
		Head: r.head(), ToolCall: toolCall(c), RequestID: req.ID, Prompt: req.Prompt,
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
