package typo

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"turns", "turns", 0},
		{"turnz", "turns", 1},
		{"turn", "turns", 1},
		{"urns", "turns", 1},
		{"kitten", "sitting", 3},
		{"", "abc", 3},
		{strings.Repeat("x", 1<<20), "abc", longest},
	} {
		if got := Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("Distance(%.20q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := Distance(tc.b, tc.a); got != tc.want {
			t.Errorf("Distance(%q, %.20q) = %d, want %d", tc.b, tc.a, got, tc.want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"worker", "small", "expert"}
	for word, want := range map[string]string{"smal": "small", "wroker": "worker", "export": "expert", "": "small"} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Nearest("x", []string{"b", "a"}); got != "a" {
		t.Errorf("of equals %q", got)
	}
	if got := Nearest("x", nil); got != "" {
		t.Errorf("of none %q", got)
	}
}
