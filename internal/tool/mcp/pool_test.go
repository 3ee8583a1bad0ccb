package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

func TestCall(t *testing.T) {
	p := pool(t, program(t, "noisy"))
	if s := p.List()[0]; s.State != NotStarted || s.Tools != nil {
		t.Fatalf("before it is needed: %+v", s)
	}
	res := call(t, find(t, p, "echo"), `{"text":"hello"}`)
	if res.Content != "hello" || res.IsError {
		t.Errorf("got %+v", res)
	}
	s := p.List()[0]
	if s.State != Up || s.Server != "helper" || s.Version != "1.2" || s.Protocol != firstProtocol || s.Handshake <= 0 || s.Pid == 0 || len(s.Tools) != 12 {
		t.Errorf("status %+v", s)
	}
}

func TestToolsAreTheSameEachTime(t *testing.T) {
	p := pool(t, program(t, "plain"))
	describe := func() string {
		offers, err := p.Offers(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(offers)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	first := describe()
	p.hosts[0].drop(func() bool { return true })
	p.hosts[0].listed = nil // asks again
	if again := describe(); again != first {
		t.Errorf("first %s\nthen  %s", first, again)
	}
	if !slices.IsSortedFunc(tools(t, p, nil), func(a, b tool.Tool) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	// What was recorded can be called by another pool, which asks nobody for it.
	var offers []Offer
	if err := json.Unmarshal([]byte(first), &offers); err != nil {
		t.Fatal(err)
	}
	other := pool(t, program(t, "plain"))
	bound := other.Bind(offers)
	if s := other.List()[0]; s.State != NotStarted {
		t.Errorf("binding started it: %+v", s)
	}
	i := slices.IndexFunc(bound, func(x tool.Tool) bool { return x.Name == "mcp__helper__echo" })
	if res := call(t, bound[i], `{"text":"again"}`); res.Content != "again" {
		t.Errorf("got %+v", res)
	}
}

func TestScope(t *testing.T) {
	a, b, c := program(t, "plain"), program(t, "plain"), program(t, "plain")
	a.Name, b.Name, c.Name = "a", "b", "c"
	a.Allow, a.Deny = []string{"e*", "p*"}, []string{"p?d"}
	c.Disabled = true
	p := pool(t, a, b, c)
	names := func(servers []string) (all []string) {
		for _, x := range tools(t, p, servers) {
			all = append(all, x.Name)
		}
		return all
	}
	if got := names([]string{"a"}); !slices.Equal(got, []string{"mcp__a__echo", "mcp__a__env"}) {
		t.Errorf("got %v", got)
	}
	if s := p.List()[1]; s.State != NotStarted {
		t.Errorf("a server that is not in scope was started: %+v", s)
	}
	if got := names(nil); slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, "mcp__c") }) || len(got) < 10 {
		t.Errorf("got %v", got)
	}
	if _, err := p.Offers(t.Context(), []string{"a", "none"}); !td.IsKind(err, td.NotFound) {
		t.Errorf("an unknown server: %v", err)
	}
}

func TestInputIsChecked(t *testing.T) {
	p := pool(t, program(t, "plain"))
	echo := find(t, p, "echo")
	for _, input := range []string{`{}`, `{"text":3}`, `[]`, `"x"`, `null`, `{"text":`, ``} {
		if _, err := echo.Prepare(t.Context(), &tool.Env{Now: time.Now}, json.RawMessage(input)); !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: %v", input, err)
		}
	}
	c := prepare(t, find(t, p, "pid"), `{"n": 12345678901234567890, "n": 12345678901234567891}`)
	if want := `Call pid of the MCP server helper with {"n":12345678901234567891}`; c.Title != want || c.Effect != td.Opaque || c.Timeout == 0 {
		t.Errorf("got %+v", c)
	}
}

