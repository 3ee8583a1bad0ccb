package git

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// A .git file is anybody's who can write there: what it names has to say that it is meant.
func TestWhoseRepositoryItIs(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v, %s", args, err, out)
		}
	}
	git("init", "-q", "--bare", "private.git")
	git("init", "-q", "lender")
	git("-C", "lender", "commit", "-q", "--allow-empty", "-m", "one")
	git("init", "-q", "work")
	git("-C", "work", "commit", "-q", "--allow-empty", "-m", "one")
	git("-C", "work", "submodule", "--quiet", "add", filepath.Join(dir, "lender"), "sub")
	git("-C", "work", "worktree", "add", "-q", filepath.Join(dir, "linked"))
	git("init", "-q", "--separate-git-dir", filepath.Join(dir, "meta"), "apart")
	git("init", "-q", "--separate-git-dir", filepath.Join(dir, "meta2"), "told")
	git("-C", "told", "config", "core.worktree", filepath.Join(dir, "told"))
	for name, to := range map[string]string{
		"bare": "../private.git", "main": "../work/.git", "module": "../work/.git/modules/sub", "record": "../work/.git/worktrees/linked", "stranger": "../meta",
	} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, ".git"), []byte("gitdir: "+to+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"work": "work/.git", "work/sub": "work/.git/modules/sub", "linked": "work/.git/worktrees/linked", "told": "meta2",
		"apart": "", "bare": "", "main": "", "module": "", "record": "", "stranger": "",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := siteOf(call{dir: filepath.Join(dir, name)}).git; got != want {
			t.Errorf("%s is of %q, want %q", name, got, want)
		}
	}
	_, err = TrunkOf(t.Context(), filepath.Join(dir, "apart"))
	if err == nil || !strings.Contains(err.Error(), "does not say") {
		t.Errorf("a repository that was set apart: %v", err)
	}
}

// A .git that is a symbolic link has a task work in the repository of another folder.
func TestLinkedRepository(t *testing.T) {
	r := checkout(t)
	for _, to := range []string{filepath.Join(r, ".git"), "../" + filepath.Base(r) + "/.git", "nowhere"} {
		dir := filepath.Join(filepath.Dir(r), "other")
		if err := os.MkdirAll(dir+"/below", 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(dir + "/.git")
		if err := os.Symlink(to, dir+"/.git"); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{dir, dir + "/below"} {
			if _, err := TrunkOf(t.Context(), at); !td.IsKind(err, td.Refused) || !strings.Contains(err.Error(), "symbolic link") {
				t.Errorf("%s, by %s: %v", at, to, err)
			}
		}
	}
	if _, err := TrunkOf(t.Context(), r); err != nil {
		t.Errorf("the repository itself: %v", err)
	}
}

// A repository in which git finds none, because a part of it is elsewhere or broken, is refused: a task would work in the folder itself instead.
func TestMisfitRepository(t *testing.T) {
	for name, spoil := range map[string]func(git string) error{
		"objects is a symbolic link": func(git string) error {
			return errors.Join(os.Rename(git+"/objects", git+"-objects"), os.Symlink(git+"-objects", git+"/objects"))
		},
		"refs is a symbolic link": func(git string) error {
			return errors.Join(os.Rename(git+"/refs", git+"-refs"), os.Symlink(git+"-refs", git+"/refs"))
		},
		"git does not take": func(git string) error {
			return errors.Join(os.Rename(git+"/HEAD", git+"-HEAD"), os.Symlink(git+"-HEAD", git+"/HEAD"))
		},
		"does not take": func(git string) error { return os.WriteFile(git+"/HEAD", []byte("boat"), 0o600) },
	} {
		r := checkout(t)
		if err := spoil(filepath.Join(r, ".git")); err != nil {
			t.Fatal(err)
		}
		if _, err := TrunkOf(t.Context(), r); !td.IsKind(err, td.Refused) || !strings.Contains(err.Error(), name) || td.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty := t.TempDir()
	if err := os.Mkdir(empty+"/.git", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := TrunkOf(t.Context(), empty); !td.IsKind(err, td.NotFound) {
		t.Errorf("an empty folder: %v", err)
	}
}

// What an agent puts in the place of git's own small files keeps nobody waiting, and is not read without end.
func TestOddFilesOfGit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := checkout(t)
	head := filepath.Join(r, ".git", "HEAD")
	for name, spoil := range map[string]func() error{
		"HEAD to a device": func() error {
			return os.WriteFile(head, []byte("ref: refs/"+strings.Repeat("../", 20)+"dev/zero\n"), 0o644)
		},
		"HEAD a pipe": func() error { _ = os.Remove(head); return syscall.Mkfifo(head, 0o600) },
	} {
		was, err := os.ReadFile(head)
		if err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		done := make(chan string, 1)
		go func() { done <- (&Steps{own: filepath.Join(r, ".git"), common: filepath.Join(r, ".git")}).headsNow() }()
		select {
		case said := <-done:
			if len(said) > 1<<10 {
				t.Errorf("%s: %d bytes", name, len(said))
			}
		case <-ctx.Done():
			t.Fatalf("%s: it waits", name)
		}
		_ = os.Remove(head)
		if err := os.WriteFile(head, was, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	index := filepath.Join(r, ".git", "index")
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(index, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyIndex(filepath.Join(t.TempDir(), "copy"), index); err == nil {
		t.Error("a pipe was copied as an index")
	}
}

// Settings are found by whatever name a home has, and a file of them may be a link.
func TestSettingsBehindLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/real/u/.gitconfig", "[taskdaemon]\n\talternates = /by/home\n")
	write(t, dir+"/xdg/git/config", "[taskdaemon]\n\talternates = /by/xdg\n")
	r := checkout(t)
	for link, to := range map[string]string{dir + "/home": dir + "/real", dir + "/conf": dir + "/xdg", r + "/.git/elsewhere": "config.real"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(r+"/.git/config", r+"/.git/config.real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r+"/.git/elsewhere", r+"/.git/config"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir+"/home/u")
	t.Setenv("XDG_CONFIG_HOME", dir+"/conf")
	said, err := configs.of(t.Context(), siteOf(call{dir: r}))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, one := range said.person {
		if one.key == "taskdaemon.alternates" {
			named = append(named, one.value)
		}
	}
	if !slices.Contains(named, "/by/home") || !slices.Contains(named, "/by/xdg") {
		t.Errorf("the person named %q", named)
	}
	if _, ok := said.get("core.bare"); !ok {
		t.Error("the repository's own settings are not read")
	}
	if _, err := TrunkOf(t.Context(), r); err != nil {
		t.Errorf("its trunk: %v", err)
	}
}
