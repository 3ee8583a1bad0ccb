package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
)

// In a folder of git a command may change what git itself writes when somebody works with a repository, and nothing else:
// config, hooks and the like are run or believed by git for somebody else later. git makes files beside those that it
// replaces, so that the folder as a whole must stay writable. So all that is there and not open is sealed, one by one,
// and what is not open and new is removed when the command has ended.

// gitOpen are the names in a folder of git that stay writable. All of it is data: nothing there names a program, and none
// of it leads git to another folder. sharedindex is in it because a repository that has lost it is broken; what else no commit needs, because a
// person's git may make it at the same time, and it must not be taken away. shallow is not: it says that history ends, and git cleans up what comes before.
var gitOpen = []string{
	"index", "packed-refs", "refs", "logs", "objects", "reftable", "lfs",
	"sequencer", "rebase-merge", "rebase-apply", "rebased-patches", "rr-cache", "lost-found", "gc.pid", "gc.log", "addp-hunk-edit.diff",
}

// gitOpenPrefixes are how other such names begin: a split index, the index of a stash, git's watcher of files.
var gitOpenPrefixes = []string{"sharedindex.", "index.", "next-index-", "fsmonitor--daemon"}

// capitals are the letters of names that are git's own.
const capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"

// openInGit reports whether a command may change what has this name in a folder of git. Names in capitals are git's own
// for references and messages: HEAD, MERGE_HEAD, COMMIT_EDITMSG, BISECT_LOG. A lock is held by whoever makes it.
func openInGit(name string) bool {
	return slices.Contains(gitOpen, name) || strings.HasSuffix(name, ".lock") || strings.Trim(name, capitals) == "" ||
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
	folder *beneath.Folder // which it was when it was looked at
	open   func(name string) bool
	within bool              // it lies in a folder that is sealed
	had    map[string]string // what was there before the command; of a link that must stay, where it leads
	noted  *noted            // what links there were, where git follows them; nil: nobody looked
	// replaced are the lines of packed-refs that have git take one object for another.
	replaced []string
	bears    bool   // it holds the objects of a repository
	digits   int    // of the names of its objects
	linked   bool   // it is a linked worktree's: whoever commits there commits for the task
	store    *store // what the command finds in its place; nil: itself
}

// gitPlan is what is done about the repositories of a workspace.
type gitPlan struct {
	dirs   []gitDir // outer ones first
	sealed []string // files that say where a repository is, and what has git take one object for another
	pinned []string // folders of what is sealed
	// shared is what a linked worktree shares with others, and may write to.
	shared []sharedDir
	looked int // folders in which submodules were looked for
}

// sharedDir is a folder that worktrees share.
type sharedDir struct {
	folder *beneath.Folder
	noted  *noted
}

// planGit looks at the repository in a folder. A linked worktree that is not the workspace itself is not for commands to
// commit in: it is another's, and its record is sealed with that of all others.
//
// With shut the repository of the workspace itself cannot be changed at all: what is left in a folder of git is believed by the person's next git, and no list of what may be
// left there was ever complete.
func planGit(repo string, nested, shut bool) (plan gitPlan) {
	dot := filepath.Join(repo, ".git")
	info, err := os.Lstat(dot)
	if err != nil {
		if nested && isGitFolder(repo) {
			plan.add(repo, false)
		}
		return plan
	}
	if shut && !nested {
		plan.sealed = []string{dot}
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
		for i := range plan.dirs {
			plan.dirs[i].digits, plan.dirs[i].linked = digitsOf(filepath.Join(common, "objects")), true
		}
		plan.addObjects(common, false)
		plan.sealReplacements(common)
		for _, name := range []string{"refs", "logs"} {
			if folder, err := beneath.Open(filepath.Join(common, name)); err == nil {
				plan.shared = append(plan.shared, sharedDir{folder: folder})
			}
		}
	}
	return plan
}

// add takes in a folder of git, with its objects and its submodules.
func (g *gitPlan) add(dir string, within bool) {
	folder := g.take(dir, openInGit, within)
	if folder == nil {
		return
	}
	if isDir(filepath.Join(dir, "objects")) { // what a linked worktree does not have
		// A folder that is not there could be made; then it is made here, and empty. A person's git may fill it meanwhile.
		for _, name := range []string{"hooks", "info", "modules", "worktrees"} {
			_ = unix.Mkdirat(int(folder.Fd()), name, 0o755)
		}
	}
	g.addObjects(dir, within)
	g.sealReplacements(dir)
	g.addModules(filepath.Join(dir, "modules"))
}

