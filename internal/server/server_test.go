package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/apitest"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/client"
	"taskdaemon/internal/server"
	"taskdaemon/internal/td"
)

// dialEnv makes the test binary a client of the socket it names, under another user.
const dialEnv = "TASKDAEMON_TEST_DIAL"

func TestMain(m *testing.M) {
	if socket := os.Getenv(dialEnv); socket != "" {
		_, err := client.New(client.Options{Socket: socket}).Status(context.Background())
		fmt.Print(td.KindOf(err))
		os.Exit(0)
	}
	if socket := os.Getenv(handEnv); socket != "" {
		if err := handOn(socket); err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// serve runs a server until the test ends and returns its socket.
func serve(t *testing.T, o server.Options) (socket string, stop func()) {
	t.Helper()
	if o.Socket == "" {
		o.Socket = filepath.Join(t.TempDir(), "run", "sock")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	o.Ready = func(string) { close(ready) }
	go func() { done <- server.Serve(ctx, o) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("serve: %v", err)
	}
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return o.Socket, stop
}

func dial(t *testing.T, socket string) *client.Client {
	c := client.New(client.Options{Socket: socket})
	t.Cleanup(c.Close)
	return c
}

func TestClientAndServerAreAService(t *testing.T) {
	socket, _ := serve(t, server.Options{Service: apitest.NewFake()})
	apitest.Run(t, dial(t, socket))
}

func TestSocketIsTheOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket, stop := serve(t, server.Options{Service: apitest.NewFake(), Socket: filepath.Join(dir, "sock")})
	for path, want := range map[string]os.FileMode{socket: 0o600, dir: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	stop()
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket outlives its server: %v", err)
	}
}

func TestAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	dir, err := os.MkdirTemp("", "taskdaemon-peer-") // t.TempDir's parents are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, _ := serve(t, server.Options{Service: apitest.NewFake(), Socket: filepath.Join(dir, "sock")})
	exe := filepath.Join(dir, "test")
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	// Open what the file system guards, so that only the check of the peer is left.
	for _, err := range []error{os.WriteFile(exe, raw, 0o755), os.Chmod(exe, 0o755), os.Chmod(dir, 0o755), os.Chmod(socket, 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), dialEnv+"="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.Output(); err != nil || td.Kind(out) != td.Refused {
		t.Errorf("another user gets %q, %v; want %s", out, err, td.Refused)
	}
}

func TestStaleSocketIsReplacedAndALiveOneIsNot(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close() // what a killed daemon leaves behind
	serve(t, server.Options{Service: apitest.NewFake(), Socket: socket})
	if _, err := dial(t, socket).Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = server.Serve(t.Context(), server.Options{Service: apitest.NewFake(), Socket: socket})
	if !td.IsKind(err, td.Locked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second server gets %v, want locked with the pid", err)
	}
	if _, err := dial(t, socket).Status(t.Context()); err != nil {
		t.Errorf("the second server hurt the first: %v", err)
	}
}

func TestFileInTheWayIsNotRemoved(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	if err := os.WriteFile(socket, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(t.Context(), server.Options{Service: apitest.NewFake(), Socket: socket}); !td.IsKind(err, td.Refused) {
		t.Errorf("got %v, want refused", err)
	}
	if raw, _ := os.ReadFile(socket); string(raw) != "precious" {
		t.Error("the file is gone")
	}
}

func TestLongPathsWork(t *testing.T) {
	socket := filepath.Join(t.TempDir(), strings.Repeat("long/", 30), "sock")
	serve(t, server.Options{Service: apitest.NewFake(), Socket: socket})
	if _, err := dial(t, socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

// raw makes a plain HTTP request over the socket.
func raw(t *testing.T, socket, method, path, body string, header ...string) *http.Response {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestFailuresHaveOneForm(t *testing.T) {
	socket, _ := serve(t, server.Options{Service: apitest.NewFake()})
	for _, tc := range []struct {
		method, path, body string
		status             int
		kind               td.Kind
	}{
		{"GET", "/v1/tasks/t-none", "", 404, td.NotFound},
		{"GET", "/v1/events?ref=t-none", "", 404, td.NotFound},
		{"GET", "/v1/events?after=soon", "", 422, td.Invalid},
		{"POST", "/v1/tasks", `{"prompt":"x","dir":"relative"}`, 422, td.Invalid},
		{"POST", "/v1/tasks", `{"prompt":"x","dir":"/","colour":"red"}`, 422, td.Invalid},
		{"POST", "/v1/tasks", `{"prompt":`, 400, td.Invalid},
		{"POST", "/v1/doctor", `{"fix":"` + strings.Repeat("x", 100<<10) + `"}`, 413, td.Invalid},
	} {
		resp := raw(t, socket, tc.method, tc.path, tc.body)
		var e wire.Error
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
			t.Errorf("%s %s: %v", tc.method, tc.path, err)
		}
		if resp.StatusCode != tc.status || e.Kind != tc.kind || e.Message == "" {
			t.Errorf("%s %s: %d %+v, want %d %s", tc.method, tc.path, resp.StatusCode, e, tc.status, tc.kind)
		}
	}
}

func TestEveryAnswerSaysWhoGaveIt(t *testing.T) {
	socket, _ := serve(t, server.Options{Service: apitest.NewFake()})
	c := dial(t, socket)
	if _, ok := c.Peer(); ok {
		t.Error("a peer before the first answer")
	}
	if _, err := c.Tasks(t.Context(), api.TaskQuery{}); err != nil {
		t.Fatal(err)
	}
	if p, ok := c.Peer(); !ok || p.Provider != "rehearsal" || p.Version != "test" || p.Pid != 4711 {
		t.Errorf("peer is %+v", p)
	}
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	socket, _ := serve(t, server.Options{Service: apitest.NewFake()})
	resp := raw(t, socket, "GET", "/openapi.json", "")
	var doc struct {
		Paths      map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{
		"/v1/status", "/v1/tasks", "/v1/tasks/{ref}", "/v1/tasks/{ref}/commands", "/v1/tasks/{ref}/history",
		"/v1/tasks/{ref}/checkpoint", "/v1/events", "/v1/recovery", "/v1/doctor", "/v1/stop",
	} {
		if doc.Paths[p] == nil {
			t.Errorf("%s is not described", p)
		}
	}
	for _, s := range []string{"Task", "TaskStatus", "Status", "Event", "Live"} {
		if doc.Components.Schemas[s] == nil {
			t.Errorf("schema %s is missing", s)
		}
	}
}

func TestStreamResumesByLastEventID(t *testing.T) {
	fake := apitest.NewFake()
	socket, _ := serve(t, server.Options{Service: fake, Heartbeat: 5 * time.Millisecond})
	task, err := fake.AddTask(t.Context(), api.AddTask{Prompt: "x", Dir: "/", Rehearsal: apitest.Script})
	if err != nil {
		t.Fatal(err)
	}
	resp := raw(t, socket, "GET", "/v1/events?after=1&follow=true&live=true", "", "Last-Event-ID", fmt.Sprint(task.Head-1))
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type is %q", ct)
	}
	lines := bufio.NewReader(resp.Body)
	var got []string
	for len(got) < 3 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ":") {
			got = append(got, line)
		}
	}
	if got[0] != fmt.Sprintf("id: %d", task.Head) || got[1] != "event: event" || !strings.HasPrefix(got[2], `data: {"cursor":`) {
		t.Errorf("the stream begins with %q", got)
	}
	for { // signs of life come by themselves
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ":") {
			break
		}
	}
	fake.Say(api.Live{Task: task.ID, Kind: api.LiveText, Text: "hi"})
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "id:") {
			t.Error("a live piece has an id")
		}
		if strings.HasPrefix(line, "data:") {
			if !strings.Contains(line, `"text":"hi"`) {
				t.Errorf("live piece is %q", line)
			}
			break
		}
	}
}

