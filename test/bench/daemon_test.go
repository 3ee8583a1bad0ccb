package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/api"
	"taskdaemon/internal/client"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// patience is how long anything may take before the benchmark gives up.
const patience = 5 * time.Minute

// house is a state folder, a config and workspaces, for one daemon after the other.
type house struct {
	b     *testing.B
	dir   string
	svc   *client.Client
	model *llmtest.Server // nil: the daemon rehearses
}

// newHouse makes a house whose daemons talk to a model server on loopback that plays the script. Settings
// are lines of the config file.
func newHouse(b *testing.B, script string, o llmtest.Options, settings ...string) *house {
	b.Helper()
	s, err := rehearsal.Parse([]byte(script))
	if err != nil {
		b.Fatal(err)
	}
	o.Script, o.Fast = s, true
	model := llmtest.NewServer(o)
	b.Cleanup(model.Close)
	h := furnish(b, append([]string{
		"provider: anthropic", "base_url: " + model.URL, "api_key_env: BENCH_KEY",
		"timeouts: {request_headers: 1h, stream_idle: 1h, permission: 1h}",
	}, settings...)...)
	h.model = model
	return h
}

// furnish makes a house with these settings alone.
func furnish(b *testing.B, settings ...string) *house {
	b.Helper()
	h := &house{b: b, dir: b.TempDir()}
	h.write("config/taskdaemon/config.yaml", strings.Join(settings, "\n")+"\n")
	h.svc = client.New(client.Options{Socket: h.path("state/run/sock")})
	b.Cleanup(h.svc.Close)
	return h
}

func (h *house) path(rel string) string { return filepath.Join(h.dir, rel) }

func (h *house) write(rel, text string) {
	h.b.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(rel)), 0o700); err != nil {
		h.b.Fatal(err)
	}
	if err := os.WriteFile(h.path(rel), []byte(text), 0o600); err != nil {
		h.b.Fatal(err)
	}
}

// workspace is a folder with a small file in it.
func (h *house) workspace(n int) string {
	h.b.Helper()
	dir := filepath.Join("work", strconv.Itoa(n))
	h.write(filepath.Join(dir, smallFile), smallText)
	return h.path(dir)
}

const (
	smallFile = "small.txt"
	smallText = "a small file\nwith three lines\nto be read\n"
)

// program is the binary at work in this house, with nothing of the caller's own settings.
func (h *house) program(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"--state", h.path("state")}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_CONFIG_HOME=" + h.path("config"), "BENCH_KEY=none"}
	return cmd
}

// daemon is one process of it.
type daemon struct {
	h     *house
	cmd   *exec.Cmd
	said  bytes.Buffer
	done  chan struct{}
	begun time.Time
}

// start starts a daemon, to be killed at the end of the benchmark at the latest.
func (h *house) start() *daemon {
	h.b.Helper()
	d := &daemon{h: h, cmd: h.program("daemon", "start", "--foreground"), done: make(chan struct{}), begun: time.Now()}
	d.cmd.Stderr = &d.said
	if err := d.cmd.Start(); err != nil {
		h.b.Fatal(err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait() // it is killed
	}()
	h.b.Cleanup(d.kill)
	return d
}

// kill ends the daemon as a crash does.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.done
}

// answers waits until the API does and the recovery report is there, and says how long after the start
// that was.
func (d *daemon) answers() time.Duration {
	d.h.b.Helper()
	d.until("the daemon answers", 2*time.Millisecond, func(ctx context.Context) bool {
		if _, err := d.h.svc.Status(ctx); err != nil {
			return false
		}
		_, err := d.h.svc.Recovery(ctx)
		return err == nil
	})
	return time.Since(d.begun)
}

// until polls while the daemon lives. Whoever asks the daemon itself does so seldom, or measures the asking.
func (d *daemon) until(what string, every time.Duration, ok func(context.Context) bool) {
	d.h.b.Helper()
	ctx, cancel := context.WithTimeout(d.h.b.Context(), patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-d.done:
			d.h.b.Fatalf("the daemon died before: %s\n%s", what, d.said.Bytes())
		case <-ctx.Done():
			d.h.b.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// settle waits for a while: nothing can be polled for what a process gives back in its own time.
func settle(d time.Duration) { <-time.After(d) }

// addEach adds n tasks, each in a workspace of its own and with a script of its own, if there is one.
func (h *house) addEach(n int, script func(i int) string) []td.TaskID {
	h.b.Helper()
	ids := make([]td.TaskID, n)
	group, ctx := errgroup.WithContext(h.b.Context())
	group.SetLimit(8)
	for i := range n {
		in := api.AddTask{Prompt: fmt.Sprintf("task %d", i), Dir: h.workspace(i)}
		if script != nil {
			in.Rehearsal = script(i)
		}
		group.Go(func() error {
			t, err := h.svc.AddTask(ctx, in)
			ids[i] = t.ID
			return err
		})
	}
	if err := group.Wait(); err != nil {
		h.b.Fatal(err)
	}
	return ids
}

// add adds one task and waits until it is in one of the states.
func (d *daemon) add(in api.AddTask, states ...td.State) td.Task {
	d.h.b.Helper()
	task, err := d.h.svc.AddTask(d.h.b.Context(), in)
	if err != nil {
		d.h.b.Fatal(err)
	}
	d.until("the task is "+fmt.Sprint(states), 10*time.Millisecond, func(ctx context.Context) bool {
		task, err = d.h.svc.Task(ctx, string(task.ID))
		for _, s := range states {
			if err == nil && task.Status.State == s {
				return true
			}
		}
		return false
	})
	return task
}

// idle waits until every task has completed.
func (d *daemon) idle() {
	d.h.b.Helper()
	d.until("every task has completed", 10*time.Millisecond, func(ctx context.Context) bool {
		st, err := d.h.svc.Status(ctx)
		for state, n := range st.Tasks {
			if err != nil || n > 0 && state != td.Completed {
				return false
			}
		}
		return err == nil
	})
}

// memory is what a process holds, in KiB.
type memory struct{ rss, pss, peak int64 }

func (d *daemon) memory() memory {
	d.h.b.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(d.cmd.Process.Pid))
	return memory{
		rss:  field(d.h.b, filepath.Join(proc, "smaps_rollup"), "Rss:"),
		pss:  field(d.h.b, filepath.Join(proc, "smaps_rollup"), "Pss:"),
		peak: field(d.h.b, filepath.Join(proc, "status"), "VmHWM:"),
	}
}

func field(b *testing.B, path, name string) int64 {
	b.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("%s has no %s", path, name)
	return 0
}

// processor is how long the daemon has been at work, in its own code and in the kernel.
func (d *daemon) processor() time.Duration {
	d.h.b.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(d.cmd.Process.Pid), "stat"))
	if err != nil {
		d.h.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // behind the name, which may hold anything
	f := strings.Fields(rest)
	var ticks int64
	for _, field := range f[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			d.h.b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // the kernel counts in hundredths of a second for everybody
}

// settled is the memory once it no longer falls: the collector and the allocator take their time.
func (d *daemon) settled() memory {
	d.h.b.Helper()
	const calm = 5 // samples in a row that are not clearly lower
	lowest := d.memory()
	for same, n := 0, 0; same < calm && n < 60; n++ {
		settle(time.Second)
		m := d.memory()
		if m.rss < lowest.rss-lowest.rss/100 {
			same = 0
		} else {
			same++
		}
		lowest.peak = m.peak
		if m.rss < lowest.rss {
			lowest = m
		}
	}
	return lowest
}
