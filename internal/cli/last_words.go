package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// listener is the process between a daemon and where its standard error leads. The runtime writes what a dying program says by
// itself, and the value of a panic may hold a secret: nobody but another process can look at it first (ADR 11).
type listener struct {
	args []string
	real *os.File // where standard error led before
	log  *slog.Logger
	done chan struct{} // closed when nobody listens any more
}

// listen has what this process says on its standard error, whatever happens to it, pass by a listener, which is brought back
// when it dies. Without one it is said as ever: the secrets are taken out by who comes next.
func listen(ctx context.Context, args []string, log *slog.Logger) (*listener, error) {
	fd, err := unix.FcntlInt(uintptr(unix.Stderr), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, td.Errorf(td.Internal, "keep standard error: %w", err)
	}
	l := &listener{args: args, real: os.NewFile(uintptr(fd), "stderr"), log: log, done: make(chan struct{})}
	cmd, err := l.start()
	if err != nil {
		return nil, errors.Join(err, l.real.Close())
	}
	signal.Ignore(syscall.SIGPIPE) // one that died is no reason to die, too
	go l.keep(ctx, cmd)            // until close
	return l, nil
}

// start starts a listener, and leads standard error to it. What it does not take at once is dropped: a pipe holds as much as is
// kept of a crash, and nothing may wait for a process that does not read.
func (l *listener) start() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, td.Errorf(td.Internal, "find this program: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, td.Errorf(td.Internal, "make a pipe: %w", err)
	}
	defer r.Close()
	defer w.Close()
	end := int(w.Fd())
	_, _ = unix.FcntlInt(uintptr(end), unix.F_SETPIPE_SZ, maxErrFile) // a smaller one holds less
	if err := unix.SetNonblock(end, true); err != nil {
		return nil, td.Errorf(td.Internal, "make a pipe: %w", err)
	}
	cmd := exec.Command(self, l.args...) // it ends when nobody has the other end any more
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", r, l.real, l.real
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	if err := cmd.Start(); err != nil {
		return nil, td.Errorf(td.Internal, "start a listener: %w", err)
	}
	if err := unix.Dup3(end, unix.Stderr, 0); err != nil {
		return nil, td.Errorf(td.Internal, "lead standard error to a listener: %w", err)
	}
	return cmd, nil
}

// keep brings a listener back that died, until there shall be none.
func (l *listener) keep(ctx context.Context, cmd *exec.Cmd) {
	defer close(l.done)
	for {
		err := cmd.Wait()
		if ctx.Err() != nil {
			return
		}
		l.log.Warn("who listens to the last words of this daemon died", "err", err)
		for {
			if !pause(ctx, time.Second) {
				return
			}
			if cmd, err = l.start(); err == nil {
				break
			}
			l.log.Warn("bring it back", "err", err)
		}
	}
}

// close leads standard error back and returns when all that was said has arrived. The context of listen has ended.
func (l *listener) close() {
	_ = unix.Dup3(int(l.real.Fd()), unix.Stderr, 0) // the end of the pipe is closed by this
	<-l.done
	_ = l.real.Close()
}

type lastWordsOptions struct {
	app *app
	set []string
}

func newDaemonLastWordsCmd(a *app) *cobra.Command {
	o := lastWordsOptions{app: a}
	cmd := &cobra.Command{
		Use: "last-words", Short: "Take secrets out of what a daemon says outside of its log", Hidden: true, Args: args(cobra.NoArgs, "no arguments"),
		Annotations: exits(exitOK, exitFailed),
		RunE:        func(*cobra.Command, []string) error { return runLastWords(o) },
	}
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "a setting of the daemon, as key=value; may be repeated")
	return cmd
}

// runLastWords copies standard input, without secrets, until it ends. Signals that the daemon gets, too, do not end it.
func runLastWords(o lastWordsOptions) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	words, piece := redact.Stream{Redactor: o.app.secrets(o.set)}, make([]byte, 64<<10)
	for {
		n, err := o.app.stdin.Read(piece)
		if _, werr := o.app.stdout.Write(words.Write(piece[:n])); werr != nil {
			return werr
		}
		if err != nil {
			if _, werr := o.app.stdout.Write(words.Close()); werr != nil || errors.Is(err, io.EOF) {
				return werr
			}
			return err
		}
	}
}
