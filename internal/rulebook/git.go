package rulebook

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/policy"
)

// gitHead is a HEAD that git takes for one.
var gitHead = regexp.MustCompile(`^(ref:\s*refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})\s*$`)

// LookAtGit says what a folder is to git. What protects is said of whatever resembles a repository; what lets git
// be asked freely only of one that git takes for sure: from any other it goes on to look in the folder itself,
// where files of the workspace may pass for a bare repository.
func LookAtGit(dir string) policy.Git {
	at := policy.Git{Inside: gitfile.ResemblesNearly(func(name string) bool { return exists(dir, name) })}
	dot := filepath.Join(dir, ".git")
	info, err := os.Stat(dot)
	switch {
	case err != nil:
	case info.IsDir():
		// The folder of a repository itself leads nowhere else.
		at.Top = !exists(dot, "commondir") && isRepository(dot, dot)
	default:
		own := gitfile.Gitdir(dot)
		at.Top = own != "" && isRepository(own, cmp.Or(gitfile.Common(own), own))
	}
	return at
}

// isRepository reports whether git takes a folder for a repository that keeps what it shares in another, or in
// the same.
func isRepository(own, common string) bool {
	return gitHead.MatchString(gitfile.Text(filepath.Join(own, "HEAD"))) && isDir(common, "objects") && isDir(common, "refs")
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func isDir(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.IsDir()
}
