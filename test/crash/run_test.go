package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/api"
	"taskdaemon/internal/client"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool/mcp"
	"taskdaemon/internal/tool/mcp/mcptest"
)

// baseline is a run nobody killed.
type baseline struct {
	ending
	trace map[string]int // hits of each point
	total int
}

// ending is all that must be the same however often the daemon died.
type ending struct {
	State    td.State
	Summary  string
	Messages []td.Message
	Log      string            // of the trunk, if the task had a worktree
	Marks    []string          // what was done outside the workspace, sorted
	Files    map[string]string // the workspace
	Fired    []string          // what the log of hooks says, sorted
	Plan     []string          // what the graph of the workspace says
	Children []string          // how its verifiers ended
}

type plan struct {
	scenario scenario
	base     baseline
	kills    []kill
	spare    bool // run if the others died at none of their points
}

func (p plan) String() string { return fmt.Sprintf("%s, killed at %v", p.scenario.name, p.kills) }

// last is the point that it dies at last.
func (p plan) last() string { return p.kills[len(p.kills)-1].name }

type result struct {
	died  []kill
	asked bool // a person was asked what became of a lost process
}

var baselines sync.Map

// baseline runs the scenario undisturbed, twice: two such runs must not differ, or no comparison counts. A part of the suite leaves the second
// out: what differs there fails one of the kills.
func (s scenario) baseline(t *testing.T) baseline {
	t.Helper()
	if b, ok := baselines.Load(s.name); ok {
		return b.(baseline)
	}
	var b baseline
	runs := 2
	if _, parts := part(t); parts > 1 {
		runs = 1
	}
	for i := range runs {
		w := newRun(t, s)
		end := w.toTheEnd(nil)
		w.checkHouse()
		if i == 0 {
			b.ending = end
			if strings.Contains(s.script, "COUNTER") && s.limit == 0 && len(end.Marks) == 0 {
				t.Fatalf("%s: none of its effects can be seen: nothing would be counted", s.name)
			}
			b.trace = readTrace(t, w.traceOf(0))
			for _, n := range b.trace {
				b.total += n
			}
		} else if diff := cmp.Diff(b.ending, end); diff != "" && !s.cut {
			t.Fatalf("%s: two undisturbed runs differ:\n%s", s.name, diff)
		}
		w.remove()
	}
	baselines.Store(s.name, b)
	return b
}

// run carries the plan out and compares.
func (p plan) run(t *testing.T) result {
	w := newRun(t, p.scenario)
	w.what = p.String()
	end := w.toTheEnd(p.kills)
	w.checkHouse()
	want := p.base.ending
	switch {
	case strings.HasPrefix(p.kills[0].name, "sandbox.shim."):
		// The command died with its shim: the model was told so or a person was asked, and the rest
		// followed from that. What must hold is that nothing was done twice.
		if once := slices.Compact(slices.Clone(end.Marks)); len(once) != len(end.Marks) {
			w.errorf("done twice: %v", end.Marks)
		}
		if end.State != want.State && end.State != td.Completed && p.scenario.valid == "" {
			w.errorf("it ended as %s", end.State) // a validator dies with its shim, too, and passes nothing
		}
		if len(end.Marks) < len(want.Marks) && !w.asked && !told(end.Messages) {
			w.errorf("%v was not done, and neither the model nor a person heard of it", want.Marks)
		}
		want = end
	case w.asked || p.scenario.cut:
		want.Messages, end.Messages = nil, nil // the conversation tells of it; the world must be the same
	}
	if diff := cmp.Diff(want, end); diff != "" {
		w.errorf("differs from the run that was not killed (-want +got):\n%s", diff)
	}
	if !w.failed {
		w.remove()
	}
	return result{died: w.died, asked: w.asked}
}

// told reports whether the model was told that a call went wrong.
func told(messages []td.Message) bool {
	for _, m := range messages {
		for _, b := range m.Blocks {
			if b.Type == td.ToolResultBlock && b.IsError {
				return true
			}
		}
	}
	return false
}

// crashRun is one scenario in a folder of its own, through as many lives of the daemon as it takes.
type crashRun struct {
	t      *testing.T
	s      scenario
	what   string
	dir    string
	lives  int // daemons started so far
	person *person
	died   []kill
	asked  bool
	failed bool

	noMirror bool // there was no git to mirror with
}

