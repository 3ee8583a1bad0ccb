package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"taskdaemon/internal/daemon"
	"taskdaemon/internal/rebuild"
	"taskdaemon/internal/td"
)

// runRebuild makes the journal again, in this process: a daemon cannot stand on what is being replaced.
func runRebuild(ctx context.Context, o doctorOptions) error {
	a := o.app
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := daemon.CheckPlace(dir); err != nil {
		return err // before anything is made there
	}
	r, err := rebuild.Run(ctx, rebuild.Options{
		StateDir: dir, Repo: daemon.RepoPath(dir), Graphs: daemon.GraphsPath(dir), Version: Version(), Marked: daemon.Marked(dir),
		Log: slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if td.IsKind(err, td.Locked) {
		return td.Errorf(td.Locked, "%w", err).WithHint("taskdaemon daemon stop && taskdaemon doctor --rebuild")
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	return a.printRebuilt(r)
}

func (a *app) printRebuilt(r rebuild.Report) error {
	if r.Damaged != "" {
		a.say("%s", a.talk.warn(plainText(r.Damaged)))
	}
	for _, file := range r.Aside {
		a.say("kept as it was: %s", plainText(file))
	}
	for _, t := range r.Restored {
		what := t.What
		if what == "" {
			what = plural(t.Records, "record")
		}
		if _, err := fmt.Fprintf(a.stdout, "%s  %s  %s: %s\n", t.Handle, a.style.state(t.State, string(t.State)), plainLine(t.Title, 60), plainLine(what, 200)); err != nil {
			return written(err)
		}
	}
	for _, p := range r.Projects {
		a.say("the graph of %s has %s, %d of them open", plainText(p.Root), plural(p.Tasks, "task"), p.Open)
		if n := len(p.Unknown); n > 0 {
			shown := strings.Join(p.Unknown[:min(n, 20)], ", ")
			if n > 20 {
				shown += fmt.Sprintf(" and %d more", n-20)
			}
			a.say("  not in the journal, because only planned or lost with it: %s", shown)
		}
	}
	for _, l := range r.Lost {
		a.say("not restored: %s", plainText(l))
	}
	a.say("%s restored, %d there already", plural(len(r.Restored), "task"), r.There)
	if len(r.Restored) > 0 {
		a.say("next: %s", a.typeable("taskdaemon task list --all"))
	}
	return nil
}
