package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// nestArg tells a shim that it starts in a user namespace of its own.
const nestArg = "nested"

// nest makes a process start that is not root's in a user namespace of its own, in which it may make the
// namespaces of commands. It has to say itself who it is there: what the daemon starts cannot be looked into
// before it runs a program of its own, not even by the daemon, which hides its environment that way.
func nest(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWUSER
	// An overlay works with the rights of who mounted it, in a folder of its own that has the mode 0; to enter a mount namespace is to
	// change the root.
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_SYS_CHROOT}
}

// nestedArgs are the arguments of a process that is started by nest: what it is for, and who it is outside.
func nestedArgs(what string) []string {
	return []string{what, strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid())}
}

// settleIn makes this process the same user inside of its namespace as outside, if it was started in one.
func settleIn(args []string) error {
	if len(args) < 5 {
		return nil
	}
	return settleAs(args[3], args[4])
}

// settleAs makes this process a user and a group inside of its namespace, who are its own outside.
func settleAs(user, group string) error {
	uid, err := strconv.Atoi(user)
	if err != nil {
		return fmt.Errorf("read user %q: %w", user, err)
	}
	gid, err := strconv.Atoi(group)
	if err != nil {
		return fmt.Errorf("read group %q: %w", group, err)
	}
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"}, // the kernel's condition for the next
		{"gid_map", fmt.Sprintf("%d %d 1", gid, gid)},
		{"uid_map", fmt.Sprintf("%d %d 1", uid, uid)},
	} {
		if err := os.WriteFile("/proc/self/"+f.name, []byte(f.text), 0); err != nil {
			return fmt.Errorf("be user %d in a namespace: %w", uid, err)
		}
	}
	return nil
}
