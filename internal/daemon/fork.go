package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/td"
)

// Fork adds a task that goes on from a step of another one. It works in a worktree of its own, on a branch that begins
// with what the step left. The worktree is made before the task is, under a name that follows from the key, so that the same
// call again finds both.
func (d *Daemon) Fork(ctx context.Context, ref string, in api.Fork) (td.Task, error) {
	if err := d.accepting(); err != nil {
		return td.Task{}, err
	}
	source, steps, _, err := d.stepsOf(ctx, ref)
	if err != nil {
		return td.Task{}, err
	}
	if _, err := d.whole(ctx, source); err != nil {
		return td.Task{}, fmt.Errorf("fork %s: %w", source.Handle, err)
	}
	s, err := stepMeant(source, steps, in.At)
	if err != nil {
		return td.Task{}, err
	}
	if len(in.Prompt) > maxPrompt {
		return td.Task{}, td.Errorf(td.Invalid, "the prompt has %d bytes; %d are allowed", len(in.Prompt), maxPrompt)
	}
	spec := forkSpec(source, in)
	spec.Fork = &td.ForkPoint{Task: source.ID, Step: s.Key, Seq: s.Seq}
	if spec.Dir, spec.Shares, err = placeFork(ctx, source, spec, s.Tree); err != nil {
		return td.Task{}, fmt.Errorf("fork %s: %w", source.Handle, err)
	}
	t, err := d.create(ctx, spec, cmp.Or(in.Key, string(spec.ID)))
	if err != nil {
		return td.Task{}, fmt.Errorf("fork %s: %w", source.Handle, err)
	}
	d.sched.Wake(ctx, t, false)
	return t, nil
}

// forkSpec is the task that goes on from another one: what that was allowed and asked for, but for what is said anew.
func forkSpec(source td.Task, in api.Fork) td.Spec {
	id := td.NewTaskID()
	if in.Key != "" {
		id = td.TaskIDFor(in.Key)
	}
	s := source.Spec
	return td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask,
		Title: oneLine("fork: "+s.Title, 80), Prompt: cmp.Or(strings.TrimSpace(in.Prompt), s.Prompt), Mode: s.Mode, Tier: s.Tier,
		Model: cmp.Or(in.Model, source.ModelOverride, s.Model), Validator: s.Validator, Yes: s.Yes, Priority: s.Priority,
		Labels: s.Labels, MaxTurns: s.MaxTurns, CreatedAt: time.Now().UTC().Round(0), CreatedBy: in.By,
		PermissionLimit: s.PermissionLimit, Budget: s.Budget, TokenBudget: s.TokenBudget, Permissions: cmp.Or(source.PermissionsOverride, s.Permissions),
		Inherited: slices.Concat(s.Inherited, source.Rules), Tainted: source.Untrusted, Tools: s.Tools, Rehearsal: s.Rehearsal,
	}
}

// placeFork makes the worktree of a fork, or finds it made, and says where in it the fork works, and where its top is.
func placeFork(ctx context.Context, source td.Task, spec td.Spec, at td.Snapshotted) (dir, tree string, err error) {
	top := knowledge.Top(source.Dir)
	if source.Worktree != nil { // it may be gone
		top = source.Worktree.Path
	}
	sub, err := filepath.Rel(top, source.Dir)
	if err != nil || !filepath.IsLocal(sub) {
		return "", "", td.Errorf(td.Invalid, "%s is not in %s", source.Dir, top)
	}
	trunk, err := git.TrunkOf(ctx, source.Home())
	if err != nil {
		return "", "", err
	}
	var onto []string
	if at.Base != "" {
		onto = append(onto, at.Base)
	}
	base, err := git.CommitTree(ctx, trunk.Root, at.Tree, fmt.Sprintf("What %s left at %s", source.Handle, at.Step), onto...)
	if err != nil {
		return "", "", err
	}
	w := forkTree(trunk.Root, spec.Handle, source.Title)
	return filepath.Join(w.Path, sub), w.Path, w.Make(ctx, base)
}

// forkTree is the worktree of a fork of a task with this title.
func forkTree(repo, handle, title string) git.Worktree {
	return git.Worktree{Repo: repo, Path: filepath.Join(repo, td.WorktreeFolder, handle), Branch: git.BranchName(handle, title)}
}
