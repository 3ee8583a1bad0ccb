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
