package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/td"
)

// Finding is one thing that the sandbox needs of a machine.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // how to get what is missing
}

// checkArg makes a shim say what it could enforce, and leave.
const checkArg = "check"

// checkLimit bounds how long it may take to say so.
const checkLimit = 10 * time.Second

// Check tries what commands are confined with, in a shim as commands have it. self is the taskdaemon binary.
func Check(ctx context.Context, self string) ([]Finding, error) {
	var found []Finding
	nested := !mayAdmin()
	raw, err := try(ctx, self, nested)
	if nested {
		f := Finding{Name: "user namespace", OK: err == nil, Detail: "commands are confined without any privilege"}
		if err != nil {
			f.Detail, f.Hint = err.Error(), userNamespaceHint()
			raw, err = try(ctx, self, false)
		}
		found = append(found, f)
	}
	if err != nil {
		return nil, td.Errorf(td.Unavailable, "try the sandbox: %w", err)
	}
	more, err := decodeFindings(raw)
	return append(append(found, more...), checkLauncher()), err
}

// try starts a shim that says what it could enforce.
func try(ctx context.Context, self string, nested bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	args := []string{"exec", checkArg}
	if nested {
		args = append([]string{"exec"}, nestedArgs(checkArg)...)
	}
	cmd := exec.CommandContext(ctx, ownProgram(self), args...)
	cmd.Env = shimEnv(os.Environ())
	if nested {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		nest(cmd.SysProcAttr)
	}
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

// nestable reports whether shims can be started in a user namespace on this machine. It is tried once: where
// they cannot, they are started without, and do what they can or refuse.
func (s *Spool) nestable() bool {
	s.nesting.Do(func() {
		_, err := try(context.Background(), s.Self, true)
		s.nests = err == nil
	})
	return s.nests
}

// checkLauncher tries what the daemon's own programs are confined with.
func checkLauncher() Finding {
	var l Launcher
	defer l.Close()
	f := Finding{Name: "the daemon's own git", OK: true, Detail: "sees nothing but the repository, and no other program can be executed"}
	lacks, mounts, err := l.Lacks()
	switch {
	case err != nil:
		f.OK, f.Detail, f.Hint = false, "it cannot be started: "+err.Error(), userNamespaceHint()
	case !mounts || len(lacks) > 0:
		f.OK, f.Detail, f.Hint = false, "confined only in part: "+strings.Join(lacks, "; "), userNamespaceHint()
	}
	return f
}

func decodeFindings(raw []byte) ([]Finding, error) {
	var found []Finding
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, td.Errorf(td.Corrupt, "read what the sandbox can do: %w", err)
	}
	return found, nil
}

// checkMain is the shim's side of Check.
func checkMain(nested error) int {
	if nested != nil {
		fmt.Fprintln(os.Stderr, nested)
		return 1
	}
	found := []Finding{checkLandlock(), checkScopes(), checkMounts(), checkLayers(), checkNetwork(), checkFilter(), checkProcesses()}
	if json.NewEncoder(os.Stdout).Encode(found) != nil {
		return 1
	}
	return 0
}

func checkLandlock() Finding {
	v := landlockVersion()
	f := Finding{Name: "files (Landlock)", OK: v >= landlockRefer, Detail: fmt.Sprintf("version %d", v)}
	if !f.OK {
		f.Detail = "commands may change and read whatever the user may"
		f.Hint = "use Linux 5.19 or later, with landlock in its list of security modules (boot with lsm=landlock,…; see /sys/kernel/security/lsm)"
	}
	return f
}

func checkScopes() Finding {
	f := Finding{Name: "signals and abstract sockets (Landlock 6)", OK: landlockVersion() >= landlockScope, Detail: "end at the sandbox"}
	if !f.OK {
		f.Detail, f.Hint = "commands may signal the user's other processes and, with the network, use their abstract sockets", "use Linux 6.12 or later"
	}
	return f
}

func checkMounts() Finding {
	f := Finding{Name: "mount namespace", OK: true, Detail: "all but the workspace and temp folders is read-only, the home and /etc show only what programs need, " +
		".git/hooks and .git/config are sealed, /tmp is private, sockets in the home, /run and /tmp are out of reach"}
	if err := onThread(func() error { _, err := Profile{Files: ReadOnly}.mount(nil, nil); return err }); err != nil {
		f.OK, f.Detail = false, "mode, owner, times and attributes of the user's files outside can be changed, names in the home and /etc be listed, "+
			".git/hooks be written, and no unix socket be opened: "+err.Error()
		f.Hint = userNamespaceHint()
	}
	return f
}

// checkLayers says whether builds find their caches. It is no hole if they do not.
func checkLayers() Finding {
	f := Finding{Name: "caches (overlayfs)", OK: true, Detail: "commands read yours, and what they change stays in their task"}
	if err := tryOverlay(); err != nil {
		f.Detail = "commands find them empty, and fill them for their task: " + err.Error()
	}
	return f
}

func tryOverlay() error {
	dir, err := os.MkdirTemp("", "taskdaemon-check")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer func() { _ = disk.RemoveAll(dir) }()
	for _, name := range []string{"lower", "upper", "work", "view"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("detach mounts: %w", err)
		}
		return mountOverlay(filepath.Join(dir, "view"), filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"))
	})
}

func checkNetwork() Finding {
	f := Finding{Name: "network namespace", OK: true, Detail: "with the network off, a command has a loopback of its own and nothing else"}
	if _, err := newIsland(false); err != nil {
		f.OK, f.Detail = false, "with the network off, a command has no loopback either: "+err.Error()
		f.Hint = userNamespaceHint()
	}
	return f
}

func checkFilter() Finding {
	f := Finding{Name: "filter of system calls (seccomp)", OK: true, Detail: "keyrings, io_uring, new user namespaces and the like are out of reach"}
	err := fmt.Errorf("not known for %s", runtime.GOARCH)
	if auditArch != 0 {
		err = onThread(func() error {
			if err := dropCapabilities(); err != nil {
				return err
			}
			if err := giveUpPrivileges(); err != nil {
				return err
			}
			return systemCalls(NetworkOff, closed{network: true, unix: true}).enforce()
		})
	}
	if err != nil {
		f.OK, f.Detail, f.Hint = false, err.Error(), "use a kernel with CONFIG_SECCOMP_FILTER, on amd64 or arm64"
	}
	return f
}

// checkProcesses says who holds a command to its number of processes. It is no hole if only the shim does: a command that forks fast has more for a moment.
func checkProcesses() Finding {
	f := Finding{Name: "number of processes", OK: true, Detail: "bounded by the kernel, in a user namespace of each command's shim"}
	if countedAlone(&Profile{Files: ReadOnly}) {
		return f
	}
	g, err := openPidGroup()
	g.close()
	f.Detail = "bounded by the kernel, in a control group of each command's shim"
	if err != nil {
		f.Detail = "looked at four times a second, so that a command may have more for a moment: " + err.Error()
		f.Hint = "run the daemon as a user who is not root, or where it may make control groups (systemd: Delegate=pids)"
	}
	return f
}

// onThread runs f on a thread that is thrown away afterwards.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// userNamespaceHint names the switch that is off.
func userNamespaceHint() string {
	for _, s := range []struct{ file, off, hint string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=15000"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give taskdaemon an AppArmor profile with userns"},
	} {
		if raw, err := os.ReadFile(s.file); err == nil && strings.TrimSpace(string(raw)) == s.off {
			return s.hint
		}
	}
	return "in a container: allow it unshare and mount (docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
}
