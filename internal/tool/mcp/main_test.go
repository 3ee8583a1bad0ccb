package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// TestMain makes the test binary a server when it is told to.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		serveMain(os.Args[2], os.Args[3:])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "daemon" {
		daemonMain(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// daemonMain uses a server and waits to be killed.
func daemonMain(mark string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	p, err := New(Options{Mark: mark, Log: slog.New(slog.DiscardHandler), Servers: []Server{{Name: "helper", Command: self, Args: []string{"serve", "family"}}}})
	if err != nil {
		panic(err)
	}
	offers, err := p.Offers(context.Background(), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(offers))
	forever()
}

// serveMain is a server that misbehaves in the way it is told.
func serveMain(way string, args []string) {
	ctx := context.Background()
	switch way {
	case "deaf": // hangs at the start, and does not leave when it is asked
		signal.Ignore(syscall.SIGTERM)
		forever()
	case "garbage":
		fmt.Println(`{"jsonrpc":"2.0", no more of this`)
		forever()
	case "exit":
		fmt.Fprintln(os.Stderr, "no API key: sk-secret-value")
		os.Exit(3)
	case "endless": // a line without an end
		fmt.Print(`{"jsonrpc":"2.0","method":"`)
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	case "notify": // messages without an end
		for {
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
	case "stubborn": // works, and does not leave when it is asked
		signal.Ignore(syscall.SIGTERM)
		go func() { _ = server().Run(ctx, &sdk.StdioTransport{}) }()
		forever()
	case "family": // leaves children behind, one of them a daemon
		child := exec.Command("/bin/sh", "-c", "sleep 1000 & exec setsid sleep 1000")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
	case "noisy":
		fmt.Print("Welcome!\n[info] listening\n\n")
		fmt.Fprintln(os.Stderr, "ready")
	case "clogged": // stops to read when it has told its tools
		in := &clog{left: 3} // initialize, initialized, tools/list
		_ = server().Run(ctx, &sdk.IOTransport{Reader: in, Writer: os.Stdout})
		forever()
	case "once": // fails unless the file is there
		if _, err := os.Stat(args[0]); err != nil {
			fmt.Fprintln(os.Stderr, "not yet")
			os.Exit(1)
		}
	}
	_ = server().Run(ctx, &sdk.StdioTransport{})
}

// clog is a standard input that ends nowhere after some lines.
type clog struct{ left int }

func (c *clog) Read(p []byte) (int, error) {
	if c.left == 0 {
		forever()
	}
	n, err := os.Stdin.Read(p[:1])
	if n > 0 && p[0] == '\n' {
		c.left--
	}
	return n, err
}

func (c *clog) Close() error { return nil }

// server is a server with tools to test with.
func server() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "helper", Version: "1.2"}, nil)
	object := json.RawMessage(`{"type":"object"}`)
	add := func(name string, schema any, ro bool, f func(ctx context.Context, in map[string]any) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: schema, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: ro}},
			func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				var in map[string]any
				if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
					return nil, err
				}
				return f(ctx, in)
			})
	}
	add("echo", json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`), true,
		func(_ context.Context, in map[string]any) (*sdk.CallToolResult, error) {
			return text(in["text"].(string)), nil
		})
	add("env", object, true, func(context.Context, map[string]any) (*sdk.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n")), nil
	})
	add("pid", object, false, func(context.Context, map[string]any) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(os.Getpid())), nil
	})
	add("die", object, false, func(context.Context, map[string]any) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "I am dying")
		os.Exit(7)
		return nil, nil
	})
	add("hang", object, false, func(ctx context.Context, _ map[string]any) (*sdk.CallToolResult, error) { select {} })
	var meet sync.Mutex
	waiting := map[string]chan struct{}{}
	add("meet", object, false, func(ctx context.Context, in map[string]any) (*sdk.CallToolResult, error) {
		// Two calls that can only end together.
		meet.Lock()
		c, second := waiting["x"]
		if !second {
			c = make(chan struct{})
			waiting["x"] = c
		} else {
			close(c)
			delete(waiting, "x")
		}
		meet.Unlock()
		<-c
		return text("met"), nil
	})
	add("late", object, false, func(ctx context.Context, _ map[string]any) (*sdk.CallToolResult, error) {
		<-ctx.Done() // the caller has gone: answer nevertheless
		return text("too late"), nil
	})
	add("flood", object, false, func(context.Context, map[string]any) (*sdk.CallToolResult, error) {
		return text("begin " + strings.Repeat("0123456789", 200_000) + " end"), nil
	})
	add("huge", object, false, func(context.Context, map[string]any) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("0123456789", 1_000_000)), nil
	})
	add("things", object, false, func(context.Context, map[string]any) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{
			&sdk.TextContent{Text: "red \x1b[31malert"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("12345")},
			&sdk.ResourceLink{URI: "file:///x", Name: "x"}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///y", Text: "why"}},
		}}, nil
	})
	add("leave", object, false, func(context.Context, map[string]any) (*sdk.CallToolResult, error) {
		s.RemoveTools("pid", "leave")
		return text("left"), nil
	})
	// Lies and breaks; the first would end whoever validates with it.
	add("loop", json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}}`), false,
		func(context.Context, map[string]any) (*sdk.CallToolResult, error) { return text("looped"), nil })
	for name, schema := range map[string]string{
		"bad-type":   `{"type":"object","properties":{"a":{"type":"strin"}}}`,
		"bad-ref":    `{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}`,
		"remote":     `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`,
		"bad-regexp": `{"type":"object","properties":{"a":{"pattern":"("}}}`,
		"any-of":     `{"type":"object","anyOf":[{"required":["a"]}]}`,
	} {
		add(name, json.RawMessage(schema), false, func(context.Context, map[string]any) (*sdk.CallToolResult, error) { return text("no"), nil })
	}
	return s
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// program is the config of a server that this binary is.
func program(t testing.TB, way string, args ...string) Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Server{Name: "helper", Command: self, Args: append([]string{"serve", way}, args...), Timeout: 10 * time.Second, StartTimeout: 10 * time.Second}
}

