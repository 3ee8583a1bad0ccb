package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/scheduler"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpPlaced  = failpoint.New("engine.place.made")
	fpSetUp   = failpoint.New("engine.place.set_up")
	fpWIP     = failpoint.New("engine.rebase.committed")
	fpRebased = failpoint.New("engine.rebase.rebased")
	fpClashed = failpoint.New("engine.rebase.before_resolve")
)

// Worktrees is where tasks work that have a worktree of their own, and the branches that their work goes to.
type Worktrees interface {
	// Look reports whether the worktree is there and is the task's.
	Look(ctx context.Context, w td.Worktree) (bool, error)
	// Make makes the worktree, or what is missing of it: from its branch if there is one, else from where the work of
	// others is merged, and with the files that every worktree of the project gets.
	Make(ctx context.Context, w td.Worktree) error
	// Setup is the command that makes a new worktree ready to work in; empty: none.
	Setup(w td.Worktree) (string, error)
	// Commit commits everything in the worktree and says where its branch is then.
	Commit(ctx context.Context, w td.Worktree, message string) (string, error)
	// Rebase brings the branch onto what is merged and the trunk. The files that conflict are named; then all is as
	// it was.
	Rebase(ctx context.Context, w td.Worktree) (changed, conflicts []string, err error)
	// Rebased reports whether the branch builds on all that is merged and on the trunk, as both are now.
	Rebased(ctx context.Context, w td.Worktree) (bool, error)
	// Holds reports whether the branch holds a commit, and Follows whether a commit of the trunk builds on another.
	Holds(ctx context.Context, w td.Worktree, commit string) (bool, error)
	Follows(ctx context.Context, w td.Worktree, commit, earlier string) (bool, error)
	// Merging reports whether the agent is in the midst of a merge, or of something like it, in the worktree.
	Merging(ctx context.Context, w td.Worktree) (bool, error)
	// Resolves reports whether the agent is to resolve conflicts with the trunk before a person is asked.
	Resolves(w td.Worktree) bool
	// In reports whether a commit is in the integration branch or the trunk.
	In(ctx context.Context, w td.Worktree, commit string) (bool, error)
	// Kept fails if a commit of the task is merged, but what it changed is not there.
	Kept(ctx context.Context, w td.Worktree, commit string) error
	// Merge merges the work of a task, and of others that wait, into the integration branch.
	Merge(ctx context.Context, w td.Worktree, own merge.Work, beside []merge.Work, check merge.Check) (merge.Result, error)
	// Merged says where the integration branch is, if it holds the commit; nil if it does not.
	Merged(ctx context.Context, w td.Worktree, commit string) (*td.Merged, error)
	// Withdraw sees to it that nobody takes a commit of the task along any more, and says where the integration branch is if that is too late.
	Withdraw(ctx context.Context, w td.Worktree, commit string) (*td.Merged, error)
	// Checkout makes a throw-away checkout of a commit in the folder of that name, and says where it is.
	Checkout(ctx context.Context, w td.Worktree, commit, name string) (string, error)
	// Altered are the files of the commit that were changed there since; new ones do not count.
	Altered(ctx context.Context, dir, commit string) ([]string, error)
	// Asks reports whether the trunk is to follow only if a person agrees: because they want to be asked, or because the commits
	// lack something that theirs go through.
	Asks(ctx context.Context, w td.Worktree) (wanted bool, lacks string, err error)
	// Follow lets the trunk follow the integration branch, if the person wants that and it can be done without touching what
	// is theirs; else it says why not. What the trunk has got meanwhile is brought in first, and has to pass the work's checks.
	Follow(ctx context.Context, w td.Worktree, own merge.Work, check merge.Check) (td.Obstacle, error)
	// ByHand is what a person types to merge the integration branch into the trunk themselves.
	ByHand(ctx context.Context, w td.Worktree, options ...td.Words) string
	// NotFollowed records that a Follow was broken off for good.
	NotFollowed(ctx context.Context, w td.Worktree, handle string) error
}

