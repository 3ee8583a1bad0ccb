package load

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskdaemon/internal/client"
)

// patience is how long anything may take before the test gives up.
const patience = 3 * time.Minute

// house is a state folder, a config, the workspaces and the daemon at work there.
type house struct {
	t    *testing.T
	dir  string
	svc  *client.Client
	cmd  *exec.Cmd
	said bytes.Buffer // on its standard error; read it when done is closed
	done chan struct{}

	redials atomic.Int64 // streams that the daemon ended and their subscriber began again
}

// open starts a daemon on the rehearsal model that has room for all tasks, and waits until it answers.
func open(t *testing.T, loops int) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), done: make(chan struct{})}
	h.write("config/taskdaemon/config.yaml", fmt.Sprintf(
		"provider: rehearsal\ndrift: {repeats: 0}\nlimits: {loops: %d, turns: 100000}\ntimeouts: {permission: 1h}\n", loops))
	h.svc = client.New(client.Options{Socket: h.socket(), Redial: h.redial})
	t.Cleanup(h.svc.Close)
	h.cmd = exec.Command(binary, "--state", h.path("state"), "daemon", "start", "--foreground")
	h.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_CONFIG_HOME=" + h.path("config"), "GOTRACEBACK=all",
	}
	h.cmd.Stderr = &h.said
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.done)
		_ = h.cmd.Wait() // it is killed, or told to dump its stacks
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill() // it may have ended
		<-h.done
	})
	h.until("the daemon answers", func(ctx context.Context) bool {
		_, err := h.svc.Status(ctx)
		return err == nil
	})
	return h
}

// redial goes on with a stream that was lost, as our commands do: the daemon leaves behind who reads nothing for ten seconds, and on
// a machine that stood still this is somebody who wanted to. It happens to few, or the daemon is at fault.
func (h *house) redial(_ context.Context, cause error) error {
	if n := h.redials.Add(1); n > int64(*subscriberCount/10) {
		return fmt.Errorf("%d streams were lost: %w", n, cause)
	}
	return nil
}

func (h *house) path(rel string) string { return filepath.Join(h.dir, rel) }

func (h *house) socket() string { return h.path("state/run/sock") }

func (h *house) write(rel, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(rel)), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.path(rel), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// until polls while the daemon lives.
func (h *house) until(what string, ok func(context.Context) bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-h.done:
			h.t.Fatalf("the daemon died before: %s\n%s", what, h.said.Bytes())
		case <-ctx.Done():
			h.t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

func (h *house) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(h.cmd.Process.Pid), name)
}

// peak is the most memory the daemon ever held, in KiB.
func (h *house) peak() int64 {
	h.t.Helper()
	raw, err := os.ReadFile(h.proc("status"))
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				h.t.Fatal(err)
			}
			return n
		}
	}
	h.t.Fatal("the kernel does not say how much memory the daemon held")
	return 0
}

// descriptors are what the daemon has open.
type descriptors struct{ sockets, other int }

func (h *house) descriptors() (d descriptors) {
	h.t.Helper()
	entries, err := os.ReadDir(h.proc("fd"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(h.proc("fd"), e.Name()))
		switch {
		case err != nil: // closed since
		case strings.HasPrefix(to, "socket:"):
			d.sockets++
		default:
			d.other++
		}
	}
	return d
}

// ownSockets are those of a daemon that nobody talks to: it listens, keeps others from its state folder, and talks to the process that starts its git.
const ownSockets = 3

// alone waits until the daemon has no connection, and says what it has open then.
func (h *house) alone(when string) (d descriptors) {
	h.t.Helper()
	h.until("the daemon has no connection "+when, func(context.Context) bool {
		h.svc.Close() // each time: a connection may have become idle since
		d = h.descriptors()
		return d.sockets == ownSockets
	})
	return d
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*\[`)

// stacks ends the daemon with a dump of its goroutines.
func (h *house) stacks() []string {
	h.t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		h.t.Fatal(err)
	}
	<-h.done
	var out []string
	for part := range strings.SplitSeq(h.said.String(), "\n\n") {
		if goroutine.MatchString(part) {
			out = append(out, part)
		}
	}
	return out
}
