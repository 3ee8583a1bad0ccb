package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

var token = strings.Repeat("aZ0-_", 8)

func TestReadToken(t *testing.T) {
	dir := t.TempDir()
	path := TokenPath(dir)
	if _, err := ReadToken(path); !td.IsKind(err, td.NotFound) {
		t.Errorf("a missing one: %v", err)
	}
	for what, c := range map[string]struct {
		text string
		mode os.FileMode
		kind td.Kind // empty: it is read
	}{
		"one":                       {token + "\n", 0o600, ""},
		"one without an end":        {token, 0o400, ""},
		"one that others may read":  {token, 0o640, td.Refused},
		"a short one":               {"abc", 0o600, td.Invalid},
		"an empty one":              {"", 0o600, td.Invalid},
		"a long one":                {strings.Repeat("a", maxToken+1), 0o600, td.Invalid},
		"one with other characters": {token + " x", 0o600, td.Invalid},
		"two lines":                 {token + "\n" + token, 0o600, td.Invalid},
	} {
		_ = os.Remove(path)
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := ReadToken(path)
		if c.kind == "" && (err != nil || got != token) || c.kind != "" && !td.IsKind(err, c.kind) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadToken(link); !td.IsKind(err, td.Refused) {
		t.Errorf("a link: %v", err)
	}
	if _, err := ReadToken(dir); !td.IsKind(err, td.Refused) {
		t.Errorf("a folder: %v", err)
	}
}

func TestCheckBearer(t *testing.T) {
	if err := CheckBearer(Bearer(token), token); err != nil {
		t.Errorf("the token: %v", err)
	}
	for _, header := range []string{"", token, "Bearer", "Bearer ", "bearer " + token, "Basic " + token, Bearer(token) + " ", Bearer(token[1:]), Bearer(token + "x"), Bearer(strings.ToLower(token))} {
		if err := CheckBearer(header, token); !td.IsKind(err, td.Auth) {
			t.Errorf("%q: %v", header, err)
		}
	}
	if err := CheckBearer(Bearer(""), ""); !td.IsKind(err, td.Auth) {
		t.Errorf("a server without a token: %v", err)
	}
}

func FuzzParseToken(f *testing.F) {
	for _, s := range []string{"", token, token + "\n", token + "\r\n", "\x00", strings.Repeat("a", maxToken+1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseToken(text)
		if err != nil {
			return
		}
		if again, err := ParseToken(got); err != nil || again != got || !strings.HasPrefix(text, got) {
			t.Errorf("%q is read as %q, and that as %q (%v)", text, got, again, err)
		}
		if CheckBearer(Bearer(got), got) != nil || CheckBearer(text, got) == nil {
			t.Errorf("%q is not what lets %q in", Bearer(got), text)
		}
	})
}