// keyed does a step that can be found done. One that an earlier life left in flight is looked for first.
func (r *run) keyed(ctx context.Context, in td.Intent, found func(context.Context) (*td.ToolResult, error), do func(context.Context) (td.Outcome, error)) (td.Outcome, error) {
	in.Effect = td.Keyed
	if i := slices.IndexFunc(r.log.Task().InFlight, func(s td.StepRef) bool { return s.Key == in.Key }); i >= 0 {
		prior := in
		prior.Attempt = r.log.Task().InFlight[i].Attempt
		var out td.Outcome
		settled, err := r.log.Settle(ctx, prior, func(ctx context.Context, _ td.Intent) (durable.Resolution, error) {
			res, err := found(ctx)
			if err != nil || res == nil {
				return durable.Resolution{}, err
			}
			out = td.Outcome{Via: td.Probed, Tool: res}
			return durable.Resolution{State: durable.Done, Outcome: out}, nil
		}, nil)
		if err != nil || settled {
			return out, err
		}
		in.Attempt = prior.Attempt + 1
	}
	return r.log.Do(ctx, durable.Step{Intent: in, Run: do})
}

// place makes the task's worktree and opens it. It says why that cannot be done, if it cannot.
func (r *run) place(ctx context.Context) error {
	task := r.log.Task()
	w := *task.Worktree
	step, done := r.step(ctx)
	defer done()
	there, err := r.Worktrees.Look(step, w)
	if err != nil {
		return err
	}
	if !there || r.inFlight(td.PlaceKey) {
		_, err = r.keyed(step, td.Intent{Key: td.PlaceKey, Kind: td.PlaceStep, Name: w.Branch}, func(ctx context.Context) (*td.ToolResult, error) {
			there, err := r.Worktrees.Look(ctx, w)
			if err != nil || !there {
				return nil, err
			}
			return &td.ToolResult{Content: w.Path}, nil
		}, func(ctx context.Context) (td.Outcome, error) {
			if err := r.Worktrees.Make(ctx, w); err != nil {
				return td.Outcome{}, err
			}
			fpPlaced.Hit()
			return td.Outcome{Tool: &td.ToolResult{Content: w.Path}}, nil
		})
		if err != nil {
			return fmt.Errorf("make the worktree: %w", err)
		}
		r.shots.remade = !there && r.log.Transcript().Context != nil
	}
	if err := r.setUp(step, w); err != nil {
		return err
	}
	r.root, err = tool.OpenWorkspace(task.Dir)
	return err
}

// notPlaced is for a task whose worktree cannot be made: it is blocked and says why (L-1). What stopped it, and no
// failure, leaves it as it is.
func (r *run) notPlaced(ctx context.Context, err error) error {
	if errors.Is(err, scheduler.ErrUrgent) { // a command that cannot wait
		if err = r.safePoint(ctx); err == nil && r.log.Look().Status.State == td.Running {
			err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
				return td.Interrupt(t, "a command came while its worktree was being made", at)
			})
		}
		return err
	}
	if ctx.Err() != nil || r.ctl.Halted() {
		return err
	}
	return r.stuck(ctx, err)
}

// stuck blocks a task that the repository keeps from going on. It is tried again from time to time.
func (r *run) stuck(ctx context.Context, why error) error {
	return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		return td.BlockOn(t, td.BlockedData{Cause: causeOf(why), Resource: t.Worktree.Repo}, at)
	})
}

// repoError is a step's failure that is the repository's, or the machine's, and not for the agent to mend: a full disk, a lock that somebody has.
type repoError struct{ err error }

func (e *repoError) Error() string { return e.err.Error() }
func (e *repoError) Unwrap() error { return e.err }

func (r *run) inFlight(key td.StepKey) bool {
	return slices.ContainsFunc(r.log.Task().InFlight, func(s td.StepRef) bool { return s.Key == key })
}

// setupLimit is how long the command may take that makes a worktree ready.
const setupLimit = 15 * time.Minute

