package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A command that asks a service has a network and is not asked about. What it starts is decided by PATH and a dozen other variables, which
// may lead to files of the workspace: then commands that have no network write programs for one that has. So such a command (Profile.Outside)
// has a short environment, finds programs only where no command can write, and can execute nothing that lies elsewhere.

// outsidePassed are the variables that it gets. None of them names a program, or a folder from which code is loaded, but PATH.
var outsidePassed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TMPDIR", "TZ", "TERM", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	"INPUT_*", // parameters of a skill's tool
}

// outsidePlaces are those of them that lead programs to settings.
var outsidePlaces = []string{"HOME", "TMPDIR", "XDG_*", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// outsideTold keeps Python from taking modules of the folder it is started in, and git from running what the settings of a repository
// name: they may include a file of the workspace.
var outsideTold = append(gitConfigured(append(slices.Clone(gitToldSettings),
	[2]string{"core.fsmonitor", "false"}, [2]string{"core.hooksPath", "/dev/null"}, [2]string{"credential.helper", ""}, [2]string{"protocol.ext.allow", "never"})),
	"GIT_SSH_COMMAND=ssh", "GIT_ASKPASS=false", "GIT_EDITOR=false", "GIT_PAGER=cat", "PAGER=cat", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
	"PYTHONSAFEPATH=1", "PYTHONNOUSERSITE=1",
)

// standardPath is where programs are looked for if nothing of PATH is left.
const standardPath = "/usr/local/bin:/usr/bin:/bin"

// environment is what a command with the profile starts with: what may pass of base, then what the command adds.
func (p *Profile) environment(base, added []string) []string {
	env := scrub(base, added)
	if p == nil || !p.Outside {
		return env
	}
	reach := p.reach()
	out := slices.Clone(outsideTold)
	var path, home string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "PATH":
			path = value
		case !matches(outsidePassed, name) || matches(outsidePlaces, name) && !allOutside(value, reach):
		case name == "HOME":
			home = value
		default:
			out = append(out, kv)
		}
	}
	if home == "" {
		home = "/nonexistent" // else programs look up where it is, and find the same
	}
	return append(out, "HOME="+home, "PATH="+p.outsidePath(path))
}

// outsidePath are the folders of PATH in which no command can write.
func (p *Profile) outsidePath(path string) string {
	reach := expand(append(p.reach(), append(slices.Clone(tempFolders), os.TempDir())...))
	return pathOutside(path, func(dir string) bool { return covered(dir, reach) })
}

// pathOutside are the folders of PATH that agents do not reach, by their real names: a link on the way to one could be changed.
func pathOutside(path string, reached func(dir string) bool) string {
	for _, list := range []string{path, standardPath} {
		var kept []string
		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) || reached(filepath.Clean(dir)) {
				continue
			}
			if real := resolved(dir); real != "" && !reached(real) && !slices.Contains(kept, real) {
				kept = append(kept, real)
			}
		}
		if len(kept) > 0 {
			return strings.Join(kept, string(filepath.ListSeparator))
		}
	}
	return ""
}

// outsideShell is a shell in one of the folders of a path that outsidePath made; empty: there is none.
func (p *Profile) outsideShell(path string) string {
	reach := expand(p.reach())
	for _, name := range []string{"bash", "sh"} {
		for _, dir := range filepath.SplitList(path) {
			shell := filepath.Join(dir, name)
			info, err := os.Stat(shell)
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !covered(resolved(shell), reach) {
				return shell
			}
		}
	}
	return ""
}

// allOutside reports whether all paths of a list are there and lie where no command can write.
func allOutside(list string, reach []string) bool {
	reach = expand(reach)
	for _, path := range filepath.SplitList(list) {
		real := resolved(path)
		if !filepath.IsAbs(path) || real == "" || covered(filepath.Clean(path), reach) || covered(real, reach) {
			return false
		}
	}
	return true
}

// reach is what commands of the task can write, with the checkout that its worktree belongs to: other tasks work there, and this one's
// work gets there when it is merged.
func (p *Profile) reach() []string {
	paths := slices.Concat([]string{p.Workspace, enclosing(p.Workspace), p.Temp, p.Layers, "/dev/shm"}, p.Write, p.Others, p.Cache, p.Blank, p.covers())
	if _, common := p.worktree(); common != "" {
		if filepath.Base(common) == ".git" {
			common = filepath.Dir(common)
		}
		paths = append(paths, common)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// sockets are those of Others. What is written to one is no file, and services are asked through it.
func (p Profile) sockets() (out []string) {
	for _, path := range p.Others {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			out = append(out, path)
		}
	}
	return out
}

// bar lets nothing be executed, or mapped as code, of what commands can write: a link in a folder of PATH may lead there.
func (p Profile) bar() error {
	if !p.Outside {
		return nil
	}
	paths := expand(p.reach())
	slices.Sort(paths) // a folder before what is in it
	var done []string
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() || resolved(path) != path || covered(path, done) {
			continue // where a link leads is in the list, too
		}
		if err := barOne(path); err != nil {
			return fmt.Errorf("bar programs of %s: %w", path, err)
		}
		done = append(done, path)
	}
	return nil
}

func barOne(path string) error {
	at, err := openReal(path, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC}); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
