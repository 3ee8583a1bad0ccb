package builtin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

func TestRead(t *testing.T) {
	b := newBench(t)
	b.put("a.txt", "one\r\ntwo\nthr\xffee\x1b[1m")
	if res := b.ok("Read", args{"path": "a.txt"}); res.Content != "     1\tone\n     2\ttwo\n     3\tthr\uFFFDee\n" || len(res.Files) != 1 || res.Files[0] != "a.txt" {
		t.Errorf("got %+v", res)
	}
	if res := b.ok("Read", args{"path": filepath.Join(b.dir, "a.txt"), "offset": 2, "limit": 1}); res.Content != "     2\ttwo\n[more lines follow; go on with offset 3]\n" {
		t.Errorf("got %q", res.Content)
	}
	b.put("empty", "")
	if res := b.ok("Read", args{"path": "empty"}); res.Content != "(the file is empty)" {
		t.Errorf("got %q", res.Content)
	}
	b.put("late", strings.Repeat("x\n", 8000)+"a\x00b\n")
	if res := b.ok("Read", args{"path": "late", "offset": 8001}); res.Content != "  8001\ta\uFFFDb\n" {
		t.Errorf("got %q", res.Content)
	}
	b.put("bin", "ab\x00cd")
	b.bad("Read", args{"path": "bin"}, "binary file of 5 bytes")
	b.bad("Read", args{"path": "a.txt", "offset": 4}, "the file has 3 lines")
	b.bad("Read", args{"path": "."}, "is a folder")
	b.bad("Read", args{"path": "none"}, "does not exist")
	b.bad("Read", args{"path": "../x"}, "outside the workspace")
	b.bad("Read", args{"path": "/etc/passwd"}, "outside the workspace")
	b.bad("Read", args{"path": "a.txt", "offset": 0}, "offset")
	b.bad("Read", args{"path": 3}, "path")
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.bad("Read", args{"path": "pipe"}, "not a regular file")
	if err := os.Symlink("/etc", filepath.Join(b.dir, "etc")); err != nil {
		t.Fatal(err)
	}
	b.bad("Read", args{"path": "etc/passwd"}, "outside the workspace")
}

func TestReadCuts(t *testing.T) {
	b := newBench(t)
	b.put("long", strings.Repeat(strings.Repeat("é", 99)+"\n", 1000))
	res := b.ok("Read", args{"path": "long"})
	if n := len([]rune(res.Content)); n > tool.MaxOutput+100 || n < tool.MaxOutput-200 {
		t.Errorf("%d characters", n)
	}
	var next int
	if _, err := fmt.Sscanf(res.Content[strings.LastIndex(res.Content, "[cut"):], "[cut at 30000 characters; go on with offset %d]", &next); err != nil {
		t.Fatal(err)
	}
	if res := b.ok("Read", args{"path": "long", "offset": next, "limit": 1}); !strings.HasPrefix(res.Content, fmt.Sprintf("%6d\té", next)) {
		t.Errorf("going on: %.40q", res.Content)
	}
	b.put("oneline", strings.Repeat("x", 1<<20)+"\nnext\n")
	if res := b.ok("Read", args{"path": "oneline"}); !strings.Contains(res.Content, "[the line goes on and is cut here]") || len(res.Content) > tool.MaxOutput+200 {
		t.Errorf("%d bytes", len(res.Content))
	}
	if res := b.ok("Read", args{"path": "oneline", "offset": 2}); res.Content != "     2\tnext\n" {
		t.Errorf("got %q", res.Content)
	}
}

