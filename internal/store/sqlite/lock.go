package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"taskdaemon/internal/td"
)

// lockDir takes the state folder for this process, for as long as it lives. The lock is the kernel's
// and goes with the process however it ends; the pid in the file is for people.
func (s *Store) lockDir() error {
	run := filepath.Join(s.dir, "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return s.classify(fmt.Errorf("make the state folder: %w", err))
	}
	path := filepath.Join(run, "journal.lock")
	lock := flock.New(path, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return s.classify(fmt.Errorf("lock the state folder: %w", err))
	}
	if !ok {
		who := "another process"
		if raw, err := os.ReadFile(path); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
				who = fmt.Sprintf("the process %d", pid)
			}
		}
		return td.Errorf(td.Locked, "%s has the state folder %s open", who, s.dir).
			WithHint("stop it first (taskdaemon daemon stop), or choose another folder with --state")
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		_ = lock.Unlock()
		return s.classify(fmt.Errorf("write the lock file: %w", err))
	}
	s.lock = lock
	return nil
}

// syncDir makes what was created, renamed or removed in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
