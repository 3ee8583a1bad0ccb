package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// worktreeScenarios are tasks that work in a worktree and have their work merged.
var worktreeScenarios = []scenario{
	{
		name: "worktree", git: true, worktree: true, yes: true, valid: "test -f made.txt", config: "worktree: {setup: \"echo set-up > ready.tmp\"}\n",
		points: []string{
			"engine.place.made", "engine.place.set_up", "engine.merge.committed", "engine.merge.merged", "engine.merge.followed",
			"merge.branch.before_move", "merge.branch.moved", "engine.finish.before_end",
			"git.worktree.before_branch", "git.worktree.before_link", "git.worktree.before_files", "git.worktree.before_rename", "git.worktree.after_rename", "git.worktree.made",
			"git.worktree.before_commit_index", "git.worktree.before_commit_ref", "git.worktree.after_commit_ref",
		}, again: true, script: `
turns:
  - tools:
      - {name: Bash, input: {command: "test -f ready.tmp && echo once >> COUNTER"}}
      - {name: Write, input: {path: made.txt, content: "in a worktree\n"}}
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		// What the validator writes is put back, whether it passes or not. Whether the model is told so depends on the moment of the kill.
		name: "validator that writes", git: true, worktree: true, yes: true, cut: true, valid: "echo report >> report.txt; test -f made.txt", points: []string{"engine.finish.unwritten"}, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo once >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: made}}]
  - tools: [{name: Write, input: {path: made.txt, content: "in a worktree\n"}}]
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		// The person's commits pass a hook: they are asked before their branch follows without, and say always.
		name: "trunk with a hook", git: true, worktree: true, submit: submitHooked, person: alwaysInProject, points: []string{
			"engine.ask.before", "engine.ask.asked", "engine.rules.recorded", "engine.rules.kept", "engine.merge.followed",
		}, script: `
turns:
  - tools:
      - {name: Bash, input: {command: "echo once >> COUNTER"}}
      - {name: Write, input: {path: made.txt, content: "in a worktree\n"}}
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		// What the model is told of the rebase depends on the moment of the kill. That the trunk was noticed shows in seen/main.
		name: "rebase", git: true, worktree: true, yes: true, cut: true, person: commitToTrunk, points: []string{
			"daemon.trunk.before_tell", "daemon.trunk.told", "engine.rebase.committed", "engine.rebase.rebased",
			"git.worktree.meant_to_advance", "git.worktree.advanced_files", "git.worktree.advanced_branch", "git.worktree.advanced",
		}, script: `
turns:
  - tools:
      - {name: Write, input: {path: made.txt, content: "in a worktree\n"}}
      - {name: Bash, input: {command: "echo once >> COUNTER; until git log --format=%s main | grep -q by-hand && test $(git rev-parse main) = $(git rev-parse -q --verify refs/taskdaemon/seen/main); do sleep 0.05; done"}}
  - tools: [{name: Bash, input: {command: "test -f by-hand.txt && echo rebased >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		name: "resolve", git: true, worktree: true, yes: true, cut: true, person: clashWithTrunk, config: "worktree: {conflicts: agent}\n",
		points: []string{"engine.rebase.before_resolve"}, script: `
turns:
  - tools:
      - {name: Write, input: {path: by-hand.txt, content: "by an agent\n"}}
      - {name: Bash, input: {command: "echo once >> COUNTER; until git log --format=%s main | grep -q by-hand && test $(git rev-parse main) = $(git rev-parse -q --verify refs/taskdaemon/seen/main); do sleep 0.05; done"}}
  - tools: [{name: Bash, input: {command: "git merge -q main; echo both > by-hand.txt; git add by-hand.txt; git commit -qm both && echo resolved >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		// What is merged already makes another tree of the work, so that it is checked again; meanwhile it is cancelled.
		name: "withdrawn", git: true, worktree: true, yes: true, person: cancelWhileMerging, points: []string{"engine.merge.withdrawn"},
		valid: "test ! -e merged.txt || { echo checking >> COUNTER; sleep 60; }", script: `
turns:
  - tools:
      - {name: Write, input: {path: made.txt, content: "in a worktree\n"}}
      - {name: Bash, input: {command: "echo once >> COUNTER; until git rev-parse -q --verify taskdaemon/into/main; do sleep 0.05; done >/dev/null"}}
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		name: "landing", git: true, worktree: true, yes: true, valid: "test -f made.txt", person: commitAfterwards, points: []string{
			"daemon.landing.checking", "daemon.landing.intended", "daemon.landing.before_record", "merge.branch.before_move", "merge.branch.moved",
			"git.worktree.meant_to_advance", "git.worktree.advanced_files", "git.worktree.advanced_branch", "git.worktree.advanced",
		}, script: `
turns:
  - tools: [{name: Write, input: {path: made.txt, content: "in a worktree\n"}}]
  - tools: [{name: Bash, input: {command: "echo once >> COUNTER; for i in $(seq 200); do grep -q changed COUNTER && break; sleep 0.05; done"}}]
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		name: "replant", git: true, worktree: true, yes: true, valid: "test -f made.txt", person: amendAfterwards, points: []string{
			"worktree.replant.kept", "worktree.replant.moved", "daemon.landing.intended", "merge.branch.before_move", "merge.branch.moved",
		}, script: `
turns:
  - tools: [{name: Write, input: {path: made.txt, content: "in a worktree\n"}}]
  - tools: [{name: Bash, input: {command: "echo once >> COUNTER; for i in $(seq 200); do grep -q changed COUNTER && break; sleep 0.05; done"}}]
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
	{
		name: "removal", git: true, worktree: true, yes: true, person: leaveSomething, points: []string{
			"git.worktree.before_kept", "git.worktree.kept", "git.worktree.before_away", "git.worktree.before_forget",
			"git.worktree.before_unbranch", "git.worktree.before_remove", "git.worktree.removed",
			"daemon.removal.intended", "daemon.removal.before_record",
		}, script: `
turns:
  - tools: [{name: Write, input: {path: made.txt, content: "in a worktree\n"}}]
  - tools: [{name: Bash, input: {command: "echo once >> COUNTER; for i in $(seq 200); do grep -q opened COUNTER && break; sleep 0.05; done"}}]
  - tools: [{name: Complete, input: {summary: made}}]
`,
	},
}

// inUse are the worktrees that a person has open, by their path.
var inUse sync.Map

// leaveSomething is a person who uses the worktree until they have put something into it, when its task has completed.
func leaveSomething(_ context.Context, p *person, t td.Task) error {
	switch {
	case !p.done["opened"] && strings.Contains(p.marks(), "once"):
		p.done["opened"] = true
		f, err := os.Open(t.Worktree.Path)
		if err != nil {
			return err
		}
		inUse.Store(t.Worktree.Path, f)
		return os.WriteFile(p.counter, []byte(p.marks()+"opened\n"), 0o600)
	case t.Status.State == td.Completed && !p.done["left"]:
		p.done["left"] = true
		if err := os.WriteFile(filepath.Join(t.Worktree.Path, "left.txt"), []byte("left behind\n"), 0o644); err != nil {
			return err
		}
		f, _ := inUse.LoadAndDelete(t.Worktree.Path)
		return f.(*os.File).Close()
	}
	return nil
}

// commitAfterwards is a person who has changes in their checkout while the task ends, and commits them afterwards: main cannot be updated until then, and has a commit of its own.
func commitAfterwards(_ context.Context, p *person, t td.Task) error {
	dir := t.Worktree.Repo
	switch {
	case !p.done["changed"] && strings.Contains(p.marks(), "once"):
		p.done["changed"] = true
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("by hand\n"), 0o644); err != nil {
			return err
		}
		return os.WriteFile(p.counter, []byte(p.marks()+"changed\n"), 0o600)
	case t.Status.State == td.Completed && !p.done["committed"]:
		p.done["committed"] = true
		return git(dir, "commit", "-qam", "by-hand")
	}
	return nil
}

// amendAfterwards is a person who has changes in their checkout while the task ends, makes main's commit anew with them afterwards, and has the work brought onto that.
func amendAfterwards(ctx context.Context, p *person, t td.Task) error {
	dir := t.Worktree.Repo
	switch {
	case t.Status.State != td.Completed:
		return commitAfterwards(ctx, p, t)
	case !p.done["committed"]:
		p.done["committed"] = true
		return git(dir, "commit", "-qa", "--amend", "-m", "begun anew")
	case unlanded(dir):
		_, err := p.svc.ResumeTrunk(ctx, api.ResumeTrunk{Dir: dir, Trunk: "main"})
		return err
	}
	return nil
}

// unlanded reports whether main lacks work of a task.
func unlanded(repo string) bool {
	out, err := exec.Command("git", "-C", repo, "for-each-ref", "refs/taskdaemon/unlanded").Output()
	return err != nil || len(out) > 0
}

// cleared waits until the worktree of a completed task is gone and main has its work, and plays the person meanwhile.
func (w *crashRun) cleared(ctx context.Context, d *process, t td.Task) error {
	if t.Worktree == nil || t.Status.State != td.Completed {
		return nil
	}
	left := func() bool {
		_, err := os.Lstat(t.Worktree.Path)
		branch := git(t.Worktree.Repo, "rev-parse", "--verify", "--quiet", "refs/heads/"+t.Worktree.Branch)
		files, _ := filepath.Glob(filepath.Join(t.Worktree.Repo, ".worktrees", ".removing", "*"))
		return err == nil || branch == nil || len(files) > 0 || !w.removed(ctx, t.Worktree.Path) || unlanded(t.Worktree.Repo)
	}
	for left() {
		if w.s.person != nil {
			if err := w.s.person(ctx, w.person, t); err != nil {
				return err
			}
		}
		select {
		case <-d.done:
			return errors.New("the daemon died")
		case <-ctx.Done():
			return fmt.Errorf("out of time: the worktree %s stays", t.Worktree.Path)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// removed reports whether the newest removal of a worktree is on record with its proof, and that it is done, and no other is open.
func (w *crashRun) removed(ctx context.Context, path string) bool {
	open, last := map[td.StepKey]bool{}, ""
	for item, err := range w.person.svc.Events(ctx, api.EventQuery{Types: []td.EventType{td.StepIntended{}.Type(), td.StepEnded{}.Type()}}) {
		if err != nil || item.Event == nil || item.Event.Task != td.DaemonStream {
			continue
		}
		switch b := item.Event.Body.(type) {
		case td.StepIntended:
			if b.Kind == td.RemoveStep && b.Name == path && strings.Contains(string(b.Evidence), `"proof":"`) {
				open[b.Key], last = true, ""
			}
		case td.StepEnded:
			if open[b.Key] {
				delete(open, b.Key)
				last = b.Tool.Content
			}
		}
	}
	return len(open) == 0 && last == "removed"
}

// commitAll commits what is in the folder, and has what set-up makes ignored.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.tmp\n.taskdaemon/\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"branch", "-m", "main"}, {"config", "user.name", "a person"}, {"config", "user.email", "person@example.org"}, {"add", "."}, {"commit", "-qm", "begin"}} {
		if err := git(dir, args...); err != nil {
			t.Fatal(err)
		}
	}
}

