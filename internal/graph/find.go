package graph

import (
	"os"
	"path/filepath"

	"taskdaemon/internal/gitfile"
)

// Folder is the name of the folder in a project that holds its graph.
const Folder = ".taskdaemon"

// Find is the project that dir is in: the nearest folder, itself or above, with a graph. A linked worktree has that of the
// checkout it is linked to.
func Find(dir string) (root string, ok bool) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		for _, at := range []string{dir, linkedTo(dir)} {
			if at == "" {
				continue
			}
			if info, err := os.Lstat(filepath.Join(at, Folder, LogFile)); err == nil && info.Mode().IsRegular() {
				return at, true
			}
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}

// linkedTo is the checkout whose linked worktree a folder is; empty when it is none. Anybody can write a file that leads
// somewhere: the repository must know the worktree, too.
func linkedTo(dir string) string {
	file := filepath.Join(dir, ".git")
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	own := gitfile.Gitdir(file)
	if own == "" {
		return ""
	}
	common := gitfile.Common(own)
	here, err := os.Stat(file)
	back, berr := os.Stat(gitfile.Back(own))
	if err != nil || berr != nil || !os.SameFile(here, back) || filepath.Base(common) != ".git" || filepath.Dir(filepath.Dir(own)) != common {
		return ""
	}
	return filepath.Dir(common)
}