// What is at hand goes out when there is no more of it, not with the next sign of life.
func TestStreamsAreWrittenAtOnce(t *testing.T) {
	fake := apitest.NewFake()
	socket, stop := serve(t, server.Options{Service: fake, Heartbeat: time.Hour})
	defer time.AfterFunc(10*time.Second, stop).Stop()
	resp := raw(t, socket, "GET", "/v1/events?follow=true&live=true", "")
	lines := bufio.NewReader(resp.Body)
	next := func(want string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}
	for range 2 {
		task, err := fake.AddTask(t.Context(), api.AddTask{Prompt: "x", Dir: "/", Rehearsal: apitest.Script})
		if err != nil {
			t.Fatal(err)
		}
		next(string(task.ID))
		fake.Say(api.Live{Task: task.ID, Kind: api.LiveText, Text: "hi"})
		next(`"text":"hi"`)
	}
}

// Nothing was written yet when a name turns out to be wrong, so there is a status to say it with.
func TestAStreamOfNothingIsNoStream(t *testing.T) {
	socket, _ := serve(t, server.Options{Service: apitest.NewFake()})
	resp := raw(t, socket, "GET", "/v1/events?follow=true&ref=nobody", "")
	var said wire.Error
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || resp.StatusCode != http.StatusNotFound || said.Kind != td.NotFound ||
		resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %s, %+v, %v", resp.StatusCode, resp.Header.Get("Content-Type"), said, err)
	}
}

