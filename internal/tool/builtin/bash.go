package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// killWait bounds how long a cancelled call waits for its processes to be gone.
const killWait = 5 * time.Second

var (
	fpBashStarted  = failpoint.New("builtin.bash.started")
	fpBashEnded    = failpoint.New("builtin.bash.ended")
	fpBashResolved = failpoint.New("builtin.bash.resolved")
)

type bashInput struct {
	Command    string `json:"command" alias:"cmd" jsonschema:"given to the shell, in the workspace" min:"1"`
	Timeout    int    `json:"timeout,omitempty" jsonschema:"seconds after which it is killed" min:"1" max:"600"`
	Background bool   `json:"background,omitempty" alias:"run_in_background" jsonschema:"start it as a job and return at once; see BashOutput and BashKill"`
}

// bashEvidence is what Resolve needs to know of a command in flight.
type bashEvidence struct {
	Since time.Time `json:"since"`
	Boot  string    `json:"boot"`
	Job   *td.Job   `json:"job,omitempty"`
}

func bashTool(opts Options) tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Bash",
		Description: "Runs a shell command in the workspace and shows its output, both streams together, and its exit code. " +
			"Output beyond 30000 characters is cut in the middle. Its standard input is empty. " +
			"All that it started is killed when it ends; to keep something running set background.",
	}, func(_ context.Context, env *tool.Env, in bashInput) (tool.Call, error) {
		return prepareBash(opts, env, in)
	}, func(ctx context.Context, env *tool.Env, in bashInput, intent td.Intent) (tool.Resolution, error) {
		return resolveCommand(ctx, env, in.Command, timeout(env, in), intent)
	})
}

func prepareBash(opts Options, env *tool.Env, in bashInput) (tool.Call, error) {
	if strings.IndexByte(in.Command, 0) >= 0 {
		return tool.Call{}, td.Errorf(td.Invalid, "the command contains a NUL byte")
	}
	boot, err := sandbox.BootID()
	if err != nil {
		return tool.Call{}, err
	}
	name := tool.SpoolName(env.Task, env.Step)
	cmd := sandbox.Command{
		Shell: in.Command, Dir: env.Root.Dir(), Timeout: timeout(env, in), Background: in.Background,
		Task: env.Task, Run: env.Run, Step: env.Step,
	}
	ev := bashEvidence{Since: env.Now(), Boot: boot}
	if in.Background {
		cmd.Timeout = opts.JobLimit
		ev.Job = &td.Job{ID: jobID(env), Command: in.Command, Spool: name, Since: ev.Since}
	}
	evidence, err := json.Marshal(ev)
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	call := tool.Call{Effect: td.Opaque, Evidence: evidence, Title: title("Run", in.Command), Command: in.Command, Kept: true}
	call.Run = func(ctx context.Context) (td.ToolResult, error) {
		p, err := startCommand(ctx, env, name, cmd)
		if err != nil {
			return td.ToolResult{}, err
		}
		if ev.Job != nil {
			return jobStarted(*ev.Job), nil
		}
		return await(ctx, env, cmd.Timeout, p)
	}
	if !in.Background {
		call.Timeout = cmd.Timeout
	}
	return call, nil
}

// startCommand starts a command in the sandbox that the call was judged to need.
func startCommand(ctx context.Context, env *tool.Env, name string, cmd sandbox.Command) (sandbox.Process, error) {
	if err := env.Root.Intact(); err != nil {
		return nil, err
	}
	var err error
	if cmd.Profile, err = env.Profile(); err != nil {
		return nil, err
	}
	p, err := env.Spool.Start(ctx, name, cmd)
	if err != nil {
		return nil, err
	}
	fpBashStarted.Hit()
	return p, nil
}

// timeout is how long a command may run.
func timeout(env *tool.Env, in bashInput) time.Duration {
	limit := time.Duration(in.Timeout) * time.Second
	if limit == 0 {
		limit = env.Timeout
	}
	if limit <= 0 {
		limit = defaultTimeout
	}
	return min(limit, maxTimeout)
}

