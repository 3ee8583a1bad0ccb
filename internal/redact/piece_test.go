package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// Wherever a text is cut that holds a known value, neither of the pieces shows more than a few letters of it.
func TestPieces(t *testing.T) {
	const value = "zqSEKRETvalue98765xyz"
	r := New(value)
	each := func(format string) string {
		var b strings.Builder
		for _, c := range []byte(value) {
			fmt.Fprintf(&b, format, c)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"plain":  value,
		"hex":    hex.EncodeToString([]byte(value)),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)),
		"json":   each(`\u%04x`),
		"url":    each("%%%02X"),
		"unseen": strings.Join(strings.Split(value, ""), "\u200b"),
	} {
		most := max(1, len(text)/len(value)) * (MinLength - 1)
		for cut := range len(text) + 1 {
			head, tail := r.Piece("first words "+text[:cut], false, true), r.Piece(text[cut:]+" last words", true, false)
			for _, left := range []string{strings.TrimPrefix(head, "first words "), strings.TrimSuffix(tail, " last words")} {
				if left = strings.ReplaceAll(left, r.Mark(), ""); len(left) > most {
					t.Errorf("%s, cut after %d: %q and %q", name, cut, head, tail)
				}
			}
		}
	}
	const words = "nothing of it is here"
	if got := r.Piece(words, true, false); got != words {
		t.Errorf("ordinary words: %q", got)
	}
	if got := r.Piece(words, false, true); !strings.HasPrefix(words, got) || len(got) < len(words)-MinLength {
		t.Errorf("ordinary words, cut: %q", got)
	}
	var none *Redactor
	if got := none.Piece(words, true, true); got != words {
		t.Errorf("with no values: %q", got)
	}
}
