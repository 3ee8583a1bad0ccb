package sandbox

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// unmade are the folders of the workspace in which the index of the person's own checkout says that there is a repository, and there is none. Their git goes into one that a job
// makes there, and runs what its settings name, as long as the job runs. So these folders are sealed, and made where there is none. Who may write the index can name others.
func (p Profile) unmade() (dirs []string) {
	if p.Files != WorkspaceWrite || !p.GitReadOnly() {
		return nil
	}
	top := p.Workspace
	if around := enclosing(p.Workspace); around != "" {
		top = around
	}
	for _, link := range indexed.of(top, newEffort(lookBefore)) {
		dir := filepath.Join(top, link)
		if !inside(dir, p.Workspace) || covered(dir, p.Write) || slices.Contains(dirs, dir) || !p.reachable(dir) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// reachable reports whether all that is there of the way to a folder of the workspace are folders: git does not go over links and files.
func (p Profile) reachable(dir string) bool {
	for up := filepath.Dir(dir); inside(up, p.Workspace); up = filepath.Dir(up) {
		var st unix.Stat_t
		if unix.Lstat(up, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false
		}
	}
	return true
}
