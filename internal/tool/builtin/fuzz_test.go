package builtin

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// FuzzPrepare gives any bytes to any tool, and runs what is no command. Nothing may panic, and nothing
// outside the workspace may change.
func FuzzPrepare(f *testing.F) {
	b := newBench(f)
	tools := Tools(Options{Ripgrep: NoRipgrep})
	for i := range tools {
		f.Add(uint8(i), []byte(`{"path":"a.txt","pattern":"a","command":"true","content":"x","old_string":"one","new_string":"two"}`))
	}
	for i, in := range []string{
		`{"path":"a.txt"}`, `{"path":"../x","content":"x"}`, `{"path":"a.txt","old_string":"one","new_string":"1"}`,
		`{"path":"a.txt","edits":[{"old_string":"one","new_string":"1"}]}`, `{"command":"true"}`, `{"job":"job-1"}`, `{"job":"job-1"}`,
		`{"pattern":"**/{a,b}*"}`, `{"pattern":"o.e","-C":1,"multiline":true,"glob":"!*.go"}`, `{"todos":[{"text":"a","status":"pending"}]}`,
		`{"question":"?"}`, `{"summary":"s"}`, `{"reason":"r"}`,
	} {
		f.Add(uint8(i), []byte(in))
	}
	f.Add(uint8(1), []byte(`{"path":"out/x","content":"x"}`))
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		parent := t.TempDir()
		ws := filepath.Join(parent, "ws")
		if err := os.Mkdir(ws, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(ws, "a.txt"), []byte("one\ntwo\r\nthree"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..", filepath.Join(ws, "out")); err != nil {
			t.Fatal(err)
		}
		w, err := tool.OpenWorkspace(ws)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		env := *b.env
		env.Root = w
		env.Known = func(string) bool { return true }
		tl := tools[int(which)%len(tools)]
		call, err := tl.Prepare(t.Context(), &env, raw)
		if err == nil && call.Run != nil && call.Effect != td.Opaque {
			res, err := call.Run(t.Context())
			if err == nil && strings.ContainsRune(res.Content, 0) {
				t.Errorf("%s %q: NUL in the result", tl.Name, raw)
			}
		}
		if tl.Resolve != nil {
			intent := td.Intent{Key: env.Step, Evidence: call.Evidence}
			if call.Evidence != nil && call.Effect == td.Keyed {
				if _, err := tl.Resolve(t.Context(), &env, raw, intent); err != nil {
					t.Errorf("%s %q: %v", tl.Name, raw, err)
				}
			}
			intent.Evidence = raw
			_, _ = tl.Resolve(t.Context(), &env, raw, intent)
		}
		left, err := fs.Glob(os.DirFS(parent), "*")
		if err != nil || len(left) != 1 || left[0] != "ws" {
			t.Errorf("%s %q: outside the workspace: %v, %v", tl.Name, raw, left, err)
		}
	})
}