func TestTrust(t *testing.T) {
	s := program(t, "plain")
	s.Trusted = true
	p := pool(t, s)
	if c := prepare(t, find(t, p, "echo"), `{"text":""}`); c.Effect != td.Pure {
		t.Errorf("read-only: %+v", c)
	}
	if c := prepare(t, find(t, p, "pid"), ``); c.Effect != td.Opaque {
		t.Errorf("other: %+v", c)
	}
	q := pool(t, program(t, "plain"))
	if c := prepare(t, find(t, q, "echo"), `{"text":""}`); c.Effect != td.Opaque {
		t.Errorf("not trusted: %+v", c)
	}
}

func TestTwoLoopsAtOnce(t *testing.T) {
	p := pool(t, program(t, "plain"))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if res := call(t, find(t, p, "meet"), `{}`); res.Content != "met" {
				t.Errorf("got %+v", res)
			}
		})
	}
	wg.Wait()
	if n := p.starts.Load(); n != 1 {
		t.Errorf("%d processes", n)
	}
}

func TestDeathInTheMiddleOfACall(t *testing.T) {
	p := pool(t, program(t, "plain"))
	hang, die, pid := find(t, p, "meet"), find(t, p, "die"), find(t, p, "pid")
	before := call(t, pid, "").Content
	other := make(chan td.ToolResult, 1)
	go func() { other <- call(t, hang, "") }()
	eventually(t, "the other call is under way", func() bool { return p.List()[0].Calls == 1 })
	for _, res := range []td.ToolResult{call(t, die, ""), <-other} {
		if !res.IsError || !strings.Contains(res.Content, "exit status 7") || !strings.Contains(res.Content, "I am dying") || !strings.Contains(res.Content, "may or may not") {
			t.Errorf("got %+v", res)
		}
	}
	// The next call starts it anew.
	if after := call(t, pid, ""); after.IsError || after.Content == before {
		t.Errorf("got %+v, before %s", after, before)
	}
	if s := p.List()[0]; s.State != Up || s.Fails != 1 {
		t.Errorf("status %+v", s)
	}
}

func TestLateAnswer(t *testing.T) {
	s := program(t, "plain")
	s.Timeout = 300 * time.Millisecond
	p := pool(t, s)
	late, echo := find(t, p, "late"), find(t, p, "echo")
	for range 3 { // an answer in between: the server lives
		if res := call(t, late, ""); !res.IsError || !strings.Contains(res.Content, "no answer within 300ms") {
			t.Errorf("got %+v", res)
		}
		if res := call(t, echo, `{"text":"mine"}`); res.Content != "mine" {
			t.Errorf("the late answer went to another call: %+v", res)
		}
	}
	if n := p.starts.Load(); n != 1 {
		t.Errorf("%d processes", n)
	}
}

func TestSilentServerIsGivenUp(t *testing.T) {
	s := program(t, "plain")
	s.Timeout = 300 * time.Millisecond
	p := pool(t, s)
	hang := find(t, p, "hang")
	for range silentCalls {
		if res := call(t, hang, ""); !res.IsError {
			t.Errorf("got %+v", res)
		}
	}
	eventually(t, "it is given up", func() bool { return strings.Contains(p.List()[0].Reason, "did not answer") })
}

// A call is stuck in the middle of being written, and does not hold up its caller.
func TestServerThatDoesNotRead(t *testing.T) {
	s := program(t, "clogged")
	s.Timeout = 300 * time.Millisecond
	p := pool(t, s)
	p.lim.write = time.Second
	echo := find(t, p, "echo")
	begin := time.Now()
	if res := call(t, echo, `{"text":"`+strings.Repeat("x", 1<<20)+`"}`); !strings.Contains(res.Content, "no answer within 300ms") {
		t.Errorf("got %+v", res)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("took %s", took)
	}
	eventually(t, "it is given up", func() bool { return strings.Contains(p.List()[0].Reason, "does not read") })
}

