package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/td"
)

// classify gives an error of the database or the file system its kind. What has one keeps it.
func (s *Store) classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*td.Error](err); ok {
		return err
	}
	if err := disk.NoMoreFiles(err, is(err, sqlite3.CANTOPEN)); err != nil {
		return err
	}
	path := s.path
	switch {
	case is(err, sqlite3.CORRUPT) || is(err, sqlite3.NOTADB) || errors.Is(err, sqlite3.IOERR_DATA):
		return corrupt(path, err)
	case s.full(err):
		return td.Errorf(td.Storage, "the disk that holds %s is full: %w", s.dir, err).
			WithHint("free some space; the journal goes on by itself")
	case is(err, sqlite3.READONLY) || is(err, sqlite3.CANTOPEN) || is(err, sqlite3.PERM) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return td.Errorf(td.Storage, "%s cannot be written: %w", s.dir, err).
			WithHint("make %s writable for this user", s.dir)
	case is(err, sqlite3.BUSY) || is(err, sqlite3.LOCKED):
		return td.Errorf(td.Locked, "another program holds a lock on %s: %w", path, err).
			WithHint("close the program that has %s open", path)
	case is(err, sqlite3.INTERRUPT) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return td.Errorf(td.Interrupted, "interrupted: %w", err)
	case is(err, sqlite3.TOOBIG):
		return td.Errorf(td.Invalid, "too large for the journal: %w", err)
	case is(err, sqlite3.IOERR), isErrno(err):
		return td.Errorf(td.Storage, "the disk that holds %s failed: %w%s", s.dir, err, codeOf(err)).
			WithHint("look at the kernel's log (dmesg) for errors of that disk")
	}
	return td.Errorf(td.Internal, "journal %s: %w", path, err)
}

// codeOf is SQLite's own number for an error, which says more than its words.
func codeOf(err error) string {
	var code sqlite3.ExtendedErrorCode
	if errors.As(err, &code) {
		return fmt.Sprintf(" (code %d)", uint16(code))
	}
	return ""
}

func is(err error, code sqlite3.ErrorCode) bool { return errors.Is(err, code) }

// full reports whether there was no room. The driver may lose the reason of a failed write, which is
// then looked for on the disk.
func (s *Store) full(err error) bool {
	if is(err, sqlite3.FULL) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	if !errors.Is(err, sqlite3.IOERR_WRITE) || isErrno(err) {
		return false
	}
	const room = 1 << 20
	var fs syscall.Statfs_t
	return syscall.Statfs(s.dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) < room
}

func isErrno(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// corrupt is the error of a database that cannot be trusted. It is left exactly as it is.
func corrupt(path string, err error) error {
	return td.Errorf(td.Corrupt, "the journal %s is damaged: %w", path, err).WithHint(
		"it was left as it is. taskdaemon doctor --rebuild makes it again from the conversations, and keeps it aside. To save more of it, copy %[1]s and %[1]s-wal to another folder and save there what can be read: "+
			"sqlite3 journal.db '.clone fixed.db' && sqlite3 fixed.db 'PRAGMA application_id=%[2]d; PRAGMA user_version=%[3]d'; "+
			"docs/journal.md says how to go on", path, applicationID, len(steps))
}

// behind is the error of a journal that lacks what was in it. Whoever went on from there would do again what is done.
func behind(path string, err error) error {
	return td.Errorf(td.Corrupt, "the journal %s lacks records that were in it: %w", path, err).WithHint(
		"its log was damaged or removed, or an older copy was put in its place. Nothing runs, and nothing was changed. If you have the right files, put them back. " +
			"Else taskdaemon doctor --rebuild adds what the conversations know and pauses what had not ended: look at each task before you resume it")
}

// foreign is the error of a file that is no journal.
func foreign(path, why string) error {
	return td.Errorf(td.Corrupt, "%s is not a taskdaemon journal: %s", path, why).
		WithHint("it was left as it is. Choose another folder with --state, or let taskdaemon doctor --rebuild move it aside")
}

// notWritten reports whether a failed COMMIT certainly left nothing behind: the write of a frame was
// refused, so that the transaction's last frame, which alone makes it count, is not whole. Every other
// failure, of an fsync above all, leaves the outcome open.
func notWritten(err error) bool {
	return is(err, sqlite3.FULL) || is(err, sqlite3.READONLY) || errors.Is(err, sqlite3.IOERR_WRITE) || is(err, sqlite3.BUSY)
}