func git(dir string, args ...string) error {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	// The same hashes each time: the model is told of commits.
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %v: %w: %s", args, err, out)
	}
	return nil
}

// commitToTrunk is a person who commits to the trunk while the task works.
func commitToTrunk(_ context.Context, p *person, t td.Task) error {
	if p.done["committed"] || !strings.Contains(p.marks(), "once") {
		return nil
	}
	p.done["committed"] = true
	dir := t.Worktree.Repo
	if err := os.WriteFile(filepath.Join(dir, "by-hand.txt"), []byte("by hand\n"), 0o644); err != nil {
		return err
	}
	if err := git(dir, "add", "by-hand.txt"); err != nil {
		return err
	}
	return git(dir, "commit", "-qm", "by-hand")
}

// clashWithTrunk is a person who commits what the task writes, too, and is not to be asked about it.
func clashWithTrunk(ctx context.Context, p *person, t td.Task) error {
	if t.Status.State == td.Waiting {
		return fmt.Errorf("a person is asked: %s", t.Status.Reason)
	}
	return commitToTrunk(ctx, p, t)
}

// cancelWhileMerging is a person who has merged something, and cancels the task when it is about to be merged, too.
func cancelWhileMerging(ctx context.Context, p *person, t td.Task) error {
	marks := p.marks()
	if !p.done["merged"] && strings.Contains(marks, "once") {
		p.done["merged"] = true
		const merge = `export GIT_INDEX_FILE=.git/by-hand; git read-tree HEAD; echo x | git hash-object -w --stdin | sed 's/.*/100644 &\tmerged.txt/' | git update-index --index-info
git branch taskdaemon/into/main $(git commit-tree $(git write-tree) -p HEAD -m merged); rm .git/by-hand`
		cmd := exec.Command("sh", "-ec", merge)
		cmd.Dir = t.Worktree.Repo
		if out, err := cmd.CombinedOutput(); err != nil {
			return td.Errorf(td.Internal, "merge by hand: %w: %s", err, out)
		}
	}
	if !strings.Contains(marks, "checking") {
		return nil
	}
	_, err := p.svc.Command(ctx, string(t.ID), api.Command{Key: "cancel", Type: td.CmdCancel})
	return err
}

