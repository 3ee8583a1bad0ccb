package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// gitFile is the most that is read of a .git file or of a worktree's commondir.
const gitFile = 4 << 10

// gitWorktree is the folder of a linked worktree and that of its repository; empty when .git in the
// workspace is no file that says so.
func gitWorktree(workspace string) (own, common string) {
	raw, err := readSmall(filepath.Join(workspace, ".git"))
	if err != nil {
		return "", ""
	}
	own, ok := strings.CutPrefix(strings.TrimSpace(raw), "gitdir:")
	if !ok {
		return "", ""
	}
	own = beside(workspace, strings.TrimSpace(own))
	common = own
	if raw, err := readSmall(filepath.Join(own, "commondir")); err == nil {
		common = beside(own, strings.TrimSpace(raw))
	}
	// A .git file can be written by a command. It must not open what is no repository of this workspace: a
	// worktree is known to its repository, which says where it is.
	if back, err := readSmall(filepath.Join(own, "gitdir")); err != nil || !sameFile(beside(own, strings.TrimSpace(back)), filepath.Join(workspace, ".git")) {
		return "", ""
	}
	return own, common
}

// maxLenders is how many repositories objects are borrowed from, one from the other: as many as git follows.
const maxLenders = 5

// gitLenders are the folders of objects that the repository of a workspace borrows, which git must see. A command
// cannot make it borrow others: what says so is sealed, or removed where there was nothing before.
func gitLenders(workspace string) []string {
	var out []string
	at := filepath.Join(workspace, ".git", "objects")
	if _, common := gitWorktree(workspace); common != "" {
		at = filepath.Join(common, "objects")
	}
	for next := []string{at}; len(next) > 0 && len(out) < maxLenders; next = next[1:] {
		raw, err := readSmall(filepath.Join(next[0], "info", "alternates"))
		if err != nil {
			continue
		}
		for _, path := range alternates(raw) {
			if path = beside(next[0], path); !slices.Contains(out, path) && len(out) < maxLenders {
				out, next = append(out, path), append(next, path)
			}
		}
	}
	return out
}

// alternates are the paths in a file of that name: one in a line, some quoted.
func alternates(raw string) []string {
	var out []string
	for line := range strings.SplitSeq(raw, "\n") {
		if strings.HasPrefix(line, `"`) {
			plain, err := strconv.Unquote(line)
			if err != nil {
				continue
			}
			line = plain
		}
		if line != "" && !strings.HasPrefix(line, "#") && !strings.ContainsRune(line, 0) {
			out = append(out, line)
		}
	}
	return out
}

func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, gitFile)
	n, err := f.Read(buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// gitWritable is what a commit in a linked worktree needs outside of the workspace: what every repository
// shares, and what is the worktree's own; never hooks and config.
func gitWritable(workspace string) []string {
	own, common := gitWorktree(workspace)
	if own == "" {
		return nil
	}
	return []string{own, filepath.Join(common, "objects"), filepath.Join(common, "refs"), filepath.Join(common, "logs")}
}

// gitProtected is what a command must not change of the repository in a folder of its workspace, because git, run by
// somebody else, would run it or be led elsewhere. pins must stay where they are; sealed may not be
// changed at all.
func gitProtected(workspace string) (pins, sealed []string) {
	dot := filepath.Join(workspace, ".git")
	info, err := os.Lstat(dot)
	if err != nil {
		return nil, nil
	}
	if !info.IsDir() {
		own, _ := gitWorktree(workspace)
		if own == "" {
			return nil, []string{dot}
		}
		return []string{own}, append([]string{dot}, existing(own, "commondir", "gitdir", "config.worktree")...)
	}
	// One that lost its HEAD was a repository, and may be one again: who can remove it can bring it back.
	if len(existing(dot, "HEAD", "config", "hooks")) == 0 {
		return nil, nil // no repository
	}
	// A folder that is not there could be made; then it is made here, and empty.
	for _, name := range []string{"hooks", "info"} {
		_ = os.Mkdir(filepath.Join(dot, name), 0o755)
	}
	sealed = existing(dot, append([]string{"config", "hooks", "info"}, gitIntruders...)...)
	_ = filepath.WalkDir(filepath.Join(dot, "modules"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case d.IsDir() && d.Name() == "hooks":
			sealed = append(sealed, path)
			return fs.SkipDir
		case d.IsDir() && (d.Name() == "objects" || d.Name() == "refs" || d.Name() == "logs"):
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasPrefix(d.Name(), "config"):
			sealed = append(sealed, path)
		}
		return nil
	})
	others, _ := filepath.Glob(filepath.Join(dot, "worktrees", "*"))
	for _, own := range others {
		sealed = append(sealed, existing(own, "commondir", "gitdir", "config.worktree")...)
	}
	return above(dot, sealed), sealed
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

// gitIntruders lead git to another folder for its config or its objects, and are made by no git that works in a
// repository of its own. No mount can keep a name free, and git does not bear an empty commondir: so they are
// removed when the command that made them has ended.
var gitIntruders = []string{"commondir", "config.worktree", "objects/info/alternates"}

// intrudersOf are those that the repository in a folder does not have.
func intrudersOf(repo string) []string {
	dot := filepath.Join(repo, ".git")
	if info, err := os.Lstat(dot); err != nil || !info.IsDir() {
		return nil
	}
	var paths []string
	for _, name := range gitIntruders {
		if !exists(dot, name) {
			paths = append(paths, filepath.Join(dot, name))
		}
	}
	return paths
}

// removeIntruders does what the shim of the command in dir died too early to do. What was there before the
// command started is not the command's: nobody can set back when the kernel says that a file was changed.
func removeIntruders(dir string, sp spec) {
	var started, made unix.Stat_t
	if sp.Profile == nil || sp.Profile.Files != WorkspaceWrite || unix.Lstat(filepath.Join(dir, startedFile), &started) != nil {
		return
	}
	for _, name := range gitIntruders {
		path := filepath.Join(sp.Profile.Workspace, ".git", name)
		if unix.Lstat(path, &made) == nil && made.Ctim.Nano() >= started.Mtim.Nano() {
			_ = os.RemoveAll(path)
		}
	}
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
