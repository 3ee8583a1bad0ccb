// Package script runs the whole-program sessions in testdata/script: the real binary, a real daemon, the
// rehearsal model. A feature counts when a session here drives it.
package script

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/tool/mcp/mcptest"
)

var binDir string

func TestMain(m *testing.M) {
	if mcptest.Main() {
		return
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "taskdaemon-script")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, args := range map[string][]string{
		"taskdaemon": {"taskdaemon/cmd/taskdaemon"},
		// One that can be made to panic.
		"taskdaemon-failpoint": {"-tags", "failpoint", "taskdaemon/cmd/taskdaemon"},
		// An MCP server that somebody else wrote. Its module is one of ours already.
		"memory-server": {"github.com/modelcontextprotocol/go-sdk/examples/server/memory"},
	} {
		cmd := exec.Command("go", append([]string{"build", "-o", filepath.Join(dir, name)}, args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			return 1
		}
	}
	if _, err := mcptest.Install(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binDir = dir
	return m.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "../../testdata/script",
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kill9":  kill9,
			"shims9": shims9,
			"until":  until,
			"plan":   plan,
			"keep":   keep,
			"await":  await,
			"signal": signal,
			"flip":   flip,
			"trash":  trash,
			"api":    api,
			"chat":   chat,
			"web":    web,
			"memory": memory,
			"apart":  apart,
		},
		RequireUniqueNames: true,
	})
}

// setup gives each session a home of its own, and sees to it that no daemon outlives it.
func setup(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	work := filepath.Join(env.WorkDir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	env.Setenv("PATH", binDir+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("HOME", home)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	env.Setenv("GOCACHE", os.Getenv("GOCACHE"))
	env.Setenv("TASKDAEMON_WORKTREE_USE", "off") // most sessions look at what a task does in the folder itself
	env.Defer(func() {
		stopAll(env.WorkDir)
		if t, ok := env.T().(interface{ Failed() bool }); ok && t.Failed() {
			env.T().Log(lastWords(env.WorkDir))
		}
	})
	return nil
}

// lastWords is what the daemons below dir logged at the end.
func lastWords(dir string) string {
	const most = 8 << 10
	var said strings.Builder
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "daemon.log" {
			raw, _ := os.ReadFile(path)
			fmt.Fprintf(&said, "%s:\n%s\n", path, raw[max(0, len(raw)-most):])
		}
		return nil
	})
	return said.String()
}

// stopAll stops every daemon whose state folder lies below dir, however the session ended: it may have started some of its
// own with --state.
func stopAll(dir string) {
	var pids []int
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "journal.lock" && filepath.Base(filepath.Dir(path)) == "run" {
			if pid := daemonPid(filepath.Dir(filepath.Dir(path))); pid > 0 && ours(pid) {
				pids = append(pids, pid)
			}
		}
		return nil // what cannot be looked into holds no daemon's folder
	})
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	end := time.Now().Add(patience)
	for _, pid := range pids {
		for alive(pid) && time.Now().Before(end) {
			<-time.After(5 * time.Millisecond)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// ours reports whether a process runs the binary of these sessions: a lock that was left says a pid that may be another's.
func ours(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(raw), filepath.Join(binDir, "taskdaemon")+"\x00")
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// daemonPid is the process that has the state folder, or 0.
func daemonPid(state string) int {
	raw, err := os.ReadFile(filepath.Join(state, "run", "journal.lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || !alive(pid) {
		return 0
	}
	return pid
}

// api SCRIPT [TIMES] starts a server on loopback that speaks the Claude API and plays the script, each text so many times over, and sets the key
// and the address as a person would.
func api(ts *testscript.TestScript, neg bool, args []string) {
	script, err := rehearsal.Parse([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	srv := llmtest.NewServer(llmtest.Options{Script: script, Repeat: times(ts, args)})
	ts.Defer(srv.Close)
	ts.Setenv("ANTHROPIC_API_KEY", "sk-ant-api03-canary-of-the-session")
	ts.Setenv("ANTHROPIC_BASE_URL", srv.URL)
}

// times is how often a server says what its script says.
func times(ts *testscript.TestScript, args []string) int {
	if len(args) < 2 {
		return 1
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	return n
}

// chat SCRIPT [TIMES] starts a server on loopback that speaks Chat Completions and plays the script, each text so many times over; CHAT_URL is
// its address.
func chat(ts *testscript.TestScript, neg bool, args []string) {
	script, err := rehearsal.Parse([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	srv := llmtest.NewServer(llmtest.Options{Script: script, API: llmtest.Chat, Repeat: times(ts, args)})
	ts.Defer(srv.Close)
	ts.Setenv("CHAT_URL", srv.URL+"/v1")
}

// web FILE starts a server on loopback that serves the file as a page; WEB_URL is its address. The page /visits counts
// who comes.
func web(ts *testscript.TestScript, neg bool, args []string) {
	page := ts.ReadFile(args[0])
	var visits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/visits" {
			_, _ = fmt.Fprintf(w, "<html><body><p>You are visitor number %d.</p></body></html>", visits.Add(1))
			return
		}
		times := 1
		if r.URL.Path == "/long" {
			times = 1000
		}
		_, _ = io.WriteString(w, strings.Repeat(page, times))
	}))
	ts.Defer(srv.Close)
	ts.Setenv("WEB_URL", srv.URL)
}

// memory FILE lets the memory server answer at an address, which is put into $MCP_URL.
func memory(ts *testscript.TestScript, neg bool, args []string) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	addr := free.Addr().String()
	ts.Check(free.Close())
	srv := exec.Command(filepath.Join(binDir, "memory-server"), "-http", addr, "-memory", ts.MkAbs(args[0]))
	ts.Check(srv.Start())
	ts.Defer(func() {
		_ = srv.Process.Kill() // it may have ended
		_ = srv.Wait()
	})
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			ts.Check(conn.Close())
			break
		}
		if time.Now().After(end) {
			ts.Fatalf("the memory server does not listen: %v", err)
		}
	}
	ts.Setenv("MCP_URL", "http://"+addr)
}

// kill9 kills the session's daemon with SIGKILL and waits until it is gone.
func kill9(ts *testscript.TestScript, neg bool, args []string) {
	pid := daemonPid(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "taskdaemon"))
	if pid == 0 {
		ts.Fatalf("no daemon to kill")
	}
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	for end := time.Now().Add(patience); alive(pid); {
		if time.Now().After(end) {
			ts.Fatalf("pid %d does not die", pid)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// shims9 kills the shims of all commands that run, and with them what would tell how those ended.
func shims9(ts *testscript.TestScript, _ bool, _ []string) {
	spool := &sandbox.Spool{Dir: filepath.Join(ts.Getenv("XDG_STATE_HOME"), "taskdaemon", "spool")}
	entries, err := spool.List()
	ts.Check(err)
	killed := 0
	for _, e := range entries {
		if e.Shim.Pid > 0 && e.State == sandbox.StillRunning {
			ts.Check(syscall.Kill(e.Shim.Pid, syscall.SIGKILL))
			killed++
		}
	}
	if killed == 0 {
		ts.Fatalf("no command runs")
	}
}

// patience is how long anything may take before a script gives up: machines are shared.
const patience = 2 * time.Minute

// until TASK STATE… waits until the task is in one of the states.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until task state...")
	}
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		cmd := exec.Command(filepath.Join(binDir, "taskdaemon"), "task", "show", args[0], "--json")
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("XDG_STATE_HOME"),
			"XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"), "HOME="+ts.Getenv("HOME"))
		out, err := cmd.Output()
		if err != nil {
			got = err.Error()
			continue
		}
		var task struct {
			Status struct{ State string }
		}
		ts.Check(json.Unmarshal(out, &task))
		got = task.Status.State
		for _, want := range args[1:] {
			if got == want {
				return
			}
		}
	}
	ts.Fatalf("%s is %s, not %v", args[0], got, args[1:])
}

