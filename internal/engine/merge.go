package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

var (
	fpCommitted = failpoint.New("engine.merge.committed")
	fpMerged    = failpoint.New("engine.merge.merged")
	fpFollowed  = failpoint.New("engine.merge.followed")
	fpWithdrawn = failpoint.New("engine.merge.withdrawn")
)

// mergeResource is what a step has leased while it merges: one at a time for a trunk, in the order of their coming, whatever branch the work is
// merged into first.
func mergeResource(w td.Worktree) string { return td.MergeResource + w.Repo + ":" + w.Trunk }

// integrate brings the work of a task that has a worktree into the integration branch (T-7): committed on its own
// branch, merged when its turn in the queue comes, and the trunk after it. What stands in the way goes back to the agent.
func (r *run) integrate(ctx context.Context, n nomination, seen *td.Evidence) (*td.Evidence, bool, error) {
	task := r.log.Task()
	if task.Worktree == nil {
		return seen, true, nil
	}
	// What the agent left running could go on writing.
	if err := r.reapJobs(ctx, "the work is merged"); err != nil {
		return nil, false, err
	}
	if done, err := r.commitWork(ctx, n); err != nil || !done {
		return nil, false, err
	}
	if n.call.Commit.Outcome.Tool.Unchanged {
		return seen, true, nil
	}
	if agreed, err := r.mayMerge(ctx, n); err != nil || !agreed {
		return nil, false, err
	}
	merged, err := r.mergeWork(ctx, n)
	if err != nil || merged == nil {
		return nil, false, err
	}
	if done, err := r.follow(ctx, n); err != nil || !done {
		return nil, false, err
	}
	if seen == nil {
		seen = &td.Evidence{}
	}
	with := *seen
	with.Merged = merged
	return &with, true, nil
}

// commitWork commits what is in the worktree.
func (r *run) commitWork(ctx context.Context, n nomination) (bool, error) {
	task, key := r.log.Task(), n.call.Commit.Key
	if out := n.call.Commit.Outcome; out != nil && !out.Tool.IsError {
		return true, nil
	}
	w := *task.Worktree
	step, done := r.step(ctx)
	defer done()
	out, err := r.keyed(step, td.Intent{Key: key, Kind: td.CommitStep, Name: w.Branch},
		func(context.Context) (*td.ToolResult, error) { return nil, nil }, //nolint:nilnil // a second look makes no second commit
		func(ctx context.Context) (td.Outcome, error) {
			commit, err := r.Worktrees.Commit(ctx, w, workMessage(task, n.text))
			if err != nil {
				return gitFailed(ctx, err)
			}
			fpCommitted.Hit()
			had, err := r.Worktrees.In(ctx, w, commit)
			if err == nil && had {
				err = r.Worktrees.Kept(ctx, w, commit)
			}
			if err != nil {
				return gitFailed(ctx, err)
			}
			return td.Outcome{Tool: &td.ToolResult{Content: commit, Unchanged: had}}, nil
		})
	if err != nil {
		return false, err
	}
	if out.Tool.IsError {
		return false, r.reject(ctx, n, "Not accepted: the work cannot be merged: "+out.Tool.Content)
	}
	return true, nil
}

func workMessage(t td.Task, summary string) string {
	return fmt.Sprintf("%s\n\n%s\n\n%s: %s\n", t.Title, summary, merge.Trailer, t.Handle)
}

// mostQuestions bounds how many questions are named in another one.
const mostQuestions = 5

// mayMerge reports whether the work may be merged. What was finished after questions that nobody answered in time may lack what they were
// about, a test that was not run for one: a person is told which, and decides (L-10).
func (r *run) mayMerge(ctx context.Context, n nomination) (bool, error) {
	open, m := r.log.Transcript().Unanswered, n.call.Merge
	if len(open) == 0 || m.Intent != nil {
		return true, nil
	}
	if a := m.Asked; a.Settled() { // a yes leaves none unanswered
		why := "Not accepted: the person does not want the work merged without what nobody answered in time. See to it, or ask again."
		if a.Answer != nil && a.Answer.Words != "" {
			why += " They said: " + a.Answer.Words
		}
		return false, r.reject(ctx, n, why)
	}
	if m.Asked != nil && r.isOpen(m.Asked) {
		return false, r.askAgain(ctx, m.Asked)
	}
	var named []string
	for _, q := range open[max(0, len(open)-mostQuestions):] {
		named = append(named, q.Handle()+" "+q.Prompt)
	}
	if more := len(open) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d before", more))
	}
	w := *r.log.Task().Worktree
	return false, r.ask(ctx, td.Request{
		ID: td.NewRequestID(), Kind: td.AskQuestion, About: td.AboutMerge, Step: m.Key, Options: []string{td.Yes, td.No},
		Prompt: fmt.Sprintf("The work was finished after questions that nobody answered in time. Merge it into %s? %s: as it is · %s: it goes back to the agent, with your words",
			w.Into, td.Yes, td.No),
		Detail: strings.Join(named, "\n"),
	})
}