func newRun(t *testing.T, s scenario) *crashRun {
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		t.Fatal(err)
	}
	w := &crashRun{t: t, s: s, what: s.name, dir: dir}
	for _, sub := range []string{"work", "config/taskdaemon"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	prepare(t, w.path("work"), s.git, s.plan)
	if s.worktree {
		commitAll(t, w.path("work"))
	}
	server, err := mcptest.Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("SERVER", server, "HOOKS", hookServer(), "COUNTER", w.path("counter"), "PRICES", prices()).Replace(s.config) + "retry: {network: [0s, 10ms, 10ms, 10ms], overloaded: [10ms, 10ms, 10ms], rate_limited_wait: 10ms, rest: [20ms]}\n"
	models := "provider: rehearsal\n"
	if s.chained {
		if models, err = w.chain(); err != nil {
			t.Fatal(err)
		}
	}
	config += models + w.marking()
	if err := os.WriteFile(w.path("counter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path("config/taskdaemon/config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	svc := client.New(client.Options{Socket: w.path("state/run/sock")})
	w.person = &person{svc: svc, counter: w.path("counter"), done: map[string]bool{}}
	return w
}

// marking is the setting that lets commands mark their effects outside the workspace, where the sandbox lets none
// write.
func (w *crashRun) marking() string { return "sandbox: {write: " + w.path("counter") + "}\n" }

func (w *crashRun) path(rel string) string { return filepath.Join(w.dir, rel) }

func (w *crashRun) errorf(format string, args ...any) {
	w.t.Helper()
	w.failed = true
	w.t.Errorf("%s: %s\n  (folder %s)", w.what, fmt.Sprintf(format, args...), w.dir)
}

func (w *crashRun) remove() {
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Log(err)
	}
}

// toTheEnd lives through one daemon after the other: each but the last dies at its kill, or stops when
// the task has ended.
func (w *crashRun) toTheEnd(kills []kill) ending {
	deadline := time.Now().Add(patience)
	for life := 0; ; life++ {
		var k *kill
		if life < len(kills) {
			k = &kills[life]
		}
		d := w.startDaemon(k)
		end, err := w.live(d, deadline)
		if err == nil {
			d.stop()
			if k == nil || !d.killedItself() {
				if k != nil && w.shimDied(*k) {
					w.died = append(w.died, *k)
				}
				return end
			}
		}
		if w.s.stops && d.stoppedItself() {
			continue // as the person asked; the next daemon goes on
		}
		if k == nil || !d.killedItself() {
			w.errorf("life %d: %v\n%s", life, err, d.log.String())
			d.kill()
			return ending{}
		}
		w.died = append(w.died, *k)
	}
}

// live sees the task to its end under one daemon, and has it examined; an error when the daemon died
// first.
func (w *crashRun) live(d *process, deadline time.Time) (ending, error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	task, err := w.work(ctx, d)
	if err != nil {
		return ending{}, err
	}
	if err := w.cleared(ctx, d, task); err != nil {
		return ending{}, err
	}
	end, err := w.ending(ctx, task)
	if err != nil {
		return ending{}, err
	}
	return end, w.doctor(ctx)
}

// work submits the task and plays the person until the task has ended.
func (w *crashRun) work(ctx context.Context, d *process) (td.Task, error) {
	var task td.Task
	script := strings.ReplaceAll(w.s.script, "COUNTER", w.person.counter)
	if w.s.chained {
		script = "" // the model has it
	}
	for added := false; ; {
		select {
		case <-d.done:
			return task, errors.New("the daemon died")
		case <-time.After(3 * time.Millisecond):
		}
		if ctx.Err() != nil {
			return task, fmt.Errorf("out of time: the task is %s (%+v)", task.Status.State, task.Status)
		}
		var err error
		if !added && w.s.submit != nil {
			task, err = w.s.submit(ctx, w.person, w.path("work"), script)
			added = err == nil
			continue
		}
		if w.s.run != nil {
			if task, err = w.plannedWork(ctx, script, task); err != nil {
				continue
			}
		} else if !added {
			task, err = w.person.svc.AddTask(ctx, api.AddTask{
				Key: "the task", Prompt: "do it", Dir: w.path("work"), Yes: w.s.yes, Validator: strings.ReplaceAll(w.s.valid, "COUNTER", w.person.counter), Rehearsal: script,
				Permission: w.s.limit,
			})
			added = err == nil
			continue
		}
		if task, err = w.person.svc.Task(ctx, string(task.ID)); err != nil {
			continue
		}
		if task.Status.State.Terminal() {
			if len(strings.Fields(w.person.marks())) < w.s.marks {
				continue
			}
			return task, nil
		}
		for _, r := range task.Requests {
			if r.About == td.AboutUnknown {
				w.asked = true
				_ = w.person.settleUnknown(ctx, r)
			}
		}
		if w.s.person != nil {
			if err := w.s.person(ctx, w.person, task); td.IsKind(err, td.Internal) {
				return task, err
			}
		}
	}
}

// fired are the points in the log of hooks. A line that is torn says so.
func (w *crashRun) fired() (points []string) {
	raw, err := os.ReadFile(w.path("state/logs/hooks.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		panic(err)
	}
	for line := range strings.Lines(string(raw)) {
		var l hook.Logged
		var head struct {
			Point string `json:"hook_event_name"`
		}
		if err := errors.Join(json.Unmarshal([]byte(line), &l), json.Unmarshal(l.Payload, &head)); err != nil {
			return append(points, err.Error())
		}
		points = append(points, head.Point)
	}
	sort.Strings(points)
	return points
}

func (w *crashRun) ending(ctx context.Context, task td.Task) (_ ending, err error) {
	e := ending{State: task.Status.State, Files: map[string]string{}}
	if c := task.Status.Completed; c != nil {
		e.Summary = c.Summary
	}
	e.Marks = strings.Fields(w.person.marks())
	sort.Strings(e.Marks)
	e.Fired = w.fired()
	if w.s.plan {
		if e.Plan, err = w.planned(ctx); err != nil {
			return ending{}, err
		}
	}
	if w.s.run != nil && w.s.run.Verify {
		if e.Children, err = w.children(ctx, task.ID); err != nil {
			return ending{}, err
		}
	}
	err = filepath.WalkDir(w.path("work"), func(path string, d os.DirEntry, err error) error {
		if err == nil && (d.Name() == ".git" || d.Name() == td.WorktreeFolder) {
			return filepath.SkipDir
		}
		if d.Name() == graph.LogFile {
			return err // ids and times are different each time
		}
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		rel, _ := filepath.Rel(w.path("work"), path)
		if strings.HasPrefix(rel, memory.Folder) { // it tells of its task and its time
			raw = regexp.MustCompile(`(?m)^(created_at|source)s?:.*\n`).ReplaceAll(raw, nil)
		}
		e.Files[rel] = string(raw)
		return err
	})
	if err != nil {
		return ending{}, err
	}
	if w.s.worktree {
		if e.Log, err = w.trunkLog(); err != nil {
			return ending{}, err
		}
	}
	h, err := w.person.svc.History(ctx, string(task.ID))
	if err != nil {
		return ending{}, err
	}
	e.Messages = w.anonymous(h.Messages, task)
	return e, nil
}

// children is how the subtasks of a task stand, sorted.
func (w *crashRun) children(ctx context.Context, of td.TaskID) (out []string, _ error) {
	all, err := w.person.svc.Tasks(ctx, api.TaskQuery{})
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Parent == of {
			out = append(out, fmt.Sprintf("%s: %s", t.Title, t.Status.State))
		}
	}
	sort.Strings(out)
	return out, nil
}

// tookTime is how long an iteration took, in the notes that the next one is told.
var tookTime = regexp.MustCompile(`(\((?:small|worker|expert)), [0-9hms.]+\)`)

// anonymous leaves out what is different in every run: where it was, what it was called and how long it took.
func (w *crashRun) anonymous(messages []td.Message, task td.Task) []td.Message {
	raw, err := json.Marshal(messages)
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.NewReplacer(w.dir, "DIR", task.Handle, "TASK").Replace(string(raw))
	text = tookTime.ReplaceAllString(text, "$1)")
	text = regexp.MustCompile(`t-[0-9a-z]{8}\b`).ReplaceAllString(text, "OTHER")
	var out []td.Message
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		w.t.Fatal(err)
	}
	if w.s.run == nil || w.s.run.Limit == 0 {
		return out
	}
	// Who asks for more before a run has come to its limit has it go on, and after that begins another, which is told the notes of its own.
	for _, m := range out {
		for i := range m.Blocks {
			m.Blocks[i].Text = toldNotes.ReplaceAllString(m.Blocks[i].Text, "")
		}
	}
	return out
}