// plan TASK STATE… waits until the task is in one of the states by the graph of the present project; ready is one, too.
func plan(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: plan task state...")
	}
	var got string
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		cmd := exec.Command(filepath.Join(binDir, "taskdaemon"), "task", "list", "--plan", "--all", "--json")
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("XDG_STATE_HOME"),
			"XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"), "HOME="+ts.Getenv("HOME"))
		out, err := cmd.Output()
		if err != nil {
			got = err.Error()
			continue
		}
		var tasks []struct {
			Handle, State string
			Ready         bool
		}
		ts.Check(json.Unmarshal(out, &tasks))
		for _, t := range tasks {
			if t.Handle != args[0] {
				continue
			}
			if got = t.State; slices.Contains(args[1:], got) || t.Ready && slices.Contains(args[1:], "ready") {
				return
			}
		}
	}
	ts.Fatalf("%s is %s in the graph, not %v", args[0], got, args[1:])
}

// keep NAME puts the first word of the last command's output into the variable.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	words := strings.Fields(ts.ReadFile("stdout"))
	if len(args) != 1 || len(words) == 0 {
		ts.Fatalf("usage: keep name, after a command with output")
	}
	ts.Setenv(args[0], words[0])
}

// apart NAME makes a folder that lies in no temp folder, and puts its path into the variable: programs that a command with a network may run
// are looked for there.
func apart(ts *testscript.TestScript, neg bool, args []string) {
	home, err := os.UserHomeDir()
	ts.Check(err)
	for _, dir := range []string{"/var/lib", home} {
		var made string
		if made, err = os.MkdirTemp(dir, "taskdaemon-script"); err == nil {
			ts.Defer(func() { _ = os.RemoveAll(made) })
			ts.Setenv(args[0], made)
			return
		}
	}
	ts.Fatalf("make a folder apart: %v", err)
}

// await FILE [TEXT] waits until the file exists and contains the text; ! await FILE until it is gone.
func await(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		raw, err := os.ReadFile(path)
		if neg {
			if _, err := os.Lstat(path); os.IsNotExist(err) {
				return
			}
			continue
		}
		if err == nil && (len(args) == 1 || strings.Contains(string(raw), args[1])) {
			return
		}
	}
	if neg {
		ts.Fatalf("%s never went", args[0])
	}
	ts.Fatalf("%s never came", strings.Join(args, " with "))
}

// signal NAME sends a signal to the session's daemon.
func signal(ts *testscript.TestScript, neg bool, args []string) {
	sigs := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}
	sig, ok := sigs[args[0]]
	pid := daemonPid(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "taskdaemon"))
	if !ok || pid == 0 {
		ts.Fatalf("signal %v to pid %d", args, pid)
	}
	ts.Check(syscall.Kill(pid, sig))
}

// flip FILE OFFSET|TEXT flips one bit of a file, at a place or in the first such text.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	raw, err := os.ReadFile(path)
	ts.Check(err)
	at, err := strconv.Atoi(args[1])
	if err != nil {
		at = strings.Index(string(raw), args[1])
	}
	if at < 0 || at >= len(raw) {
		ts.Fatalf("%s has %d bytes, and no %s", path, len(raw), args[1])
	}
	raw[at] ^= 1
	ts.Check(os.WriteFile(path, raw, 0o600))
}

// trash FILE OFFSET overwrites a few bytes of a file, as a bad disk would.
func trash(ts *testscript.TestScript, neg bool, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	defer func() { _ = f.Close() }()
	at, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	_, err = f.WriteAt([]byte("this is not what was written here"), at)
	ts.Check(err)
}