// trunkLog is what was committed to the trunk, without hashes, and refuses what must not be left behind.
func (w *crashRun) trunkLog() (string, error) {
	out, err := exec.Command("git", "-C", w.path("work"), "log", "--format=%s", "main").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git log: %w: %s", err, out)
	}
	if fsck, err := exec.Command("git", "-C", w.path("work"), "fsck", "--no-dangling").CombinedOutput(); err != nil {
		return "", fmt.Errorf("git fsck: %w: %s", err, fsck)
	}
	status, err := exec.Command("git", "-C", w.path("work"), "status", "--porcelain").CombinedOutput()
	if err != nil || len(status) > 0 {
		return "", fmt.Errorf("the person's checkout is not clean (%w): %s", err, status)
	}
	kept, err := exec.Command("git", "-C", w.path("work"), "for-each-ref", "--format=%(refname)", "refs/taskdaemon/kept").Output()
	if err != nil {
		return "", fmt.Errorf("git for-each-ref: %w", err)
	}
	for ref := range strings.Lines(string(kept)) { // what the worktree held that is merged nowhere
		has, err := exec.Command("git", "-C", w.path("work"), "diff", "--name-only", strings.TrimSpace(ref)+"^1", strings.TrimSpace(ref)).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("git diff: %w: %s", err, has)
		}
		out = append(out, "kept: "+string(has)...)
	}
	return string(out), nil
}

// submitHooked adds the task in a repository with a hook that would refuse each commit.
func submitHooked(ctx context.Context, p *person, dir, script string) (td.Task, error) {
	if err := os.WriteFile(filepath.Join(dir, ".git", "hooks", "commit-msg"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		return td.Task{}, err
	}
	return p.svc.AddTask(ctx, api.AddTask{Key: "the task", Prompt: "do it", Dir: dir, Yes: true, Rehearsal: script})
}

// alwaysInProject answers whatever is asked for good.
func alwaysInProject(ctx context.Context, p *person, t td.Task) error {
	for _, r := range t.Requests {
		if r.About == td.AboutUnknown {
			continue
		}
		if err := p.once(ctx, "answer/"+string(r.ID), string(r.ID), api.Command{Type: td.CmdAnswer, Answer: td.Always, Scope: td.ProjectScope}); err != nil {
			return err
		}
	}
	return nil
}
