package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/git"
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

// sweepCheckouts removes the checkouts that nobody needs: no step waits for what is found there, and no task that has
// not ended works there. What is being made was recorded before, so it is needed.
func (d *Daemon) sweepCheckouts(ctx context.Context) error {
	c := checkouts{CheckoutsDir(d.o.StateDir)}
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return td.Errorf(td.Storage, "read checkouts: %w", err)
	}
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, t := range tasks {
		for _, s := range t.InFlight {
			if s.Kind == td.VerifyStep {
				needed[tool.SpoolName(t.ID, s.Key.Try(s.Attempt))] = true
			}
		}
		if t.Source != "" {
			needed[filepath.Base(t.Dir)] = true
		}
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), git.Draft)
		if needed[name] {
			continue
		}
		if rerr := c.Remove(name); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}
	return err
}
