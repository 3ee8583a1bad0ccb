package server

import (
	"context"
	"errors"
	"net"
	"syscall"

	"taskdaemon/internal/td"
)

// listenTCP opens the API's port. A host that is not on this machine was allowed by the config.
func listenTCP(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, td.Errorf(td.Locked, "listen on %s: another program has that port", addr).
			WithHint("choose another for api.listen; with port 0 a free one is taken, and taskdaemon daemon status shows it")
	case err != nil:
		return nil, td.Errorf(td.Unavailable, "listen on %s: %w", addr, err).WithHint("choose another address for api.listen")
	}
	return l, nil
}

// remote is where a connection comes from that did not come over the socket; empty: it did.
func remote(c net.Conn) string {
	if _, tcp := c.(*net.TCPConn); !tcp {
		return ""
	}
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
