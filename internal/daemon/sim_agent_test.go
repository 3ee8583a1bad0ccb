package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// write is an agent's work: something that nobody else writes, and now and then something that others write, too.
func (l *life) write(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Call, error) {
	return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) {
		if l.isDead() {
			return td.ToolResult{}, errDead
		}
		o, path := l.trees, env.Root.Dir()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.written++
		mark := fmt.Sprintf("<%d>", o.written)
		err := o.repo.Write(path, "work/"+filepath.Base(path), mark)
		if err != nil {
			if !o.deleted[path] {
				l.faultf("the worktree of %s is gone while it works: %v", env.Task, err)
			}
			return td.ToolResult{Content: err.Error(), IsError: true}, nil
		}
		o.marks[env.Task] = append(o.marks[env.Task], mark)
		if o.written%3 == 0 {
			_ = o.repo.Write(path, fmt.Sprint("shared", o.written%2), fmt.Sprintf("(%d)", o.written))
		}
		return td.ToolResult{Content: "written"}, nil
	}}, nil
}

// merge is an agent that was told that its work conflicts.
func (l *life) merge(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Call, error) {
	return tool.Call{Effect: td.Pure, Run: func(context.Context) (td.ToolResult, error) {
		if l.isDead() {
			return td.ToolResult{}, errDead
		}
		l.trees.mu.Lock()
		into := l.trees.lines[env.Task].Into
		l.trees.mu.Unlock()
		if err := l.trees.repo.Merge(env.Root.Dir(), into); err != nil {
			return td.ToolResult{Content: err.Error(), IsError: true}, nil
		}
		return td.ToolResult{Content: "merged"}, nil
	}}, nil
}

// simModel plays agents: most complete their task, some fail, some have to begin again.
type simModel struct{ l *life }

func (m *simModel) Provider() string { return "sim" }

func (m *simModel) Stream(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	dice := m.l.dice()
	select {
	case <-time.After(100*time.Millisecond + time.Duration(dice.Int64N(int64(4*time.Second)))):
	case <-ctx.Done():
		return llm.Response{}, context.Cause(ctx)
	}
	name, input := "Complete", `{"summary":"done"}`
	last := req.Messages[len(req.Messages)-1]
	told := func(text string) bool {
		return slices.ContainsFunc(last.Blocks, func(b td.Block) bool { return strings.Contains(b.Text, text) })
	}
	switch n := dice.IntN(8); {
	case m.l.trees != nil && told("conflicts with"):
		name, input = "Merge", `{}`
	case m.l.trees != nil && n < 4 && !told("merged"):
		name, input = "Write", `{}`
	case n == 6:
		name, input = "Fail", `{"reason":"it cannot be done"}`
	case n == 7: // neither: the next iteration
		return llm.Response{Model: "sim", StopReason: td.EndTurn, Message: td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: "hm"}}}}, nil
	}
	return llm.Response{Model: "sim", StopReason: td.StopToolUse, Message: td.Message{Role: td.Assistant, Blocks: []td.Block{
		{Type: td.ToolUseBlock, ID: fmt.Sprint("u", len(req.Messages)), Name: name, Input: json.RawMessage(input)},
	}}}, nil
}

// idle is a spool of processes in which none ever starts.
type idle struct{}

func (idle) Start(context.Context, string, sandbox.Command) (sandbox.Process, error) {
	return nil, td.Errorf(td.Unavailable, "a simulation runs no processes")
}

func (idle) Find(string) (sandbox.Process, sandbox.ProcessState, error) {
	return nil, sandbox.NeverStarted, nil
}

func (idle) Remove(string) error      { return nil }
func (idle) Room(string) func() error { return func() error { return nil } }

func (idle) Reserve(string) error { return nil }