// replacements are references that have git take one object for another.
const replacements = "refs/replace"

// sealReplacements keeps a command from making any. The folder is made for it, if there are none.
func (g *gitPlan) sealReplacements(dir string) {
	refs, err := beneath.Open(filepath.Join(dir, "refs"))
	if err != nil {
		return
	}
	defer refs.Close()
	_ = unix.Mkdirat(int(refs.Fd()), filepath.Base(replacements), 0o755)
	if info, err := refs.Lstat(filepath.Base(replacements)); err == nil && info.IsDir() {
		g.pinned = append(g.pinned, filepath.Join(dir, "refs")) // who can move that away can put another in its place
		g.sealed = append(g.sealed, filepath.Join(dir, replacements))
	}
}

func (g *gitPlan) addObjects(dir string, within bool) {
	objects := filepath.Join(dir, "objects")
	if !isDir(objects) {
		return
	}
	if folder := g.take(objects, openInObjects, within); folder != nil {
		g.dirs[len(g.dirs)-1].bears = true
		_ = unix.Mkdirat(int(folder.Fd()), "info", 0o755)
		g.take(filepath.Join(objects, "info"), openInInfo, true)
	}
}

// take takes in one folder. What cannot be opened without following a link is sealed as a whole, or the command does not run.
func (g *gitPlan) take(dir string, open func(string) bool, within bool) *beneath.Folder {
	folder, err := beneath.Open(dir)
	if err != nil {
		g.sealed = append(g.sealed, dir)
		return nil
	}
	g.dirs = append(g.dirs, gitDir{path: dir, folder: folder, open: open, within: within, digits: digitsOf(filepath.Join(dir, "objects"))})
	return folder
}

// addModules takes in the submodules that are there, whose names may have slashes in them. Those that are too many stay sealed.
func (g *gitPlan) addModules(dir string) {
	if g.looked++; g.looked > nestedFolders {
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir() || g.looked > nestedFolders:
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
		entries, _ := dir.folder.ReadDir(".")
		g.dirs[i].had = make(map[string]string, len(entries))
		for _, e := range entries {
			link := ""
			if e.Type()&fs.ModeSymlink != 0 && !dir.open(e.Name()) {
				link, _ = dir.folder.Readlink(e.Name())
			}
			g.dirs[i].had[e.Name()] = link
		}
		g.dirs[i].replaced, _ = dir.replacing()
		if !dir.bears {
			g.dirs[i].noted = noteOf(dir)
		}
	}
	for i, shared := range g.shared {
		g.shared[i].noted = &noted{Links: map[string]string{}}
		g.shared[i].noted.noteBelow(shared.folder, "")
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
	var stored []string
	for _, dir := range g.dirs {
		closed := dir.closed()
		switch {
		case dir.store != nil:
			if err := dir.store.mount(); err != nil {
				return err
			}
			stored = append(stored, dir.path)
			continue
		case covered(dir.path, stored):
			continue // it is nobody's but the command's
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
			if dir.had[filepath.Base(path)] != "" {
				if path = resolved(path); path == "" {
					continue
				}
			}
			if err := seal(path); err != nil {
				return err
			}
		}
	}
	for _, path := range g.pinned {
		if err := pin(path); err != nil {
			return err
		}
	}
	for _, path := range g.sealed {
		if err := seal(path); err != nil {
			return err
		}
	}
	return nil
}

// GitReadOnly reports whether commands cannot write the repository of the workspace: it is not the task's own worktree, and no person lets them.
func (p Profile) GitReadOnly() bool {
	return p.Files == ReadOnly || p.Files == WorkspaceWrite && !p.GitWrite && len(p.Refs) == 0
}

// gitWritable is what a commit in a linked worktree needs outside of the workspace: what every repository
// shares, and what is the worktree's own; never hooks and config. Of the references only those of p.Refs, if it has any.
func (p Profile) gitWritable() []string {
	own, common := p.worktree()
	if own == "" || p.GitReadOnly() {
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
