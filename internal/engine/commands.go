package engine

import (
	"context"
	"fmt"
	"os"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpTaken      = failpoint.New("engine.inbox.taken")
	fpObeyed     = failpoint.New("engine.inbox.obeyed")
	fpBeforeAsk  = failpoint.New("engine.ask.before")
	fpAsked      = failpoint.New("engine.ask.asked")
	fpBeforeReap = failpoint.New("engine.reap.before_kill")
	fpReaped     = failpoint.New("engine.reap.killed")
	fpJobsEnded  = failpoint.New("engine.reap.recorded")
)

// obey carries out what is in the inbox, in order.
func (r *run) obey(ctx context.Context) error {
	cmds, err := r.Journal.Take(ctx, r.held.Claim)
	if err != nil {
		return fmt.Errorf("take commands: %w", err)
	}
	if len(cmds) == 0 {
		return nil
	}
	fpTaken.Hit()
	r.obeying = true
	defer func() { r.obeying = false }()
	for _, c := range cmds {
		if c.Type == td.CmdRewind && td.Refuse(r.log.Task(), c, r.log.Now()) == nil {
			if err := r.rewind(ctx, c); err != nil {
				return err
			}
			fpObeyed.Hit()
			continue
		}
		if td.Refuse(r.log.Task(), c, r.log.Now()) == nil {
			// Killed before it is recorded: a crash in between finds the command again.
			switch c.Type {
			case td.CmdCancel:
				var refused error
				if c, refused, err = r.withdraw(ctx, c); err != nil {
					return err
				}
				if refused != nil {
					if err := r.log.AppendEvents(ctx, td.Ignore(r.log.Task(), c, refused.Error(), r.log.Now())); err != nil {
						return err
					}
					fpObeyed.Hit()
					continue
				}
				r.ending = hook.TaskCancelled
				if err := r.reap(ctx, "the task was cancelled"); err != nil {
					return err
				}
			case td.CmdInterrupt:
				if err := r.reap(ctx, "the iteration was interrupted"); err != nil {
					return err
				}
			case td.CmdRetry:
				const why = "the answer that asked for it was dropped"
				if err := r.cancelChildren(ctx, why); err != nil {
					return err
				}
				if err := r.reapSteps(ctx, why); err != nil {
					return err
				}
				r.wires = nil
			}
		}
		c, said, err := r.ordered(ctx, c)
		if err != nil {
			return err
		}
		evs := r.obeyed(c, said)
		if err := r.log.AppendEvents(ctx, evs...); err != nil {
			return err
		}
		fpObeyed.Hit()
		r.raised(ctx, evs)
	}
	return nil
}

// reap kills every process that still works for the task and records their end.
func (r *run) reap(ctx context.Context, why string) error {
	if err := r.cancelChildren(ctx, why); err != nil {
		return err
	}
	if err := r.reapSteps(ctx, why); err != nil {
		return err
	}
	return r.reapJobs(ctx, why)
}

// reapSteps is reap for the steps in flight alone.
func (r *run) reapSteps(ctx context.Context, why string) error {
	fpBeforeReap.Hit()
	t := r.log.Task()
	for _, s := range t.InFlight {
		if s.Kind == td.ModelStep || r.endsWith(s.Key) {
			continue // hooks of the end itself are found again
		}
		step := s.Key.Try(s.Attempt)
		if err := r.kill(ctx, tool.SpoolName(t.ID, step)); err != nil {
			return err
		}
		if s.Kind == td.FollowStep { // the work is in the integration branch, and nobody else will say that the trunk lacks it
			if err := r.Worktrees.NotFollowed(ctx, *t.Worktree, t.Handle); err != nil {
				return err
			}
		}
		out := td.Outcome{Key: s.Key, Via: td.Ran}
		if s.Kind == td.HookStep {
			raw, err := r.reapHook(s)
			if err != nil {
				return err
			}
			out.Hook = raw
		} else {
			out.Tool = &td.ToolResult{IsError: true, Content: "Stopped before it ended: " + why + "."}
		}
		if err := r.log.Append(ctx, td.StepEnded{Outcome: out}); err != nil {
			return err
		}
		r.forget(step)
	}
	return r.released(ctx)
}

func (r *run) reapJobs(ctx context.Context, why string) error {
	t := r.log.Task()
	var ended []td.JobID
	for _, j := range t.Jobs {
		if err := r.kill(ctx, j.Spool); err != nil {
			return err
		}
		ended = append(ended, j.ID)
	}
	fpReaped.Hit()
	if len(ended) == 0 {
		return nil
	}
	if err := r.log.Append(ctx, td.JobsEnded{Jobs: ended, Why: why}); err != nil {
		return err
	}
	fpJobsEnded.Hit()
	for _, j := range t.Jobs {
		r.remove(j.Spool)
	}
	return r.released(ctx)
}

// killLimit is longer than it takes to destroy a shim that does not answer any more.
const killLimit = 15 * time.Second

func (r *run) kill(ctx context.Context, name string) error {
	p, state, err := r.Spool.Find(name)
	if err != nil {
		return fmt.Errorf("find process %s: %w", name, err)
	}
	if state != sandbox.StillRunning {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killLimit)
	defer cancel()
	if err := p.Kill(ctx); err != nil {
		return fmt.Errorf("kill process %s: %w", name, err)
	}
	return nil
}

func available(dir string) bool {
	st, err := os.Stat(dir)
	return err == nil && st.IsDir()
}
