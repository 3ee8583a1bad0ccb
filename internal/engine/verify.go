package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/fence"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

var (
	fpVerifierNamed   = failpoint.New("engine.verify.named")
	fpVerifierPlaced  = failpoint.New("engine.verify.placed")
	fpVerifierSpawned = failpoint.New("engine.verify.spawned")
	fpVerifierEnded   = failpoint.New("engine.verify.ended")
	fpVerifierCleared = failpoint.New("engine.verify.cleared")
)

// Checkouts makes and removes throw-away checkouts of workspaces, by name.
type Checkouts interface {
	// Make makes a checkout of exactly tree, which dir must hold, or finds the one that was made, and says where it is.
	// Conflict when dir holds another tree by now, NotFound when it is not under git.
	Make(ctx context.Context, dir, tree, name string) (string, error)
	// Remove removes it, or what there is of it.
	Remove(name string) error
}

// verifying are the tools of an agent that finds out whether work is done.
var verifying = []string{"Read", "Glob", "Grep", "Bash", "BashOutput", "BashKill", "Write", "Edit", "Complete", "Fail"}

// mostTrees is how many trees of one nomination are verified: one that changes under the verifier's hands makes its
// verdict void.
const mostTrees = 3

// verify has another agent find out whether the work is done, where the task's order wants that. It looks at a
// throw-away checkout of exactly what the workspace holds; meanwhile the task rests without holding anything. The
// verdict counts as long as the workspace holds that very tree. seen is what the validator saw.
func (r *run) verify(ctx context.Context, n nomination, seen *td.Evidence) (*td.Evidence, bool, error) {
	t, c, v := r.log.Task(), n.call, n.call.Verification
	if !verifies(t) {
		return seen, true, nil
	}
	// What the agent left running could go on writing.
	if err := r.reapJobs(ctx, "the work is verified"); err != nil {
		return nil, false, err
	}
	switch {
	case v.Intent == nil:
		return nil, false, r.nameVerifier(ctx, c, seen, 0)
	case v.Outcome == nil:
		return nil, false, r.sendVerifier(ctx, c, cmp.Or(n.text, unsaid), seen)
	case v.Outcome.Tool.IsError:
		return nil, false, r.unverified(ctx, v.Outcome.Tool.Content)
	}
	var found td.Evidence
	if err := json.Unmarshal([]byte(v.Outcome.Tool.Content), &found); err != nil {
		return nil, false, td.Errorf(td.Corrupt, "read the verifier's evidence: %w", err)
	}
	tree, err := r.Tree(ctx, t.Dir)
	if err != nil {
		return nil, false, fmt.Errorf("hash the verified workspace: %w", err)
	}
	if tree != found.Tree {
		return nil, false, r.nameVerifier(ctx, c, seen, v.Intent.Attempt+1)
	}
	if seen != nil {
		found.Command, found.Exit, found.Left = seen.Command, seen.Exit, seen.Left
	}
	return &found, true, nil
}

// verifies reports whether another agent must find the task's work done.
func verifies(t td.Task) bool { return t.Ordered != nil && t.Ordered.Verify }

// nameVerifier records who will look at which tree, before either is there: after a crash it is the same verifier in
// the same checkout.
func (r *run) nameVerifier(ctx context.Context, c *transcript.Call, seen *td.Evidence, attempt int) error {
	t := r.log.Task()
	tree, err := r.Tree(ctx, t.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("hash workspace: %w", err)
	case tree == "":
		return r.unverified(ctx, fmt.Sprintf("The work cannot be verified: %s is not under git, so nobody can say what was looked at.", t.Dir))
	case attempt >= mostTrees:
		return r.unverified(ctx, "The files of the workspace changed each time while they were verified, so no verdict holds for them. Something still writes there.")
	case seen != nil && seen.Tree != tree && seen.Left != tree:
		return r.validateAgain(ctx, c)
	}
	evidence, err := json.Marshal(td.Verification{Task: td.NewTaskID(), Tree: tree})
	if err != nil {
		return fmt.Errorf("name the verifier: %w", err)
	}
	err = r.log.Append(ctx, td.StepIntended{Intent: td.Intent{
		Key: c.Verification.Key, Kind: td.VerifyStep, Name: "verifier", Effect: td.Keyed, Attempt: attempt, Evidence: evidence,
	}})
	fpVerifierNamed.Hit()
	return err
}

