package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// CheckoutsDir is the folder of the state folder where verifiers have their checkouts.
func CheckoutsDir(stateDir string) string { return filepath.Join(stateDir, "checkouts") }

// checkouts are throw-away checkouts of workspaces, each named for the step that wants it.
type checkouts struct{ dir string }

// Make makes a checkout of exactly the tree, or finds the one that was made.
func (c checkouts) Make(ctx context.Context, dir, tree, name string) (string, error) {
	into := filepath.Join(c.dir, name)
	if err := git.Checkout(ctx, dir, tree, into); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(into)
	if err != nil {
		return "", td.Errorf(td.Storage, "find the checkout: %w", err)
	}
	return real, nil
}

// Remove removes a checkout.
func (c checkouts) Remove(name string) error { return git.RemoveCheckout(filepath.Join(c.dir, name)) }

// unneeded are the checkouts that nobody needs, by name: no step waits for what is found there, and no task that has not
// ended works there. What is being made was recorded before, so it is needed.
func (d *Daemon) unneeded(ctx context.Context) (names []string, err error) {
	entries, err := os.ReadDir(CheckoutsDir(d.o.StateDir))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, td.Errorf(td.Storage, "read checkouts: %w", err)
	}
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	if d.trunks != nil {
		for _, name := range d.trunks.landing.checksIn() {
			needed[name] = true
		}
	}
	for _, t := range tasks {
		for _, s := range t.InFlight {
			if s.Kind == td.VerifyStep || s.Kind == td.MergeStep {
				needed[tool.SpoolName(t.ID, s.Key.Try(s.Attempt))] = true
			}
		}
		if t.Source != "" {
			needed[filepath.Base(t.Dir)] = true
		}
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), git.Draft)
		if !needed[name] && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// sweepCheckouts removes the checkouts that nobody needs.
func (d *Daemon) sweepCheckouts(ctx context.Context) error {
	names, err := d.unneeded(ctx)
	for _, name := range names {
		err = errors.Join(err, checkouts{CheckoutsDir(d.o.StateDir)}.Remove(name))
	}
	return err
}

// checkCheckouts looks for checkouts that no task waits for. Whoever still holds the task that one was made for may be
// about to remove it.
func (d *Daemon) checkCheckouts(ctx context.Context, fix bool) (api.Check, error) {
	c := api.Check{Name: "checkouts", Detail: "none is left that no task waits for"}
	names, err := d.unneeded(ctx)
	if err != nil {
		return c, err
	}
	all := checkouts{CheckoutsDir(d.o.StateDir)}
	fixed := true
	for _, name := range names {
		of, _, _ := strings.Cut(name, ".")
		held, ok, err := d.journal.HolderOf(ctx, td.TaskID(of))
		if err != nil && !td.IsKind(err, td.NotFound) {
			return c, err
		}
		if ok && sandbox.Alive(held.Holder) || !all.there(name) {
			continue
		}
		c.Findings = append(c.Findings, fmt.Sprintf("the checkout %s is of no use to any task", filepath.Join(all.dir, name)))
		if fix {
			fixed = all.Remove(name) == nil && fixed
		}
	}
	if len(c.Findings) > 0 {
		c.Fix, c.Fixed = "taskdaemon doctor --fix", fix && fixed
	}
	return c, nil
}

// there reports whether there is anything of a checkout.
func (c checkouts) there(name string) bool {
	return slices.ContainsFunc([]string{name, name + git.Draft}, func(file string) bool {
		_, err := os.Lstat(filepath.Join(c.dir, file))
		return err == nil
	})
}
