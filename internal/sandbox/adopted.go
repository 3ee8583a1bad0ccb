package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"taskdaemon/internal/td"
)

// How often an adopted command is looked at: it tells its news to a pipe that died with its daemon.
const (
	pollFirst = 2 * time.Millisecond
	pollMost  = 50 * time.Millisecond
)

// How long a shim may take to end its tree before it is woken up, before the daemon kills the tree, and
// before the shim is given up. The last is long: a shim that is slow to be gone is most likely waiting
// for the disk to take its result, and would leave none if it were killed.
const (
	wakeAfter   = killGrace + 100*time.Millisecond
	helpAfter   = wakeAfter + killGrace + 100*time.Millisecond
	giveUpAfter = 10 * time.Second
)

// adopted is a command that another daemon started; it may have ended.
type adopted struct{ dir string }

var _ Process = adopted{}

func (a adopted) Wait(ctx context.Context, emit func([]byte)) (ProcessResult, error) {
	var offset int64
	for wait := pollFirst; ; wait = min(2*wait, pollMost) {
		// Looked at before the output is read: a command found ended writes no more.
		state, err := probe(a.dir, false)
		offset = emitOutput(a.dir, offset, emit)
		switch state {
		case Finished:
			return load(a.dir, resultFile, decodeResult)
		case Lost, NeverStarted:
			return ProcessResult{}, fmt.Errorf("wait for %s: %w", a.dir, errors.Join(ErrLost, err))
		}
		if err := sleep(ctx, wait); err != nil {
			return ProcessResult{}, err
		}
	}
}

func (a adopted) Output(offset int64, limit int) ([]byte, int64, error) {
	return readOutput(a.dir, offset, limit)
}

func (a adopted) Kill(ctx context.Context) error { return kill(ctx, a.dir) }

// kill asks the shim to end its tree, and helps if the shim does not manage.
func kill(ctx context.Context, dir string) error {
	begin := time.Now()
	var asked, forced bool
	for wait := pollFirst; ; wait = min(2*wait, 10*time.Millisecond) {
		if state, _ := probe(dir, false); state != StillRunning {
			if forced {
				killStrays(filepath.Dir(dir), dir)
			}
			return nil
		}
		// The lock is taken a moment before its owner has written its name into it.
		if h, err := load(dir, lockFile, decodeHolder); err == nil && Alive(h) {
			took := time.Since(begin)
			switch {
			case !asked:
				_ = signal(h, syscall.SIGTERM)
				asked = true
			case took > giveUpAfter:
				destroy(h)
				forced = true
			case took > helpAfter:
				signalTree(h.Pid, syscall.SIGKILL)
			case took > wakeAfter:
				_ = signal(h, syscall.SIGCONT) // a command can stop its own shim
			}
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("kill %s: %w", dir, err)
		}
	}
}

// destroy kills a shim that does not answer, and its tree. It is stopped first, so that it starts nothing
// and its tree stays below it until that is dead.
func destroy(h td.Holder) {
	if signal(h, syscall.SIGSTOP) != nil {
		return
	}
	signalTree(h.Pid, syscall.SIGKILL)
	_ = signal(h, syscall.SIGKILL)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