// validateAgain runs the validator on what the workspace holds by now: what it found holds for another tree.
func (r *run) validateAgain(ctx context.Context, c *transcript.Call) error {
	last := c.Validation.Intent.Attempt
	if last+1 >= mostTrees {
		return r.unverified(ctx, "The files of the workspace changed each time after the validator had passed, so its verdict does not hold for them. Something still writes there.")
	}
	// Else the result that is there would be taken for the new one.
	r.cleaning.Wait()
	r.forget(c.Validation.Key.Try(last))
	return r.runValidator(ctx, c.Validation, false)
}

// sendVerifier brings the verifier on its way, waits for it, and records what it found.
func (r *run) sendVerifier(ctx context.Context, c *transcript.Call, claim string, seen *td.Evidence) error {
	t, in := r.log.Task(), *c.Verification.Intent
	var named td.Verification
	if err := json.Unmarshal(in.Evidence, &named); err != nil || named.Task == "" {
		return r.unverified(ctx, "The record of the verifier cannot be read: "+clip(string(in.Evidence), 100))
	}
	name := tool.SpoolName(t.ID, in.Key.Try(in.Attempt))
	sent, err := r.Journal.Task(ctx, named.Task)
	if td.IsKind(err, td.NotFound) {
		step, done := r.step(ctx)
		dir, err := r.Checkouts.Make(step, t.Dir, named.Tree, name)
		done()
		fpVerifierPlaced.Hit()
		switch kind := td.KindOf(err); {
		case err == nil:
		case kind == td.Conflict:
			return r.nameVerifier(ctx, c, seen, in.Attempt+1)
		case slices.Contains([]td.Kind{td.Interrupted, td.Storage, td.Locked, td.Unknown}, kind):
			return fmt.Errorf("make a checkout for the verifier: %w", err)
		default:
			return r.verdict(ctx, in.Key, name, toolError(fmt.Sprintf("The work cannot be verified: there is no checkout of it: %v", err)))
		}
		spec, err := r.verifierSpec(ctx, t, claim, named.Task, dir)
		if err != nil {
			return r.verdict(ctx, in.Key, name, toolError(fmt.Sprintf("The work cannot be verified: %v", err)))
		}
		if sent, err = r.Spawn(ctx, spec); err != nil {
			return fmt.Errorf("create the verifier: %w", err)
		}
		fpVerifierSpawned.Hit()
	} else if err != nil {
		return err
	}
	if !sent.Status.State.Terminal() {
		return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
			return td.BlockOn(t, td.BlockedData{Cause: "waits for its verifier " + sent.Handle, Resource: sent.Handle, Child: sent.ID}, at)
		})
	}
	out, err := verdictOf(sent, named.Tree)
	if err != nil {
		return err
	}
	return r.verdict(ctx, in.Key, name, out)
}

// verdict records what came of a verification; its checkout is not needed any more.
func (r *run) verdict(ctx context.Context, key td.StepKey, name string, out td.Outcome) error {
	out.Key, out.Via = key, td.Ran
	if err := r.log.Append(ctx, td.StepEnded{Outcome: out}); err != nil {
		return err
	}
	fpVerifierEnded.Hit()
	r.cleaning.Go(func() {
		if err := r.Checkouts.Remove(name); err != nil {
			r.Log.Warn("remove checkout", "name", name, "err", err) // it is swept later
		}
		fpVerifierCleared.Hit()
	})
	return nil
}

// maxVerdict bounds the verifier's words that are kept as evidence, in characters.
const maxVerdict = 2000