// mergeWork merges the work when nobody else merges into the same branch. nil: it is not merged, and what is to come of
// that is recorded.
func (r *run) mergeWork(ctx context.Context, n nomination) (*td.Merged, error) {
	m := &n.call.Merge
	if m.Outcome == nil {
		if err := r.runMerge(ctx, n); err != nil {
			return nil, err
		}
		if m.Outcome == nil || r.log.Task().Status.State != td.Running {
			return nil, nil //nolint:nilnil // it waits for its turn
		}
		if err := r.released(ctx); err != nil {
			return nil, err
		}
	}
	if m.Outcome.Tool.IsError {
		return nil, r.reject(ctx, n, "Not accepted: "+m.Outcome.Tool.Content)
	}
	var merged td.Merged
	if err := json.Unmarshal([]byte(m.Outcome.Tool.Content), &merged); err != nil {
		return nil, td.Errorf(td.Corrupt, "read what was merged: %w", err)
	}
	return &merged, nil
}

func (r *run) runMerge(ctx context.Context, n nomination) error {
	task, key := r.log.Task(), n.call.Merge.Key
	w := *task.Worktree
	wants := []td.Want{{Resource: mergeResource(w)}}
	own := r.workOf(task)
	step, done := r.step(ctx)
	defer done()
	checks, stale := 0, ""
	attempt := r.attempt(key, n.call.Merge.Intent)
	_, err := r.keyed(step, td.Intent{Key: key, Kind: td.MergeStep, Name: w.Into, Wants: wants}, func(ctx context.Context) (*td.ToolResult, error) {
		merged, err := r.Worktrees.Merged(ctx, w, own.Commit)
		if err != nil || merged == nil {
			return nil, err
		}
		out, err := mergedOutcome(*merged)
		return out.Tool, err
	}, r.leased(key, wants, func(ctx context.Context) (td.Outcome, error) {
		beside, err := r.waiting(ctx, task)
		if err != nil {
			return td.Outcome{}, err
		}
		res, err := r.Worktrees.Merge(ctx, w, own, beside, func(ctx context.Context, commit string, of []merge.Work) (string, error) {
			checks++
			return r.checkMerged(ctx, w, commit, key.Try(attempt), checks, of)
		})
		if err != nil {
			return gitFailed(ctx, err)
		}
		fpMerged.Hit()
		switch {
		case res.Stale != "":
			stale = res.Stale
			return toolError(fmt.Sprintf("%s was rewritten, and your work stands on commits that it has no more. It is brought onto what %s is now: look whether it is still right, and call Complete again.", w.Trunk, w.Trunk)), nil
		case len(res.Conflicts) > 0:
			return toolError(conflictText(w, res)), nil
		case len(res.Reserved) > 0:
			return toolError(barredText(w, task.Dir, res.Reserved)), nil
		case res.Failed != "":
			return toolError(fmt.Sprintf("merged into %s, the work does not pass in a fresh checkout. Files that git ignores are missing there, and so is what you have put into caches and the temp folder; what the validator needs of that has to come from worktree.setup, which is the person's to set. Run `git merge %s` in your worktree, see what is wrong, put it right and call Complete again.\n%s",
				w.Into, w.Into, res.Failed)), nil
		}
		return mergedOutcome(res.Merged)
	}))
	if by, is := errors.AsType[*td.BusyError](err); is {
		_, err := r.busy(ctx, key, wants, by)
		return err
	}
	if err == nil && stale != "" {
		return r.log.Append(ctx, td.FellBehind{Commit: stale, By: td.ByTaskdaemon, Resolved: true})
	}
	return err
}

// attempt is which try of a step this is.
func (r *run) attempt(key td.StepKey, last *td.Intent) int {
	switch {
	case last == nil:
		return 0
	case r.inFlight(key):
		return last.Attempt + 1
	default:
		return last.Attempt
	}
}

func mergedOutcome(m td.Merged) (td.Outcome, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return td.Outcome{}, fmt.Errorf("encode what was merged: %w", err)
	}
	return td.Outcome{Tool: &td.ToolResult{Content: string(raw)}}, nil
}

func conflictText(w td.Worktree, res merge.Result) string {
	merges := "`git merge " + w.Into + "`"
	if res.Trunk {
		merges += ", then `git merge " + w.Trunk + "`,"
	}
	return fmt.Sprintf("the work conflicts with %s, in these files:\n%s\nRun %s in your worktree, resolve the conflicts there, `git add` and `git commit` them, and call Complete again.",
		res.With, strings.Join(res.Conflicts, "\n"), merges)
}

