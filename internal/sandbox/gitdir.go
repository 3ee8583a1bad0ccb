package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// In a folder of git a command may change what git itself writes when somebody works with a repository, and nothing else:
// config, hooks and the like are run or believed by git for somebody else later. git makes files beside those that it
// replaces, so that the folder as a whole must stay writable. So all that is there and not open is sealed, one by one,
// and what is not open and new is removed when the command has ended.

// gitOpen are the names in a folder of git that stay writable. All of it is data: nothing there names a program, and none
// of it leads git to another folder. shallow and sharedindex are in it because a repository that has lost them is broken;
// what else no commit needs, because a person's git may make it at the same time, and it must not be taken away.
var gitOpen = []string{
	"index", "packed-refs", "refs", "logs", "objects", "reftable", "shallow", "lfs",
	"sequencer", "rebase-merge", "rebase-apply", "rebased-patches", "rr-cache", "lost-found", "gc.pid", "gc.log", "addp-hunk-edit.diff",
}

// gitOpenPrefixes are how other such names begin: a split index, the index of a stash, git's watcher of files.
var gitOpenPrefixes = []string{"sharedindex.", "index.", "next-index-", "fsmonitor--daemon"}

// openInGit reports whether a command may change what has this name in a folder of git. Names in capitals are git's own
// for references and messages: HEAD, MERGE_HEAD, COMMIT_EDITMSG, BISECT_LOG. A lock is held by whoever makes it.
func openInGit(name string) bool {
	return slices.Contains(gitOpen, name) || strings.HasSuffix(name, ".lock") || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" ||
		slices.ContainsFunc(gitOpenPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// openInObjects is openInGit for a folder of objects, of which info says where others are. Packs are not sealed: what a
// command adds counts as much as what it changes, and git gc must work.
func openInObjects(name string) bool { return name != "info" }

// openInInfo is openInGit for the info of objects: lists that git gc makes of what there is.
func openInInfo(name string) bool {
	return name == "packs" || strings.HasPrefix(name, "packs_") || strings.HasPrefix(name, "commit-graph")
}

// mostClosed is how many names are sealed one by one. A folder of git with more of them is none that git made.
const mostClosed = 256

// gitDir is a folder of git in which a command may change what is open.
type gitDir struct {
	path   string
	open   func(name string) bool
	within bool                // it lies in a folder that is sealed
	had    map[string]gitEntry // what was there before the command
}

// gitEntry is something in a folder of git.
type gitEntry struct {
	kind fs.FileMode
	link string // where a link leads that must stay
}

// gitPlan is what is done about the repositories of a workspace.
type gitPlan struct {
	dirs   []gitDir // outer ones first
	sealed []string // files that say where a repository is
	shared []string // what a linked worktree shares with others, and may write to
}

// planGit looks at the repository in a folder. A linked worktree that is not the workspace itself is not for commands to
// commit in: it is another's, and its record is sealed with that of all others.
func planGit(repo string, nested bool) (plan gitPlan) {
	dot := filepath.Join(repo, ".git")
	info, err := os.Lstat(dot)
	if err != nil {
		return plan
	}
	if info.IsDir() {
		// One that lost its HEAD was a repository, and may be one again: who can remove it can bring it back.
		if len(existing(dot, "HEAD", "config", "hooks")) > 0 {
			plan.add(dot, false)
		}
		return plan
	}
	plan.sealed = []string{dot}
	if own, common := gitWorktree(repo); own != "" && !nested {
		plan.add(own, false)
		plan.addObjects(common, false)
		plan.shared = []string{filepath.Join(common, "refs"), filepath.Join(common, "logs")}
	}
	return plan
}

// add takes in a folder of git, with its objects and its submodules.
func (g *gitPlan) add(dir string, within bool) {
	if exists(dir, "objects") { // what a linked worktree does not have
		// A folder that is not there could be made; then it is made here, and empty. A person's git may fill it meanwhile.
		for _, name := range []string{"hooks", "info", "modules", "worktrees"} {
			_ = os.Mkdir(filepath.Join(dir, name), 0o755)
		}
	}
	g.dirs = append(g.dirs, gitDir{path: dir, open: openInGit, within: within})
	g.addObjects(dir, within)
	g.addModules(filepath.Join(dir, "modules"))
}

func (g *gitPlan) addObjects(dir string, within bool) {
	if objects := filepath.Join(dir, "objects"); isDir(objects) {
		info := filepath.Join(objects, "info")
		_ = os.Mkdir(info, 0o755)
		g.dirs = append(g.dirs, gitDir{path: objects, open: openInObjects, within: within}, gitDir{path: info, open: openInInfo, within: true})
	}
}

// addModules takes in the submodules that are there, whose names may have slashes in them.
func (g *gitPlan) addModules(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir() || len(g.dirs) > nestedFolders:
		case exists(path, "HEAD"):
			g.add(path, true)
		default:
			g.addModules(path)
		}
	}
}

