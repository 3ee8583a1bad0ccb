package redact

import (
	"slices"
	"strings"
	"testing"
)

// A place of a view always leads to a part of what was read that is not empty.
func FuzzView(f *testing.F) {
	f.Add(`a%41\u00e9\n\ud83d\ude00\`)
	f.Add("%e2%82%ac 100% \\x4")
	f.Add("&lt;a&#60;\r\n  b&#x3c;\n&am")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range slices.Concat(escapes, breaks) {
			v := e.undo([]byte(text))
			if v == nil {
				continue
			}
			for i := range v.text {
				if from, to := v.source(i), v.end(i+1); from >= to || to > len(text) || i > 0 && v.source(i-1) > from {
					t.Fatalf("%q: byte %d comes from %d to %d", text, i, from, to)
				}
			}
			if v.cut < len(text) && len(text)-v.cut > 12 {
				t.Fatalf("%q is open from %d on", text, v.cut)
			}
		}
	})
}

// Values that are a part of a character do not make the redactor loop.
func TestPartOfACharacter(t *testing.T) {
	r := New("\x9f\x98\x80\xf0\x9f\x98")
	if got := r.String(`\ud83d\ude00\ud83d\ude00`); got != "[redacted]" {
		t.Errorf("got %q", got)
	}
}

// TestShapesSplitByNothing finds what looks like a key to whoever sees it.
func TestShapesSplitByNothing(t *testing.T) {
	key := "ghp_" + strings.Repeat("aB3dE6", 6)
	for _, by := range []string{"\u200b", "\u2060", "\ufeff", "\u00ad", "\u200d\u200c"} {
		text := "token " + wrap(key, 5, by) + " é … 中 end"
		if got := New().String(text); got != "token [redacted] é … 中 end" {
			t.Errorf("%q: %q", by, got)
		}
	}
	if text := "emoji 👩\u200d💻 and \u2026"; New("some-known-value").String(text) != text {
		t.Error("a text without secrets is changed")
	}
}
