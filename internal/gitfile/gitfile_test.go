package gitfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Nothing that can be put in the place of a file keeps its reader waiting, or fills its memory.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	endless := filepath.Join(dir, "endless")
	if err := os.Symlink("/dev/zero", endless); err != nil {
		t.Fatal(err)
	}
	long := put(t, filepath.Join(dir, "long"), "gitdir: /"+strings.Repeat("x", longest))
	for _, path := range []string{pipe, endless, long, dir} {
		if raw, err := Read(path, longest); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %d bytes, %v", path, len(raw), err)
		}
		if to := Gitdir(path); to != "" {
			t.Errorf("%s leads to %s", path, to)
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), longest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

// A .git file is read as git reads it: here git itself is asked where each leads.
func TestGitdirIsWhatGitTakesItFor(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	for _, name := range []string{"plain", "spaces behind  ", "  before", "tab\tin", "ümlaut"} {
		for _, form := range []string{"gitdir: %", "gitdir: %\n", "gitdir: %\r\n\n", "gitdir: ../%/.\n", "gitdir:%\n", "gitdir:  %\n", " gitdir: %\n", "Gitdir: %\n", "gitdir: % \n", "gitdir: %\x00more\n", "gitdir: %\n\x00", "gitdir: \n", ""} {
			dir := t.TempDir()
			if out, err := exec.Command(git, "init", "-q", "--bare", filepath.Join(dir, name)).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			to := filepath.Join(dir, name)
			if strings.Contains(form, "..") {
				to = name
			}
			file := put(t, filepath.Join(dir, "work", ".git"), strings.ReplaceAll(form, "%", to))
			cmd := exec.Command(git, "rev-parse", "--absolute-git-dir")
			cmd.Dir, cmd.Env = filepath.Join(dir, "work"), append(os.Environ(), "GIT_CEILING_DIRECTORIES="+dir)
			out, _ := cmd.Output() // it may be none
			want := strings.TrimSuffix(string(out), "\n")
			got := Gitdir(file)
			if _, err := os.Stat(filepath.Join(got, "HEAD")); got == "" || err != nil {
				got = ""
			}
			if want != got && filepath.Clean(want) != got {
				t.Errorf("%q leads git to %q, and us to %q", strings.ReplaceAll(form, "%", to), want, got)
			}
		}
	}
}

func FuzzGitdir(f *testing.F) {
	f.Add("gitdir: /a/b\n")
	f.Add("gitdir: ../x \r\n")
	f.Add("gitdir:x")
	f.Fuzz(func(t *testing.T, text string) {
		if to := ParseGitdir(text); strings.ContainsRune(to, 0) || to != "" && !strings.HasPrefix(text, "gitdir: "+to) {
			t.Errorf("%q gave %q", text, to)
		}
	})
}

func FuzzAlternates(f *testing.F) {
	f.Add("/src/proj/.git/objects\n")
	f.Add("\"/a: \\\"b\\\\\\n/objects\"\n# no\n../up\n")
	f.Add("\"\n\"\\q\"\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range Alternates(text) {
			if path == "" || strings.ContainsRune(path, 0) {
				t.Errorf("%q gave %q", text, path)
			}
		}
	})
}