var toldNotes = regexp.MustCompile(`(?s)\n\n<notes>.*?</notes>`)

// doctor asks the daemon itself whether everything agrees.
func (w *crashRun) doctor(ctx context.Context) error {
	d, err := w.person.svc.Doctor(ctx, api.DoctorRequest{})
	if err != nil {
		return err
	}
	for _, c := range d.Checks {
		if !c.OK {
			w.errorf("doctor: %s: %v", c.Name, c.Findings)
		}
	}
	return nil
}

// checkHouse looks at what is left when the daemon has stopped: no process of a tool, a sound
// conversations' repository, an intact database.
func (w *crashRun) checkHouse() {
	orphans, err := sandbox.Orphans(w.path("state/spool"))
	if err != nil {
		w.errorf("look for orphans: %v", err)
	}
	if n, err := mcp.KillStrays(w.path("state")); n > 0 || err != nil {
		w.errorf("%d processes of MCP servers are left, %v", n, err)
	}
	for _, o := range orphans {
		w.errorf("orphan: pid %d, %s", o.Process.Pid, o.Command)
		_ = sandbox.KillOrphan(o)
	}
	left, err := os.ReadDir(w.path("state/spool"))
	if err != nil && !os.IsNotExist(err) {
		w.errorf("read the spool: %v", err)
	}
	for _, e := range left {
		if !strings.HasPrefix(e.Name(), ".") {
			w.errorf("left in the spool: %s", e.Name())
		}
	}
	if left, err := filepath.Glob(w.path("state/checkouts/*")); err != nil || len(left) > 0 {
		w.errorf("left of checkouts: %v, %v", left, err)
	}
	if w.noMirror {
		return
	}
	if out, err := exec.Command("git", "--git-dir", w.path("state/conversations.git"), "fsck", "--strict").CombinedOutput(); err != nil {
		w.errorf("git fsck: %v\n%s", err, out)
	}
}

