package server_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

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
