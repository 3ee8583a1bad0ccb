package sqlite

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// A process that was killed is dead though its parent has not asked yet how it ended, and its lock is waited for.
func TestLockOfTheDeadIsWaitedFor(t *testing.T) {
	if dead(os.Getpid()) {
		t.Error("this process counts as dead")
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	if dead(pid) {
		t.Error("a process that sleeps counts as dead")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !dead(pid) {
		t.Error("a process that was killed counts as alive")
	}

	path := filepath.Join(t.TempDir(), "journal.lock")
	if err := os.WriteFile(path, []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	held := flock.New(path)
	if ok, err := held.TryLock(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	freed := make(chan error)
	go func() { freed <- held.Unlock() }()
	lock := flock.New(path)
	who, err := takeLock(lock, path)
	if err != nil || who != "" {
		t.Errorf("the lock of the dead is held by %q, %v", who, err)
	}
	if err := <-freed; err != nil {
		t.Error(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}