// shimDied reports whether it was a shim that reached its hit and died, and not the daemon.
func (w *crashRun) shimDied(k kill) bool {
	if !strings.HasPrefix(k.name, "sandbox.shim.") {
		return false
	}
	return readTrace(w.t, w.traceOf(w.lives-1))[k.name] >= k.hit
}

// traceOf is the list of the points that a life of the daemon passed.
func (w *crashRun) traceOf(life int) string { return w.path(fmt.Sprintf("trace%d", life)) }

func readTrace(t *testing.T, path string) map[string]int {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	hits := map[string]int{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		hits[sc.Text()]++
	}
	return hits
}

// lockedBuffer is written by the daemon's pipe and read by the test.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// process is one life of the daemon.
type process struct {
	cmd  *exec.Cmd
	log  lockedBuffer
	done chan struct{}
}

func (w *crashRun) startDaemon(k *kill) *process {
	d := &process{done: make(chan struct{})}
	d.cmd = exec.Command(binary, "daemon", "start", "--foreground", "--state", w.path("state"))
	d.cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+w.path("config"), "TASKDAEMON_STATE="+w.path("state"), "ANTHROPIC_API_KEY=", "CHAIN_KEY=of-the-chain", "TASKDAEMON_WORKTREE_USE="+map[bool]string{true: "auto", false: "off"}[w.s.worktree])
	if k != nil {
		d.cmd.Env = append(d.cmd.Env, "TASKDAEMON_FAILPOINT="+k.String())
	}
	d.cmd.Env = append(d.cmd.Env, "TASKDAEMON_FAILPOINT_TRACE="+w.traceOf(w.lives))
	w.lives++
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		_ = d.cmd.Wait()
	}()
	return d
}

// killedItself reports whether the daemon died at its failpoint, giving it time to be reaped.
func (d *process) killedItself() bool {
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		return false
	}
	ws, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// stoppedItself reports whether the daemon ended in order.
func (d *process) stoppedItself() bool {
	select {
	case <-d.done:
		return d.cmd.ProcessState.ExitCode() == 0
	case <-time.After(time.Minute):
		return false
	}
}

func (d *process) kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

func (d *process) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(time.Minute):
		d.kill()
	}
}
