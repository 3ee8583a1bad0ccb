package git

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"taskdaemon/internal/gitfile"
)

const (
	mostSymrefs = 5        // how often git follows refs that stand for others
	mostPacked  = 16 << 10 // how much is read of the refs of one of many repositories
)

var isCommitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})\s*$`)

// withoutCommit reports whether files say that the repository in a folder has no commit that HEAD stands for. It is false where they do not tell.
func withoutCommit(dir string) bool {
	own := filepath.Join(dir, ".git")
	if info, err := os.Stat(own); err != nil || !info.IsDir() {
		if own = gitfile.Gitdir(own); own == "" {
			return true
		}
	}
	common := cmp.Or(gitfile.Common(own), own)
	if isDir(filepath.Join(common, "reftable")) {
		return false
	}
	text := gitfile.Text(filepath.Join(own, "HEAD"))
	for range mostSymrefs {
		ref, stands := strings.CutPrefix(text, "ref:")
		if ref = strings.TrimSpace(ref); !stands || !filepath.IsLocal(ref) {
			break
		}
		if text = gitfile.Text(filepath.Join(common, ref)); text == "" {
			packed, err := gitfile.Read(filepath.Join(common, "packed-refs"), mostPacked)
			if err != nil {
				return errors.Is(err, fs.ErrNotExist)
			}
			return !strings.Contains(string(packed), " "+ref+"\n")
		}
	}
	return !isCommitID.MatchString(text)
}