// setUp runs the project's command in a worktree that was made and not set up since. It is the person's own and made for
// this, so one that a crash cut off is run again.
func (r *run) setUp(ctx context.Context, w td.Worktree) error {
	command, err := r.Worktrees.Setup(w)
	if err != nil || command == "" || r.log.Task().SetUp && !r.inFlight(td.SetupKey) {
		return err
	}
	task := r.log.Task()
	if why := r.barred(task, w.Path, command); why != "" {
		return td.Errorf(td.Refused, "the set-up command `%s` may not be run: %s", command, why)
	}
	attempt := 0
	for _, s := range task.InFlight {
		if s.Key == td.SetupKey {
			attempt = s.Attempt + 1
			if err := r.kill(ctx, tool.SpoolName(task.ID, td.SetupKey.Try(s.Attempt))); err != nil {
				return err
			}
			r.forget(td.SetupKey.Try(s.Attempt))
		}
	}
	out, err := r.log.Do(ctx, durable.Step{
		Intent: td.Intent{Key: td.SetupKey, Kind: td.PlaceStep, Name: command, Effect: td.Pure, Attempt: attempt},
		Run: func(ctx context.Context) (td.Outcome, error) {
			out, err := r.command(ctx, td.SetupKey.Try(attempt), command, w.Path, "", setupLimit, policy.Unconfined)
			fpSetUp.Hit()
			return out, err
		},
		Then: func() { r.clean(td.SetupKey, attempt) },
	})
	if err == nil && out.Tool.IsError {
		err = td.Errorf(td.Unavailable, "the set-up command `%s` of the worktree failed: %s", command, clip(out.Tool.Content, 2000)).
			WithHint("see worktree.setup in the settings, then taskdaemon resume %s", task.Handle)
	}
	return err
}

// command runs a command of taskdaemon's own on behalf of the task, in the sandbox and under the shim like any other.
func (r *run) command(ctx context.Context, key td.StepKey, shell, dir, room string, limit time.Duration, held policy.Confinement) (td.Outcome, error) {
	task := r.log.Task()
	p, err := r.Spool.Start(ctx, tool.SpoolName(task.ID, key), sandbox.Command{
		Shell: shell, Dir: dir, Timeout: limit, Task: task.ID, Run: task.Run, Step: key, Room: room, Profile: HeldTo(r.sandboxIn(dir), held),
	})
	if disk.Trouble(err) {
		return td.Outcome{}, err
	}
	if err != nil {
		return toolError(fmt.Sprintf("it could not be started: %v", err)), nil
	}
	lines, emit := redact.Stream{Redactor: r.Redact}, r.env(key, tool.Tool{}).Emit
	res, err := p.Wait(ctx, func(out []byte) { emit(lines.Write(out)) })
	emit(lines.Close())
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil:
		_ = p.Kill(context.WithoutCancel(ctx)) // it is run again
		return td.Outcome{}, cause
	case disk.Trouble(err):
		return td.Outcome{}, err
	case err != nil:
		return toolError(fmt.Sprintf("its result is lost: %v", err)), nil
	case res.Exit != 0:
		return toolError(fmt.Sprintf("exit %d\n%s", res.Exit, tool.Output(r.Redact, res))), nil
	}
	return td.Outcome{Tool: &td.ToolResult{Content: tool.Output(r.Redact, res), Exit: &res.Exit}}, nil
}

// catchUp brings the branch onto what the trunk has by now, unless a conflict with that was left to the agent or to the merge, or the agent has a
// merge open: then it waits. It does so once before each answer of the model, or whoever commits faster than a branch is rebased would keep the task from
// its work; the merge brings in what is newer. It reports whether it did anything.
func (r *run) catchUp(ctx context.Context) (bool, error) {
	task := r.log.Look()
	if task.Worktree == nil || task.Behind == "" && task.Resolving == nil {
		return false, nil
	}
	if task.Resolving != nil {
		settled, err := r.resolved(ctx, *task)
		if err != nil || !settled {
			return false, err
		}
		return true, r.log.Append(ctx, td.Settled(*task))
	}
	if merging, err := r.Worktrees.Merging(ctx, *task.Worktree); err != nil || merging {
		return false, err
	}
	turn := task.Turns + 1
	if r.caughtUp == turn {
		return false, nil
	}
	if err := r.rebase(ctx); err != nil {
		return true, err
	}
	if r.log.Look().Behind == "" {
		r.caughtUp = turn
	}
	return true, nil
}

// resolved reports whether a conflict is no more: the agent has brought in what conflicted, or the trunk has dropped it.
func (r *run) resolved(ctx context.Context, task td.Task) (bool, error) {
	left := task.Resolving
	if task.Behind != "" {
		follows, err := r.Worktrees.Follows(ctx, *task.Worktree, task.Behind, left.Onto)
		if err != nil || !follows {
			return err == nil, err
		}
	}
	if left.Later {
		return false, nil
	}
	return r.Worktrees.Holds(ctx, *task.Worktree, left.Onto)
}

