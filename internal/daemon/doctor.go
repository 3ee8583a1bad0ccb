package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// Doctor proves that journal, processes and conversations agree, and repairs what is safe to repair. The two that take the longest
// are done side by side: the journal is read here, the conversations by git.
func (d *Daemon) Doctor(ctx context.Context, in api.DoctorRequest) (api.Diagnosis, error) {
	var out api.Diagnosis
	checks := []func(context.Context, bool) (api.Check, error){
		d.checkJournal, d.checkClaims, d.checkProcesses, d.checkCheckouts, d.checkConversations, d.checkGraphs, d.checkSnapshots, d.checkSteps, d.checkWorktrees, d.checkDisk,
	}
	found := make([]api.Check, len(checks))
	const journal = 0
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		found[journal], err = checks[journal](inner, in.Fix)
		return err
	})
	group.Go(func() (err error) {
		for i := journal + 1; i < len(checks) && err == nil; i++ {
			found[i], err = checks[i](inner, in.Fix)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return out, err
	}
	for _, c := range found {
		c.OK = len(c.Findings) == 0
		if !c.OK && !c.Fixed {
			out.Problems += len(c.Findings)
		}
		out.Checks = append(out.Checks, c)
	}
	return out, nil
}

func (d *Daemon) checkJournal(ctx context.Context, _ bool) (api.Check, error) {
	c := api.Check{Name: "journal", Detail: "database, records against tasks, blobs"}
	problems, err := d.journal.Check(ctx)
	if err != nil {
		return c, err
	}
	for _, p := range problems {
		what := p.What
		if p.Task != "" {
			what = p.Task.Handle() + ": " + what
		}
		c.Findings = append(c.Findings, what)
		if p.Fix != "" {
			c.Fix = p.Fix
		}
	}
	return c, nil
}

// checkDisk says how full the disk of the state folder is. That is no inconsistency: it is said, and not counted.
func (d *Daemon) checkDisk(context.Context, bool) (api.Check, error) {
	c := api.Check{Name: "disk", Detail: "the state folder has room"}
	if warning := d.diskWarning(); warning != "" {
		c.Detail = warning
	}
	return c, nil
}

// checkClaims looks for running tasks that nobody runs.
func (d *Daemon) checkClaims(ctx context.Context, _ bool) (api.Check, error) {
	c := api.Check{Name: "claims", Detail: "every running task is held by a living daemon"}
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Running}, Brief: true})
	if err != nil {
		return c, err
	}
	for _, t := range tasks {
		held, ok, err := d.journal.HolderOf(ctx, t.ID)
		if err != nil {
			return c, err
		}
		if ok && sandbox.Alive(held.Holder) {
			continue
		}
		// It may have ended since the list was made.
		if now, err := d.journal.Task(ctx, t.ID); err == nil && now.Status.State == td.Running && now.Head == t.Head {
			c.Findings = append(c.Findings, fmt.Sprintf("%s is running and nobody holds it", t.Handle))
			c.Fix = "taskdaemon daemon stop && taskdaemon daemon start"
		}
	}
	return c, nil
}

// forgotten reports whether the folder of a task that has ended stays behind. While the task is held, its run
// is still clearing up; a run that has let go has removed all that it will.
func (d *Daemon) forgotten(ctx context.Context, e sandbox.Entry) (bool, error) {
	held, ok, err := d.journal.HolderOf(ctx, e.Task)
	if err != nil && !td.IsKind(err, td.NotFound) || ok && sandbox.Alive(held.Holder) {
		return false, err
	}
	now, err := d.spool.List()
	return slices.ContainsFunc(now, func(n sandbox.Entry) bool { return n.Name == e.Name }), err
}

