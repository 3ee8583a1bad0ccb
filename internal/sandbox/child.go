package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"taskdaemon/internal/td"
)

// carrier is a shim's process as the daemon that started it holds it.
type carrier struct {
	proc   *os.Process
	notify *os.File // what the shim tells
	stdin  *os.File // where it is told

	task   td.TaskID   // whose commands it serves; empty before the first
	kind   string      // of the profile of its commands
	nested bool        // it was started for commands with a profile
	doomed bool        // it was told to end its command: it gets no other
	rest   *time.Timer // ends it when it is not needed for a while
}

// spawn starts the shim's process.
func (s *Spool) spawn(nested bool) (*carrier, error) {
	notify, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, notify.Close())
	}
	defer null.Close()
	c := &carrier{notify: notify, nested: nested}
	stdin, told, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make pipe: %w", err), notify.Close())
	}
	defer stdin.Close()
	c.stdin = told
	attr := &os.ProcAttr{
		Dir:   "/",
		Env:   shimEnv(os.Environ()),
		Files: []*os.File{stdin, null, null, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	args := []string{s.Self, "exec"}
	if nested && s.nestable() {
		nest(attr.Sys)
		args = append(args, nestedArgs(nestArg)...)
	}
	c.proc, err = os.StartProcess(ownProgram(s.Self), args, attr)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("start shim: %w", err)
	}
	return c, nil
}

func (c *carrier) close() {
	_ = c.notify.Close()
	_ = c.stdin.Close()
}

// handOver gives the folder to a shim, an idle one first, and waits for its word that the command has
// started. An idle shim that died in its sleep is no reason to fail.
func (s *Spool) handOver(name, dir, id string, cmd Command) (*child, error) {
	if w := s.takeIdle(cmd.Task, cmd.Profile); w != nil {
		c, err := s.follow(name, dir, id, w)
		if err == nil || exists(dir, startedFile) {
			return c, err
		}
	}
	w, err := s.spawn(cmd.Profile.nested())
	if err != nil {
		return nil, err
	}
	w.task, w.kind = cmd.Task, cmd.Profile.kind()
	return s.follow(name, dir, id, w)
}

// follow gives a shim its folder and watches it. When it fails, the shim is gone.
func (s *Spool) follow(name, dir, id string, w *carrier) (*child, error) {
	_, _ = w.stdin.Write(assignment(dir, id)) // one that died cannot be told; its end is seen below
	fpAfterSpawn.Hit()
	c := &child{spool: s, name: name, dir: dir, carrier: w, begun: make(chan struct{}), more: make(chan struct{}), done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = w.proc.Kill()
		_, _ = w.proc.Wait()
		w.close()
		return nil, td.Errorf(td.Interrupted, "the spool is closed")
	}
	s.live[name] = c
	s.wg.Add(1)
	s.mu.Unlock()
	go c.watch()

	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-c.begun:
		return c, nil
	case <-c.done:
	case <-limit.C:
		_ = w.proc.Kill()
		<-c.done
	}
	select {
	case <-c.begun: // it began and ended
		return c, nil
	default:
		return nil, c.err
	}
}

// child is a command whose shim this daemon started.
type child struct {
	spool   *Spool
	name    string
	dir     string
	carrier *carrier
	begun   chan struct{} // closed when the command counts as started
	done    chan struct{} // closed when res and err are set

	mu   sync.Mutex
	more chan struct{} // closed and made anew when there is more output

	res ProcessResult
	err error
}

// watch listens to the shim until it has nothing more to say, and waits for its end.
func (c *child) watch() {
	defer c.spool.wg.Done()
	var rest []byte // the message that takes the rest of the stream
	buf := make([]byte, 256)
	for {
		n, err := c.carrier.notify.Read(buf)
		for i, b := range buf[:n] {
			if rest != nil {
				rest = append(rest, buf[i:n]...)
				break
			}
			switch b {
			case tellStarted:
				close(c.begun)
			case tellMore:
				c.wake()
			case tellEnded:
				res, err := load(c.dir, resultFile, decodeResult)
				if err == nil && res.reusable() && c.spool.putIdle(c) {
					c.settle(res, nil)
					return
				}
				c.settle(res, err)
				_ = c.carrier.stdin.Close() // it leaves
			case tellFailed, tellResult:
				rest = append(rest, b)
			}
		}
		if errors.Is(err, os.ErrClosed) {
			c.settle(ProcessResult{}, td.Errorf(td.Interrupted, "wait for %s: the spool was closed; the command goes on", c.name))
			_ = c.carrier.proc.Release()
			return
		}
		if err != nil {
			break
		}
	}
	c.carrier.close()
	_, _ = c.carrier.proc.Wait()
	c.settle(c.verdict(rest))
}

// verdict is what is known of a command when its shim is gone.
func (c *child) verdict(rest []byte) (ProcessResult, error) {
	if len(rest) > 0 && rest[0] == tellFailed { // first: the folder may tell of an earlier shim
		return ProcessResult{}, td.Errorf(td.Unavailable, "run %s: %s", c.name, rest[1:])
	}
	if exists(c.dir, resultFile) {
		return load(c.dir, resultFile, decodeResult)
	}
	if len(rest) > 0 && rest[0] == tellResult {
		res, err := decodeResult(rest[1:])
		if err == nil {
			c.spool.mu.Lock()
			c.spool.told[c.name] = c
			c.spool.mu.Unlock()
		}
		return res, err
	}
	if !exists(c.dir, startedFile) {
		return ProcessResult{}, td.Errorf(td.Unavailable, "run %s: the shim ended before it began", c.name)
	}
	// The main process died with the shim; what else it started must not go on unseen.
	killStrays(c.spool.Dir, c.dir)
	return ProcessResult{}, fmt.Errorf("run %s: %w", c.name, ErrLost)
}

// settle records the first verdict, and makes up for the shim that served.
func (c *child) settle(res ProcessResult, err error) {
	select {
	case <-c.done:
		return
	default:
	}
	c.res, c.err = res, err
	c.spool.mu.Lock()
	if c.spool.live[c.name] == c {
		delete(c.spool.live, c.name)
	}
	c.spool.mu.Unlock()
	close(c.done)
	c.spool.warmUp(c.carrier.nested)
}

func (c *child) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.more)
	c.more = make(chan struct{})
}

func (c *child) Wait(ctx context.Context, emit func([]byte)) (ProcessResult, error) {
	var offset int64
	for {
		c.mu.Lock()
		more := c.more
		c.mu.Unlock()
		select {
		case <-c.done:
			if len(c.res.Head) > 0 {
				emitOutput(c.dir, offset, emit)
			}
			return c.res, c.err
		default:
		}
		offset = emitOutput(c.dir, offset, emit)
		select {
		case <-c.done:
		case <-more:
		case <-ctx.Done():
			return ProcessResult{}, context.Cause(ctx)
		}
	}
}

func (c *child) Output(offset int64, limit int) ([]byte, int64, error) {
	return readOutput(c.dir, offset, limit)
}

func (c *child) Kill(ctx context.Context) error {
	c.spool.mu.Lock()
	c.carrier.doomed = true
	c.spool.mu.Unlock()
	if err := kill(ctx, c.dir); err != nil {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
