package engine

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Both files of a folder count unless they say the same; what is cut says so.
func TestInstructions(t *testing.T) {
	long := strings.Repeat("x", maxInstructions+1)
	for name, tt := range map[string]struct {
		agents, claude string
		want           int
		cut            bool
	}{
		"both":     {"use tabs", "use go", 2, false},
		"the same": {"use tabs", "use tabs", 1, false},
		"one":      {"", "use go", 1, false},
		"too long": {long, "use go", 2, true},
		"just so":  {long[1:], "", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"AGENTS.md": tt.agents, "CLAUDE.md": tt.claude} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := &run{Engine: New(Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})}
			found := r.instructions(dir)
			if len(found) != tt.want {
				t.Fatalf("found %d", len(found))
			}
			if got := strings.Contains(found[0].text, "the rest was left out"); got != tt.cut {
				t.Errorf("says that it is cut: %v", got)
			}
		})
	}
}

// A link is not followed, wherever it leads: the model is told of it and may read it, which is judged.
func TestInstructionsThatAreLinks(t *testing.T) {
	top, outside := t.TempDir(), t.TempDir()
	put := func(file string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("canary of "+filepath.Base(file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(outside, "far"))
	put(filepath.Join(outside, "AGENTS.md"))
	put(filepath.Join(top, ".env"))
	put(filepath.Join(top, "sub/AGENTS.md"))
	if err := os.Mkdir(filepath.Join(top, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"AGENTS.md": ".env", "CLAUDE.md": filepath.Join(outside, "far"), "sub/CLAUDE.md": "AGENTS.md", "linked": outside,
	} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{Engine: New(Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})}
	for dir, want := range map[string]string{"sub": "canary of AGENTS.md", "linked": ""} {
		var all []string
		for _, f := range r.instructions(filepath.Join(top, dir)) {
			all = append(all, f.text)
		}
		text := strings.Join(all, "\n")
		if !strings.Contains(text, want) || strings.Count(text, "canary") != min(len(want), 1) || strings.Count(text, "was not read for you") < 2 {
			t.Errorf("%s: %s", dir, text)
		}
	}
}
