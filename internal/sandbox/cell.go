package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

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

	settings string // folder with its settings of git; empty: it has none
	mounted  bool   // it has a mount namespace of its own
	scoped   bool   // the kernel lets its thread signal nothing but what the command started

	repos []repository // of the workspace, that must stay what they are
	had   before       // what there was before the command

	shm   *os.File  // its own /dev/shm; nil: it has none
	asked *listener // who says which processes the command may change
}

// newCell makes a cell for the profile. What this machine cannot enforce is an error if the profile requires it.
func (s *shim) newCell(p Profile) (*cell, error) {
	var missing []error
	is, err := s.islandFor(p)
	if err != nil {
		missing = append(missing, err)
	}
	if p.Files == Full {
		return s.openCell(p, is, missing, nil)
	}
	for try := 0; ; try++ {
		var c *cell
		b, err := s.baseFor(p)
		if err == nil {
			c, err = s.openCell(p, is, missing, b)
		}
		switch {
		case err == nil || b != nil && (p.Required || !mountFailed(err)):
			return c, err
		case p.Required || !mountsWork():
			// Half of the mounts would be worse than none: Landlock hides more where it knows that there are none. If all is required, it is
			// refused there.
			return s.openCell(p, is, append(missing, err), nil)
		case try == mountTries:
			// It is not the machine that lacks something. A job of the task may be changing what is to be sealed, so that it is not.
			return nil, fmt.Errorf("the sandbox could not be made, though this machine can: %w", err)
		}
	}
}

// mountTries is how often mounts are tried again that failed, where others work: something may have been there and gone again.
const mountTries = 3

// mountsWork reports whether this machine lets a sandbox have mounts at all.
var mountsWork = sync.OnceValue(func() bool { return checkMounts().OK })

func mountFailed(err error) bool {
	_, ok := errors.AsType[mountError](err)
	return ok
}

// mountError says that the mounts of a profile could not be made.
type mountError struct{ error }

func (e mountError) Unwrap() error { return e.error }