func TestWrite(t *testing.T) {
	b := newBench(t)
	res := b.ok("Write", args{"path": "a/b/c.txt", "content": "x\ny"})
	if b.get("a/b/c.txt") != "x\ny" || res.Content != "Created a/b/c.txt (2 lines, 3 bytes)." {
		t.Errorf("got %+v", res)
	}
	info, err := os.Stat(filepath.Join(b.dir, "a/b/c.txt"))
	if err != nil || info.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b.put("run.sh", "old")
	if err := os.Chmod(filepath.Join(b.dir, "run.sh"), 0o751); err != nil {
		t.Fatal(err)
	}
	b.bad("Write", args{"path": "run.sh", "content": "new"}, "have not read it")
	b.ok("Read", args{"path": "run.sh"})
	b.ok("Write", args{"path": "run.sh", "content": "new"})
	if info, err := os.Stat(filepath.Join(b.dir, "run.sh")); err != nil || info.Mode().Perm() != 0o751 || b.get("run.sh") != "new" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b.bad("Write", args{"path": "a", "content": ""}, "is a folder")
	b.bad("Write", args{"path": "run.sh/x", "content": ""}, "not a directory")
	b.bad("Write", args{"path": "../x", "content": ""}, "outside")
	noTemp(t, b.dir)
}

// Who is asked about a change sees every character of it.
func TestAskedChangeHidesNothing(t *testing.T) {
	b := newBench(t)
	call := b.prepare("Write", args{"path": "a.sh", "content": "ok\u200b\x1b[8m\u202e; rm\n"})
	if want := `+ok\u{200b}\u{1b}[8m\u{202e}; rm`; !strings.Contains(call.Diff(), want+"\n") {
		t.Errorf("the diff of Write is %q, want %q in it", call.Diff(), want)
	}
	b.put("b.sh", "one\n")
	b.ok("Read", args{"path": "b.sh"})
	call = b.prepare("Edit", args{"path": "b.sh", "old_string": "one", "new_string": "t\u200bwo"})
	if want := `+t\u{200b}wo`; !strings.Contains(call.Diff(), want) {
		t.Errorf("the diff of Edit is %q, want %q in it", call.Diff(), want)
	}
}

