package sandbox

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// modeWays give a file a mode, each by another call: those of amd64 by their numbers, for libraries do not use all of them.
var modeWays = []string{
	`os.chmod("f", M)`, `os.fchmod(os.open("f", os.O_RDONLY), M)`, `os.chmod("f", M, dir_fd=os.open(".", os.O_RDONLY))`,
	`os.open("new", os.O_CREAT | os.O_WRONLY, M)`, `os.open("new", os.O_CREAT | os.O_WRONLY, M, dir_fd=os.open(".", os.O_RDONLY))`,
	`os.open(".", os.O_TMPFILE | os.O_RDWR, M)`, `os.mknod("new", M)`, `os.mknod("new", M, dir_fd=os.open(".", os.O_RDONLY))`,
	`call(90, b"f", M)`, `call(91, os.open("f", os.O_RDONLY), M)`, `call(268, -100, b"f", M)`, `call(452, -100, b"f", M, 0)`, `call(452, os.open("f", os.O_RDONLY), b"", M, 0x1000)`,
	`call(2, b"new", os.O_CREAT | os.O_WRONLY, M)`, `call(85, b"new", M)`, `call(257, -100, b"new", os.O_CREAT | os.O_WRONLY, M)`, `call(133, b"new", M, 0)`, `call(259, -100, b"new", M, 0)`,
	`call(90, b"f", M | 1 << 32)`,
}

// blindWays are calls that the filter cannot judge.
var blindWays = []string{`call(437, -100, b"new", struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, M, 0), 24)`, `call(0x40000000 + 90, b"f", M)`}

// givingModes is a script that tries all of the ways, and says which worked.
func givingModes(mode string, ways []string) string {
	var python strings.Builder
	python.WriteString(`import ctypes, os, struct
os.umask(0)
M = ` + mode + `
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    if libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
`)
	for _, way := range ways {
		if strings.HasPrefix(way, "call") && runtime.GOARCH != "amd64" {
			continue
		}
		python.WriteString("os.system(\"rm -f f new; echo > f\")\ntry:\n " + way + "\n print(\"worked:\", " + strconv.Quote(way) + ")\nexcept OSError as e: print(\"refused:\", e.errno, " + strconv.Quote(way) + ")\n")
	}
	return "python3 -c '" + python.String() + "'"
}

// hostileToModes makes programs in the workspace that run as the person, whoever starts them.
func hostileToModes(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	y := newYard(t)
	marked := func(bits fs.FileMode) (found []string) {
		_ = filepath.WalkDir(y.work, func(path string, d fs.DirEntry, err error) error {
			if info, err := d.Info(); err == nil && path != y.work && info.Mode()&bits != 0 {
				found = append(found, path)
			}
			return nil
		})
		return found
	}
	for _, mode := range []string{"0o4755", "0o2755", "0o6711"} {
		if got := y.works(givingModes(mode, slices.Concat(modeWays, blindWays))); strings.Contains(got, "worked") || !strings.Contains(got, "refused: 1 ") {
			t.Errorf("%s: %s", mode, got)
		}
	}
	for _, script := range []string{"cp /bin/sh . && chmod 4755 sh", "install -m 4755 /bin/sh sh", "mkdir -p d && chmod g+s d", "cp /bin/sh . && chmod u+s sh", "mkdir -m 4755 e && test -u e"} {
		if y.fails(script); len(marked(fs.ModeSetuid|fs.ModeSetgid)) > 0 {
			t.Errorf("%s made %q", script, marked(fs.ModeSetuid|fs.ModeSetgid))
		}
	}
	// All else is as before.
	if got := y.works(givingModes("0o1755", modeWays)); strings.Contains(got, "refused") {
		t.Errorf("what does no harm: %s", got)
	}
	y.works("chmod 755 f && mkdir -p t && chmod 1777 t && tar cf t.tar f t && mkdir x && tar xpf t.tar -C x && cp -p f g && install -m 755 f h")
	y.works(`python3 -c 'import os; os.close(os.open("f", os.O_RDONLY, 0o4755))'`) // a mode that does not count
	if _, err := exec.LookPath("git"); err == nil {
		y.works("git init -q r && cd r && echo 1 > f && git add f && " + gitAs + "commit -qm one && git clone -q . ../c")
	}

	// A workspace that a group shares.
	if err := os.Chmod(y.work, 0o775|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(y.work); err != nil || info.Mode()&fs.ModeSetgid == 0 {
		t.Fatalf("the folder is not the group's: %v", err)
	}
	y.works("mkdir s && test -g s && chmod g-s s && chmod g+s s && test -g s")
	if _, err := exec.LookPath("git"); err == nil {
		y.works("git init -q --shared=group shared && cd shared && echo 1 > f && git add f && " + gitAs + "commit -qm one")
	}
	if got := y.works(givingModes("0o6755", slices.Concat(modeWays, blindWays))); strings.Contains(got, "worked") || len(marked(fs.ModeSetuid)) > 0 {
		t.Errorf("where a group shares the workspace: %s", got)
	}
}

// TestModesWithoutOpenat2 has programs do without a call that cannot be judged.
func TestModesWithoutOpenat2(t *testing.T) {
	y := newYard(t)
	y.p.See, y.p.Cache, y.p.Blank = append(y.p.See, Readable(os.Getenv)...), Caches(os.Getenv), Blanks(os.Getenv)
	y.put(y.work+"/go.mod", "module example.org/m\n\ngo 1.24\n")
	y.put(y.work+"/main.go", `package main

import "os"

func main() {
	r, err := os.OpenRoot(".")
	if err == nil {
		err = r.WriteFile("rooted", nil, 0o600)
	}
	if err != nil {
		panic(err)
	}
}
`)
	for program, script := range map[string]string{
		"go":      "go run . && test -e rooted",
		"python3": `python3 -c 'import shutil, tempfile, os; d = tempfile.mkdtemp(); open(d + "/x", "w"); shutil.copytree(d, "copied"); shutil.rmtree("copied")'`,
		"node":    `node -e 'const fs = require("fs"); fs.writeFileSync("n", ""); fs.cpSync("n", "m"); fs.mkdirSync("a/b", {recursive: true}); fs.rmSync("a", {recursive: true})'`,
		"tar":     "mkdir -p p/q && touch p/q/f && tar cf p.tar p && rm -r p && tar xf p.tar && test -e p/q/f",
		"git":     "git init -q r && cd r && echo 1 > f && git add f && " + gitAs + "commit -qm one && git gc -q && git worktree list",
		"cargo":   "cargo --version && cargo init -q --vcs none c && cd c && cargo metadata --offline --format-version 1 > /dev/null",
	} {
		if path, err := exec.LookPath(program); err != nil || exec.Command(path, "--version").Run() != nil && program != "go" {
			t.Logf("not shown, for this machine has no %s: %s", program, strconv.Quote(path))
			continue
		}
		y.works(script)
	}
}
