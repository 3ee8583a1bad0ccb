package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/disk"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/git"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// snapshotLimit is how long one snapshot may take.
const snapshotLimit = time.Minute

// indexesDir is where the indexes by which snapshots are taken are, a folder for each task. They may be lost.
func indexesDir(stateDir string) string { return filepath.Join(stateDir, "indexes") }

// albums opens what a task keeps of its workspace. A throw-away checkout is not worth keeping.
func (d *Daemon) albums(ctx context.Context, t td.Task) (engine.Album, error) {
	if d.o.Config.Snapshots == config.SnapshotsOff || t.Source != "" || git.CommonDir(t.Dir) == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	steps, err := git.OpenSteps(ctx, t.Dir, t.Handle, filepath.Join(indexesDir(d.o.StateDir), string(t.ID)))
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Unavailable) {
		return nil, nil //nolint:nilnil // plain files that look like a repository, or no git
	}
	if err != nil {
		return nil, err
	}
	return &album{steps: steps, task: t}, nil
}

// album is what one task keeps of its workspace, in the repository around that.
type album struct {
	steps *git.Steps
	task  td.Task
	last  td.StepKey // that the workspace was taken after
}

// Take writes down what the workspace holds.
func (a *album) Take(ctx context.Context, step td.StepKey, unseen bool) (td.Snapshotted, error) {
	a.last = step
	ctx, cancel := context.WithTimeoutCause(ctx, snapshotLimit, td.Errorf(td.Timeout, "the snapshot took longer than %s", snapshotLimit))
	defer cancel()
	tree, err := a.steps.Take(ctx, snapshotMessage(a.task, step), unseen)
	return td.Snapshotted{Step: step, Tree: tree.Hash, Commit: tree.Commit, Base: tree.Base, LeftOut: tree.LeftOut}, err
}

// Close lets go of what is watched.
func (a *album) Close() { a.steps.Close() }

// Restore makes the workspace hold a tree.
func (a *album) Restore(ctx context.Context, tree string) error {
	message := fmt.Sprintf("%s before it was put back: %s", a.task.Handle, a.task.Title)
	if a.last != "" {
		message = snapshotMessage(a.task, a.last)
	}
	_, err := a.steps.Restore(ctx, tree, message)
	return err
}

// Changed says what differs between two trees.
func (a *album) Changed(ctx context.Context, from, to string) ([]string, error) {
	return changedNames(ctx, a.task.Dir, from, to)
}

func changedNames(ctx context.Context, dir, from, to string) ([]string, error) {
	changes, err := git.Differences(ctx, dir, from, to)
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.Kind+" "+c.Path)
	}
	return lines, err
}

// repositories are the workspaces of all tasks that are under git, one for each repository.
func (d *Daemon) repositories(ctx context.Context) (map[string]string, []td.Task, error) {
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{Brief: true})
	if err != nil {
		return nil, nil, err
	}
	at := map[string]string{}
	for _, t := range tasks {
		if common := git.CommonDir(t.Home()); common != "" && t.Source == "" {
			at[common] = t.Home()
		}
	}
	return at, tasks, nil
}

// dropSnapshots lets the snapshots of tasks go that ended long ago, and the indexes of those that have ended.
func (d *Daemon) dropSnapshots(ctx context.Context) error {
	at, tasks, err := d.repositories(ctx)
	if err != nil {
		return err
	}
	long := time.Now().Add(-d.o.Config.Retention.Snapshots)
	old, live := map[string]bool{}, map[string]bool{}
	for _, t := range tasks {
		live[string(t.ID)] = !t.Status.State.Terminal()
		old[t.Handle] = t.Status.State.Terminal() && t.UpdatedAt.Before(long)
	}
	for _, dir := range at {
		refs, rerr := git.StepRefs(ctx, dir)
		if td.IsKind(rerr, td.NotFound) {
			continue // no repository, or none any more
		}
		err = errors.Join(err, rerr)
		for name := range refs {
			if old[name] {
				err = errors.Join(err, git.DropSteps(ctx, dir, name))
			}
		}
	}
	entries, rerr := os.ReadDir(indexesDir(d.o.StateDir))
	if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, td.Errorf(td.Storage, "read indexes: %w", rerr))
	}
	for _, e := range entries {
		if !live[e.Name()] {
			err = errors.Join(err, disk.RemoveAll(filepath.Join(indexesDir(d.o.StateDir), e.Name())))
		}
	}
	return err
}

// checkSnapshots looks for snapshots that belong to no task. Another state folder may have tasks in the same repository:
// what that one could still keep is left to it.
func (d *Daemon) checkSnapshots(ctx context.Context, fix bool) (api.Check, error) {
	c := api.Check{Name: "snapshots", Detail: "old snapshots of workspaces belong to tasks"}
	at, tasks, err := d.repositories(ctx)
	if err != nil {
		return c, err
	}
	known := map[string]bool{}
	for _, t := range tasks {
		known[t.Handle] = true
	}
	fixed := true
	for _, dir := range at {
		refs, err := git.StepRefs(ctx, dir)
		if td.IsKind(err, td.NotFound) {
			continue // no repository, or none any more
		}
		if err != nil {
			c.Findings = append(c.Findings, fmt.Sprintf("%s: %v", dir, err))
			fixed = false
			continue
		}
		for name, ref := range refs {
			if known[name] || time.Since(ref.At) < d.o.Config.Retention.Snapshots {
				continue
			}
			c.Findings = append(c.Findings, fmt.Sprintf("%s keeps snapshots of %s, which is no task", dir, name))
			if fix {
				fixed = git.DropSteps(ctx, dir, name) == nil && fixed
			}
		}
	}
	slices.Sort(c.Findings)
	if len(c.Findings) > 0 {
		c.Fix, c.Fixed = "taskdaemon doctor --fix", fix && fixed
	}
	return c, nil
}
