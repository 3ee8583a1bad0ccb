package git

import (
	"os"
	"path/filepath"
	"strings"
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

// maxPointer is longer than any path that git writes into a file that points elsewhere.
const maxPointer = 16 << 10

// commonOf follows the .git file of a linked worktree or a submodule.
func commonOf(file string) string {
	own, is := strings.CutPrefix(pointer(file), "gitdir:")
	if !is {
		return ""
	}
	own = beside(filepath.Dir(file), strings.TrimSpace(own))
	if common := pointer(filepath.Join(own, "commondir")); common != "" {
		return beside(own, common)
	}
	return own // a submodule has no other worktrees
}

func pointer(file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPointer {
		return ""
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
