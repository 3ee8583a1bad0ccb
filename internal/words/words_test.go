package words

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func all(text string) []string {
	var out []string
	Each(text, func(t Token) bool { out = append(out, t.Text); return true })
	return out
}

func TestEach(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"The quick, brown fox!", "the quick brown fox"},
		{"parseConfigFile", "parseconfigfile parse config file"},
		{"parse_config_file", "parseconfigfile parse config file"},
		{"HTTPServer", "httpserver http server"},
		{"internal/td/task.go", "internal td task go"},
		{"sha256 utf8 v2", "sha256 utf8 v2"},
		{"__init__ _", "init"},
		{"go-yaml's", "go yaml s"},
		{"Größe ÉCOLE", "größe école"},
		{"設定ファイル", "設定 定フ ファ ァイ イル"},
		{"config設定", "config 設定"},
		{"設", "設"},
		{"parsers expect classes, boxes, entries", "parser expect class box entry"},
		{"status analysis class", "status analysis class"},
		{strings.Repeat("a", 65) + " ok", "ok"},
		{"bad \xff\xfe bytes", "bad byte"},
	} {
		if got := strings.Join(all(c.in), " "); got != c.want {
			t.Errorf("Each(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	if got := all("Ошибки"); !slices.Equal(got, []string{"ошибки"}) {
		t.Errorf("Cyrillic: %q", got)
	}
}

func TestEachStops(t *testing.T) {
	n := 0
	Each("one twoThree four", func(Token) bool { n++; return n < 2 })
	if n != 2 {
		t.Errorf("yielded %d after being told to stop at 2", n)
	}
}

func TestTerms(t *testing.T) {
	got := Terms("Fix the bug in the config loader, and the bugs of loaders; x", 10)
	if diff := cmp.Diff([]string{"fix", "bug", "config", "loader"}, got); diff != "" {
		t.Error(diff)
	}
	if got := Terms("one two three", 2); len(got) != 2 {
		t.Errorf("the limit of 2 gave %q", got)
	}
}

func TestShared(t *testing.T) {
	if n := Shared(Set("red green blue", 9), Set("blue black red", 9)); n != 2 {
		t.Errorf("shared %d, want 2", n)
	}
}

// What is searched for is cut by the same rules as what was found: a token must survive that.
func TestTokenCutAgainIsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkTokens(t, rapid.String().Draw(t, "text"))
	})
}

func checkTokens(t interface{ Fatalf(string, ...any) }, text string) {
	Each(text, func(tok Token) bool {
		if tok.Start < 0 || tok.End > len(text) || tok.Start >= tok.End {
			t.Fatalf("%q of %q stands at %d:%d", tok.Text, text, tok.Start, tok.End)
		}
		if len(tok.Text) > maxToken {
			t.Fatalf("%q is too long", tok.Text)
		}
		if again := all(tok.Text); !slices.Contains(again, tok.Text) {
			t.Fatalf("%q of %q is cut into %q", tok.Text, text, again)
		}
		return true
	})
}

func FuzzEach(f *testing.F) {
	for _, s := range []string{"parseConfigFile", "HTTPServer_x", "設定", "é e\u0301", "\xff", "ǅabc", "İstanbul", "ſs"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkTokens(t, text) })
}

func BenchmarkEach(b *testing.B) {
	text := strings.Repeat("The parser of internal/config expects an array, but parseConfigFile got an object. ", 100)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Each(text, func(Token) bool { return true })
	}
}