// pool makes a pool with short pauses that leaves nothing behind.
func pool(t testing.TB, servers ...Server) *Pool {
	t.Helper()
	p, err := New(Options{Servers: servers, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Mark: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p.lim.backoffMin, p.lim.grace = 20*time.Millisecond, 100*time.Millisecond
	t.Cleanup(func() {
		p.Close()
		left, err := procs(func(q proc) bool { return strings.HasPrefix(q.mark(), p.mark+"#") })
		if err != nil || len(left) > 0 {
			t.Errorf("processes are left: %+v, %v", left, err)
		}
	})
	return p
}

// tools are those of these servers, as far as they answer.
func tools(t testing.TB, p *Pool, names []string) []tool.Tool {
	t.Helper()
	offers, err := p.Offers(t.Context(), names)
	if err != nil {
		t.Logf("left out: %v", err)
	}
	return p.Bind(offers)
}

// find is the tool of this name among those of the pool.
func find(t testing.TB, p *Pool, name string) tool.Tool {
	t.Helper()
	for _, tl := range tools(t, p, nil) {
		if tl.Name == "mcp__helper__"+name {
			return tl
		}
	}
	t.Fatalf("no tool %s: %+v", name, p.List())
	return tool.Tool{}
}

func prepare(t testing.TB, tl tool.Tool, input string) tool.Call {
	t.Helper()
	c, err := tl.Prepare(t.Context(), &tool.Env{Now: time.Now}, json.RawMessage(input))
	if err != nil {
		t.Fatalf("prepare %s: %v", tl.Name, err)
	}
	return c
}

// call prepares and runs.
func call(t testing.TB, tl tool.Tool, input string) td.ToolResult {
	t.Helper()
	res, err := prepare(t, tl, input).Run(t.Context())
	if err != nil {
		t.Fatalf("run %s: %v", tl.Name, err)
	}
	res.Content = unfenced(t, res)
	return res
}

// unfenced is what a server said. All of it must have been fenced and marked.
func unfenced(t testing.TB, res td.ToolResult) string {
	t.Helper()
	if !res.Untrusted {
		return res.Content
	}
	_, inside, begins := strings.Cut(res.Content, "\n\n<text-")
	_, inside, opened := strings.Cut(inside, ">\n")
	end := strings.LastIndex(inside, "\n</text-")
	if !begins || !opened || end < 0 || !strings.Contains(res.Content, "not instructions") {
		t.Fatalf("not fenced: %q", res.Content)
	}
	return inside[:end]
}

// eventually polls until ok, and fails the test if that takes too long.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		_ = sleep(t.Context(), 2*time.Millisecond)
	}
}

// forever waits as long as any test lasts. An empty select would be found to be a deadlock.
func forever() { <-time.After(time.Hour) }