func (r *run) workOf(t td.Task) merge.Work {
	p, err := r.policy(t, t.Dir)
	refuses := func(file string) string {
		if err != nil {
			return err.Error() // what cannot be read may refuse anything
		}
		if d, is := p.Refuses(t.Worktree.Path, file); is {
			return d.Rule
		}
		return ""
	}
	return merge.Work{Task: t.ID, Handle: t.Handle, Title: t.Title, Commit: t.Offered, Check: t.Validator, Refuses: refuses}
}

// waiting is the work of the tasks that stand in the queue behind this one, in the order of their coming.
func (r *run) waiting(ctx context.Context, own td.Task) ([]merge.Work, error) {
	blocked, err := r.Journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Blocked}, Brief: true})
	if err != nil {
		return nil, fmt.Errorf("look who waits to be merged: %w", err)
	}
	resource := mergeResource(*own.Worktree)
	var found []td.Task
	for _, t := range blocked {
		if t.ID != own.ID && t.Place != nil && t.Offered != "" && t.Worktree.Into == own.Worktree.Into && slices.ContainsFunc(t.Place.Wants, func(w td.Want) bool { return w.Resource == resource }) {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b td.Task) int { return a.Place.Since.Compare(b.Place.Since) })
	var works []merge.Work
	for _, t := range found {
		works = append(works, r.workOf(t))
	}
	return works, nil
}

// checkMerged runs validators on a throw-away checkout of a commit that would be merged, and says what is wrong.
func (r *run) checkMerged(ctx context.Context, w td.Worktree, commit string, key td.StepKey, nth int, of []merge.Work) (said string, err error) {
	name := tool.SpoolName(r.log.Task().ID, key)
	if err := r.Checkouts.Remove(name); err != nil { // of another commit
		return "", err
	}
	leave := r.Spool.Room(name) // nor does it find what the agent has put into caches
	dir, err := r.Worktrees.Checkout(ctx, w, commit, name)
	defer func() {
		if rerr := errors.Join(r.Checkouts.Remove(name), leave()); rerr != nil {
			r.Log.Warn("remove checkout", "name", name, "err", rerr) // it is swept later
		}
	}()
	if err != nil {
		return "", fmt.Errorf("make a checkout of what would be merged: %w", err)
	}
	setup, err := r.Worktrees.Setup(w)
	if err != nil {
		return "", err
	}
	type check struct {
		merge.Work
		held policy.Confinement
	}
	var checks []check
	if setup != "" {
		checks = append(checks, check{merge.Work{Check: setup}, policy.Unconfined})
	}
	for _, work := range of {
		held := policy.HeldToWorkspace // who may run the validator of another task freely is that task's to know
		if task := r.log.Task(); work.Task == task.ID {
			held = r.validatorHeld(task)
		}
		checks = append(checks, check{work, held})
	}
	rewriting := merge.Rewriting{Altered: r.Worktrees.Altered}
	for i, c := range checks {
		command := c.Check
		if why := r.barred(r.log.Task(), dir, command); why != "" {
			return fmt.Sprintf("`%s` may not be run: %s", command, why), nil
		}
		step := td.StepKey(fmt.Sprintf("%s.c%d.%d", key, nth, i))
		out, err := r.command(ctx, step, command, dir, name, validatorLimit, c.held)
		r.forget(step) // also if it was stopped: it is begun anew under another name
		if err != nil {
			return "", err
		}
		if out.Tool.IsError {
			return fmt.Sprintf("`%s` did not pass:\n%s", command, out.Tool.Content), nil
		}
		if said, err := rewriting.Said(ctx, c.Work, dir, commit); err != nil || said != "" {
			return said, err
		}
	}
	return "", nil
}