func TestCancelledCall(t *testing.T) {
	p := pool(t, program(t, "plain"))
	c := prepare(t, find(t, p, "hang"), "")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		eventually(t, "the call is under way", func() bool { return p.List()[0].Calls == 1 })
		cancel(tool.ErrDetach)
	}()
	if _, err := c.Run(ctx); !errors.Is(err, tool.ErrDetach) {
		t.Errorf("got %v", err)
	}
}

func TestResults(t *testing.T) {
	p := pool(t, program(t, "plain"))
	if res := call(t, find(t, p, "flood"), ""); utf8.RuneCountInString(res.Content) > tool.MaxOutput+100 || !strings.HasPrefix(res.Content, "begin") || !strings.HasSuffix(res.Content, "end") {
		t.Errorf("%d characters", utf8.RuneCountInString(res.Content))
	}
	res := call(t, find(t, p, "things"), "")
	want := "red alert\n[an image, image/png, 5 bytes, which cannot be shown here]\n[a link to file:///x, x]\n[file:///y]\nwhy"
	if res.Content != want || !res.IsError {
		t.Errorf("got %q", res.Content)
	}
	// More than a message may have costs the connection, and nothing else.
	if res := call(t, find(t, p, "huge"), ""); !res.IsError || !strings.Contains(res.Content, "maximum line length") {
		t.Errorf("got %.300s", res.Content)
	}
	if res := call(t, find(t, p, "echo"), `{"text":"on"}`); res.Content != "on" {
		t.Errorf("got %+v", res)
	}
}

func TestSchemaLies(t *testing.T) {
	p := pool(t, program(t, "plain"))
	tools(t, p, nil)
	left := map[string]string{}
	for _, l := range p.List()[0].LeftOut {
		left[l.Tool] = l.Why
	}
	for name, why := range map[string]string{"bad-type": "no type", "bad-ref": "nowhere", "remote": "outside", "bad-regexp": "regexp", "any-of": "at the top"} {
		if !strings.Contains(left[name], why) {
			t.Errorf("%s: %q", name, left[name])
		}
	}
	// The schema that contains itself is harmless.
	if res := call(t, find(t, p, "loop"), `{"a":{"a":1}}`); res.Content != "looped" {
		t.Errorf("got %+v", res)
	}
}

func TestVanishedTool(t *testing.T) {
	p := pool(t, program(t, "plain"))
	pid, leave := find(t, p, "pid"), find(t, p, "leave")
	call(t, leave, "")
	eventually(t, "the server tells that its list changed", func() bool {
		p.hosts[0].mu.Lock()
		defer p.hosts[0].mu.Unlock()
		return p.hosts[0].stale
	})
	if res := call(t, pid, ""); !res.IsError || !strings.Contains(res.Content, "pid") {
		t.Errorf("before the list is read: %+v", res)
	}
	for _, x := range tools(t, p, nil) {
		if x.Name == pid.Name {
			t.Error("a later run is offered it")
		}
	}
	if res := call(t, pid, ""); !res.IsError || !strings.Contains(res.Content, "does not offer pid any more") {
		t.Errorf("after the list is read: %+v", res)
	}
}

func TestServersThatDoNotStart(t *testing.T) {
	for way, why := range map[string]string{
		"deaf":    "did not start within",
		"garbage": "invalid character",
		"exit":    "exit status 3",
		"endless": "maximum line length",
		"notify":  "more than anyone can read",
	} {
		t.Run(way, func(t *testing.T) {
			s := program(t, way)
			s.Env = map[string]string{"SOME_API_KEY": "sk-secret-value"}
			if way == "deaf" {
				s.StartTimeout = 300 * time.Millisecond
			}
			p := pool(t, s)
			begin := time.Now()
			if tools := tools(t, p, nil); len(tools) > 0 {
				t.Errorf("got %d tools", len(tools))
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("took %s", took)
			}
			st := p.List()[0]
			if st.State != Failed || !strings.Contains(st.Reason, why) || st.NextTry.IsZero() || st.Fails != 1 {
				t.Errorf("status %+v", st)
			}
			if strings.Contains(st.Reason, "sk-secret") {
				t.Errorf("a secret in %s", st.Reason)
			}
		})
	}
	p := pool(t, Server{Name: "none", Command: "/does/not/exist"})
	if _, err := p.Test(t.Context(), "none"); !td.IsKind(err, td.Unavailable) {
		t.Errorf("got %v", err)
	}
}

