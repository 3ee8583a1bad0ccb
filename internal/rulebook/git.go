package rulebook

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"taskdaemon/internal/policy"
)

// gitFile is the most that is read of a file that tells where a repository is.
const gitFile = 4 << 10

// gitHead is a HEAD that git takes for one.
var gitHead = regexp.MustCompile(`^(ref:\s*refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})\s*$`)

// LookAtGit says what a folder is to git. What protects is said of whatever resembles a repository; what lets git
// be asked freely only of one that git takes for sure: from any other it goes on to look in the folder itself,
// where files of the workspace may pass for a bare repository.
func LookAtGit(dir string) policy.Git {
	at := policy.Git{Inside: exists(dir, "HEAD") && (exists(dir, "objects") || exists(dir, "commondir"))}
	dot := filepath.Join(dir, ".git")
	info, err := os.Stat(dot)
	switch {
	case err != nil:
	case info.IsDir():
		// The folder of a repository itself leads nowhere else.
		at.Top = !exists(dot, "commondir") && isRepository(dot, dot)
	default:
		own, ok := strings.CutPrefix(readSmall(dot), "gitdir:")
		if !ok {
			break
		}
		own = beside(dir, own)
		common := own
		if to := readSmall(filepath.Join(own, "commondir")); to != "" {
			common = beside(own, to)
		}
		at.Top = isRepository(own, common)
	}
	return at
}

// isRepository reports whether git takes a folder for a repository that keeps what it shares in another, or in
// the same.
func isRepository(own, common string) bool {
	return gitHead.MatchString(readSmall(filepath.Join(own, "HEAD"))) && isDir(common, "objects") && isDir(common, "refs")
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func isDir(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.IsDir()
}

// readSmall is the beginning of a regular file; empty when there is none.
func readSmall(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, gitFile))
	if err != nil {
		return ""
	}
	return string(data)
}

// beside is a path as a file in a folder names it.
func beside(dir, path string) string {
	path = strings.TrimSpace(path)
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