// rebase brings the task's branch onto what the trunk has by now (K-3): what is not committed is committed first, so that
// nothing is lost. A conflict undoes it all, and the agent is told to resolve it, if that is wanted, or a person is asked.
func (r *run) rebase(ctx context.Context) error {
	task := r.log.Task()
	w, onto := *task.Worktree, task.Behind
	step, done := r.step(ctx)
	defer done()
	if err := r.snapped(step); err != nil {
		return err
	}
	var changed, conflicts []string
	out, err := r.keyed(step, td.Intent{Key: td.RebaseKey, Kind: td.RebaseStep, Name: onto}, func(ctx context.Context) (*td.ToolResult, error) {
		is, err := r.Worktrees.Rebased(ctx, w)
		if err != nil || !is {
			return nil, err
		}
		return &td.ToolResult{Content: onto}, nil
	}, func(ctx context.Context) (td.Outcome, error) {
		if _, err := r.Worktrees.Commit(ctx, w, td.InProgress+task.Title); err != nil {
			return gitFailed(ctx, err)
		}
		fpWIP.Hit()
		var err error
		if changed, conflicts, err = r.Worktrees.Rebase(ctx, w); err != nil {
			return gitFailed(ctx, err)
		}
		fpRebased.Hit()
		if len(conflicts) > 0 {
			return toolError("it conflicts in " + strings.Join(conflicts, ", ")), nil
		}
		return td.Outcome{Tool: &td.ToolResult{Content: onto}}, nil
	})
	if err != nil {
		return err
	}
	if len(conflicts) > 0 {
		if bodies := td.PassOn(r.log.Task(), conflicts); bodies != nil {
			fpClashed.Hit()
			return r.log.Append(ctx, bodies...)
		}
	}
	if len(conflicts) > 0 && r.Worktrees.Resolves(w) {
		fpClashed.Hit() // it is found again after a crash, and counts once
		if bodies := td.Resolve(r.log.Task(), conflicts); bodies != nil {
			return r.log.Append(ctx, bodies...)
		}
	}
	if out.Tool.IsError {
		return r.ask(ctx, td.Request{
			ID: td.NewRequestID(), Kind: td.AskQuestion, About: td.AboutRebase, Options: []string{td.RebaseAgent, td.RebaseRetry, td.RebaseSkip}, Files: conflicts,
			Prompt: fmt.Sprintf("%s has commits that the branch of this task cannot be brought onto: %s. Its worktree is as it was. "+
				"%s: the agent resolves it · %s: try again, after you have · %s: leave it for when the work is merged",
				w.Trunk, out.Tool.Content, td.RebaseAgent, td.RebaseRetry, td.RebaseSkip),
		})
	}
	r.snap(ctx, r.log.Transcript().StartKey(), true)
	if r.log.Transcript().Context == nil {
		return nil // no model has seen the files as they were
	}
	return r.log.Append(ctx, td.Said{By: "taskdaemon", Why: td.Rebased, Text: rebasedText(w, changed)})
}

// gitFailed makes a failure that trying again would not mend a result; with any other the task is stuck.
func gitFailed(ctx context.Context, err error) (td.Outcome, error) {
	switch {
	case ctx.Err() != nil:
		return td.Outcome{}, err
	case td.IsKind(err, td.Conflict), td.IsKind(err, td.Refused):
		return toolError(err.Error()), nil
	}
	return td.Outcome{}, &repoError{err}
}

// tellRemade tells the agent that its worktree was gone.
func (r *run) tellRemade(ctx context.Context) error {
	r.shots.remade = false
	return r.log.Append(ctx, td.Said{By: "taskdaemon", Why: td.Rebased, Text: remadeText})
}

const remadeText = "[taskdaemon] Your worktree was gone, and was made again: from what was kept when it was removed, else from your branch and what it held after " +
	"your last step. Look what is there before you go on; files that git ignores are not."

// mostNamed bounds the files that the model is told of.
const mostNamed = 50

func rebasedText(w td.Worktree, changed []string) string {
	text := fmt.Sprintf("[taskdaemon] %s has new commits. Your work so far was committed and rebased onto what it is now.", w.Trunk)
	if len(changed) == 0 {
		return text
	}
	list := strings.Join(changed[:min(len(changed), mostNamed)], "\n")
	if more := len(changed) - mostNamed; more > 0 {
		list += fmt.Sprintf("\n… and %d more", more)
	}
	return text + " These files are not what you have seen; read them again before you change them:\n" + list
}
