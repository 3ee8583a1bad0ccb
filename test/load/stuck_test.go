package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api/wire"
)

// stick connects and reads nothing, until every task has ended and the daemon has hung up at least once.
// Whenever it hangs up, the next connection is just as stuck.
func (s *subscriber) stick(ctx context.Context) error {
	for first := true; ; first = false {
		select {
		case <-s.over:
			if !first {
				return nil
			}
		case <-ctx.Done():
			return nil
		default:
		}
		if err := s.stickOnce(ctx); err != nil {
			return err
		}
	}
}

func (s *subscriber) stickOnce(ctx context.Context) error {
	addr, done, err := wire.Address(s.socket)
	if err != nil {
		return fmt.Errorf("find the daemon: %w", err)
	}
	conn, err := net.Dial("unix", addr)
	done()
	if err != nil {
		return fmt.Errorf("reach the daemon: %w", err)
	}
	defer conn.Close()
	refs := make([]string, len(s.tasks))
	for i, id := range s.tasks {
		refs[i] = string(id)
	}
	_, err = fmt.Fprintf(conn, "GET /v1/events?follow=true&ref=%s HTTP/1.1\r\nHost: taskdaemon\r\n\r\n", strings.Join(refs, ","))
	if err != nil {
		return fmt.Errorf("ask the daemon: %w", err)
	}
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		over := false
		select {
		case <-s.over:
			over = true
		default:
		}
		gone, err := hungUp(raw.Control)
		if err != nil {
			return fmt.Errorf("watch the connection: %w", err)
		}
		if gone {
			s.hangups.Add(1)
			return nil
		}
		if over && s.hangups.Load() > 0 {
			return nil
		}
	}
	return nil
}

// hungUp waits for a moment and reports whether the other side has closed. It reads nothing.
func hungUp(control func(func(fd uintptr)) error) (gone bool, err error) {
	var polled error
	err = control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, polled = unix.Poll(fds, 50)
		gone = fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0
	})
	if errors.Is(polled, unix.EINTR) {
		polled = nil
	}
	return gone, errors.Join(err, polled)
}
