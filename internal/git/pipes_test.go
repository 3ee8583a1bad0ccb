package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

func idleFor(t *testing.T, d time.Duration) {
	was := mayIdle
	mayIdle = d
	t.Cleanup(func() { mayIdle = was })
}

// Pipes that nobody writes to stand where git, or this package, opens files: nobody waits for them.
func TestPipesInTheWay(t *testing.T) {
	idleFor(t, 240*time.Millisecond)
	for _, name := range []string{
		".gitignore", ".gitattributes", "pkg/a.go", ".git/packed-refs", ".git/info/exclude", ".git/info/attributes", ".git/info/sparse-checkout", ".git/shallow", ".git/objects/info/alternates",
		".git/refs/heads/main", ".git/config", ".git/HEAD", ".git/index", ".git/logs/HEAD", ".git/objects/info/commit-graph",
	} {
		t.Run(strings.ReplaceAll(name, "/", " "), func(t *testing.T) {
			t.Parallel() // it mostly waits
			dir := checkout(t)
			user(t, dir, "branch", "side")
			file := filepath.Join(dir, name)
			_ = os.Remove(file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, f := range []string{"Describe", "TreeHash", "TrunkOf", "RefAt", "MergeTree", "FastForward", "Worktree", "OpenSteps"} {
				done := make(chan struct{})
				go func() { defer close(done); driven[f](ctx, t, dir) }()
				select {
				case <-done:
				case <-ctx.Done():
					t.Fatalf("%s waits", f)
				}
			}
		})
	}
}

// Where it can be seen beforehand no git is begun, and it is said at once.
func TestPipesAreRefused(t *testing.T) {
	for _, name := range []string{".gitignore", ".gitattributes", ".git/packed-refs", ".git/info/exclude", ".git/shallow", ".git/refs/heads/main", ".git/config", ".git/HEAD", ".git/index"} {
		dir := checkout(t)
		file := filepath.Join(dir, name)
		_ = os.Remove(file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := siteOf(call{dir: dir}).refuse; !td.IsKind(err, td.Refused) || td.HintOf(err) != "rm "+file {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who waited is told what to look for.
func TestIdleGitIsEnded(t *testing.T) {
	idleFor(t, 240*time.Millisecond)
	dir := checkout(t)
	if err := syscall.Mkfifo(dir+"/pkg/.gitignore", 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := run(t.Context(), call{dir: dir, args: []string{"status", "--porcelain"}})
	if !td.IsKind(err, td.Unavailable) || !errors.Is(err, sandbox.ErrIdle) || !strings.Contains(td.HintOf(err), "-type p") {
		t.Errorf("%v (%s)", err, td.HintOf(err))
	}
}

// The list of what is ignored may be a link of the person's, which is read and not written through.
func TestExcludeThroughALink(t *testing.T) {
	dir := checkout(t)
	file, theirs := filepath.Join(dir, ".git/info/exclude"), filepath.Join(t.TempDir(), "theirs")
	_ = os.MkdirAll(filepath.Dir(file), 0o755)
	_ = os.Remove(file)
	write(t, theirs, "mine\n")
	if err := os.Symlink(theirs, file); err != nil {
		t.Fatal(err)
	}
	err := exclude(dir+"/.git", "/a/", "/b/")
	if raw, _ := os.ReadFile(theirs); !td.IsKind(err, td.Refused) || string(raw) != "mine\n" || !strings.Contains(td.HintOf(err), "/a/ /b/") {
		t.Errorf("%v, %q, hint %q", err, raw, td.HintOf(err))
	}
	write(t, theirs, "mine\n/a/\n/b/\n")
	if err := exclude(dir+"/.git", "/a/", "/b/"); err != nil {
		t.Error(err)
	}
	_ = os.Remove(file)
	write(t, file, strings.Repeat("x\n", maxExclude))
	if err := exclude(dir+"/.git", "/a/"); !td.IsKind(err, td.Refused) {
		t.Errorf("a long one: %v", err)
	}
}
