package server

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// nobody is the peer whose credentials the kernel did not tell.
var nobody = unix.Ucred{Uid: ^uint32(0)}

type peerKey struct{}

// peer is who is at the other end of a connection.
type peer struct {
	unix.Ucred
	inside string // why it counts as a process of a run; empty: it does not
	remote string // where it comes from over TCP; empty: it came over the socket
}

// from is where a request over TCP comes from; empty: it came over the socket.
func from(ctx context.Context) string {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p.remote
}

// withPeer looks at the peer when it connects, while it waits for its answer and its pid is its own.
func (s *server) withPeer(ctx context.Context, c net.Conn) context.Context {
	if at := remote(c); at != "" {
		return context.WithValue(ctx, peerKey{}, peer{Ucred: nobody, remote: at})
	}
	p := peer{Ucred: peerOf(c)}
	if s.opts.Inside != nil {
		p.inside = s.opts.Inside(int(p.Pid))
		if p.inside == "" && gone(c) {
			p.inside = "it is gone already"
		}
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// peerOf asks the kernel who is at the other end.
func peerOf(c net.Conn) unix.Ucred {
	cred := &nobody
	onSocket(c, func(fd int) {
		if got, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			cred = got
		}
	})
	return *cred
}

// gone reports whether the process that connected has ended, so that its pid, by which it was looked at, may have been
// another's: a command could connect, hand the connection on and wait for a person's process to get its pid. Kernels before
// 6.5 cannot say.
func gone(c net.Conn) bool {
	ended := true
	onSocket(c, func(fd int) {
		switch peer, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); {
		case errors.Is(err, unix.ENOPROTOOPT):
			ended = false
		case err == nil:
			ended = errors.Is(unix.PidfdSendSignal(peer, 0, nil, 0), unix.ESRCH)
			_ = unix.Close(peer)
		}
	})
	return ended
}

// onSocket calls f with the descriptor of a connection that has one.
func onSocket(c net.Conn, f func(fd int)) {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}

// checkPeer lets only the daemon's own user in; root has other ways. What an agent started is kept out: it could
// answer for the person whom its own run asks (G-4), and it has no business with what other tasks read and say.
func checkPeer(ctx context.Context) error {
	p, ok := ctx.Value(peerKey{}).(peer)
	if !ok || int(p.Uid) != os.Geteuid() {
		return td.Errorf(td.Refused, "this daemon belongs to another user").WithHint("taskdaemon --state DIR …")
	}
	if p.inside != "" {
		return td.Errorf(td.Refused, "a process of a run may not talk to the daemon (%s)", p.inside).
			WithHint("type it in a terminal of your own")
	}
	return nil
}
