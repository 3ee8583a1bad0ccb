package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/apitest"
	"taskdaemon/internal/client"
	"taskdaemon/internal/server"
	"taskdaemon/internal/td"
)

func TestAProcessOfARunIsKeptOut(t *testing.T) {
	var asked atomic.Int64
	var why atomic.Value
	why.Store("")
	socket, _ := serve(t, server.Options{Service: apitest.NewFake(), Inside: func(pid int) string {
		asked.Store(int64(pid))
		return why.Load().(string)
	}})
	add := api.AddTask{Prompt: "x", Dir: t.TempDir(), Key: "k"}
	if _, err := client.New(client.Options{Socket: socket}).AddTask(t.Context(), add); err != nil {
		t.Errorf("a person: %v", err)
	}
	if asked.Load() != int64(os.Getpid()) {
		t.Errorf("asked about process %d", asked.Load())
	}
	why.Store("it belongs to a command of a run")
	c := client.New(client.Options{Socket: socket})
	for name, call := range map[string]func() error{
		"status":  func() error { _, err := c.Status(t.Context()); return err },
		"list":    func() error { _, err := c.Tasks(t.Context(), api.TaskQuery{}); return err },
		"task":    func() error { _, err := c.Task(t.Context(), "x"); return err },
		"add":     func() error { _, err := c.AddTask(t.Context(), add); return err },
		"command": func() error { _, err := c.Command(t.Context(), "x", api.Command{Type: td.CmdCancel}); return err },
		"stop":    func() error { return c.Stop(t.Context()) },
	} {
		if err := call(); !td.IsKind(err, td.Refused) || !strings.Contains(err.Error(), "a process of a run may not") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// handEnv makes the test binary connect to the socket it names, hand the connection on and leave.
const handEnv = "TASKDAEMON_TEST_HAND_ON"

func handOn(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	f, err := c.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	return unix.Sendmsg(3, []byte("x"), unix.UnixRights(int(f.Fd())), nil, 0)
}

// TestAPeerThatIsGoneIsKeptOut uses the connection of a process that has ended: whoever has its pid now is not who
// connected.
func TestAPeerThatIsGoneIsKeptOut(t *testing.T) {
	ended := make(chan struct{})
	socket, _ := serve(t, server.Options{Service: apitest.NewFake(), Inside: func(int) string {
		<-ended
		return ""
	}})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fds[0]) }()
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), handEnv+"="+socket)
	cmd.ExtraFiles = []*os.File{theirs}
	out, err := cmd.CombinedOutput()
	close(ended)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_ = theirs.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(fds[0], make([]byte, 1), rights, 0)
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(msgs) != 1 {
		t.Fatalf("%v, %v", msgs, err)
	}
	got, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(got[0]), "conn")
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = f.Close()
	if _, err := io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if raw, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusForbidden || !strings.Contains(string(raw), "it is gone already") {
		t.Errorf("%s: %s", res.Status, raw)
	}
}