// openCell starts the cell's thread, with mounts or, without a base, without.
func (s *shim) openCell(p Profile, is *island, missing []error, b *base) (*cell, error) {
	c := &cell{work: make(chan func()), gone: make(chan struct{}), temp: p.Temp, mounted: b != nil}
	if b != nil {
		c.settings = b.settingsAt
	} else if p.Files != Full {
		var err error
		if c.settings, err = tellGit(s.dir, os.Getenv, p.Person); err != nil {
			return nil, err
		}
	}
	if p.Files == WorkspaceWrite {
		found := searchRepos(p.Workspace, p.Seal, &s.known)
		c.repos = p.repositories(found)
		c.had = p.before(c.repos, found)
	}
	if b != nil {
		if covers := p.covers(); len(covers) > 0 {
			c.temp = covers[0]
		}
		if err := c.addStores(s.dir, p.Temp); err != nil {
			closeRepositories(c.repos)
			return nil, mountError{err}
		}
	}
	ready := make(chan error)
	go func() {
		defer close(c.gone)
		runtime.LockOSThread() // and never unlocked: nothing else may run on this thread
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
		more, err := c.confine(p, is, b)
		if missing = append(missing, more...); p.Required && err == nil && len(missing) > 0 {
			err = errors.Join(missing...)
		}
		if p.Required && err != nil {
			err = fmt.Errorf("the sandbox is required, and this machine cannot enforce it: %w", err)
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

// addStores makes the folders for the objects that the command adds to repositories, and notes which there are.
func (c *cell) addStores(spool, temp string) error {
	if len(c.repos) > 0 {
		raw, err := json.Marshal(c.had)
		if err != nil {
			return fmt.Errorf("note repositories: %w", err)
		}
		if err := os.WriteFile(filepath.Join(spool, knownFile), raw, 0o600); err != nil {
			return fmt.Errorf("note repositories: %w", err)
		}
	}
	for _, repo := range c.repos {
		for i, dir := range repo.plan.dirs {
			if !dir.bears {
				continue
			}
			var err error
			if repo.plan.dirs[i].store, err = newStore(spool, temp, c.temp, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// cloneStores readies these folders to be mounted, for which the thread must see them as they are.
func (c *cell) cloneStores() error {
	all := stores(c.repos)
	if len(all) == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	for _, s := range all {
		if err := s.clone(); err != nil {
			return err
		}
	}
	return nil
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
	c.asked.close()
	_ = c.shm.Close()
	closeRepositories(c.repos)
}

// confine gives up everything, the means to give up last. What could not be enforced is missing; an error
// means that the thread must not be used.
func (c *cell) confine(p Profile, is *island, b *base) (missing []error, err error) {
	files := p.Files != Full
	var hidden []string
	switch {
	case b != nil:
		hidden = present(p.Hide)
	case files: // and what may come: no mount hides it
		hidden = expand(p.Hide)
	}
	if b != nil {
		if err := c.cloneStores(); err != nil {
			return nil, mountError{err}
		}
		if err := b.enter(); err != nil {
			return nil, mountError{err}
		}
		if hidden, err = p.mountOwn(hidden, c.repos); err != nil {
			return nil, mountError{err}
		}
		if c.settings != "" {
			if err := p.mountSettings(c.settings, b.settings); err != nil {
				return nil, mountError{err}
			}
		}
		if p.ownShm() {
			if fd, err := unix.Open("/dev/shm", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				c.shm = os.NewFile(uintptr(fd), "/dev/shm")
			}
		}
	}
	cut := closed{network: p.Network != NetworkFull && is == nil, unix: files && !c.mounted, memory: files && !c.mounted, modes: p.refusedModes()}
	if p.Network != NetworkFull && is != nil {
		if err := is.enter(); err != nil {
			missing, cut.network = append(missing, err), true
		}
	}
	var rules *ruleset
	if version := landlockVersion(); files && version < landlockRefer {
		missing = append(missing, errors.New("the kernel has no Landlock, or one that is too old"))
	} else if files {
		if rules, err = p.fileRules(version, hidden, c.mounted); err != nil {
			return missing, err
		}
		defer rules.close()
		if c.settings != "" {
			rules.allow(resolved(c.settings), rightsRead&^unix.LANDLOCK_ACCESS_FS_EXECUTE|rightsWrite)
		}
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
	} else if c.asked, err = enforceAsking(p.Network, cut); err != nil {
		missing = append(missing, err)
	}
	if rules != nil {
		err := rules.enforce()
		c.scoped = err == nil && rules.scoped
		return missing, err
	}
	return missing, nil
}

// killAtOnce kills all that the command started, by one call that no fork escapes, if the kernel keeps that call inside of the sandbox. That is
// tried on a process outside, the shim's parent, which must be refused to the cell though the shim itself might signal it.
func (c *cell) killAtOnce() {
	outside := os.Getppid()
	if c == nil || !c.scoped || outside < 1 || unix.Kill(outside, 0) != nil {
		return
	}
	c.do(func() {
		if errors.Is(unix.Kill(outside, 0), unix.EPERM) {
			_ = unix.Kill(-1, unix.SIGKILL)
		}
	})
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
	if p := s.spec.Profile; p.Files != Full {
		settings := os.DevNull
		if c.settings != "" {
			settings = filepath.Join(c.settings, gitSettingsFile)
		}
		set(settings, "GIT_CONFIG_GLOBAL")
		set("1", "GIT_CONFIG_NOSYSTEM")
	}
	if p := s.spec.Profile; !c.mounted && p.Files == WorkspaceWrite && len(p.Cache)+len(p.Blank) > 0 {
		for _, name := range movableCaches {
			set(filepath.Join(c.temp, ".cache", name), name)
		}
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
