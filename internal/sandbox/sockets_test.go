package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// listenIn makes a socket in a folder of its own below dir, as an agent or a daemon has it, and says where.
func listenIn(t *testing.T, dir string) string {
	t.Helper()
	own, err := os.MkdirTemp(dir, "agent-")
	if err != nil {
		t.Skipf("nobody lets this user make a socket in %s: %v", dir, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	l, err := net.Listen("unix", own+"/sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return own + "/sock"
}

func connect(path string) string {
	return `python3 -c 'import socket as s, sys; s.socket(s.AF_UNIX).connect(sys.argv[1])' ` + path
}

func hostileToSockets(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: nothing to open sockets with")
	}
	for _, base := range []string{"/tmp", "/var/tmp"} { // where the workspace lies
		y := newYardIn(t, base)
		mine := listenIn(t, y.work)
		y.works(connect(mine))
		for _, dir := range []string{"/tmp", "/var/tmp", "/run/lock", y.out} {
			if dir == y.out && base != "/tmp" {
				continue // beside the workspace, in a folder like any other: Landlock cannot tell
			}
			t.Run(base+" to "+filepath.Base(filepath.Dir(dir))+filepath.Base(dir), func(t *testing.T) {
				sock := listenIn(t, dir)
				y := *y
				y.t = t
				y.fails(connect(sock))
				y.fails("test -e " + sock)
				y.fails("cd .. && " + connect("/proc/self/root"+sock))
				// One that appears while the command runs.
				late := dir + "/late-" + filepath.Base(y.work) + filepath.Base(filepath.Dir(sock))
				p := start(t, y.s, "late"+filepath.Base(late), y.command("touch ready; until [ -e go ]; do :; done; test -e "+late))
				eventually(t, "it runs", func() bool { return exists(y.work, "ready") })
				l, err := net.Listen("unix", late)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				y.put(y.work+"/go", "")
				if res := wait(t, p); res.Exit == 0 {
					t.Errorf("%s came in sight", late)
				}
				for _, name := range []string{"ready", "go"} {
					if err := os.Remove(y.work + "/" + name); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// TestWorkspaceInTemp is what must go on to work where the temp folder is sifted.
func TestWorkspaceInTemp(t *testing.T) {
	y := newYardIn(t, "/tmp")
	programs, seen := y.out+"/bin", y.home
	if err := os.MkdirAll(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	y.put(programs+"/hello", "#!/bin/sh\necho hello\n")
	if err := os.Chmod(programs+"/hello", 0o755); err != nil {
		t.Fatal(err)
	}
	link := y.out + "/link"
	if err := os.Symlink(programs, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+link)
	y.p.See = append(y.p.See, seen)
	y.works("hello && cat " + y.home + "/open && echo x > new && echo y > $TMPDIR/y && mktemp")
	y.fails("cat " + y.priv + "/id")
	y.fails("echo x > " + y.home + "/open")
	y.fails("echo x > " + programs + "/hello")
	y.fails("echo x > /tmp/x")
	y.fails("cat " + y.out + "/file")
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	y.works("git init -q . && git add new && " + gitAs + "commit -qm one")
	other := y.out + "/linked"
	if out, err := exec.Command("git", "-C", y.work, "worktree", "add", "-q", other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	y.p.See, y.work, y.p.Workspace = Readable(os.Getenv), other, other
	y.works("echo 2 > new && " + gitAs + "commit -qam two && git log --oneline")
}

// TestSocketsWithoutMounts runs a part of the suite where no namespace can be made, as the filter of an outer sandbox
// has it. Nothing says there which socket is whose, so none can be opened; pairs can.
func TestSocketsWithoutMounts(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_BARE") == "" {
		inBareProcess(t)
		return
	}
	y := newYard(t)
	y.p.Required = false
	sock := listenIn(t, y.out)
	y.works(`python3 -c 'import socket as s; a, b = s.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"'`)
	y.works(`python3 -c 'import socket as s; l = s.create_server(("127.0.0.1", 0)); s.create_connection(l.getsockname())'`)
	if out := y.fails(connect(sock)); !strings.Contains(out, "PermissionError") {
		t.Errorf("connect: %s", out)
	}
	y.p.Required = true
	if _, err := y.s.Start(t.Context(), "required", y.command("true")); err == nil || !strings.Contains(err.Error(), "cannot enforce it") {
		t.Errorf("required: %v", err)
	}
}

// inBareProcess runs the test again as nobody, behind a filter that refuses namespaces.
func inBareProcess(t *testing.T) {
	switch _, err := exec.LookPath("python3"); {
	case err != nil:
		t.Skip("python3 is not installed: nothing to open sockets with")
	case os.Geteuid() != 0:
		t.Skip("needs root to become a user who may make no namespace")
	}
	binary := copySelf(t)
	cmd := exec.Command(binary, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = filepath.Dir(binary)
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "TMPDIR="+cmd.Dir, "SANDBOX_TEST_BARE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUser, Gid: nobodyUser}}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := onThread(func() error {
		if err := systemCalls(NetworkFull, closed{}).enforce(); err != nil { // root needs to give up nothing for it
			return err
		}
		return cmd.Start()
	})
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestFilterOfSockets(t *testing.T) {
	for name, c := range map[string]struct {
		network     Network
		cut         closed
		local, inet error
	}{
		"all":        {network: NetworkFull},
		"no paths":   {network: NetworkFull, cut: closed{unix: true}, local: unix.EACCES},
		"no net":     {network: NetworkOff, cut: closed{network: true}, inet: unix.EAFNOSUPPORT},
		"pairs only": {network: NetworkOff, cut: closed{network: true, unix: true}, local: unix.EACCES, inet: unix.EAFNOSUPPORT},
	} {
		try := func(domain int) error {
			return onThread(func() error {
				if err := giveUpPrivileges(); err != nil {
					return err
				}
				if err := systemCalls(c.network, c.cut).enforce(); err != nil {
					return err
				}
				fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				_, _ = unix.Close(fds[0]), unix.Close(fds[1])
				fd, err := unix.Socket(domain, unix.SOCK_STREAM, 0)
				if err == nil {
					_ = unix.Close(fd)
				}
				return err
			})
		}
		if err := try(unix.AF_UNIX); err != c.local {
			t.Errorf("%s: a unix socket: %v", name, err)
		}
		if err := try(unix.AF_INET); err != c.inet {
			t.Errorf("%s: a socket of the network: %v", name, err)
		}
	}
}
