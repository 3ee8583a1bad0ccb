package daemon

import (
	"context"
	"os/user"
	"path/filepath"

	"taskdaemon/internal/td"
)

// create makes a task, whoever asked for it: all of them pass here, so that none works where none may.
func (d *Daemon) create(ctx context.Context, spec td.Spec, key string) (td.Task, error) {
	if err := d.o.mayWorkIn(spec.Dir); err != nil {
		return td.Task{}, err
	}
	return d.journal.Create(ctx, spec, key)
}

// mayWorkIn refuses a workspace that is, or holds, a folder whose files run or steer what a person starts: a sandbox opens the whole workspace, and a command would
// change .bashrc and .gitconfig unasked.
func (o Options) mayWorkIn(dir string) error {
	at := linkless(dir)
	for _, place := range o.theirs() {
		path := linkless(place.path)
		if rel, err := filepath.Rel(at, path); err != nil || !filepath.IsLocal(rel) {
			continue
		}
		does := "is"
		if at != path {
			does = "holds"
		}
		return td.Errorf(td.Invalid, "no task works in %s: it %s %s, and a command could change what you run", dir, does, place.what).
			WithHint("make a folder for the work: mkdir -p ~/work && taskdaemon task add --dir ~/work; in a git repository, without --in-place, a task has a worktree of its own")
	}
	return nil
}

// theirs are those folders.
func (o Options) theirs() (places []struct{ path, what string }) {
	add := func(what string, path ...string) {
		if filepath.IsAbs(path[0]) {
			places = append(places, struct{ path, what string }{filepath.Join(path...), what})
		}
	}
	homes := []string{o.Getenv("HOME")}
	if u, err := user.Current(); err == nil { // whatever the environment says
		homes = append(homes, u.HomeDir)
	}
	for _, home := range homes {
		add("your home folder", home)
		for _, below := range []string{".config", ".local", ".local/share", ".local/bin", "bin", ".ssh"} {
			add("where your programs and their settings are", home, below)
		}
	}
	add("where your programs and their settings are", o.Getenv("XDG_CONFIG_HOME"))
	add("where taskdaemon keeps its settings", o.UserDir)
	add("where taskdaemon keeps its records", o.StateDir)
	return places
}

// linkless is a path without the links in it; as it is where nothing is there yet, such as a worktree.
func linkless(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return filepath.Clean(path)
}
