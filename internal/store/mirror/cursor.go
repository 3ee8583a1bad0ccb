package mirror

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// cursorFile stands beside git's own files in the repository. git leaves it alone.
const cursorFile = "taskdaemon-cursor"

// readCursor is how far the repository has come. What cannot be read counts as the beginning: starting
// over costs time and changes nothing.
func readCursor(repo *git.Repo) uint64 { return Seen(repo.Path()) }

// Seen is the newest record of the journal that the conversations at a path have; zero if there are none, or nobody can tell.
func Seen(path string) uint64 {
	raw, err := os.ReadFile(filepath.Join(path, cursorFile))
	if err != nil {
		return 0
	}
	at, _ := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64)
	return at
}

// writeCursor replaces the cursor whole.
func writeCursor(repo *git.Repo, at uint64) error {
	path := filepath.Join(repo.Path(), cursorFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return td.Errorf(td.Storage, "write cursor: %w", err)
	}
	_, err = f.WriteString(strconv.FormatUint(at, 10) + "\n")
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return td.Errorf(td.Storage, "write cursor: %w", err)
	}
	return nil
}
