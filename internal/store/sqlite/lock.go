package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

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
	who, err := takeLock(lock, path)
	if err != nil {
		return s.classify(fmt.Errorf("lock the state folder: %w", err))
	}
	if who != "" {
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

// Lock takes a state folder as a journal that is open in it does: for who works on its files while nobody has them open.
func Lock(dir string) (release func(), err error) {
	s := &Store{dir: dir, path: filepath.Join(dir, "journal.db")}
	if err := s.lockDir(); err != nil {
		return nil, err
	}
	return func() { _ = s.lock.Unlock() }, nil
}

// Displaced says that the journal is no longer where its path leads: the state folder was moved, removed or replaced. What this process is told by
// files of that folder is then another's, or nothing, and none of it may become an outcome.
func (s *Store) Displaced() error {
	now, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, s.place) {
		return td.Errorf(td.Storage, "the state folder %s was moved or removed while the daemon ran", s.dir).
			WithHint("move it back, or name its new place with --state; what was running is recovered there")
	}
	return nil
}

// inheritance is how long the lock of a dead process is waited for: the kernel takes a while to close its files, and a child
// that it was just starting when it was killed has the lock until it becomes another program.
const inheritance = 5 * time.Second

// takeLock takes the lock, or says who has it.
func takeLock(lock *flock.Flock, path string) (who string, err error) {
	for end := time.Now().Add(inheritance); ; time.Sleep(5 * time.Millisecond) {
		ok, err := lock.TryLock()
		if err != nil || ok {
			return "", err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return "another process", nil //nolint:nilerr // who it is would only have been good to know
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err == nil && !dead(pid) {
			return fmt.Sprintf("the process %d", pid), nil
		}
		if time.Now().After(end) {
			return "another process", nil
		}
	}
}

// dead reports whether a process has ended or was killed: nothing of it will run again, though it may still be listed, because nobody has
// asked how it ended, or still be taken apart.
func dead(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // it cannot be told
	}
	const state, flags, signals = 0, 6, 28 // places in proc_pid_stat(5), counted from behind the name
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) <= signals {
		return false
	}
	has := func(field int, bit uint64) bool {
		n, err := strconv.ParseUint(fields[field], 10, 64)
		return err == nil && n&bit != 0
	}
	const exiting, killed = 0x4, 1 << (uint(syscall.SIGKILL) - 1)
	return strings.Contains("ZXx", fields[state]) || has(flags, exiting) || has(signals, killed)
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
