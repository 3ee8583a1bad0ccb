package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program puts a script that says its name where it may be executed.
func (y *yard) program(path, says string) {
	y.t.Helper()
	y.put(path, "#!/bin/sh\necho "+says+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) link(target, path string) {
	y.t.Helper()
	if err := os.Symlink(target, path); err != nil {
		y.t.Fatal(err)
	}
}

// TestOutsideEnvironment checks that of the daemon's environment nothing passes that leads to what commands can write.
func TestOutsideEnvironment(t *testing.T) {
	y := newHome(t)
	main, linked := y.home+"/main", y.home+"/main/trees/one"
	for _, args := range [][]string{{"init", "-q", main}, {"-C", main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"}, {"-C", main, "worktree", "add", "-q", linked}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, dir := range []string{y.out + "/bin", y.work + "/bin", y.home + "/open.d/bin", y.home + "/.cache/pip/bin", main + "/bin", linked + "/bin"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	y.link(y.work+"/bin", y.out+"/to-work")
	y.link(y.out+"/bin", y.work+"/to-out")
	y.link(y.work+"/to-out", y.out+"/through-work")
	p := Profile{Files: ReadOnly, Network: NetworkFull, Required: true, Workspace: y.work, Outside: true, Others: []string{y.home + "/open.d"}, Cache: y.p.Cache, Blank: y.p.Blank}
	path := func(env []string) (out string) {
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, "PATH="); ok {
				out += v
			}
		}
		return out
	}
	for _, c := range []struct{ workspace, given, want string }{
		{y.work, "/usr/bin:" + y.out + "/bin", "/usr/bin:" + y.out + "/bin"},
		{y.work, y.work + "/bin:" + y.work + ":/usr/bin", "/usr/bin"},
		{y.work, ".:./node_modules/.bin::bin:/usr/bin", "/usr/bin"},
		{y.work, y.out + "/to-work:" + y.work + "/to-out:/usr/bin", "/usr/bin"},
		{y.work, y.out + "/through-work", y.out + "/bin"}, // by its real name: what the link leads to can change
		{y.work, y.home + "/open.d/bin:" + y.home + "/.cache/pip/bin:/tmp:/dev/shm:/nowhere:/usr/bin", "/usr/bin"},
		{y.work, y.out + "/../home/work/bin:/usr/bin", "/usr/bin"},
		{linked, main + "/bin:" + linked + "/bin:/usr/bin", "/usr/bin"},
		{main, linked + "/bin:/usr/bin", "/usr/bin"},
	} {
		p.Workspace = c.workspace
		if got := path(p.environment([]string{"PATH=" + c.given}, nil)); got != c.want {
			t.Errorf("in %s PATH=%s becomes %s", c.workspace, c.given, got)
		}
	}
	p.Workspace = y.work
	if got := path(p.environment([]string{"PATH=."}, []string{"PATH=" + y.work})); got == "" || strings.Contains(got, y.home) || strings.Contains(got, ".:") {
		t.Errorf("without any folder: %q", got)
	}

	base := []string{"PATH=/usr/bin", "HOME=" + y.home, "XDG_CONFIG_HOME=" + y.work + "/config", "XDG_DATA_DIRS=/usr/share:" + y.work, "XDG_DATA_HOME=" + y.out, "SSL_CERT_DIR=certs", "LC_ALL=C", "HTTPS_PROXY=http://p:1"}
	for _, name := range slices.Concat(toolVariables, []string{"GOPATH", "GOFLAGS", "GOTOOLCHAIN", "GOENV", "NODE_OPTIONS", "MAVEN_OPTS", "SHELL", "CC", "PNPM_HOME", "CARGO_HOME", "NIX_PATH", "PIP_INDEX_URL"}) {
		if !strings.HasPrefix(name, "SSL_CERT") {
			base = append(base, name+"=canary")
		}
	}
	env := p.environment(base, []string{"LD_LIBRARY_PATH=canary", "GIT_CONFIG_COUNT=0", "GIT_SSH_COMMAND=canary", "INPUT_NAME=x"})
	for _, want := range []string{"PATH=/usr/bin", "HOME=" + y.home, "XDG_DATA_HOME=" + y.out, "LC_ALL=C", "HTTPS_PROXY=http://p:1", "TERM=dumb", "INPUT_NAME=x", "PYTHONSAFEPATH=1", "PYTHONNOUSERSITE=1", "GIT_CONFIG_KEY_0=safe.bareRepository"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, kv := range env {
		if strings.Contains(kv, "canary") || strings.Contains(kv, y.work) || strings.HasPrefix(kv, "SSL_CERT_DIR") || kv == "GIT_CONFIG_COUNT=0" {
			t.Errorf("%s got through", kv)
		}
	}
	if env := p.environment([]string{"HOME=" + y.work + "/home"}, nil); !slices.Contains(env, "HOME=/nonexistent") {
		t.Errorf("a home in the workspace: %q", env)
	}
	p.Outside = false
	if env := p.environment(base, nil); !slices.Contains(env, "NODE_OPTIONS=canary") {
		t.Error("other commands lack variables")
	}
}

// hostileToOutside puts programs of the workspace in the way of a command that has a network.
func hostileToOutside(t *testing.T) {
	y := newHome(t)
	bin := y.work + "/bin"
	for _, name := range []string{"tool", "bash", "sh", "cat", "git"} {
		y.program(bin+"/"+name, "planted")
	}
	y.program(y.out+"/bin/honest", "honest")
	y.link(bin+"/tool", y.out+"/bin/linked")
	y.program(y.home+"/shared/tool", "planted")
	y.link(y.home+"/shared/tool", y.out+"/bin/shared")
	y.put(y.work+"/json.py", "print('planted')")
	t.Setenv("PATH", bin+":.:"+y.out+"/bin:"+os.Getenv("PATH"))
	t.Setenv("PYTHONPATH", y.work)
	sock := y.home + "/.service.sock"
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	y.p.See, y.p.Write = append(y.p.See, Readable(os.Getenv)...), []string{y.home + "/shared", sock}
	if got := y.works("true"); !strings.Contains(got, "planted") { // not even the shell is another
		t.Fatalf("the test plants nothing: %q", got)
	}

	y.p.Files, y.p.Outside, y.p.Write, y.p.Others = ReadOnly, true, nil, y.p.Write
	if got := y.works("honest; cat /dev/null; echo $0; command -v git"); strings.Contains(got, "planted") || !strings.Contains(got, "honest") || strings.Contains(got, y.work) {
		t.Errorf("it says %q", got)
	}
	for _, script := range []string{
		"tool", "linked", "shared", "./bin/tool", bin + "/tool", "/proc/self/cwd/bin/tool", y.home + "/shared/tool", "cat " + y.home + "/shared/tool",
		"cp " + bin + "/tool $TMPDIR/tool && $TMPDIR/tool", "cp " + bin + "/tool /dev/shm/tool && /dev/shm/tool",
		"echo x > new", "rm json.py", "echo x > " + y.out + "/file", "echo x > " + y.home + "/shared/new",
	} {
		if got := y.fails(script); strings.Contains(got, "planted") {
			t.Errorf("%s says %q", script, got)
		}
	}
	y.untouched()
	if _, err := exec.LookPath("python3"); err == nil {
		if got := y.works("python3 -c 'import json; print(json.dumps(1))' && python3 -m json.tool --help > /dev/null"); strings.Contains(got, "planted") {
			t.Errorf("python takes modules of the workspace: %q", got)
		}
		y.works("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"" + sock + "\")'")
	}
	if exists(y.work, "new") || !exists(y.work, "json.py") {
		t.Error("the workspace was changed")
	}
}

// TestOutsideGit checks that git, asked by a program for a service, runs nothing that a file of the workspace names.
func TestOutsideGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	y := newYard(t)
	mark := filepath.Join("/tmp", "ran")
	for _, args := range [][]string{{"init", "-q", y.work}, {"-C", y.work, "config", "include.path", "../included"}, {"-C", y.work, "remote", "add", "origin", "ssh://127.0.0.1/x"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	runs := "\"touch " + mark + " #\"\n"
	y.put(y.work+"/included", "[core]\n\tfsmonitor = "+runs+"\tsshCommand = "+runs+"\tpager = "+runs+"[credential]\n\thelper = \"!touch "+mark+" #\"\n")
	script := "git status; git ls-remote; echo url=https://127.0.0.1:1/ | git credential fill; test ! -e " + mark
	y.fails(script + "; e=$?; rm -f " + mark + "; exit $e")
	y.p.Files, y.p.Outside = ReadOnly, true
	y.works(script)
}