// verdictOf is what a verifier that has ended means for the work: only one that completed its task lets it pass.
func verdictOf(sent td.Task, tree string) (td.Outcome, error) {
	res := childResult(sent)
	out := td.Outcome{Tool: &td.ToolResult{Child: res.Child, Untrusted: res.Untrusted}}
	if sent.Status.Completed == nil {
		out.Tool.IsError, out.Tool.Content = true, res.Content
		if f := sent.Status.Failed; f != nil {
			out.Tool.Content = f.Error // its verdict, in its words
		}
		return out, nil
	}
	raw, err := json.Marshal(td.Evidence{
		Tree: tree, Verdict: clip(sent.Status.Completed.Summary, maxVerdict), Verifier: sent.ID, Cost: sent.TreeSpent().Cost,
	})
	if err != nil {
		return td.Outcome{}, fmt.Errorf("encode the verifier's evidence: %w", err)
	}
	out.Tool.Content = string(raw)
	return out, nil
}

// unverified ends the iteration: the work is not what was asked for, or nobody can say so.
func (r *run) unverified(ctx context.Context, why string) error {
	return r.startOver(ctx, td.EndedUnverified, why)
}

// verifierSpec is what the verifier is asked for. It gets the model of the iteration it looks at, and may do what the
// task may, but not where the task works.
func (r *run) verifierSpec(ctx context.Context, t td.Task, claim string, id td.TaskID, dir string) (td.Spec, error) {
	top := knowledge.Top(t.Dir)
	local, err := r.Guard.Local(t.Dir)
	if err != nil {
		return td.Spec{}, err
	}
	return td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask, Mode: td.Autonomous,
		Parent: t.ID, Root: t.Tree(), Budget: t.Budget, TokenBudget: t.TokenBudget, Depth: t.Depth + 1, Dir: dir, Source: t.Home(), Priority: t.Priority, Yes: t.Yes,
		PermissionLimit: t.PermissionLimit, Permissions: cmp.Or(t.PermissionsOverride, t.Permissions),
		Inherited: append(slices.Concat(t.Inherited, t.Rules, local), keepOut(top)), Tainted: t.Untrusted, Rehearsal: t.Rehearsal, CreatedBy: "task " + t.Handle,
		Title: clip("verify: "+t.Title, 80), Prompt: r.verifierPrompt(ctx, t, claim, top),
		Tier: tierOf(t), Model: cmp.Or(t.ModelOverride, t.Spec.Model), Tools: verifying,
		CreatedAt: r.log.Now(),
	}, nil
}

// keepOut is the rule that keeps a verifier from changing what it verifies, whatever else it may.
func keepOut(top string) td.KeptRule {
	literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`).Replace(top)
	return td.KeptRule{
		Verdict: string(policy.Deny), Match: "Write(" + literal + "/**)",
		Why: "A verifier changes nothing but its own checkout.",
	}
}

func (r *run) verifierPrompt(ctx context.Context, t td.Task, claim, top string) string {
	b, known := prose{}, r.plannedOf(ctx, t) // the tasks before it are not what is verified
	known.Blockers = nil
	b.WriteString(verifierText)
	if sub, err := filepath.Rel(top, t.Dir); err == nil && sub != "." {
		fmt.Fprintf(&b, "\nThe agent worked in the folder %s of it.\n", sub)
	}
	if t.Validator != "" {
		fmt.Fprintf(&b, "\nThe validator of the task has passed: %s\n", t.Validator)
	}
	b.WriteString("\n")
	r.addPlanned(known, &b)
	b.WriteString("# The task\n\n")
	if !strings.HasPrefix(t.Prompt, t.Title) {
		b.WriteString(t.Title + "\n\n")
	}
	b.WriteString(t.Prompt + "\n")
	fmt.Fprintf(&b, "\n# What the agent claims\n\n%s\n", fence.Text("What the agent says of its work", fence.Visible(claim)))
	return b.String()
}

const verifierText = `You are the verifier: another agent says that the task below is done. Find out whether it is.

You are in a throw-away checkout of exactly what it left. Look at the code, build it, run its tests, try it out. You may
write here, but nothing that you write counts or is kept, so repair nothing. Files that git ignores are not here: fetch
or build what you need. The newest commit holds the workspace as it stands; "git show" shows what was not committed.

Believe what you see and not what is claimed. If the task is done as it was asked for, call Complete, and say in the
summary what you checked and what you saw. If it is not, call Fail, and say in the reason what is wrong or missing, so
that it can be put right. If you cannot call these, end with <verify-pass/> or <verify-fail>the reason</verify-fail>.
`
