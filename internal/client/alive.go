package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

// patience is how long the daemon is waited for. It may take any time over an answer, as long as it lives: whoever waits asks it for a sign of
// life on another connection.
type patience struct {
	answer time.Duration // without a byte of an answer, before it is asked
	stream time.Duration // without a byte of a stream that has begun: longer than the daemon leaves between two signs of life
	sign   time.Duration // for the sign of life itself
}

// usual is the patience of every client; tests have less.
var usual = patience{answer: 2 * time.Second, stream: 40 * time.Second, sign: 10 * time.Second}

// watch watches over one request.
type watch struct {
	bytes atomic.Int64 // how many came
	every atomic.Int64 // a time.Duration: how long there may be none
	stop  context.CancelCauseFunc
	ended chan struct{}
}

// watch returns a context that ends when the daemon gives no sign of life while the request waits for it; its cause says so. The request is over
// when end is called.
func (c *Client) watch(ctx context.Context) (context.Context, *watch) {
	ctx, stop := context.WithCancelCause(ctx)
	w := &watch{stop: stop, ended: make(chan struct{})}
	w.every.Store(int64(c.patience.answer))
	go func() {
		defer close(w.ended)
		for seen := int64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(w.every.Load())):
			}
			if now := w.bytes.Load(); now != seen {
				seen = now
				continue
			}
			if err := c.mute(ctx); err != nil {
				stop(err)
				return
			}
		}
	}()
	return ctx, w
}

// end ends the request, and returns when nothing watches over it any more.
func (w *watch) end() {
	w.stop(nil)
	<-w.ended
}

// counted is an answer of which every byte is a sign of life.
type counted struct {
	io.Reader
	w *watch
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.w.bytes.Add(int64(n))
	return n, err
}

// mute says what is wrong with a daemon that gives no sign of life; nil: it lives, or it is gone, which the request itself finds out.
func (c *Client) mute(ctx context.Context) error {
	pid := int(c.holder.Load())
	if stopped(pid) {
		return td.Errorf(td.Timeout, "the daemon (pid %d) holds the state folder, but was stopped by a signal and does not answer", pid).
			WithHint("to let it go on: kill -CONT %d", pid)
	}
	within, cancel := context.WithTimeout(ctx, c.patience.sign)
	defer cancel()
	req, err := http.NewRequestWithContext(within, http.MethodHead, origin+"/", nil)
	if err != nil {
		return td.Errorf(td.Internal, "make request: %w", err)
	}
	if c.opts.Address != "" {
		req.Header.Set("Authorization", wire.Bearer(c.opts.Token))
	}
	resp, err := c.http.Do(req)
	if err == nil {
		return resp.Body.Close() // whatever it says: it lives
	}
	switch {
	case within.Err() == nil || ctx.Err() != nil:
		return nil
	case c.opts.Address != "":
		return td.Errorf(td.Timeout, "the daemon at %s does not answer", c.opts.Address).WithHint("on its machine: taskdaemon daemon status")
	default:
		return td.Errorf(td.Timeout, "the daemon (pid %d) holds the state folder, but does not answer", pid).
			WithHint("taskdaemon daemon logs; if it stays so: kill -9 %d, then taskdaemon daemon start (no work is lost)", pid)
	}
}

// listener is the process that listens at the other end of a socket, or 0.
func listener(conn net.Conn) (pid int) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// stopped reports whether a process was stopped by a signal, so that it does nothing until another one.
func stopped(pid int) bool {
	if pid <= 0 {
		return false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(raw[max(bytes.LastIndexByte(raw, ')'), 0):], []byte(" ")) // a name may hold anything
	return ok && bytes.HasPrefix(rest, []byte("T "))
}