// note remembers what is in the folders.
func (g *gitPlan) note() {
	for i, dir := range g.dirs {
		entries, _ := os.ReadDir(dir.path)
		g.dirs[i].had = make(map[string]gitEntry, len(entries))
		for _, e := range entries {
			had := gitEntry{kind: e.Type()}
			if had.kind&fs.ModeSymlink != 0 && !dir.open(e.Name()) {
				had.link, _ = os.Readlink(filepath.Join(dir.path, e.Name()))
			}
			g.dirs[i].had[e.Name()] = had
		}
	}
}

// closed are the paths in a folder that must stay as they are.
func (d gitDir) closed() (paths []string) {
	for name := range d.had {
		if !d.open(name) {
			paths = append(paths, filepath.Join(d.path, name))
		}
	}
	return paths
}

// seal seals what the plan says. It is made for threads that have a mount namespace of their own.
func (g gitPlan) seal() error {
	for _, dir := range g.dirs {
		closed := dir.closed()
		switch {
		case len(closed) > mostClosed:
			if err := seal(dir.path); err != nil {
				return err
			}
			continue
		case dir.within:
			if err := reopen(dir.path); err != nil {
				return err
			}
		default:
			if err := pin(dir.path); err != nil {
				return err
			}
		}
		for _, path := range closed {
			// Of a link, what it leads to is sealed, if there is anything; itself it is put back.
			link := dir.had[filepath.Base(path)].link != ""
			if err := seal(path); err != nil && !(link && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
	}
	for _, path := range g.sealed {
		if err := seal(path); err != nil {
			return err
		}
	}
	return nil
}

// gitWritable is what a commit in a linked worktree needs outside of the workspace: what every repository
// shares, and what is the worktree's own; never hooks and config. Of the references only those of p.Refs, if it has any.
func (p Profile) gitWritable() []string {
	own, common := gitWorktree(p.Workspace)
	if own == "" {
		return nil
	}
	paths := []string{own, filepath.Join(common, "objects")}
	if len(p.Refs) == 0 {
		return append(paths, filepath.Join(common, "refs"), filepath.Join(common, "logs"))
	}
	for _, ref := range p.Refs {
		for _, dir := range []string{filepath.Join(common, ref), filepath.Join(common, "logs", ref)} {
			_ = os.MkdirAll(dir, 0o755) // git removes empty ones
			paths = append(paths, dir)
		}
	}
	return paths
}

// above are the folders from root down to these paths, outer ones first: who can move one of them away can put
// another in its place.
func above(root string, paths []string) []string {
	dirs := []string{root}
	for _, path := range paths {
		for up := filepath.Dir(path); covered(up, []string{root}) && !slices.Contains(dirs, up); up = filepath.Dir(up) {
			dirs = append(dirs, up)
		}
	}
	slices.Sort(dirs) // a folder sorts before what is in it
	return dirs
}

func existing(dir string, names ...string) []string {
	var out []string
	for _, name := range names {
		if path := filepath.Join(dir, name); exists(dir, name) {
			out = append(out, path)
		}
	}
	return out
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