// checkProcesses looks for processes and spool folders that belong to no task.
func (d *Daemon) checkProcesses(ctx context.Context, fix bool) (api.Check, error) {
	c := api.Check{Name: "processes", Detail: "no orphans, no forgotten spool folders"}
	// The spool first: a command that starts in between is then not in it, and not taken for forgotten.
	entries, err := d.spool.List()
	if err != nil {
		return c, err
	}
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return c, err
	}
	live, wanted := map[td.TaskID]bool{}, map[string]bool{}
	for _, t := range tasks {
		live[t.ID] = true
		for _, j := range t.Jobs {
			wanted[j.Spool] = true
		}
		for _, s := range t.InFlight {
			wanted[tool.SpoolName(t.ID, s.Key.Try(s.Attempt))] = true
		}
	}
	fixed := true
	for _, e := range entries {
		// A folder of a live task may just be on its way in or out; only those of ended or unknown
		// tasks are surely forgotten.
		own := strings.HasPrefix(e.Name, string(td.DaemonStream)+".") // it tells people of tasks, and never ends
		if wanted[e.Name] || live[e.Task] || own || d.trunks.landing.validates(e.Name) {
			continue
		}
		forgotten, err := d.forgotten(ctx, e)
		if err != nil {
			return c, err
		}
		if !forgotten {
			continue
		}
		c.Findings = append(c.Findings, fmt.Sprintf("spool %s (%s) of %s belongs to no live task", e.Name, e.State, e.Task.Handle()))
		if fix {
			fixed = d.discard(e) == nil && fixed
		}
	}
	orphans, err := sandbox.Orphans(d.spool.Dir)
	if err != nil {
		return c, err
	}
	for _, o := range orphans {
		c.Findings = append(c.Findings, fmt.Sprintf("process %d (%s) of task %s has no shim", o.Process.Pid, o.Command, o.Task.Handle()))
		if fix {
			fixed = sandbox.KillOrphan(o) == nil && fixed
		}
	}
	if len(c.Findings) > 0 {
		c.Fix, c.Fixed = "taskdaemon doctor --fix", fix && fixed
	}
	return c, nil
}

// checkGraphs looks at the graphs of all projects that this daemon or one before it has opened. What is wrong with a log
// is a person's to put right: it came with the file. An index is only a copy.
func (d *Daemon) checkGraphs(ctx context.Context, fix bool) (api.Check, error) {
	c := api.Check{Name: "graphs", Detail: "logs can be read, nothing waits for itself or for what is not there, and they tell of tasks what the journal does, and no log lost anything"}
	d.projects.checkGone(&c, fix)
	if err := d.projects.openAll(ctx, func(root string, err error) {
		c.Findings = append(c.Findings, fmt.Sprintf("%s: %v", root, err))
		c.Fix = "look at " + filepath.Join(root, graph.Folder)
	}); err != nil {
		return c, err
	}
	mended := 0
	for _, s := range d.projects.all() {
		same, err := s.Verify(ctx) // before anything is said of what the index knows
		if err != nil && !td.IsKind(err, td.NotFound) {
			c.Findings = append(c.Findings, fmt.Sprintf("%s: %v", s.Root(), err))
			continue
		}
		h, err := s.Health(ctx)
		if td.IsKind(err, td.NotFound) {
			d.projects.forget(s) // somebody removed the project, which is theirs to do
			continue
		}
		if err != nil {
			c.Findings = append(c.Findings, fmt.Sprintf("%s: %v", s.Root(), err))
			continue
		}
		found := len(c.Findings)
		whole := d.projects.checkLost(ctx, s, &c, h.Bad, fix)
		if len(c.Findings) == found && !same {
			c.Findings = append(c.Findings, fmt.Sprintf("%s: the index was not of what is in the log", s.Root()))
		}
		if whole {
			mended += len(c.Findings) - found
		}
		log := filepath.Join(s.Root(), graph.Folder, graph.LogFile)
		for _, p := range h.Problems {
			c.Findings = append(c.Findings, fmt.Sprintf("%s, %s: %s", s.Root(), p.Handle, p.Why))
		}
		if h.Large {
			c.Findings = append(c.Findings, fmt.Sprintf("%s has %d MiB", log, h.Size>>20))
		}
		if len(c.Findings) > 0 && c.Fix == "" {
			c.Fix = "look at " + log
		}
	}
	disagree, err := d.projects.disagree(ctx)
	c.Findings = append(c.Findings, disagree...)
	if mended > 0 && mended == len(c.Findings) {
		c.Fix, c.Fixed = "taskdaemon doctor --fix", fix
	}
	return c, err
}
