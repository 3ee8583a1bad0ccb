package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var fpBound = failpoint.New("server.socket.after_bind")

// listener is a unix socket that only its owner can reach.
type listener struct {
	*net.UnixListener
	path  string
	inode uint64
	once  sync.Once
}

func listen(ctx context.Context, path string) (*listener, error) {
	if err := ownFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := clearStale(ctx, path); err != nil {
		return nil, err
	}
	addr, done, err := wire.Address(path)
	if err != nil {
		return nil, td.Errorf(td.Storage, "listen on %s: %w", path, err)
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: addr, Net: "unix"})
	if err != nil {
		return nil, td.Errorf(td.Storage, "listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // remove looks first whether it is still ours
	fpBound.Hit()
	var st syscall.Stat_t
	if err := errors.Join(os.Chmod(path, 0o600), syscall.Stat(path, &st)); err != nil {
		_ = l.Close()
		return nil, td.Errorf(td.Storage, "protect %s: %w", path, err)
	}
	return &listener{UnixListener: l, path: path, inode: st.Ino}, nil
}

// remove takes the socket away, unless another daemon has put its own there.
func (l *listener) remove() {
	l.once.Do(func() {
		_ = l.Close()
		var st syscall.Stat_t
		if syscall.Stat(l.path, &st) == nil && st.Ino == l.inode {
			_ = os.Remove(l.path)
		}
	})
}

// ownFolder makes sure that the folder is there, ours, and closed to others.
func ownFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return td.Errorf(td.Storage, "make the socket's folder: %w", err)
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil {
		return td.Errorf(td.Storage, "look at the socket's folder %s: %w", dir, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(st.Uid) != os.Geteuid() {
		return td.Errorf(td.Refused, "the socket's folder %s is not yours", dir).WithHint("taskdaemon --state DIR …")
	}
	if st.Mode&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return td.Errorf(td.Storage, "protect the socket's folder: %w", err)
		}
	}
	return nil
}

// clearStale removes the socket of a dead daemon and refuses to touch that of a living one.
func clearStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return td.Errorf(td.Storage, "look at %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return td.Errorf(td.Refused, "%s is in the way and is not a socket", path).WithHint("mv %s somewhere else", path)
	}
	addr, done, err := wire.Address(path)
	if err != nil {
		return td.Errorf(td.Storage, "look at %s: %w", path, err)
	}
	defer done()
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", addr)
	if err == nil {
		defer conn.Close()
		return td.Errorf(td.Locked, "a daemon with pid %d answers on %s", peerOf(conn).Pid, path).
			WithHint("taskdaemon daemon status")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return td.Errorf(td.Locked, "%s does not answer, and may be in use: %w", path, err).
			WithHint("taskdaemon daemon status")
	}
	if err := os.Remove(path); err != nil {
		return td.Errorf(td.Storage, "remove the socket of a dead daemon: %w", err)
	}
	return nil
}
