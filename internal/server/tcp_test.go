package server_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/apitest"
	"taskdaemon/internal/client"
	"taskdaemon/internal/server"
	"taskdaemon/internal/td"
)

var token = strings.Repeat("token-12", 6)

// serveTCP runs a server with a port of its own, and returns where that is.
func serveTCP(t *testing.T, o server.Options) (addr string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = free.Addr().String()
	_ = free.Close()
	o.Listen, o.Token = addr, token
	serve(t, o)
	return addr
}

func dialTCP(t *testing.T, addr, token string) *client.Client {
	c := client.New(client.Options{Address: addr, Token: token})
	t.Cleanup(c.Close)
	return c
}

func TestClientAndServerOverTCPAreAService(t *testing.T) {
	apitest.RunAs(t, dialTCP(t, serveTCP(t, server.Options{Service: apitest.NewFake()}), token), "token from 127.0.0.1")
}

func TestTokenIsWanted(t *testing.T) {
	var log bytes.Buffer
	addr := serveTCP(t, server.Options{Service: apitest.NewFake(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, given := range []string{"", token[1:], token + "x", strings.ToUpper(token)} {
		c := dialTCP(t, addr, given)
		if _, err := c.Status(t.Context()); !td.IsKind(err, td.Auth) || td.HintOf(err) == "" {
			t.Errorf("status with %q: %v", given, err)
		}
		if _, err := c.AddTask(t.Context(), api.AddTask{Prompt: "x", Dir: t.TempDir()}); !td.IsKind(err, td.Auth) {
			t.Errorf("a task with %q: %v", given, err)
		}
		for _, err := range c.Events(t.Context(), api.EventQuery{}) {
			if !td.IsKind(err, td.Auth) {
				t.Errorf("events with %q: %v", given, err)
			}
		}
	}
	for _, path := range []string{"/openapi.json", "/v1/status", "/v1/nothing", "/"} {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" || resp.Header.Get("Taskdaemon-Pid") != "" {
			t.Errorf("%s: %s, %v", path, resp.Status, resp.Header)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if !strings.Contains(log.String(), "from=127.0.0.1") || strings.Contains(log.String(), token) {
		t.Errorf("the log says %s", log.String())
	}
}

func TestWhatComesOverTCPIsSigned(t *testing.T) {
	c := dialTCP(t, serveTCP(t, server.Options{Service: apitest.NewFake()}), token)
	task, err := c.AddTask(t.Context(), api.AddTask{Prompt: "x", Dir: t.TempDir(), By: "the owner"})
	if err != nil || task.CreatedBy != "token from 127.0.0.1" {
		t.Errorf("it is by %q, %v", task.CreatedBy, err)
	}
}

func TestPortOfAnother(t *testing.T) {
	addr := serveTCP(t, server.Options{Service: apitest.NewFake()})
	socket := filepath.Join(t.TempDir(), "run", "sock")
	err := server.Serve(t.Context(), server.Options{Service: apitest.NewFake(), Socket: socket, Listen: addr, Token: token})
	if !td.IsKind(err, td.Locked) || td.HintOf(err) == "" {
		t.Errorf("a second one on %s: %v", addr, err)
	}
	serve(t, server.Options{Service: apitest.NewFake(), Socket: socket}) // it left no socket in the way
	if _, err := dialTCP(t, "127.0.0.1:1", token).Status(t.Context()); !td.IsKind(err, td.Unavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("a port where nobody is: %v", err)
	}
}
