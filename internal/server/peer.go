package server

import (
	"context"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// nobody is the peer whose credentials the kernel did not tell.
var nobody = unix.Ucred{Uid: ^uint32(0)}

type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peerOf(c))
}

// peerOf asks the kernel who is at the other end.
func peerOf(c net.Conn) unix.Ucred {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nobody
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nobody
	}
	cred := &nobody
	err = raw.Control(func(fd uintptr) {
		if got, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			cred = got
		}
	})
	if err != nil {
		return nobody
	}
	return *cred
}

// checkPeer lets only the daemon's own user in; root has other ways.
func checkPeer(ctx context.Context) error {
	peer, ok := ctx.Value(peerKey{}).(unix.Ucred)
	if !ok || int(peer.Uid) != os.Geteuid() {
		return td.Errorf(td.Refused, "this daemon belongs to another user").WithHint("taskdaemon --state DIR …")
	}
	return nil
}
