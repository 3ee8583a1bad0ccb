package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
