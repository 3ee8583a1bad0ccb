package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// tools are one of each effect, with the world as what they act on.
func (h *host) tools() []tool.Tool {
	nothing := func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Call, error) {
		return tool.Call{Input: in}, nil
	}
	return []tool.Tool{
		{Name: "Look", Prepare: h.look},
		{Name: "Act", Prepare: h.act, Resolve: h.resolveAct},
		{Name: "Write", Prepare: h.write, Resolve: h.resolveWrite},
		{Name: "Ask", Control: tool.AskControl, Prepare: nothing},
		{Name: "Complete", Control: tool.CompleteControl, Prepare: nothing},
	}
}

func (h *host) look(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Call, error) {
	paths := h.touches(env, string(input), policy.Read)
	return tool.Call{Effect: td.Pure, Paths: paths, Run: func(ctx context.Context) (td.ToolResult, error) {
		defer h.holdAll(env.Task, paths)()
		time.Sleep(10 * time.Millisecond)
		return td.ToolResult{Content: "seen"}, nil
	}}, nil
}

// act is a command under a shim: it happens when its process starts, and ends some time later.
func (h *host) act(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Call, error) {
	name := tool.SpoolName(env.Task, env.Step)
	return tool.Call{Effect: td.Opaque, Kept: true, Title: "act", Run: func(ctx context.Context) (td.ToolResult, error) {
		leave := h.enter(env.Task, h.name)
		defer leave()
		p, err := env.Spool.Start(ctx, name, sandbox.Command{Task: env.Task, Step: env.Step, Shell: string(input)})
		if err != nil {
			return td.ToolResult{}, err
		}
		return h.finish(ctx, p)
	}}, nil
}

func (h *host) finish(ctx context.Context, p sandbox.Process) (td.ToolResult, error) {
	res, err := p.Wait(ctx, nil)
	if err != nil {
		if !errors.Is(context.Cause(ctx), tool.ErrDetach) && !h.isDead() {
			_ = p.Kill(ctx)
		}
		return td.ToolResult{}, err
	}
	return td.ToolResult{Content: fmt.Sprint("exit ", res.Exit)}, nil
}

func (h *host) resolveAct(ctx context.Context, env *tool.Env, _ json.RawMessage, _ td.Intent) (tool.Resolution, error) {
	leave := h.enter(env.Task, h.name)
	defer leave()
	p, state, err := env.Spool.Find(tool.SpoolName(env.Task, env.Step))
	if err != nil {
		return tool.Resolution{}, err
	}
	switch state {
	case sandbox.NeverStarted:
		return tool.Resolution{State: tool.NotDone}, nil
	case sandbox.Lost:
		return tool.Resolution{State: tool.Unsure, Detail: "lost"}, nil
	}
	res, err := h.finish(ctx, p)
	return tool.Resolution{State: tool.Done, Via: td.Adopted, Result: res}, err
}

func (h *host) write(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Call, error) {
	path := string(env.Task) + string(input)
	before := h.file(path)
	evidence, err := json.Marshal(before)
	if err != nil {
		return tool.Call{}, err
	}
	paths := h.touches(env, string(input), policy.Write)
	return tool.Call{Effect: td.Keyed, Evidence: evidence, Paths: paths, Run: func(ctx context.Context) (td.ToolResult, error) {
		leave := h.enter(env.Task, h.name)
		defer leave()
		defer h.holdAll(env.Task, paths)()
		time.Sleep(300 * time.Millisecond)
		if h.isDead() || ctx.Err() != nil {
			return td.ToolResult{}, errDead
		}
		h.world.mu.Lock()
		h.files[path] = "written"
		h.written[path]++
		h.world.mu.Unlock()
		time.Sleep(300 * time.Millisecond)
		return td.ToolResult{Content: "written"}, nil
	}}, nil
}

func (h *host) resolveWrite(_ context.Context, env *tool.Env, input json.RawMessage, _ td.Intent) (tool.Resolution, error) {
	if h.file(string(env.Task)+string(input)) == "written" {
		for _, p := range h.touches(env, string(input), policy.Write) {
			h.settled(env.Task, p.Path)
		}
		return tool.Resolution{State: tool.Done, Via: td.Probed, Result: td.ToolResult{Content: "written"}}, nil
	}
	return tool.Resolution{State: tool.NotDone}, nil
}