func TestStoppingServerEndsStreamsAndSaysSo(t *testing.T) {
	fake := apitest.NewFake()
	socket, stop := serve(t, server.Options{Service: fake})
	resp := raw(t, socket, "GET", "/v1/events?follow=true", "")
	stop()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), "event: error") || !strings.Contains(string(rest), string(td.Interrupted)) {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
}

// A client that opens a stream and never reads must cost nobody anything, and is dropped.
func TestSlowClientBlocksNobody(t *testing.T) {
	fake := apitest.NewFake()
	socket, _ := serve(t, server.Options{Service: fake, WriteTimeout: 2 * time.Second})
	task, err := fake.AddTask(t.Context(), api.AddTask{Prompt: "x", Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/events?follow=true&live=true HTTP/1.1\r\nHost: x\r\n\r\n")

	big := strings.Repeat("x", 64<<10)
	for range 100 {
		fake.Append(task.ID, td.Said{Text: big, By: "me"})
	}
	c := dial(t, socket)
	n, last := 0, uint64(0)
	for it, err := range c.Events(t.Context(), api.EventQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		n, last = n+1, it.Event.Cursor
	}
	if n != 101 {
		t.Errorf("another client sees %d events beside the stuck one, want 101", n)
	}
	waitHangup(t, conn)
	// The stuck one reads at last: it finds the beginning, then the end of its connection, and the id
	// to go on from.
	body, _ := io.ReadAll(conn) // how a connection that was cut ends is not said
	seen := strings.Count(string(body), "\nid: ")
	if seen == 0 || seen >= 101 {
		t.Errorf("the stuck client saw %d events before it was dropped", seen)
	}
	rest := 0
	for _, err := range c.Events(t.Context(), api.EventQuery{After: last - 5}) {
		if err != nil {
			t.Fatal(err)
		}
		rest++
	}
	if rest != 5 {
		t.Errorf("%d events after the cursor, want 5", rest)
	}
}

// waitHangup returns when the other end has closed the connection, without reading from it.
func waitHangup(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		deadline := time.Now().Add(30 * time.Second)
		for time.Now().Before(deadline) {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			if n, _ := unix.Poll(fds, 1000); n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP) != 0 {
				return
			}
		}
		t.Error("the client that does not read is not dropped")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stuck is a service whose Status waits for its context.
type stuck struct{ *apitest.Fake }

func (s stuck) Tasks(ctx context.Context, _ api.TaskQuery) ([]td.Task, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestShutdownIsBounded(t *testing.T) {
	socket, stop := serve(t, server.Options{Service: stuck{apitest.NewFake()}, Grace: 50 * time.Millisecond})
	c := dial(t, socket)
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Tasks(t.Context(), api.TaskQuery{})
		done <- err
	}()
	began := time.Now()
	stop()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("stop took %v", took)
	}
	if err := <-done; err == nil {
		t.Error("the stuck call succeeded")
	}
}

// slow takes its time for a sync, unless it is told to stop.
type slow struct {
	*apitest.Fake
	takes time.Duration
}

func (s slow) SyncPlan(ctx context.Context, _ string) (api.PlanSynced, error) {
	select {
	case <-ctx.Done():
		return api.PlanSynced{}, context.Cause(ctx)
	case <-time.After(s.takes):
		return api.PlanSynced{Pulled: 7}, nil
	}
}

// The time to send a request bounds the sending alone: what a request asks for may take longer.
func TestWorkOutlastsTheTimeToAsk(t *testing.T) {
	const ask = 100 * time.Millisecond
	socket, _ := serve(t, server.Options{Service: slow{apitest.NewFake(), 5 * ask}, ReadTimeout: ask})
	if got, err := dial(t, socket).SyncPlan(t.Context(), "/"); err != nil || got.Pulled != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Who asks and does not finish asking is told so, and dropped.
func TestHalfARequest(t *testing.T) {
	socket, _ := serve(t, server.Options{Service: apitest.NewFake(), ReadTimeout: 50 * time.Millisecond})
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/plan/sync HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	said, _ := io.ReadAll(conn) // how a connection that was cut ends is not said
	if !strings.Contains(string(said), "422") || !strings.Contains(string(said), "read the request") {
		t.Errorf("got %q", said)
	}
}
