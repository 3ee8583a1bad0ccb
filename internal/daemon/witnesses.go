package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/git"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

// witnessLimit is how long a repository may take to say what snapshots it has.
const witnessLimit = time.Minute

// witnesses are the repositories that tasks work in: the snapshots there tell how far a task was, whatever became of the state folder. Each repository is
// looked at once in the life of a daemon, before the first task in it goes on: from then on the journal is ahead of it.
type witnesses struct {
	mu    sync.Mutex
	found map[string]*witness // by the folder of the repository
}

type witness struct {
	once sync.Once
	refs map[string]git.StepRef // by task
}

// newest is the newest snapshot of a task that its repository had then. A repository that is not there contradicts nothing.
func (w *witnesses) newest(ctx context.Context, log *slog.Logger, t td.Task) td.Snapshotted {
	common := git.CommonDir(t.Home())
	if common == "" {
		return td.Snapshotted{}
	}
	w.mu.Lock()
	if w.found == nil {
		w.found = map[string]*witness{}
	}
	of := w.found[common]
	if of == nil {
		of = &witness{}
		w.found[common] = of
	}
	w.mu.Unlock()
	of.once.Do(func() {
		var err error
		if of.refs, err = stepRefs(ctx, t.Home()); err != nil {
			log.Warn("compare the journal with the snapshots of a repository", "repository", common, "err", err)
		}
	})
	return snapshotOf(of.refs, t.Handle)
}

// stepRefs are the newest snapshots in the repository around dir; none if it is not there.
func stepRefs(ctx context.Context, dir string) (map[string]git.StepRef, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, witnessLimit, td.Errorf(td.Timeout, "git took longer than %s", witnessLimit))
	defer cancel()
	refs, err := git.StepRefs(ctx, dir)
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Unavailable) {
		return nil, nil
	}
	return refs, err
}

// snapshotMessage is what a snapshot is taken with, and snapshotOf reads.
func snapshotMessage(t td.Task, step td.StepKey) string {
	return fmt.Sprintf("%s %s: %s", t.Handle, step, t.Title)
}

// snapshotOf is the newest snapshot of a task as its ref tells of it. It has no commit if there is none, or if it was taken with other words.
func snapshotOf(refs map[string]git.StepRef, handle string) td.Snapshotted {
	ref := refs[handle]
	rest, is := strings.CutPrefix(ref.Subject, handle+" ")
	step, _, named := strings.Cut(rest, ":")
	if !is || !named || step == "" || strings.Contains(step, " ") {
		return td.Snapshotted{}
	}
	return td.Snapshotted{Step: td.StepKey(step), Tree: ref.Tree, Commit: ref.Commit}
}

// checkSteps looks for tasks whose repository has a snapshot of a step that the journal knows nothing of.
func (d *Daemon) checkSteps(ctx context.Context, _ bool) (api.Check, error) {
	c := api.Check{Name: "steps", Detail: "the journal knows the steps that repositories have snapshots of"}
	// The repositories first: a step that begins in between is then in the journal alone.
	at, _, err := d.repositories(ctx)
	if err != nil {
		return c, err
	}
	refs := map[string]map[string]git.StepRef{}
	for common, dir := range at {
		if refs[common], err = stepRefs(ctx, dir); err != nil {
			c.Findings = append(c.Findings, fmt.Sprintf("%s: %v", dir, err))
		}
	}
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return c, err
	}
	for _, t := range tasks {
		found := snapshotOf(refs[git.CommonDir(t.Home())], t.Handle)
		if found.Commit == "" {
			continue
		}
		events, _, err := d.records(ctx, t)
		if err != nil {
			return c, err
		}
		if !transcript.Of(events).Intended(found.Step, t.Turns) {
			c.Findings = append(c.Findings, t.Handle+": "+engine.Behind(t, found.Step))
		}
	}
	slices.Sort(c.Findings)
	return c, nil
}
