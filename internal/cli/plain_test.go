package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":              "plain\ttext\n",
		"\x1b[31mred\x1b[0m":         "␛[31mred␛[0m",
		"title \x1b]0;x\x07":         "title ␛]0;x␇",
		"a\r\nb\rc":                  "a\nb␍c",
		"one byte \u009b31m":         "one byte �31m",
		"turned \u202eabc":           "turned �abc",
		"broken \xff":                "broken �",
		"rubbed out\x7f":             "rubbed out␡",
		"größer als 日本語 und e\u0301": "größer als 日本語 und e\u0301",
	} {
		if got := plainText(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestPlainClip(t *testing.T) {
	if got := plainClip("1\n2\n3\n4\n5\n6\n", 2, 1); !slices.Equal(got, []string{"1", "2", "… 3 lines left out …", "6"}) {
		t.Errorf("clipped to %q", got)
	}
	if got := plainClip("1\n2\n3\n4\n", 2, 1); len(got) != 4 {
		t.Errorf("one line is left out to save one: %q", got)
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add("plain\ttext\n")
	f.Add("\x1b[31mred\x1b[0m \x9b31m \u009b \r\n \x7f \u202e abc")
	f.Add("\xff\xfe broken \xc3")
	f.Fuzz(func(t *testing.T, s string) {
		got := plainText(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || r == '\u202e') {
				t.Errorf("%q holds %U", got, r)
			}
		}
		if again := plainText(got); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
		if line := plainLine(s, 20); strings.ContainsAny(line, "\n\t") || utf8.RuneCountInString(line) > 20 {
			t.Errorf("one line is %q", line)
		}
	})
}
