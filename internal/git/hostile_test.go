package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A workspace may name commands in the settings of what it says is its repository. None of them runs.
func TestWorkspacesCommandsDoNotRun(t *testing.T) {
	trap := func(t *testing.T) (mark, config string) {
		mark = filepath.Join(t.TempDir(), "ran")
		return mark, strings.NewReplacer("CMD", "sh -c 'touch "+mark+"; cat'").Replace(`
[core]
	fsmonitor = "CMD"
	hooksPath = hooks
	sshCommand = "CMD"
[filter "e"]
	clean = "CMD"
	smudge = "CMD"
	process = "CMD"
	required = true
[filter "a=b"]
	clean = "CMD"
[diff "e"]
	textconv = "CMD"
	command = "CMD"
`)
	}
	check := func(t *testing.T, dir, mark string) {
		t.Helper()
		_, _ = TreeHash(t.Context(), dir)
		_, _ = Describe(t.Context(), dir)
		_, _, _ = Snapshot(t.Context(), dir, "hostile", "message")
		tree, _ := TreeHash(t.Context(), dir)
		_ = Checkout(t.Context(), dir, tree, filepath.Join(t.TempDir(), "checkout"))
		if _, err := os.Stat(mark); err == nil {
			t.Error("a command of the workspace ran")
		}
	}
	t.Run("its own settings", func(t *testing.T) {
		mark, config := trap(t)
		dir := checkout(t)
		f, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(config); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		write(t, filepath.Join(dir, ".gitattributes"), "*.x filter=e diff=e\n*.y filter=a=b\n")
		write(t, filepath.Join(dir, "a.x"), "content\n")
		write(t, filepath.Join(dir, "a.y"), "content\n")
		check(t, dir, mark)
		if hash, err := TreeHash(t.Context(), dir); err != nil || hash == "" {
			t.Errorf("hash %q, %v", hash, err)
		}
	})
	t.Run("files that look like a bare repository", func(t *testing.T) {
		mark, config := trap(t)
		dir := t.TempDir()
		write(t, filepath.Join(dir, "HEAD"), "ref: refs/heads/main\n")
		write(t, filepath.Join(dir, "config"), "[core]\n\tbare = false\n\tworktree = .\n\trepositoryformatversion = 0\n"+config)
		write(t, filepath.Join(dir, "objects", "x"), "")
		write(t, filepath.Join(dir, "refs", "x"), "")
		write(t, filepath.Join(dir, ".gitattributes"), "* filter=e\n")
		check(t, dir, mark)
	})
	t.Run("a file that leads to one", func(t *testing.T) {
		mark, config := trap(t)
		dir := t.TempDir()
		write(t, filepath.Join(dir, ".git"), "gitdir: evil\n")
		write(t, filepath.Join(dir, "evil", "HEAD"), "ref: refs/heads/main\n")
		write(t, filepath.Join(dir, "evil", "config"), "[core]\n\tbare = false\n\tworktree = ..\n\trepositoryformatversion = 0\n"+config)
		write(t, filepath.Join(dir, "evil", "objects", "x"), "")
		write(t, filepath.Join(dir, "evil", "refs", "x"), "")
		write(t, filepath.Join(dir, ".gitattributes"), "* filter=e\n")
		write(t, filepath.Join(dir, "a.x"), "content\n")
		check(t, dir, mark)
	})
}
