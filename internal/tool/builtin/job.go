package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var fpBeforeJobKill = failpoint.New("builtin.job.before_kill")

// outputBytes is how much of a job's output one call shows: MaxOutput characters of one byte each.
const outputBytes = tool.MaxOutput

// jobID names a job after its step, so that no two jobs of a task share a name. The attempt is left out:
// only one attempt at a step ever starts a job that is heard of.
func jobID(env *tool.Env) td.JobID {
	step, _, _ := strings.Cut(string(env.Step), "~")
	return td.JobID("job-" + strings.TrimPrefix(step, "t"))
}

func jobStarted(j td.Job) td.ToolResult {
	return td.ToolResult{
		Content: fmt.Sprintf("Started %s. See its output with BashOutput, end it with BashKill.", j.ID),
		Job:     &j,
	}
}

// findJob is a job the model names.
func findJob(env *tool.Env, id string) (td.Job, error) {
	i := slices.IndexFunc(env.Jobs, func(j td.Job) bool { return string(j.ID) == id })
	if i >= 0 {
		return env.Jobs[i], nil
	}
	var ids []string
	for _, j := range env.Jobs {
		ids = append(ids, string(j.ID))
	}
	if len(ids) == 0 {
		return td.Job{}, td.Errorf(td.NotFound, "there is no job %q; no background job is running", id)
	}
	return td.Job{}, td.Errorf(td.NotFound, "there is no job %q; the jobs are: %s", id, strings.Join(ids, ", "))
}

type bashOutputInput struct {
	Job    string `json:"job" jsonschema:"the job's name, as Bash told it" min:"1"`
	Offset int64  `json:"offset,omitempty" jsonschema:"show the output from this byte on, as the last BashOutput told it" min:"0"`
}

func bashOutputTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "BashOutput",
		Description: "Shows the output of a background job, and whether it has ended.",
	}, prepareBashOutput, nil)
}

func prepareBashOutput(_ context.Context, env *tool.Env, in bashOutputInput) (tool.Call, error) {
	job, err := findJob(env, in.Job)
	if err != nil {
		return tool.Call{}, err
	}
	return tool.Call{
		Effect: td.Pure, Title: title("Output of", in.Job),
		Run: func(ctx context.Context) (td.ToolResult, error) { return jobOutput(ctx, env, job, in.Offset) },
	}, nil
}

func jobOutput(ctx context.Context, env *tool.Env, job td.Job, offset int64) (td.ToolResult, error) {
	p, state, err := env.Spool.Find(job.Spool)
	if state != sandbox.StillRunning && state != sandbox.Finished {
		return td.ToolResult{
			Content: fmt.Sprintf("%s is gone and left no result%s.", job.ID, because(err)),
			IsError: true, Killed: []td.JobID{job.ID},
		}, nil
	}
	if err != nil {
		return td.ToolResult{}, err
	}
	chunk, next, err := p.Output(offset, outputBytes)
	if err != nil {
		return td.ToolResult{}, err
	}
	if state == sandbox.StillRunning || len(chunk) == outputBytes {
		whole := env.Secrets.Uncut(chunk)
		chunk, next = chunk[:whole], next-int64(len(chunk)-whole)
	}
	out := strings.TrimRight(env.Secrets.Piece(tool.Clean(chunk), offset > 0, false), "\n")
	if out == "" {
		out = "(no output from there on)"
	}
	if state == sandbox.StillRunning {
		return td.ToolResult{Content: fmt.Sprintf("%s\n[%s is running; go on with offset %d]", out, job.ID, next)}, nil
	}
	if more, _, err := p.Output(next, 1); err == nil && len(more) > 0 {
		return td.ToolResult{Content: fmt.Sprintf("%s\n[%s has ended; there is more output, go on with offset %d]", out, job.ID, next)}, nil
	}
	res, err := p.Wait(ctx, nil)
	if err != nil {
		return td.ToolResult{}, err
	}
	if next >= sandbox.OutputCap { // what came after is not on disk, but its end is known
		out += "\n[output beyond this was not kept; it ended with]\n" + strings.TrimRight(env.Secrets.Piece(tool.Clean(res.Tail), true, false), "\n")
	}
	end := fmt.Sprintf("exit code %d", res.Exit)
	switch {
	case res.TimedOut:
		end = "its time was over and it was killed"
	case res.Killed:
		end = "it was killed"
	case res.Signal != "":
		end = fmt.Sprintf("by %s, exit code %d", res.Signal, res.Exit)
	}
	return td.ToolResult{
		Content: fmt.Sprintf("%s\n[%s has ended: %s]", out, job.ID, end),
		IsError: res.Exit != 0, Exit: &res.Exit, Killed: []td.JobID{job.ID},
	}, nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

type bashKillInput struct {
	Job string `json:"job" jsonschema:"the job's name, as Bash told it" min:"1"`
}

func bashKillTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "BashKill",
		Description: "Ends a background job with all that it started.",
	}, prepareBashKill, resolveBashKill)
}

func prepareBashKill(_ context.Context, env *tool.Env, in bashKillInput) (tool.Call, error) {
	job, err := findJob(env, in.Job)
	if err != nil {
		return tool.Call{}, err
	}
	evidence, err := json.Marshal(job)
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	return tool.Call{
		Effect: td.Keyed, Evidence: evidence, Title: title("Kill", in.Job), Free: true,
		Run: func(ctx context.Context) (td.ToolResult, error) {
			p, state, err := env.Spool.Find(job.Spool)
			if state == sandbox.StillRunning {
				if err != nil {
					return td.ToolResult{}, err
				}
				fpBeforeJobKill.Hit()
				if err := p.Kill(ctx); err != nil {
					return td.ToolResult{}, err
				}
			}
			return jobGone(job), nil
		},
	}, nil
}

func jobGone(j td.Job) td.ToolResult {
	return td.ToolResult{Content: fmt.Sprintf("%s is gone.", j.ID), Killed: []td.JobID{j.ID}}
}

func resolveBashKill(_ context.Context, env *tool.Env, _ bashKillInput, intent td.Intent) (tool.Resolution, error) {
	var job td.Job
	if err := json.Unmarshal(intent.Evidence, &job); err != nil || job.Spool == "" {
		return tool.Resolution{}, td.Errorf(td.Corrupt, "read evidence of %s: %v", intent.Key, err)
	}
	_, state, err := env.Spool.Find(job.Spool)
	if state == sandbox.StillRunning {
		return tool.Resolution{State: tool.NotDone}, err
	}
	return tool.Resolution{State: tool.Done, Via: td.Probed, Result: jobGone(job)}, nil
}
