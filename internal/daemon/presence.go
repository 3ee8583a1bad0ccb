package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/sandbox"
)

// A daemon is known by the path of its state folder, too, for as long as it lives: by a socket whose name is in no folder. The lock in the
// state folder goes where the folder goes; who finds none at its path would begin an empty one beside a daemon that still works.

// presenceName is the name of the socket that stands for a state folder.
func presenceName(stateDir string) string {
	return fmt.Sprintf("@taskdaemon-%d-%x", os.Getuid(), sha256.Sum256([]byte(statePath(stateDir))))
}

// present says who is known by the name of a state folder: 0 is nobody.
func present(stateDir string) int {
	c, err := net.DialTimeout("unix", presenceName(stateDir), time.Second)
	if err != nil {
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) { // it fails on a closed one only
		// Anybody may take a name; only a process of one's own is believed.
		if who, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && int(who.Uid) == os.Getuid() {
			pid = int(who.Pid)
		}
	})
	if sandbox.ConfinedProcess(pid) && !sandbox.Confined() {
		return 0 // a command of a task has taken the name
	}
	return pid
}

// passing is how long the name of a daemon that has just ended is waited for.
const passing = 5 * time.Second

// appear takes the name of a state folder whose lock this process has, until release. Where names cannot be taken there is no such
// protection, and nothing else changes.
func appear(ctx context.Context, stateDir string) (release func(), err error) {
	for end := time.Now().Add(passing); ; {
		l, err := new(net.ListenConfig).Listen(ctx, "unix", presenceName(stateDir))
		switch {
		case err == nil:
			return func() { _ = l.Close() }, nil
		case errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end):
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if pid := present(stateDir); pid != 0 {
			return nil, moved(stateDir, pid)
		}
		return func() {}, nil
	}
}

// lookOften is how often a daemon looks whether its state folder is still in its place. Meanwhile the journal refuses what would be written.
const lookOften = 500 * time.Millisecond

// stayPut ends the daemon when its state folder is no longer where its path leads: whatever it would read and write there is another's.
func (d *Daemon) stayPut(ctx context.Context) error {
	tick := time.NewTicker(lookOften)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := d.displaced(); err != nil {
				return err
			}
		}
	}
}