// TestWriteThroughDanglingLinks makes sure that what a link points to decides, and not its name.
func TestWriteThroughDanglingLinks(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	for link, target := range map[string]string{"out": outside + "/x", "two": "out2/x", "out2": outside, "in": "real/x", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"out", "two", "loop", "out2/y"} {
		if res := b.do("Write", args{"path": name, "content": "x"}); !res.IsError {
			t.Errorf("%s: %s", name, res.Content)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
	if b.ok("Write", args{"path": "in", "content": "x"}); b.get("real/x") != "x" {
		t.Error("not written where the link points")
	}
}

// TestPreparedWriteMeetsASymlink swaps a folder for a symlink between judging and running.
func TestPreparedWriteMeetsASymlink(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	b.put("d/keep", "")
	call := b.prepare("Write", args{"path": "d/x", "content": "x"})
	if err := os.RemoveAll(filepath.Join(b.dir, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "d")); err != nil {
		t.Fatal(err)
	}
	if res, err := call.Run(t.Context()); err == nil {
		t.Errorf("got %+v", res)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
}

func TestEdit(t *testing.T) {
	b := newBench(t)
	b.put("a.go", "one\ntwo\ntwo\nthree\n")
	b.bad("Edit", args{"path": "a.go", "old_string": "one", "new_string": "1"}, "read it first")
	b.ok("Read", args{"path": "a.go"})
	b.bad("Edit", args{"path": "a.go", "old_string": "four", "new_string": "4"}, "not found")
	b.bad("Edit", args{"path": "a.go", "old_string": "two", "new_string": "2"}, "ambiguous, 2 matches")
	b.bad("Edit", args{"path": "a.go", "old_string": "one", "new_string": "one"}, "the same")
	b.bad("Edit", args{"path": "a.go", "old_string": "", "new_string": "x"}, "old_string")
	b.bad("Edit", args{"path": "none", "old_string": "a", "new_string": "x"}, "does not exist")
	res := b.ok("Edit", args{"path": "a.go", "old_string": "one\ntwo", "new_string": "1\n2"})
	if b.get("a.go") != "1\n2\ntwo\nthree\n" || !strings.Contains(res.Content, "-one\n-two\n+1\n+2\n") {
		t.Errorf("got %q, %q", b.get("a.go"), res.Content)
	}
	b.ok("Write", args{"path": "a.go", "content": "a b a b a"})
	if res := b.ok("Edit", args{"path": "a.go", "old_string": "a", "new_string": "c", "replace_all": true}); b.get("a.go") != "c b c b c" || !strings.Contains(res.Content, "3 replacements") {
		t.Errorf("got %q, %q", b.get("a.go"), res.Content)
	}
	noTemp(t, b.dir)
}

func TestMultiEditIsAllOrNone(t *testing.T) {
	b := newBench(t)
	b.put("a", "one two three")
	b.ok("Read", args{"path": "a"})
	b.bad("MultiEdit", args{"path": "a", "edits": []args{{"old_string": "one", "new_string": "1"}, {"old_string": "four", "new_string": "4"}}}, "edit 2 of 2")
	b.bad("MultiEdit", args{"path": "a", "edits": []args{}}, "edits")
	b.bad("MultiEdit", args{"path": "a", "edits": []args{{"old_string": "one", "new_string": "1"}, {"old_string": "1", "new_string": "one"}}}, "nothing would change")
	if b.get("a") != "one two three" {
		t.Errorf("got %q", b.get("a"))
	}
	b.ok("MultiEdit", args{"path": "a", "edits": []args{{"old_string": "one", "new_string": "1"}, {"old_string": "1 two", "new_string": "12"}}})
	if b.get("a") != "12 three" {
		t.Errorf("got %q", b.get("a"))
	}
}

func TestEditKeepsLineEnds(t *testing.T) {
	for _, tc := range []struct{ text, from, to, want string }{
		{"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"},
		{"a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"},
		{"a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"},
		{"a\nb\r\nc\n", "c", "x\ny", "a\nb\r\nx\ny\n"}, // mixed: as it is given
		{"a\nb\n", "a", "x\ny", "x\ny\nb\n"},
	} {
		got, _, err := edit{Old: tc.from, New: tc.to}.apply([]byte(tc.text))
		if err != nil || string(got) != tc.want {
			t.Errorf("%q: %q → %q: got %q, %v", tc.text, tc.from, tc.to, got, err)
		}
	}
}

func TestResolveChange(t *testing.T) {
	b := newBench(t)
	b.put("a", "old")
	b.files = []string{"a"}
	for _, tc := range []struct {
		name string
		in   args
	}{
		{"Write", args{"path": "a", "content": "new"}},
		{"Edit", args{"path": "a", "old_string": "old", "new_string": "new"}},
		{"MultiEdit", args{"path": "a", "edits": []args{{"old_string": "old", "new_string": "new"}}}},
		{"Write", args{"path": "fresh/b", "content": "new"}},
	} {
		b.put("a", "old")
		call := b.prepare(tc.name, tc.in)
		// Cut off before the rename: the temporary file is there, the change is not.
		c := newChange(b.env, tc.in["path"].(string), "", nil, "")
		b.put(c.Temp, "half")
		if res := b.resolve(tc.name, tc.in, call); res.State != tool.NotDone {
			t.Errorf("%s, not done: %+v", tc.name, res)
		}
		noTemp(t, b.dir)
		b.put(c.Temp, "half") // run again after a crash that nobody cleaned up after
		ran, err := call.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		noTemp(t, b.dir)
		if res := b.resolve(tc.name, tc.in, call); res.State != tool.Done || res.Via != td.Probed || res.Result.Content != ran.Content || res.Result.IsError {
			t.Errorf("%s, done: %+v; it had said %q", tc.name, res, ran.Content)
		}
		b.put(tc.in["path"].(string), "another hand")
		if res := b.resolve(tc.name, tc.in, call); res.State != tool.Done || !res.Result.IsError || !strings.Contains(res.Result.Content, "Read the file again") {
			t.Errorf("%s, changed: %+v", tc.name, res)
		}
		if _, err := call.Run(t.Context()); !td.IsKind(err, td.Conflict) {
			t.Errorf("%s on a file changed since it was prepared: %v", tc.name, err)
		}
	}
}

// noTemp fails the test when a temporary file is left.
func noTemp(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), ".taskdaemon-") {
			t.Errorf("left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
