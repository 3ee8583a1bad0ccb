package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"taskdaemon/internal/td"
)

// apart has an index of our own changed in the place of the checkout's, which gets it afterwards. The git that changes it, and files, needs nothing else of what git keeps:
// a command at work in the checkout may have it write where a link leads. The checkout's own index is locked meanwhile, as git locks it.
func (p *place) apart(change func(*place) error) error {
	index, err := p.ownIndex()
	if err != nil {
		return err
	}
	release, err := p.lockIndex()
	if err != nil {
		return err
	}
	defer release()
	if err := clearIndex(index); err != nil {
		return err
	}
	if err := copyIndex(index, filepath.Join(p.git, "index")); err != nil {
		return err
	}
	if err := change(p.with("GIT_INDEX_FILE=" + index)); err != nil {
		return err
	}
	return p.placeIndex(index)
}

// lockText begins what a lock of ours holds. git's hold the index that is to come.
const lockText = "taskdaemon "

// lockIndex keeps others from changing the index.
func (p *place) lockIndex() (release func(), err error) {
	lock := p.indexLock()
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, p.indexLocked()
	case err != nil:
		return nil, td.Errorf(td.Storage, "lock index: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s%d\n", lockText, os.Getpid())
	release = func() { _ = os.Remove(lock) }
	if err := errors.Join(err, f.Close()); err != nil {
		release()
		return nil, td.Errorf(td.Storage, "lock index: %w", err)
	}
	return release, nil
}

func (p *place) indexLock() string { return filepath.Join(p.git, "index.lock") }

func (p *place) indexLocked() error {
	return td.Errorf(td.Locked, "another git is at work in %s: it has index.lock", p.top).WithHint("when it has ended; if there is none: rm %s", p.indexLock())
}

// sweepIndexLock removes a lock of ours whose process is dead, or had the number of this one, which is alone here.
func (p *place) sweepIndexLock() {
	lock := p.indexLock()
	said, ours := strings.CutPrefix(textOf(lock), lockText)
	pid, err := strconv.Atoi(strings.TrimSpace(said))
	if !ours || err != nil || pid <= 0 || pid != os.Getpid() && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return
	}
	_ = os.Remove(lock)
}

// clearIndex removes what a crash has left.
func clearIndex(index string) error {
	for _, left := range []string{index, index + ".lock"} {
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return td.Errorf(td.Storage, "clear index: %w", err)
		}
	}
	return nil
}

// ownIndex is where an index is made before the checkout gets it: on the same disk, where no command can put a link in its place while git writes it, as it can in what git keeps of
// its checkout.
func (p *place) ownIndex() (string, error) {
	folder := filepath.Join(p.common, indexFolder, filepath.Base(p.git))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", td.Errorf(td.Storage, "make index: %w", err)
	}
	return filepath.Join(folder, "index"), nil
}

// indexFolder is in a repository, with a folder for each of its checkouts.
const indexFolder = "taskdaemon-indexes"

// placeIndex gives the checkout an index that was made beside its own.
func (p *place) placeIndex(index string) error {
	err := os.Rename(index, filepath.Join(p.git, "index"))
	if err == nil {
		err = syncPath(p.git)
	}
	if err != nil {
		return td.Errorf(td.Storage, "replace index: %w", err)
	}
	return nil
}