// await waits for a command. When the call is cancelled the command is killed, unless the daemon is only
// shutting down: then it goes on, and the next daemon adopts it.
func await(ctx context.Context, env *tool.Env, limit time.Duration, p sandbox.Process) (td.ToolResult, error) {
	live := &liveOutput{emit: env.Emit, text: redact.Stream{Redactor: env.Secrets}}
	defer live.end()
	res, err := p.Wait(ctx, live.write)
	if err == nil {
		fpBashEnded.Hit()
		return bashResult(env, res, limit, nil), nil
	}
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, tool.ErrDetach) {
		return td.ToolResult{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	if err := p.Kill(ctx); err != nil {
		return td.ToolResult{}, err
	}
	res, err = p.Wait(ctx, nil)
	if err != nil {
		return td.ToolResult{}, err
	}
	return bashResult(env, res, limit, cause), nil
}

// bashResult is what the model is told of a command that has ended.
func bashResult(env *tool.Env, res sandbox.ProcessResult, limit time.Duration, cause error) td.ToolResult {
	out := strings.TrimRight(tool.Output(env.Secrets, res), "\n")
	if out == "" {
		out = "(no output)"
	}
	end := fmt.Sprintf("[exit code %d]", res.Exit)
	switch {
	case res.Limit != "":
		end = fmt.Sprintf("[killed, with all that it started: %s]", res.Limit)
	case res.TimedOut:
		end = fmt.Sprintf("[timed out after %s and was killed, with all that it started]", limit)
	case res.Killed && cause != nil:
		end = fmt.Sprintf("[killed: %v]", cause)
	case res.Killed:
		end = "[killed]"
	case res.Signal != "":
		end = fmt.Sprintf("[ended by %s, exit code %d]", res.Signal, res.Exit)
	}
	return td.ToolResult{
		Content: out + "\n" + end,
		IsError: res.Exit != 0 || res.TimedOut || res.Killed || res.Limit != "",
		Exit:    &res.Exit,
		Memory:  res.Memory,
		CPU:     res.CPU,
	}
}

// resolveCommand adopts the command if it runs or left its result.
func resolveCommand(ctx context.Context, env *tool.Env, command string, limit time.Duration, intent td.Intent) (tool.Resolution, error) {
	var ev bashEvidence
	if err := json.Unmarshal(intent.Evidence, &ev); err != nil {
		return tool.Resolution{}, td.Errorf(td.Corrupt, "read evidence of %s: %w", intent.Key, err)
	}
	boot, err := sandbox.BootID()
	if err != nil {
		return tool.Resolution{}, err
	}
	p, state, ferr := env.Spool.Find(tool.SpoolName(env.Task, env.Step))
	fpBashResolved.Hit()
	switch {
	case state == sandbox.StillRunning && ferr != nil, disk.Trouble(ferr): // what became of it can be told later
		return tool.Resolution{}, ferr
	case state == sandbox.StillRunning || state == sandbox.Finished:
		if ev.Job != nil {
			return adopted(jobStarted(*ev.Job)), nil
		}
		res, err := await(ctx, env, limit, p)
		if err == nil {
			return adopted(res), nil
		}
		if !errors.Is(err, sandbox.ErrLost) {
			return tool.Resolution{}, err
		}
	case state == sandbox.NeverStarted && ev.Boot == boot:
		return tool.Resolution{State: tool.NotDone}, nil
	}
	return tool.Resolution{State: tool.Unsure, Detail: lostDetail(command, ev, ferr), Changed: touchedSince(ctx, env, ev.Since)}, nil
}

func adopted(res td.ToolResult) tool.Resolution {
	return tool.Resolution{State: tool.Done, Via: td.Adopted, Result: res}
}

// lostDetail tells a person what can be known of a command that is lost.
func lostDetail(command string, ev bashEvidence, err error) string {
	text := fmt.Sprintf("The command was started at %s, and how it ended is not known:\n  %s", ev.Since.Format(time.RFC3339), command)
	if err != nil {
		text += fmt.Sprintf("\nIts record cannot be read: %v", err)
	}
	return text
}

// touchedSince says which files have a time since then.
func touchedSince(ctx context.Context, env *tool.Env, since time.Time) string {
	changed, more := changedSince(ctx, env.Root, since)
	switch {
	case len(changed) == 0:
		return "No file of the workspace was changed since."
	case more:
		return fmt.Sprintf("Files of the workspace changed since, the first %d:\n  %s", len(changed), strings.Join(changed, "\n  "))
	}
	return "Files of the workspace changed since:\n  " + strings.Join(changed, "\n  ")
}
