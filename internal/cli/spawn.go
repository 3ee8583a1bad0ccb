package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/client"
	"taskdaemon/internal/daemon"
	"taskdaemon/internal/disk"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// startLimit is how long a daemon that another command is starting, or that is on its way out, is
// waited for.
const startLimit = 60 * time.Second

// maxErrFile is how large the file with a daemon's last words may grow before it begins anew.
const maxErrFile = 1 << 20

// started is what a new daemon tells the process that spawned it, as one line of JSON.
type started struct {
	Pid   int         `json:"pid,omitempty"`
	Error *wire.Error `json:"error,omitempty"`
}

// ensureDaemon returns when a daemon answers, and starts one if none does. Any number of commands may
// do this at once: the lock on the state folder lets one daemon through, the others wait for it.
func (a *app) ensureDaemon(ctx context.Context, dir string) error {
	c := client.New(client.Options{Socket: socketPath(dir)})
	defer c.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, td.Errorf(td.Timeout, "the daemon did not start in %s", startLimit).
		WithHint("taskdaemon daemon logs"))
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		st, err := c.Status(ctx)
		switch {
		case err == nil && !st.Stopping:
			return nil
		case err == nil:
			if err := waitExit(ctx, st.Pid); err != nil {
				return err
			}
		case !td.IsKind(err, td.Unavailable):
			return err
		}
		// A folder that somebody mistyped would be made, and its daemon know nothing of their tasks.
		if _, err := os.Lstat(dir); a.state != "" && errors.Is(err, fs.ErrNotExist) {
			return td.Errorf(td.NotFound, "there is no state folder %s", dir).WithHint("to make it: taskdaemon daemon start")
		}
		pid, err := a.spawn(ctx, dir, nil)
		if err == nil {
			a.say("%s", a.talk.dim(fmt.Sprintf("started the daemon (pid %d)", pid)))
			a.sayReport(ctx, c)
			return nil
		}
		if !td.IsKind(err, td.Locked) {
			return err
		}
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// sayReport tells what the start found, if it found anything.
func (a *app) sayReport(ctx context.Context, c *client.Client) {
	if r, err := wholeReport(ctx, c, time.Second); err == nil && !r.Empty() {
		a.say("%s", plainText(r.String()))
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// spawn starts a daemon in a session of its own and returns its pid when it answers. If it cannot
// start, the error is the daemon's own.
func (a *app) spawn(ctx context.Context, dir string, set []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, td.Errorf(td.Internal, "find this program: %w", err)
	}
	if err := errors.Join(disk.CheckFiles(), daemon.CheckPlace(dir)); err != nil {
		return 0, err // before anything is made there
	}
	secrets := a.secrets(set)
	errFile, from, err := openErrFile(errPath(dir), secrets)
	if err != nil {
		return 0, err
	}
	defer errFile.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, td.Errorf(td.Internal, "make a pipe: %w", err)
	}
	defer r.Close()

	cmd := exec.Command(self, a.daemonArgs(dir, set, "start", "--foreground", "--ready-fd", "3")...) // not bound to ctx: it outlives this command
	cmd.Dir = "/"
	cmd.Env = a.environ()
	cmd.Stdout, cmd.Stderr = errFile, errFile
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close() // the daemon's copy is the only one left: its death is the end of the pipe
	if err != nil {
		return 0, td.Errorf(td.Unavailable, "start the daemon: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	msg, err := readStarted(r)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		_ = cmd.Wait() // it is dead, or as good as dead: it closed the pipe
		return 0, diedEarly(ctx, errFile.Name(), from, cmd.ProcessState, secrets)
	case msg.Error != nil:
		_ = cmd.Wait()
		return 0, msg.Error.Err()
	}
	// A command that outlives it must not leave a dead entry in the table of processes. The goroutine ends with either.
	go func() { _ = cmd.Wait() }()
	return msg.Pid, nil
}

// daemonArgs are the arguments of a command that is to see the state and the settings that this one does.
func (a *app) daemonArgs(dir string, set []string, words ...string) []string {
	args := append([]string{"--state", dir, "daemon"}, words...)
	if file, explicit, err := a.configFile(); err == nil && explicit {
		args = append(args, "--config", file)
	}
	for _, kv := range set {
		args = append(args, "--set", kv)
	}
	return args
}

// secrets takes out what this process knows to be secret, as far as the config can be read: if not, the daemon says
// what is wrong with it.
func (a *app) secrets(set []string) *redact.Redactor {
	cfg, _, err := a.loadConfig(set)
	if err != nil {
		return redact.New()
	}
	return daemon.Secrets(cfg, a.getenv)
}

// errPath is the file in a state folder that catches what a daemon says outside of its log.
func errPath(stateDir string) string { return filepath.Join(stateDir, "logs", "daemon.err") }

// lastWords reads what daemons said that crashed, and takes secrets out of the file for good.
func lastWords(path string, secrets *redact.Redactor) ([]byte, error) {
	said, err := os.ReadFile(path)
	if err != nil || len(said) > maxErrFile {
		return nil, err
	}
	clean := secrets.Bytes(said)
	if bytes.Equal(clean, said) {
		return said, nil
	}
	if err := os.WriteFile(path, clean, 0o600); err != nil {
		return nil, td.Errorf(td.Storage, "take secrets out of the log: %w", err)
	}
	return clean, nil
}

func readStarted(r io.Reader) (started, error) {
	var msg started
	err := json.NewDecoder(io.LimitReader(r, 1<<20)).Decode(&msg)
	if err == nil && msg.Pid == 0 && msg.Error == nil {
		err = errors.New("empty message")
	}
	return msg, err
}

// openErrFile opens the file that catches what a daemon says outside of its log, a panic for one. What a listener could not
// keep out of it is taken out as soon as somebody comes by (ADR 11).
func openErrFile(path string, secrets *redact.Redactor) (f *os.File, from int64, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		if errors.Is(err, syscall.EROFS) && sandbox.Confined() {
			return nil, 0, td.Errorf(td.Refused, "a process of a run may not talk to the daemon (it runs in a sandbox)").WithHint("type it in a terminal of your own")
		}
		return nil, 0, td.Errorf(td.Storage, "make the log folder: %w", err).WithHint("taskdaemon --state DIR …")
	}
	flags := os.O_CREATE | os.O_RDWR | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > maxErrFile {
		flags |= os.O_TRUNC
	}
	if _, err := lastWords(path, secrets); td.IsKind(err, td.Storage) {
		return nil, 0, err
	}
	f, err = os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, 0, td.Errorf(td.Storage, "open the log: %w", err).WithHint("taskdaemon --state DIR …")
	}
	from, err = f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, errors.Join(td.Errorf(td.Storage, "open the log: %w", err), f.Close())
	}
	return f, from, nil
}

// diedEarly says why a daemon ended before it could say so itself. What it said is on its way for a moment.
func diedEarly(ctx context.Context, path string, from int64, st *os.ProcessState, secrets *redact.Redactor) error {
	var raw []byte
	for range 20 {
		if f, err := os.Open(path); err == nil {
			raw, _ = io.ReadAll(io.NewSectionReader(f, from, 64<<10)) // what can be read is better than nothing
			_ = f.Close()
		}
		if len(raw) > 0 || !pause(ctx, 50*time.Millisecond) {
			break
		}
	}
	words := strings.Join(plainClip(secrets.String(string(raw)), 5, 5), "\n")
	return td.Errorf(td.Unavailable, "the daemon ended while it started (%s): %s", st, words).
		WithHint("taskdaemon daemon logs, or %s", path)
}

// waitExit returns when the process has ended.
func waitExit(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return td.Errorf(td.Internal, "watch process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return td.Errorf(td.Internal, "watch process %d: %w", pid, err)
		}
	}
	return td.Errorf(td.Timeout, "process %d has not ended yet", pid).WithHint("taskdaemon daemon logs -f")
}
