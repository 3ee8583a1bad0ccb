package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestProgram(t *testing.T) {
	y := newHome(t)
	mkdir := func(path string) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{y.work + "/.git", y.work + "/deep/bin", y.out + "/bin"} {
		mkdir(dir)
	}
	for _, path := range []string{y.work + "/tool", y.work + "/deep/bin/tool", y.out + "/bin/tool", y.work + "/only"} {
		y.program(path, "x")
	}
	y.link(y.work+"/deep/bin", y.out+"/leads")
	mkdir(y.out + "/linked")
	y.link(y.work+"/tool", y.out+"/linked/tool")
	inside := y.work + ":" + y.work + "/deep/bin:" + y.out + "/leads:" + y.out + "/linked:.:deep/bin"
	t.Chdir(y.work)
	t.Setenv("PATH", inside+":"+y.out+"/bin")
	if got, err := Program("tool"); err != nil || got != y.out+"/bin/tool" {
		t.Errorf("found %s, %v", got, err)
	}
	if got, err := Program("only"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("found %s, %v", got, err)
	}

	// What was found stays, until it is gone.
	t.Setenv("PATH", y.out+"/first:"+y.out+"/bin")
	find := func(want string) {
		t.Helper()
		if got, err := Program("tool"); err != nil || got != want {
			t.Errorf("found %s, %v, not %s", got, err, want)
		}
	}
	find(y.out + "/bin/tool")
	mkdir(y.out + "/first")
	y.program(y.out+"/first/tool", "later")
	find(y.out + "/bin/tool")
	if err := os.Remove(y.out + "/bin/tool"); err != nil {
		t.Fatal(err)
	}
	find(y.out + "/first/tool")
}

// TestOwnProgram finds what runs now where a path is given that may name another file by now.
func TestOwnProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := ownProgram(self); got != "/proc/self/exe" {
		t.Errorf("the program that runs: %s", got)
	}
	if got := ownProgram("/bin/true"); got != "/bin/true" {
		t.Errorf("another: %s", got)
	}
}

// TestEnviron finds nothing of a project in what the person's own programs get.
func TestEnviron(t *testing.T) {
	y := newHome(t)
	for _, dir := range []string{y.work + "/bin", y.out + "/bin", y.out + "/project/.git", y.out + "/project/bin"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	y.link(y.work+"/bin", y.out+"/to-work")
	y.link(y.out+"/bin", y.work+"/to-out")
	y.link(y.work+"/to-out", y.out+"/through-work")
	given := "PATH=.:bin::" + y.work + "/bin:" + y.out + "/to-work:" + y.out + "/project/bin:/usr/bin:" + y.out + "/through-work:/nowhere"
	if got, want := environIn(y.work, []string{given}, nil), "PATH=/usr/bin:"+y.out+"/bin"; !slices.Contains(got, want) {
		t.Errorf("%s becomes %q", given, got)
	}
	if got, want := Environ([]string{given}), "PATH="+y.work+"/bin:/usr/bin:"+y.out+"/bin"; !slices.Contains(got, want) {
		t.Errorf("in no folder %s becomes %q", given, got)
	}
	env := environIn(y.work, []string{"PATH=.", "NODE_OPTIONS=x"}, []string{"A=b", "GIT_CONFIG_COUNT=0"})
	for _, want := range []string{"NODE_OPTIONS=x", "A=b", "GIT_CONFIG_COUNT=6", "GIT_CONFIG_KEY_5=core.fsmonitor", "GIT_CONFIG_VALUE_5=false"} {
		if !slices.Contains(env, want) {
			t.Errorf("without %s: %q", want, env)
		}
	}
	for _, kv := range env {
		if kv == "PATH=" || kv == "PATH=." {
			t.Error(kv)
		}
	}
}
