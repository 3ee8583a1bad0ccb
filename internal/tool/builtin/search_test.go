package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// The .git of a worktree is a file.
func TestGlobLeavesOutTheGitFile(t *testing.T) {
	b := newBench(t)
	b.put(".git", "gitdir: elsewhere\n")
	b.put("sub/.git", "gitdir: elsewhere\n")
	b.put("a.go", "")
	if res := b.ok("Glob", args{"pattern": "**"}); strings.Contains(res.Content, ".git") || !strings.Contains(res.Content, "a.go") {
		t.Errorf("found %q", res.Content)
	}
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

// rgThatPrints is a program in the place of ripgrep that prints these names, whatever it is asked.
func rgThatPrints(t *testing.T, names ...string) string {
	t.Helper()
	rg := filepath.Join(t.TempDir(), "rg")
	script := "#!/bin/sh\nprintf '" + strings.ReplaceAll(strings.Join(names, "\x00")+"\x00", "\x00", "\\000") + "'\n"
	if err := os.WriteFile(rg, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return rg
}

// A ripgrep that fails and says nothing, because what it could not read went meanwhile, is told of in a sentence.
func TestRipgrepThatSaysNothing(t *testing.T) {
	rg := filepath.Join(t.TempDir(), "rg")
	if err := os.WriteFile(rg, []byte("#!/bin/sh\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBenchWith(t, Options{Ripgrep: rg})
	b.put("s/a", "treasure\n")
	b.bad("Grep", args{"pattern": "treasure", "path": "s"}, "s could not be searched: files there changed meanwhile or cannot be read; search again")
}

// TestRipgrepOnlyNamesFiles lets ripgrep name files that it has no business with, as it would after a folder was
// exchanged for a link while it ran. What is shown is what the search built in finds in files of the workspace.
func TestRipgrepOnlyNamesFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "far")
	if err := os.WriteFile(outside, []byte("treasure\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := newBenchWith(t, Options{Ripgrep: rgThatPrints(t, "./a", "./link/far", "./far", "../../../"+outside, "./secret/b", "./sub/c", "./none", "./dir")})
	b.put("s/a", "no\ntreasure\n")
	b.put("s/secret/b", "treasure\n")
	b.put("s/sub/c", "nothing\n")
	b.put("s/dir/x", "treasure\n")
	for name, target := range map[string]string{"s/link": filepath.Dir(outside), "s/far": outside} {
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.env.Hidden = func(path string) bool { return strings.HasPrefix(path, b.dir+"/s/secret") }
	for mode, want := range map[string]string{"content": "s/a:2:treasure\n", "files": "s/a\n", "count": "s/a:1\n"} {
		if got := b.ok("Grep", args{"pattern": "treasure", "path": "s", "output_mode": mode}).Content; got != want {
			t.Errorf("%s: %q", mode, got)
		}
	}
}

// TestSearchLeavesLinksAlone: a link that was committed, to the home of whoever checks it out, is neither followed nor
// searched, and naming it is judged by what it leads to.
func TestSearchLeavesLinksAlone(t *testing.T) {
	grepBenches(t, func(t *testing.T, b *bench) {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "x"), []byte("treasure\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b.put("docs/a", "treasure\n")
		for name, target := range map[string]string{"docs/home": home, "docs/file": filepath.Join(home, "x"), "docs/git": "../.git"} {
			if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		b.put(".git/x", "treasure\n")
		for _, path := range []string{"", "docs"} {
			if got := b.ok("Grep", args{"pattern": "treasure", "path": path}).Content; got != "docs/a:1:treasure\n" {
				t.Errorf("Grep in %q shows %q", path, got)
			}
		}
		if got := b.ok("Glob", args{"pattern": "**/x"}).Content; got != "(no file matches)" {
			t.Errorf("Glob shows %q", got)
		}
		if got := b.ok("Glob", args{"pattern": "docs/*/x"}).Content; got != "(no file matches)" {
			t.Errorf("Glob shows %q", got)
		}
		for _, path := range []string{"docs/home", "docs/home/x", "docs/file"} {
			b.bad("Grep", args{"pattern": "treasure", "path": path}, "outside")
			b.bad("Glob", args{"pattern": "*", "path": path}, "outside")
			b.bad("Read", args{"path": path}, "outside")
		}
		// Inside the workspace it may be named, and the rules are told where it leads.
		if call := b.prepare("Read", args{"path": "docs/git/x"}); call.Paths[0].Path != filepath.Join(b.dir, ".git/x") {
			t.Errorf("the rules are told of %v", call.Paths)
		}
	})
}

// TestGrepOfLargeFiles: a file that takes no room on the disk must not take the machine's memory, and what was not searched is said.
func TestGrepOfLargeFiles(t *testing.T) {
	grepBenches(t, func(t *testing.T, b *bench) {
		b.put("a", "one\ntwo\n")
		b.put("big", strings.Repeat("foo\nbar\n", 16<<10))
		if err := os.Truncate(filepath.Join(b.dir, "big"), 3<<30); err != nil {
			t.Fatal(err)
		}
		got := b.ok("Grep", args{"pattern": "one.two", "multiline": true, "output_mode": "files"}).Content
		if !strings.Contains(got, "a\n") || !strings.Contains(got, "big is too large to be searched across lines") {
			t.Errorf("%q", got)
		}
	})
	// One that passes its limits is not believed to have looked at everything.
	rg := filepath.Join(t.TempDir(), "rg")
	if err := os.WriteFile(rg, []byte("#!/bin/sh\nkill -ABRT $$\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := newBenchWith(t, Options{Ripgrep: rg})
	b.put("a", "treasure\n")
	if got := b.ok("Grep", args{"pattern": "treasure", "output_mode": "files"}).Content; got != "a\n" {
		t.Errorf("%q", got)
	}
}
