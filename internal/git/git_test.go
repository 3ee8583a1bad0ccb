package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// testGit names a program that a test's child process runs in git's place.
const testGit = "TASKDAEMON_TEST_GIT"

func TestMain(m *testing.M) {
	standIn = os.Getenv(testGit)
	for _, who := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		_ = os.Unsetenv(who) // whoever runs the tests
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		launcher.Close()
		os.Exit(code)
	}))
}

// user runs git as a person would in their own checkout.
func user(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// userFails is a git that stops in the midst of what it does.
func userFails(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("git %v ended well: %s", args, out)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkout is a repository with one commit, a folder, and an ignored file.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	user(t, dir, "init", "-q", "-b", "main")
	write(t, dir+"/main.go", "package main\n")
	write(t, dir+"/pkg/a.go", "package pkg\n")
	write(t, dir+"/.gitignore", "*.o\n")
	user(t, dir, "add", "-A")
	user(t, dir, "commit", "-q", "-m", "first")
	write(t, dir+"/main.o", "binary")
	return dir
}
