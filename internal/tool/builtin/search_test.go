package builtin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestGlob(t *testing.T) {
	b := newBench(t)
	for i, name := range []string{"a.go", "sub/b.go", "sub/deep/c.go", "d.txt", ".git/e.go", ".hidden/f.go"} {
		b.put(name, "")
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(filepath.Join(b.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".", filepath.Join(b.dir, "sub/loop")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		in   args
		want string
	}{
		{args{"pattern": "**/*.go"}, ".hidden/f.go\nsub/deep/c.go\nsub/b.go\na.go\n"},
		{args{"pattern": "*.go"}, "a.go\n"},
		{args{"pattern": "*.go", "path": "sub"}, "sub/b.go\n"},
		{args{"pattern": "*.{txt,md}"}, "d.txt\n"},
		{args{"pattern": "*.rs"}, "(no file matches)"},
	} {
		if res := b.ok("Glob", tc.in); res.Content != tc.want {
			t.Errorf("%v: %q", tc.in, res.Content)
		}
	}
	b.bad("Glob", args{"pattern": "[a"}, "malformed")
	b.bad("Glob", args{"pattern": "../*"}, "outside")
	b.bad("Glob", args{"pattern": "/etc/*"}, "relative")
	b.bad("Glob", args{"pattern": "*", "path": "/etc"}, "outside")
	b.bad("Glob", args{"pattern": "*", "path": "none"}, "does not exist")
}

func TestGlobIsBounded(t *testing.T) {
	b := newBench(t)
	for i := range maxGlob + 5 {
		b.put(fmt.Sprintf("f%04d", i), "")
	}
	res := b.ok("Glob", args{"pattern": "*"})
	if n := strings.Count(res.Content, "\n"); n != maxGlob+1 || !strings.Contains(res.Content, "[1005 files match; the newest 1000 are shown") {
		t.Errorf("%d lines", n)
	}
}

// grepBenches are a bench for each way to search that is to be had here.
func grepBenches(t *testing.T, run func(t *testing.T, b *bench)) {
	t.Run("built in", func(t *testing.T) { run(t, newBench(t)) })
	t.Run("ripgrep", func(t *testing.T) {
		rg, err := exec.LookPath("rg")
		if err != nil {
			t.Skip("ripgrep is not installed on this machine")
		}
		run(t, newBenchWith(t, Options{Ripgrep: rg}))
	})
}

func TestGrep(t *testing.T) {
	grepBenches(t, func(t *testing.T, b *bench) {
		b.put("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
		b.put("sub/b.go", "func A() {\n\tfour()\n}\r\nfunc B() {}\n")
		b.put("sub/c.go", "nothing\n")
		b.put(".git/x", "four\n")
		b.put("bin", "four\x00\n")
		b.put(".dot", "ignored four\n")
		b.put(".gitignore", ".dot\n")
		if err := os.Symlink("..", filepath.Join(b.dir, "sub/loop")); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			in   args
			want string
		}{
			{args{"pattern": "four"}, ".dot:1:ignored four\na.txt:4:four\nsub/b.go:2:\tfour()\n"},
			{args{"pattern": "four", "output_mode": "files"}, ".dot\na.txt\nsub/b.go\n"},
			{args{"pattern": "f", "output_mode": "count", "path": "sub"}, "sub/b.go:3\n"},
			{args{"pattern": "FOUR", "-i": true, "glob": "*.txt"}, "a.txt:4:four\n"},
			{args{"pattern": "FOUR"}, "(nothing found)\n"},
			{args{"pattern": "four", "glob": "sub/*.go"}, "sub/b.go:2:\tfour()\n"},
			{args{"pattern": "four", "glob": "!*.txt", "output_mode": "files"}, ".dot\nsub/b.go\n"},
			{args{"pattern": "two|six", "path": "a.txt", "-C": 1}, "a.txt-1-one\na.txt:2:two\na.txt-3-three\n--\na.txt-5-five\na.txt:6:six\na.txt-7-seven\n"},
			{args{"pattern": "two|four", "glob": "a.txt", "-A": 1}, "a.txt:2:two\na.txt-3-three\na.txt:4:four\na.txt-5-five\n"},
			{args{"pattern": "four", "-B": 1, "glob": "[a-z]*"}, "a.txt-3-three\na.txt:4:four\n--\nsub/b.go-1-func A() {\nsub/b.go:2:\tfour()\n"},
			{args{"pattern": "}$", "path": "sub"}, "sub/b.go:3:}\nsub/b.go:4:func B() {}\n"},
			{args{"pattern": "two.three", "multiline": true}, "a.txt:2:two\na.txt:3:three\n"},
			{args{"pattern": "^two\nthree$", "multiline": true, "output_mode": "count"}, "a.txt:1\n"},
			{args{"pattern": "two\n", "multiline": true, "-A": 1}, "a.txt:2:two\na.txt-3-three\n"},
			{args{"pattern": "four", "head_limit": 1}, ".dot:1:ignored four\n[there is more; the first 1 entries are shown, make the search narrower]\n"},
		} {
			if res := b.ok("Grep", tc.in); res.Content != tc.want {
				t.Errorf("%v:\n got %q\nwant %q", tc.in, res.Content, tc.want)
			}
		}
		b.bad("Grep", args{"pattern": "("}, "malformed")
		b.bad("Grep", args{"pattern": "x", "glob": "[a"}, "malformed")
		b.bad("Grep", args{"pattern": "x", "path": "../"}, "outside")
		b.bad("Grep", args{"pattern": "x", "path": "none"}, "none")
		b.bad("Grep", args{"pattern": "a\nb"}, "multiline")
		b.bad("Grep", args{"pattern": "a", "output_mode": "all"}, "output_mode")
	})
}

func TestGrepIsBounded(t *testing.T) {
	grepBenches(t, func(t *testing.T, b *bench) {
		b.put("many", strings.Repeat("match this line\n", 100_000))
		b.put("wide", strings.Repeat("wide", 1<<20)+"\n")
		res := b.ok("Grep", args{"pattern": "match"})
		if len(res.Content) > 31_000 || !strings.Contains(res.Content, "there is more") {
			t.Errorf("%d bytes", len(res.Content))
		}
		if res := b.ok("Grep", args{"pattern": "wide"}); len(res.Content) > 1000 || !strings.Contains(res.Content, "[cut]") {
			t.Errorf("%d bytes", len(res.Content))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		cancel(stop)
		if _, err := b.prepare("Grep", args{"pattern": "nothing"}).Run(ctx); err == nil {
			t.Error("a cancelled search went on")
		}
	})
}

// What may not be read is not found either, by its content or by its name.
func TestSearchHides(t *testing.T) {
	run := func(t *testing.T, b *bench) {
		for _, name := range []string{"a.txt", "secret/b.txt", "secret/deep/c.txt", "d.txt"} {
			b.put(name, "treasure\n")
		}
		b.env.Hidden = func(path string) bool {
			return path == b.dir+"/secret" || path == b.dir+"/d.txt" || strings.HasPrefix(path, b.dir+"/secret/")
		}
		if got := b.ok("Glob", args{"pattern": "**"}).Content; got != "a.txt\n" {
			t.Errorf("Glob shows %q", got)
		}
		for mode, want := range map[string]string{"content": "a.txt:1:treasure\n", "files": "a.txt\n", "count": "a.txt:1\n"} {
			if got := b.ok("Grep", args{"pattern": "treasure", "output_mode": mode}).Content; got != want {
				t.Errorf("Grep shows %q, want %q", got, want)
			}
		}
		if got := b.ok("Grep", args{"pattern": "treasure", "path": "secret"}).Content; got != "(nothing found)\n" {
			t.Errorf("Grep in the folder shows %q", got)
		}
	}
	t.Run("built in", func(t *testing.T) { run(t, newBench(t)) })
	t.Run("ripgrep", func(t *testing.T) {
		rg, err := exec.LookPath("rg")
		if err != nil {
			t.Skip("ripgrep is not installed on this machine")
		}
		run(t, newBenchWith(t, Options{Ripgrep: rg}))
	})
}

// TestRipgrepOutput reads what ripgrep prints, for machines that have none.
func TestRipgrepOutput(t *testing.T) {
	env := newBench(t).env
	env.Hidden = func(path string) bool { return strings.HasPrefix(path, env.Root.Dir()+"/sub/secret") }
	for _, tc := range []struct{ mode, printed, want string }{
		{"content", "./a-1-b\x003-x-y\n./a-1-b\x004:hit:1\n--\n./c\x001:z\nbinary file matches (found \"\\0\")\n", "sub/a-1-b-3-x-y\nsub/a-1-b:4:hit:1\n--\nsub/c:1:z\n"},
		{"files", "./a\x00./b\nc\x00", "sub/a\nsub/b\uFFFDc\n"},
		{"count", "./a\x0012\n", "sub/a:12\n"},
		{"content", "./secret/a\x001:x\n--\n./b\x001:x\n--\n./secret/c\x001:x\n--\n./secret/d\x001:x\n--\n./e\x001:x\n--\n./secrets\x001:x\n", "sub/b:1:x\n--\nsub/e:1:x\n"},
		{"files", "./a\x00./secret/b\x00./c\x00", "sub/a\nsub/c\n"},
		{"count", "./secret/a\x0012\n", "(nothing found)\n"},
	} {
		out := &findings{}
		s := search{grepInput: grepInput{Mode: tc.mode}, base: "sub", re: regexp.MustCompile("")}
		if err := s.show(t.Context(), env, bufio.NewReader(strings.NewReader(tc.printed)), out); err != nil || out.text() != tc.want {
			t.Errorf("%s: got %q, %v", tc.mode, out.text(), err)
		}
	}
}
