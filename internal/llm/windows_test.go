package llm

import "testing"

func TestWindows(t *testing.T) {
	w := Windows{"claude": 200, "claude-large": 1000, "local/claude": 8, "tiny": 4}
	for model, want := range map[string]int{
		"claude-opus-4": 200, "claude-large-1": 1000, "anthropic/claude-large": 1000, "local/claude-large": 8, "tiny": 4, "tinyer": 7, "": 7,
	} {
		if got := w.Of(model, 7); got != want {
			t.Errorf("%q: %d, want %d", model, got, want)
		}
	}
}