// follow lets the trunk follow. Why it does not is a word to the person, and no failure: the work is in.
func (r *run) follow(ctx context.Context, n nomination) (bool, error) {
	w, key := *r.log.Task().Worktree, n.call.Follow.Key
	if n.call.Follow.Outcome != nil {
		return true, nil
	}
	may, waits, err := r.mayFollow(ctx, w, n.call.Follow)
	if err != nil || waits {
		return false, err
	}
	wants := []td.Want{{Resource: mergeResource(w)}} // who merges meanwhile would find the trunk's checkout half-moved
	step, done := r.step(ctx)
	defer done()
	checks, attempt := 0, r.attempt(key, n.call.Follow.Intent)
	_, err = r.keyed(step, td.Intent{Key: key, Kind: td.FollowStep, Name: w.Trunk, Wants: wants},
		func(context.Context) (*td.ToolResult, error) { return nil, nil }, //nolint:nilnil // a trunk that has followed follows no further
		r.leased(key, wants, func(ctx context.Context) (td.Outcome, error) {
			if !may {
				return td.Outcome{Tool: &td.ToolResult{Content: fmt.Sprintf("%s not updated, as you answered; to merge: %s", w.Trunk, r.Worktrees.ByHand(ctx, w, "--ff-only"))}}, nil
			}
			in, err := r.Worktrees.Follow(ctx, w, r.workOf(r.log.Task()), func(ctx context.Context, commit string, of []merge.Work) (string, error) {
				checks++
				return r.checkMerged(ctx, w, commit, key.Try(attempt), checks, of)
			})
			if err != nil {
				return gitFailed(ctx, err)
			}
			fpFollowed.Hit()
			if in.Reason != "" {
				return td.Outcome{Tool: &td.ToolResult{Content: fmt.Sprintf("%s not updated: %s", w.Trunk, in.Line())}}, nil
			}
			return td.Outcome{Tool: &td.ToolResult{Content: w.Trunk + " updated"}}, nil
		}))
	if by, is := errors.AsType[*td.BusyError](err); is {
		_, err := r.busy(ctx, key, wants, by)
		return false, err
	}
	if err != nil {
		return false, err
	}
	return true, r.released(ctx)
}

// mayFollow reports whether the trunk may follow, and whether a person has yet to say so. They are asked once.
func (r *run) mayFollow(ctx context.Context, w td.Worktree, follow transcript.Check) (may, waits bool, err error) {
	wanted, lacks, err := r.Worktrees.Asks(ctx, w)
	if err != nil || !wanted && lacks == "" {
		return err == nil, false, err
	}
	if a := follow.Asked; a.Settled() {
		if a.Answer == nil || a.Answer.Choice != td.Yes && a.Answer.Choice != td.Always {
			return false, false, nil
		}
		return true, false, r.keepRules(ctx, a, policy.Allow)
	}
	how := td.Words("--ff-only")
	if lacks != "" {
		how = "--no-ff" // a merge commit of theirs is signed and passes their hooks
	}
	req := td.Request{
		ID: td.NewRequestID(), Kind: td.AskQuestion, About: td.AboutTrunk, Step: follow.Key, Options: []string{td.Yes, td.No},
		Prompt: fmt.Sprintf("The work is on %s. Move %s to it? %s: %s is moved, as soon as your folder is clean · %s: merge it yourself with %s",
			w.Into, w.Trunk, td.Yes, w.Trunk, td.No, r.Worktrees.ByHand(ctx, w, how)),
	}
	if lacks != "" {
		req.Detail = fmt.Sprintf("The commits %s: taskdaemon runs no program of yours on its own commits.", lacks)
	}
	if !wanted {
		d, err := r.decideTrunk()
		if err != nil || d.Verdict != policy.Ask {
			return d.Verdict == policy.Allow, false, err
		}
		req.Kind, req.Tool, req.Options = td.AskPermission, policy.Trunk, []string{td.Yes, td.No, td.Always}
		req.Offers = []td.Offer{{Rules: []string{policy.Trunk}, Words: "branches of yours to follow without hooks and signatures"}}
	}
	return false, true, r.ask(ctx, req)
}

// decideTrunk says what the rules say of a branch that follows without what the person's own commits go through.
func (r *run) decideTrunk() (policy.Decision, error) {
	p, err := r.policy(r.log.Task(), r.root.Dir())
	if err != nil {
		return policy.Decision{}, err
	}
	return p.Decide(policy.Action{Tool: policy.Trunk, Mode: policy.ModeAsk}), nil
}

// withdraw takes back what the task offered to be merged, because it is to be cancelled, so that no other takes it along. If that is too
// late the command says so, or it is refused. A repository that cannot be asked keeps nobody from cancelling: nothing is merged there either.
func (r *run) withdraw(ctx context.Context, c td.Command) (_ td.Command, refused, err error) {
	task := r.log.Task()
	if task.Worktree == nil || task.Offered == "" {
		return c, nil, nil
	}
	merged, err := r.Worktrees.Withdraw(ctx, *task.Worktree, task.Offered)
	fpWithdrawn.Hit()
	switch {
	case ctx.Err() != nil:
		return c, nil, context.Cause(ctx)
	case err != nil:
		r.Log.Warn("take back what was offered", "task", task.Handle, "err", err)
		return c, nil, nil
	case merged == nil:
		return c, nil, nil
	}
	c, refused = td.CancelMerged(task, c)
	return c, refused, nil
}
