package daemon

import (
	"context"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	"taskdaemon/internal/git"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// create makes a task, whoever asked for it: all of them pass here, so that none works where none may.
func (d *Daemon) create(ctx context.Context, spec td.Spec, key string) (td.Task, error) {
	if err := d.o.mayWorkIn(spec.Dir); err != nil {
		return td.Task{}, err
	}
	if err := d.mayShare(ctx, spec); err != nil {
		return td.Task{}, err
	}
	d.inPlace.Do(d.markPlace)
	return d.journal.Create(ctx, spec, key)
}

// mayShare refuses a task that would work in the worktree of another one that has not ended: both would take its files for their own.
func (d *Daemon) mayShare(ctx context.Context, spec td.Spec) error {
	if spec.Apart() != "" || spec.Parent != "" { // a subtask works where its task does
		return nil
	}
	live, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return err
	}
	at := linkless(spec.Dir)
	for _, t := range live {
		if tree := t.Apart(); tree != "" && t.ID != spec.ID && within(at, linkless(tree)) {
			return td.Errorf(td.Conflict, "%s is the worktree of %s, which has not ended", tree, t.Handle).
				WithHint("for that task to do it: taskdaemon task send %s '<what to do>'; for another task: taskdaemon task add --dir %s '<what to do>'", t.Handle, filepath.Dir(filepath.Dir(tree)))
		}
	}
	return nil
}

// mayWorkIn refuses a workspace that is, or holds, a folder whose files run or steer what a person starts: a sandbox opens the whole workspace, and a command would
// change .bashrc and .gitconfig unasked. It also refuses one in a repository of a format that taskdaemon cannot guard.
func (o Options) mayWorkIn(dir string) error {
	if why := o.touches(dir); why != "" {
		return td.Errorf(td.Invalid, "no task works in %s: %s, and a command could change what you run", dir, why).
			WithHint("make a folder for the work: mkdir -p ~/work && taskdaemon task add --dir ~/work; in a git repository, without --in-place, a task has a worktree of its own")
	}
	return git.KnownFormat(dir)
}

// touches says which of those folders a folder is or holds; empty: none.
func (o Options) touches(dir string) string {
	at := linkless(dir)
	for _, place := range o.theirs() {
		switch path := linkless(place.path); {
		case at == path:
			return "it is " + place.what
		case within(path, at):
			return "it holds " + place.what
		}
	}
	return ""
}

// keepsOut says why no work is landed in a checkout by itself: what touches keeps tasks out of, and what lies in the folders of taskdaemon's own.
func (o Options) keepsOut(checkout string) string {
	at := linkless(checkout)
	for _, own := range []string{o.UserDir, o.StateDir} {
		if filepath.IsAbs(own) && within(at, linkless(own)) && at != linkless(own) {
			return "it lies in a folder of taskdaemon's own"
		}
	}
	return o.touches(checkout)
}

// within reports whether a path is a folder, or lies in it.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
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
	for _, link := range linksIn(o.UserDir) { // settings are often links into a folder that is under version control
		add("settings of taskdaemon", link)
	}
	return places
}

// linkless is a path without the links in it, as far as there is something: a worktree, or what a link leads to, may not be there yet.
func linkless(path string) string {
	path = filepath.Clean(path)
	for range mostHops {
		at, rest := path, ""
		for ; at != filepath.Dir(at); at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
			if found, err := filepath.EvalSymlinks(at); err == nil {
				return filepath.Join(found, rest)
			}
			if target, err := os.Readlink(at); err == nil {
				if !filepath.IsAbs(target) {
					target = filepath.Join(filepath.Dir(at), target)
				}
				path = filepath.Join(target, rest)
				break
			}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return path
}

// mostHops is how many links are followed that lead to nothing.
const mostHops = 40

// mostEntries bounds how much of a folder of settings is looked at.
const mostEntries = 2000

// linksIn are the symbolic links below a folder.
func linksIn(folder string) (links []string) {
	seen := 0
	_ = filepath.WalkDir(linkless(folder), func(path string, e fs.DirEntry, err error) error {
		if seen++; err != nil || seen > mostEntries {
			return fs.SkipAll
		}
		if e.Type()&fs.ModeSymlink != 0 {
			links = append(links, path)
		}
		return nil
	})
	return links
}