func TestBackoff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "now")
	p := pool(t, program(t, "once", file))
	p.lim.patience = 0
	p.lim.backoffMin = time.Hour
	offers := pool(t, program(t, "plain"))
	echo := p.Bind(must(offers.Offers(t.Context(), nil)))[slices.IndexFunc(tools(t, offers, nil), func(x tool.Tool) bool { return x.Name == "mcp__helper__echo" })]
	for range 3 { // the first fails, the others are not even tried
		res := call(t, echo, `{"text":"x"}`)
		if !res.IsError || !strings.Contains(res.Content, "the call was not made") || !strings.Contains(res.Content, "not yet") {
			t.Errorf("got %+v", res)
		}
	}
	if n := p.starts.Load(); n != 1 {
		t.Errorf("%d starts", n)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := p.Test(t.Context(), "helper"); err != nil || s.State != Up || s.Reason != "" {
		t.Errorf("a person's test does not wait: %+v, %v", s, err)
	}
	if res := call(t, echo, `{"text":"x"}`); res.Content != "x" {
		t.Errorf("got %+v", res)
	}

	l := limits{backoffMin: time.Second, backoffMax: time.Minute}
	for fails, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := l.backoff(fails); got != want {
			t.Errorf("%d failures: %s", fails, got)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRest(t *testing.T) {
	p := pool(t, program(t, "plain"))
	p.lim.idle = 100 * time.Millisecond
	pid := find(t, p, "pid")
	before := call(t, pid, "").Content
	eventually(t, "it rests", func() bool { return p.List()[0].State == Resting })
	tools := tools(t, p, nil)
	if len(tools) == 0 || p.List()[0].State != Resting {
		t.Errorf("%d tools, %+v", len(tools), p.List()[0])
	}
	if res := call(t, pid, ""); res.IsError || res.Content == before {
		t.Errorf("got %+v, before %s", res, before)
	}
	if s := p.List()[0]; s.Fails != 0 {
		t.Errorf("rest is no failure: %+v", s)
	}
}

// The cleanup of pool finds what is left.
func TestClose(t *testing.T) {
	for _, way := range []string{"stubborn", "family", "plain"} {
		t.Run(way, func(t *testing.T) {
			p := pool(t, program(t, way))
			hang := prepare(t, find(t, p, "hang"), "")
			done := make(chan td.ToolResult, 1)
			go func() {
				res, _ := hang.Run(t.Context())
				done <- res
			}()
			eventually(t, "the call is under way", func() bool { return p.List()[0].Calls == 1 })
			begin := time.Now()
			p.Close()
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("took %s", took)
			}
			if res := <-done; !res.IsError {
				t.Errorf("got %+v", res)
			}
			if _, err := p.Offers(t.Context(), []string{"helper"}); err != nil {
				t.Errorf("the list is still known: %v", err)
			}
			if res := call(t, p.Bind(must(p.Offers(t.Context(), nil)))[0], `{"text":"x"}`); !strings.Contains(res.Content, "shutting down") {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestDeathLeavesNoChildren(t *testing.T) {
	p := pool(t, program(t, "family"))
	mine := func(q proc) bool { return strings.HasPrefix(q.mark(), p.mark+"#") }
	die := find(t, p, "die")
	eventually(t, "the family is complete", func() bool { return len(must(procs(mine))) >= 3 })
	call(t, die, "")
	eventually(t, "nothing is left", func() bool { return len(must(procs(mine))) == 0 })
}

func TestKillStrays(t *testing.T) {
	p := pool(t, program(t, "family"))
	find(t, p, "echo")
	n, err := KillStrays(p.mark)
	if err != nil || n < 1 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := KillStrays(p.mark); err != nil || n != 0 {
		t.Errorf("again: %d, %v", n, err)
	}
	if _, err := KillStrays(""); !td.IsKind(err, td.Invalid) {
		t.Errorf("without a mark: %v", err)
	}
}

// A daemon that is killed takes its servers with it; what those left elsewhere is found by its mark.
func TestDaemonIsKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	mark := t.TempDir()
	daemon := exec.Command(self, "daemon", mark)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line == "0\n" {
		t.Errorf("the daemon says %q, %v", line, err)
	}
	mine := func(q proc) bool { return strings.HasPrefix(q.mark(), mark+"#") }
	eventually(t, "the family is complete", func() bool { return len(must(procs(mine))) >= 3 })
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	eventually(t, "the server is gone", func() bool {
		return !slices.ContainsFunc(must(procs(mine)), func(q proc) bool { return q.pid == q.session && q.name() == filepath.Base(self) })
	})
	if n, err := KillStrays(mark); err != nil || n == 0 {
		t.Errorf("%d strays, %v", n, err)
	}
	if left := must(procs(mine)); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// name is the name of the process's program.
func (p proc) name() string {
	exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.pid), "exe"))
	if err != nil {
		return ""
	}
	return filepath.Base(exe)
}

func TestEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-not-for-you")
	t.Setenv("WHATEVER", "not-for-you")
	s := program(t, "plain")
	s.Env = map[string]string{"GITHUB_TOKEN": "for-you", "HOME": "/elsewhere"}
	p := pool(t, s)
	env := strings.Split(call(t, find(t, p, "env"), "").Content, "\n")
	for _, kv := range []string{"GITHUB_TOKEN=[redacted]", "HOME=/elsewhere"} {
		if !slices.Contains(env, kv) {
			t.Errorf("%s is missing in %q", kv, env)
		}
	}
	if strings.Contains(strings.Join(env, "\n"), "not-for-you") {
		t.Errorf("leaked: %q", env)
	}
}

func TestResolve(t *testing.T) {
	p := pool(t, program(t, "plain"))
	pid := find(t, p, "pid")
	c := prepare(t, pid, `{"a":1}`)
	res, err := pid.Resolve(t.Context(), nil, json.RawMessage(`{"a":1}`), td.Intent{Effect: td.Opaque, Evidence: c.Evidence})
	if err != nil || res.State != tool.Unsure || !strings.Contains(res.Detail, "pid of the MCP server helper") {
		t.Errorf("opaque: %+v, %v", res, err)
	}
	if res, err := pid.Resolve(t.Context(), nil, nil, td.Intent{Effect: td.Pure}); err != nil || res.State != tool.NotDone {
		t.Errorf("pure: %+v, %v", res, err)
	}
	if _, err := pid.Resolve(t.Context(), nil, nil, td.Intent{Effect: td.Opaque, Evidence: json.RawMessage(`{`)}); !td.IsKind(err, td.Corrupt) {
		t.Errorf("broken evidence: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
	good := Server{Name: "a", Command: "x"}
	if _, err := New(Options{Servers: []Server{good}}); err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]Server{
		"no name":    {Command: "x"},
		"double":     {Name: "a__b", Command: "x"},
		"trailing":   {Name: "a_", Command: "x"},
		"long":       {Name: strings.Repeat("a", 25), Command: "x"},
		"neither":    {Name: "b"},
		"both":       {Name: "b", Command: "x", URL: "http://x"},
		"scheme":     {Name: "b", URL: "file:///x"},
		"pattern":    {Name: "b", Command: "x", Deny: []string{"["}},
		"negative":   {Name: "b", Command: "x", Timeout: -1},
		"variable":   {Name: "b", Command: "x", Env: map[string]string{"A=B": ""}},
		"same again": good,
	} {
		if _, err := New(Options{Servers: []Server{good, s}}); !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
