package builtin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// TestMain makes the test binary its own shim, as taskdaemon is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		os.Exit(sandbox.ExecMain())
	}
	os.Exit(m.Run())
}

// bench is a workspace, a spool and the tools, with what the model is said to have read.
type bench struct {
	testing.TB
	env   *tool.Env
	dir   string
	spool *sandbox.Spool
	files []string
	tools *tool.Registry
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchWith(t, Options{Ripgrep: NoRipgrep})
}

func newBenchWith(t testing.TB, opts Options) *bench {
	t.Helper()
	return newBenchIn(t, t.TempDir(), opts)
}

// newBenchIn is a bench whose workspace is in dir, and closed at the end of the test.
func newBenchIn(t testing.TB, dir string, opts Options) *bench {
	t.Helper()
	w, err := tool.OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, dir: w.Dir(), spool: &sandbox.Spool{Dir: t.TempDir(), Self: self}, tools: tool.NewRegistry(Tools(opts)...)}
	b.env = &tool.Env{
		Task: td.NewTaskID(), Run: td.NewRunID(), Step: "1.1", Root: w, Home: w.Dir(), Spool: b.spool,
		Known: func(p string) bool { return slices.Contains(b.files, p) },
		Now:   time.Now, Timeout: 20 * time.Second,
		Sandbox: func() *sandbox.Profile { return nil }, // as if the sandbox was off
	}
	t.Cleanup(func() {
		entries, err := b.spool.List()
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if p, state, err := b.spool.Find(e.Name); state == sandbox.StillRunning && err == nil {
				if err := p.Kill(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		b.spool.Close()
		if orphans, err := sandbox.Orphans(b.spool.Dir); err != nil || len(orphans) > 0 {
			t.Errorf("orphans: %+v, %v", orphans, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) tool(name string) tool.Tool {
	b.Helper()
	t, ok := b.tools.Get(name)
	if !ok {
		b.Fatalf("no tool %s", name)
	}
	return t
}

func input(in any) json.RawMessage {
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return raw
}

type args map[string]any

// prepare is a call that must be prepared without an error.
func (b *bench) prepare(name string, in args) tool.Call {
	b.Helper()
	call, err := b.tool(name).Prepare(b.Context(), b.env, input(in))
	if err != nil {
		b.Fatalf("prepare %s: %v", name, err)
	}
	return call
}

// do prepares and runs a call; what goes wrong is a result that is an error, as the loop makes it.
func (b *bench) do(name string, in args) td.ToolResult {
	b.Helper()
	call, err := b.tool(name).Prepare(b.Context(), b.env, input(in))
	if err != nil {
		return td.ToolResult{Content: err.Error(), IsError: true}
	}
	res, err := call.Run(b.Context())
	if err != nil {
		return td.ToolResult{Content: err.Error(), IsError: true}
	}
	b.files = append(b.files, res.Files...)
	if res.Job != nil {
		b.env.Jobs = append(b.env.Jobs, *res.Job)
	}
	return res
}

// ok is do, for calls that must succeed.
func (b *bench) ok(name string, in args) td.ToolResult {
	b.Helper()
	res := b.do(name, in)
	if res.IsError {
		b.Fatalf("%s %v: %s", name, in, res.Content)
	}
	return res
}

// bad is do, for calls that must fail and say something.
func (b *bench) bad(name string, in args, says string) {
	b.Helper()
	if res := b.do(name, in); !res.IsError || !strings.Contains(res.Content, says) {
		b.Errorf("%s %v: error %v, %q; want an error with %q", name, in, res.IsError, res.Content, says)
	}
}

// resolve asks what became of a call in flight, as another daemon with the same folders would.
func (b *bench) resolve(name string, in args, call tool.Call) tool.Resolution {
	b.Helper()
	res, err := b.tool(name).Resolve(b.Context(), b.env, input(in), td.Intent{Key: b.env.Step, Name: name, Effect: call.Effect, Evidence: call.Evidence})
	if err != nil {
		b.Fatalf("resolve %s: %v", name, err)
	}
	return res
}

func (b *bench) put(name, content string) {
	b.Helper()
	full := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get(name string) string {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.Fatal(err)
	}
	return string(raw)
}
