package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// taken is a throw-away checkout of what dir holds now.
func taken(t *testing.T, dir string) (into, tree string) {
	t.Helper()
	tree, err := TreeHash(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	into = filepath.Join(t.TempDir(), "checkouts", "one")
	if err := Checkout(t.Context(), dir, tree, into); err != nil {
		t.Fatal(err)
	}
	return into, tree
}

func TestCheckoutIsTheExactTree(t *testing.T) {
	dir := checkout(t)
	write(t, dir+"/main.go", "package changed\n")
	write(t, dir+"/pkg/ü \"'\t:x", "odd name")
	write(t, dir+"/run.sh", "#!/bin/sh\n")
	if err := os.Chmod(dir+"/run.sh", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../elsewhere", dir+"/pkg/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/pkg/a.go"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/crlf", "a\r\nb\r\n")
	write(t, dir+"/staged", "1")
	user(t, dir, "add", "staged")
	write(t, dir+"/staged", "2")
	before := everything(t, dir)

	into, tree := taken(t, dir+"/pkg")

	if after := everything(t, dir); !slices.Equal(before, after) {
		t.Errorf("the workspace was touched:\n%v\n%v", before, after)
	}
	if got, err := TreeHash(t.Context(), into); err != nil || got != tree {
		t.Errorf("the checkout is %s, %v; want %s", got, err, tree)
	}
	for path, want := range map[string]string{"main.go": "package changed\n", "pkg/ü \"'\t:x": "odd name", "staged": "2", "crlf": "a\r\nb\r\n"} {
		if raw, err := os.ReadFile(filepath.Join(into, path)); err != nil || string(raw) != want {
			t.Errorf("%s is %q, %v", path, raw, err)
		}
	}
	if st, err := os.Stat(into + "/run.sh"); err != nil || st.Mode()&0o100 == 0 {
		t.Errorf("run.sh is %v, %v", st, err)
	}
	if to, err := os.Readlink(into + "/pkg/link"); err != nil || to != "../../elsewhere" {
		t.Errorf("link leads to %q, %v", to, err)
	}
	for _, gone := range []string{"pkg/a.go", "main.o"} {
		if _, err := os.Lstat(filepath.Join(into, gone)); err == nil {
			t.Errorf("%s is there", gone)
		}
	}
	if s := user(t, into, "status", "--porcelain"); s != "" {
		t.Errorf("it is dirty: %s", s)
	}
	if b := user(t, into, "branch", "--show-current"); b != CheckoutBranch {
		t.Errorf("it is on %q", b)
	}
	if got, want := user(t, into, "rev-parse", "HEAD^"), user(t, dir, "rev-parse", "HEAD"); got != want {
		t.Errorf("its parent is %s, want %s", got, want)
	}
	if log := user(t, into, "log", "--format=%s"); log != "The workspace as it stands\nfirst" {
		t.Errorf("its log is %q", log)
	}
	if d := user(t, into, "diff", "--name-only", "HEAD^"); !strings.Contains(d, "main.go") {
		t.Errorf("its diff is %q", d)
	}
}

// What is done in a checkout stays in it.
func TestCheckoutSharesNothing(t *testing.T) {
	dir := checkout(t)
	write(t, dir+"/.git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
	if err := os.Chmod(dir+"/.git/hooks/pre-commit", 0o755); err != nil {
		t.Fatal(err)
	}
	user(t, dir, "config", "user.signingkey", "mine")
	user(t, dir, "tag", "v1")
	before := everything(t, dir)
	into, _ := taken(t, dir)
	write(t, into+"/main.go", "package mine\n")
	user(t, into, "commit", "-qam", "in the checkout")
	user(t, into, "branch", "other")
	user(t, into, "config", "core.bare", "false")
	user(t, into, "gc", "-q", "--prune=now")
	if refs := user(t, into, "tag"); refs != "v1" {
		t.Errorf("its tags are %s", refs)
	}
	user(t, into, "tag", "-d", "v1")
	user(t, into, "branch", "-fq", "main", "other")
	if cfg, err := os.ReadFile(into + "/.git/config"); err != nil || strings.Contains(string(cfg), "signingkey") {
		t.Errorf("its settings are %s, %v", cfg, err)
	}
	if after := everything(t, dir); !slices.Equal(before, after) {
		t.Errorf("the workspace was touched:\n%v\n%v", before, after)
	}
}

func TestCheckoutOf(t *testing.T) {
	t.Run("a repository without a commit", func(t *testing.T) {
		dir := t.TempDir()
		user(t, dir, "init", "-q")
		write(t, dir+"/f", "1")
		into, _ := taken(t, dir)
		if log := user(t, into, "log", "--format=%s"); log != "The workspace as it stands" {
			t.Errorf("its log is %q", log)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		dir := t.TempDir()
		user(t, dir, "init", "-q")
		into, _ := taken(t, dir)
		if log := user(t, into, "log", "--format=%s"); log != "The workspace as it stands" {
			t.Errorf("its log is %q", log)
		}
	})
	t.Run("a linked worktree", func(t *testing.T) {
		dir := checkout(t)
		tree := filepath.Join(t.TempDir(), "linked")
		user(t, dir, "worktree", "add", "-q", "-b", "side", tree)
		write(t, tree+"/new", "1")
		into, _ := taken(t, tree)
		if raw, err := os.ReadFile(into + "/new"); err != nil || string(raw) != "1" {
			t.Errorf("new is %q, %v", raw, err)
		}
	})
	t.Run("a shallow clone", func(t *testing.T) {
		dir := checkout(t)
		write(t, dir+"/b", "1")
		user(t, dir, "add", "b")
		user(t, dir, "commit", "-qm", "second")
		clone := filepath.Join(t.TempDir(), "clone")
		user(t, dir, "clone", "-q", "--depth=1", "file://"+dir, clone)
		into, _ := taken(t, clone)
		if log := user(t, into, "log", "--format=%s"); log != "The workspace as it stands\nsecond" {
			t.Errorf("its log is %q", log)
		}
	})
	t.Run("a clone that borrows its objects itself", func(t *testing.T) {
		dir := checkout(t)
		clone := filepath.Join(t.TempDir(), "a: \"b\\")
		user(t, dir, "clone", "-q", "--shared", dir, clone)
		write(t, clone+"/new", "1")
		_, err := TreeHash(t.Context(), clone)
		refuses(t, err, td.Refused, "borrows objects")
		home := t.TempDir()
		t.Setenv("HOME", home)
		write(t, home+"/.gitconfig", "[taskdaemon]\n\talternates = "+dir+"\n")
		into, _ := taken(t, clone)
		user(t, into, "fsck", "--full")
	})
	t.Run("hashes of the other kind", func(t *testing.T) {
		dir := t.TempDir()
		user(t, dir, "init", "-q", "--object-format=sha256")
		write(t, dir+"/f", "1")
		user(t, dir, "add", "f")
		user(t, dir, "commit", "-qm", "first")
		into, tree := taken(t, dir)
		if len(tree) != 64 || user(t, into, "rev-parse", "HEAD^{tree}") != tree {
			t.Errorf("the tree is %s", tree)
		}
	})
	t.Run("repositories in it", func(t *testing.T) {
		dir := checkout(t)
		user(t, dir, "init", "-q", "inner")
		write(t, dir+"/inner/f", "5")
		user(t, dir+"/inner", "add", "f")
		user(t, dir+"/inner", "commit", "-qm", "inner")
		into, _ := taken(t, dir)
		if left, err := os.ReadDir(into + "/inner"); err != nil || len(left) > 0 {
			t.Errorf("the inner one is %v, %v", left, err)
		}
	})
	t.Run("no repository", func(t *testing.T) {
		into := filepath.Join(t.TempDir(), "one")
		if err := Checkout(t.Context(), t.TempDir(), "tree", into); !td.IsKind(err, td.NotFound) {
			t.Errorf("error %v", err)
		}
		if left, _ := filepath.Glob(into + "*"); left != nil {
			t.Errorf("it left %v", left)
		}
	})
	t.Run("a tree that is gone", func(t *testing.T) {
		dir := checkout(t)
		tree, err := TreeHash(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir+"/new", "1")
		into := filepath.Join(t.TempDir(), "one")
		if err := Checkout(t.Context(), dir, tree, into); !td.IsKind(err, td.Conflict) {
			t.Errorf("error %v", err)
		}
		if left, _ := filepath.Glob(into + "*"); left != nil {
			t.Errorf("it left %v", left)
		}
	})
}

// One that was begun is made anew; one that is whole stays, with what was done in it.
func TestCheckoutAgain(t *testing.T) {
	dir := checkout(t)
	tree, err := TreeHash(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "one")
	write(t, into+Draft+"/.git/HEAD", "half")
	write(t, into+Draft+"/old", "half")
	if err := os.Chmod(into+Draft+"/.git", 0o500); err != nil {
		t.Fatal(err)
	}
	if err := Checkout(t.Context(), dir, tree, into); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(into + "/old"); err == nil {
		t.Error("what was half-made is part of it")
	}
	write(t, into+"/made", "in it")
	write(t, dir+"/new", "the workspace goes on")
	if err := Checkout(t.Context(), dir, tree, into); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(into + "/made"); err != nil {
		t.Error("it was made anew")
	}
	if err := os.Chmod(into+"/pkg", 0o500); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RemoveCheckout(into); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(into + "*"); left != nil {
		t.Errorf("it left %v", left)
	}
}