func (h *host) file(path string) string {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.files[path]
}

// spool keeps processes that outlive the host, as shims do.
type spool struct{ host *host }

func (s *spool) Start(_ context.Context, name string, cmd sandbox.Command) (sandbox.Process, error) {
	time.Sleep(2 * time.Millisecond)
	w := s.host.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alive[s.host.name] {
		return nil, errDead
	}
	if p := w.procs[name]; p != nil && !p.voids {
		return nil, td.Errorf(td.Conflict, "the name %s is taken", name)
	}
	w.struck(name)
	lasts := 3 * time.Second
	if w.shared && hash(name)%2 == 0 {
		lasts = 20 * time.Second // it outlives its host, and is still at it when another takes over
	}
	w.procs[name] = &proc{host: s.host.name, ends: time.Now().Add(lasts), kill: make(chan struct{})}
	w.ran[string(cmd.Task)+cmd.Shell]++
	return &process{s, name, w.procs[name]}, nil
}

func (s *spool) Reserve(name string) error {
	w := s.host.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alive[s.host.name] {
		return errDead
	}
	if w.procs[name] == nil {
		w.procs[name] = &proc{voids: true}
	}
	return nil
}

func (s *spool) Find(name string) (sandbox.Process, sandbox.ProcessState, error) {
	w := s.host.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alive[s.host.name] {
		return nil, 0, errDead
	}
	p := w.procs[name]
	switch {
	case p == nil:
		return nil, sandbox.Lost, nil // nobody reserved the name, or what was there is gone
	case p.voids:
		return nil, sandbox.NeverStarted, nil
	case p.lost:
		return nil, sandbox.Lost, nil
	case time.Now().Before(p.ends):
		return &process{s, name, p}, sandbox.StillRunning, nil
	}
	return &process{s, name, p}, sandbox.Finished, nil
}

func (s *spool) Room(string) func() error { return func() error { return nil } }

func (s *spool) Untouched(td.TaskID) (bool, error) { return true, nil }

// Remove forgets the process, and with it that there ever was one. Now and then it cannot.
func (s *spool) Remove(name string) error {
	w := s.host.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alive[s.host.name] {
		return errDead
	}
	if w.removals++; w.removals%4 == 0 {
		return td.Errorf(td.Storage, "%s cannot be removed", name)
	}
	delete(w.procs, name)
	return nil
}

type process struct {
	spool *spool
	name  string
	proc  *proc
}

func (p *process) Wait(ctx context.Context, _ func([]byte)) (sandbox.ProcessResult, error) {
	timer := time.NewTimer(time.Until(p.proc.ends))
	defer timer.Stop()
	select {
	case <-timer.C:
		return sandbox.ProcessResult{}, nil
	case <-p.proc.kill:
		return sandbox.ProcessResult{Exit: 137, Killed: true}, nil
	case <-ctx.Done():
		return sandbox.ProcessResult{}, context.Cause(ctx)
	}
}

func (p *process) Output(int64, int) ([]byte, int64, error) { return nil, 0, nil }

func (p *process) Kill(context.Context) error {
	p.spool.host.world.mu.Lock()
	defer p.spool.host.world.mu.Unlock()
	select {
	case <-p.proc.kill:
	default:
		close(p.proc.kill)
		p.proc.ends = time.Now()
	}
	return nil
}

// guard lets a person be asked about acts and nothing else.
type guard struct{}

func (guard) Policy(string, string, []td.KeptRule) (*policy.Policy, error) { return rules, nil }

func (guard) Local(string) ([]td.KeptRule, error) { return nil, nil }

func (guard) Keep(context.Context, []td.KeptRule) error { return nil }

var rules = func() *policy.Policy {
	p, err := policy.New(policy.Place{Workspace: "/src/proj", Home: "/home"}, []policy.Rule{
		{Verdict: policy.Allow, Match: "Write"}, {Verdict: policy.Allow, Match: "Look"},
	})
	if err != nil {
		panic(err)
	}
	return p
}()
