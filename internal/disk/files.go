package disk

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// leastFiles is how many files the daemon must be able to have open: those of its journal, those that it listens at, and those of a few commands.
const leastFiles = 128

// CheckFiles fails if this process, or one that it starts, may have too few files open to be the daemon.
func CheckFiles() error {
	if most := mostFiles(); most < leastFiles {
		return td.Errorf(td.Unavailable, "too few open files are allowed: the limit is %d, the daemon needs at least %d", most, leastFiles).WithHint(raiseFiles)
	}
	return nil
}

const raiseFiles = "raise the limit and try again: ulimit -n 1024 (of a service: LimitNOFILE=1024)"

// mostFiles is how many files this process may have open. A program in Go may use all that it can get.
func mostFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return leastFiles // nobody can say; what cannot be opened says so
	}
	return limit.Max
}

// NoMoreFiles explains an error that comes of too many files being open, in this process or on the machine; nil: it comes of something else. Some
// errors have lost their reason: those that opening may have caused are looked into.
func NoMoreFiles(err error, opening bool) error {
	if err == nil {
		return nil
	}
	why := err
	if opening && !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		why = tryOpen()
	}
	switch {
	case errors.Is(why, syscall.EMFILE):
		return td.Errorf(td.Storage, "too many open files: the limit is %d: %w", mostFiles(), err).WithHint(raiseFiles)
	case errors.Is(why, syscall.ENFILE):
		return td.Errorf(td.Storage, "too many files are open on this machine: %w", err).WithHint("look at fs.file-max: sysctl fs.file-nr fs.file-max")
	}
	return nil
}

// tryOpen is why no file can be opened; nil: one can.
func tryOpen() error {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
