package td_test

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{
		"Remember me":                   "remember-me",
		"auth/login":                    "auth-login",
		"../../etc/passwd":              "etc-passwd",
		"-x":                            "x",
		" v1.2 – the  rest! ":           "v1-2-the-rest",
		"Übergrößenträger":              "übergrößenträger",
		"文書 を書く":                        "文書-を書く",
		"cafe\u0301 noir":               "cafe\u0301-noir",
		"\u0301x":                       "x",
		"a\x00b\xffc":                   "a-b-c",
		strings.Repeat("a", 300):        strings.Repeat("a", 60),
		strings.Repeat("ab ", 99):       strings.TrimRight(strings.Repeat("ab-", 20), "-"),
		"ab " + strings.Repeat("c", 99): "ab-" + strings.Repeat("c", 57),
		strings.Repeat("a", 60) + "/" + strings.Repeat("b", 60):     strings.Repeat("a", 60),
		strings.Repeat("a", 30) + " bb " + strings.Repeat("c", 300): strings.Repeat("a", 30) + "-bb",
	} {
		if got, err := td.Slug(name); err != nil || got != want {
			t.Errorf("%.40q becomes %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", "..", " ", "-", "/", "!?*", "❤️", "\xff", "\u0301"} {
		if got, err := td.Slug(name); !td.IsKind(err, td.Invalid) || td.HintOf(err) == "" {
			t.Errorf("%q becomes %q, %v", name, got, err)
		}
	}
}

// FuzzSlug makes folders of any name: each is one plain part of a path, and stays what it is.
func FuzzSlug(f *testing.F) {
	for _, s := range []string{"Remember me", "a/b", "..", "-x", "İı", "ǅ", strings.Repeat("ß", 200), "cafe\u0301", "a\x00b", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		slug, err := td.Slug(name)
		if err != nil {
			return
		}
		switch {
		case !td.IsSlug(slug):
			t.Errorf("%q becomes %q, which becomes something else", name, slug)
		case path.Clean("/"+slug) != "/"+slug || path.Base(slug) != slug || strings.HasPrefix(slug, ".") || strings.HasPrefix(slug, "-"):
			t.Errorf("%q becomes %q, which is no plain name", name, slug)
		case len(slug) > 240 || !utf8.ValidString(slug):
			t.Errorf("%q becomes a name of %d bytes", name, len(slug))
		}
	})
}
