package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that root's builds use. All others are taken away for good: with them a command
// could trace, mount, load, or listen in on what is not its own.
var kept = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL,
	unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE, unix.CAP_AUDIT_WRITE,
}

// cell is a thread of the shim that has given up what its command must not have. A child starts with what
// the thread that forks it has left, so the command is confined and the shim is not, without another
// process in between. The kernel kills the command when this thread ends: it is kept until then.
type cell struct {
	work chan func()
	gone chan struct{}
	temp string // where the command's temp folder is, as it sees it

	repos []repository // of the workspace, that must stay what they are
}

// newCell makes a cell for the profile. What this machine cannot enforce is an error if the profile requires it.
func (s *shim) newCell(p Profile) (*cell, error) {
	var missing []error
	is, err := s.islandFor(p)
	if err != nil {
		missing = append(missing, err)
	}
	c := &cell{work: make(chan func()), gone: make(chan struct{}), temp: p.Temp}
	if p.Files == WorkspaceWrite {
		c.repos = p.repositories()
	}
	ready := make(chan error)
	go func() {
		defer close(c.gone)
		runtime.LockOSThread() // and never unlocked: nothing else may run on this thread
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
		more, err := c.confine(p, is)
		if missing = append(missing, more...); p.Required && err == nil && len(missing) > 0 {
			err = fmt.Errorf("the sandbox is required, and this machine cannot enforce it: %w", errors.Join(missing...))
		}
		ready <- err
		for f := range c.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// do runs f on the cell's thread.
func (c *cell) do(f func()) {
	done := make(chan struct{})
	c.work <- func() { defer close(done); f() }
	<-done
}

func (c *cell) close() {
	close(c.work)
	<-c.gone
}

// confine gives up everything, the means to give up last. What could not be enforced is missing; an error
// means that the thread must not be used.
func (c *cell) confine(p Profile, is *island) (missing []error, err error) {
	files := p.Files != Full
	mounted := false
	var hidden []string
	if files {
		hidden = expand(p.Hide)
		if bare, err := p.mount(hidden, c.repos); err != nil {
			missing = append(missing, err)
		} else {
			hidden, mounted = bare, true
			if covers := p.covers(); len(covers) > 0 {
				c.temp = covers[0]
			}
		}
	}
	cut := sockets{network: p.Network != NetworkFull && is == nil, unix: files && !mounted}
	if p.Network != NetworkFull && is != nil {
		if err := is.enter(); err != nil {
			missing, cut.network = append(missing, err), true
		}
	}
	var rules *ruleset
	if version := landlockVersion(); files && version < landlockRefer {
		missing = append(missing, errors.New("the kernel has no Landlock, or one that is too old"))
	} else if files {
		if rules, err = p.fileRules(version, hidden, mounted); err != nil {
			return missing, err
		}
		defer rules.close()
		if version < landlockScope {
			missing = append(missing, errors.New("the kernel's Landlock does not keep signals in"))
		}
	}
	if err := dropCapabilities(); err != nil {
		return missing, err
	}
	if err := giveUpPrivileges(); err != nil {
		return missing, err
	}
	if auditArch == 0 {
		missing = append(missing, fmt.Errorf("no filter of system calls is known for %s", runtime.GOARCH))
	} else if err := systemCalls(p.Network, cut).enforce(); err != nil {
		missing = append(missing, err)
	}
	if rules != nil {
		return missing, rules.enforce()
	}
	return missing, nil
}

// giveUpPrivileges keeps the thread's children from ever gaining what it has not, by sudo or the like.
func giveUpPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	return nil
}

// dropCapabilities leaves the thread's children with the kept ones at most. Who has none to give up is told
// so by the kernel, and gets none from a program either once new privileges are given up.
func dropCapabilities() error {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	keep := uint64(0)
	for _, k := range kept {
		keep |= 1 << k
	}
	for one := range 64 {
		if keep&(1<<one) != 0 {
			continue
		}
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(one), 0, 0, 0); {
		case errors.Is(err, unix.EINVAL):
			return nil // beyond the last
		case errors.Is(err, unix.EPERM) && os.Geteuid() != 0:
			return nil
		case err != nil:
			return fmt.Errorf("give up capability %d: %w", one, err)
		}
	}
	return nil
}

// islandFor is the network of a profile that has one of its own. The shim keeps it for the next command.
func (s *shim) islandFor(p Profile) (*island, error) {
	if p.Network == NetworkFull {
		return nil, nil
	}
	if s.island == nil || p.Network == NetworkProxy && s.island.proxy == nil {
		is, err := newIsland(p.Network == NetworkProxy)
		if err != nil {
			return nil, err
		}
		s.island = is
		if is.proxy != nil {
			go is.serve(p.Proxy) // ends with the shim, whose business it is
		}
	}
	return s.island, nil
}

// environ is the command's environment in the cell.
func (s *shim) environ(c *cell) []string {
	env := s.spec.Env
	if c == nil {
		return env
	}
	set := func(value string, names ...string) {
		for _, name := range names {
			env = append(lacking(env, name), name+"="+value)
		}
	}
	if c.temp != "" {
		set(c.temp, "TMPDIR")
	}
	if p := s.spec.Profile; p.Network == NetworkProxy && s.island != nil && s.island.proxy != nil {
		set("http://"+s.island.proxy.Addr().String(), "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
		set("localhost,127.0.0.1,::1", "NO_PROXY", "no_proxy")
	}
	return env
}

// lacking is env without one variable.
func lacking(env []string, name string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, name+"=") {
			out = append(out, kv)
		}
	}
	return out
}
