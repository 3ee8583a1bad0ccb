package git

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/gitfile"
)

// CommonDir is the folder that all worktrees of the repository around dir share, or empty where there is
// none. It only reads files, so that it can be asked before every command.
func CommonDir(dir string) string {
	for {
		found := filepath.Join(dir, ".git")
		info, err := os.Stat(found)
		switch {
		case err == nil && info.IsDir():
			return found
		case err == nil:
			return commonOf(found)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// textOf is what a short file of git's says, without the spaces around it; empty when there is none.
func textOf(file string) string { return strings.TrimSpace(gitfile.Text(file)) }

// commonOf follows the .git file of a linked worktree or a submodule.
func commonOf(file string) string {
	own := gitfile.Gitdir(file)
	if own == "" {
		return ""
	}
	return cmp.Or(gitfile.Common(own), own) // a submodule has no other worktrees
}
