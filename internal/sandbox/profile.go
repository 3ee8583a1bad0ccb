package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Files says which files a command may change.
type Files string

// The profiles of files. What is hidden cannot be read in any but Full.
const (
	ReadOnly       Files = "read-only"       // its temp folder only
	WorkspaceWrite Files = "workspace-write" // the workspace, and layers over the caches of builds
	Full           Files = "full"            // whatever the user may
)

// Network says whom a command may reach.
type Network string

// The profiles of the network. Under NetworkOff and NetworkProxy a command has a loopback of its own.
const (
	NetworkOff   Network = "off"
	NetworkProxy Network = "proxy" // the hosts that the daemon's proxy allows
	NetworkFull  Network = "full"
)

// Profile is what a command may do. It is part of the spec on disk: the shim applies it, and one that it
// cannot read runs nothing. All paths are absolute.
type Profile struct {
	Files   Files   `json:"files"`
	Network Network `json:"network"`
	// Required refuses the command where this machine cannot enforce the whole profile; else it runs with
	// what can be enforced.
	Required  bool     `json:"required,omitempty"`
	Workspace string   `json:"workspace,omitempty"`
	Temp      string   `json:"temp,omitempty"`  // the task's own temp folder; the spool makes and names it
	Write     []string `json:"write,omitempty"` // folders and files that may be changed, too
	See       []string `json:"see,omitempty"`   // may be read where it lies in a folder that is closed or covered: the home, /etc, /tmp
	Close     []string `json:"close,omitempty"` // closed, too, wherever it lies: the checkout that a worktree belongs to
	// Cache are folders of which a command sees what the person has and changes a layer of its task's own; Blank are folders that it
	// finds empty and fills for its task alone. Neither can be changed where no mount namespace can be made.
	Cache  []string `json:"cache,omitempty"`
	Blank  []string `json:"blank,omitempty"`
	Layers string   `json:"layers,omitempty"` // where the task's layers are kept; the spool names it
	Hide   []string `json:"hide,omitempty"`   // may be neither read nor changed; globs
	Seal   []string `json:"seal,omitempty"`   // may be read, and not changed, even where they lie in the workspace
	// Hooks are folders of the workspace in which git looks for hooks. They are sealed, and made where there is none, so that no command makes one.
	Hooks []string `json:"hooks,omitempty"`
	// HooksIn are relative paths by which git looks for hooks in every checkout. What a repository has there that a command makes is kept aside.
	HooksIn []string `json:"hooks_in,omitempty"`
	// Settings are files of the workspace that settings of git include. They are sealed, and made where there is none, empty.
	Settings []string `json:"settings,omitempty"`
	// Late adds what takes long to find out, when a command starts: nobody needs it who only asks what a profile allows. Where it fails the command does not run. Nil: it is all there.
	Late func(*Profile) error `json:"-"`

	git *gitPlace // as it was before the command; nil: nobody has looked
	// GitWrite lets commands change the repository of a workspace that is the person's own checkout: what git itself writes there. Without it the whole
	// .git is read-only. A linked worktree of the task's own (Refs), and repositories below the workspace, are not concerned.
	GitWrite bool `json:"git_write,omitempty"`
	// Refs are the folders of references, like refs/heads/mine, that a command in a linked worktree may change; none: all.
	Refs []string `json:"refs,omitempty"`
	// Person is who commits; zero: as the person's files of settings say.
	Person Person `json:"person,omitzero"`
	// Outside lets a command run only programs that no command can change: they lie outside of all that commands can write. See environment and bar.
	Outside bool `json:"outside,omitempty"`
	// Others are what other commands may change besides the workspace, and this one neither changes nor runs. Of these it sees sockets only.
	Others []string `json:"others,omitempty"`
	Proxy  string   `json:"proxy,omitempty"` // unix socket of the daemon's proxy
	Limits Limits   `json:"limits"`
}

// Limits bound what a command uses, with all that it starts. Zero is no bound.
type Limits struct {
	Memory    int64 `json:"memory,omitempty"`    // bytes; what processes share counts once
	Processes int   `json:"processes,omitempty"` // at the same time
	FileSize  int64 `json:"file_size,omitempty"` // bytes of one file
	// Free is how many bytes a command must leave free on each disk that it can write to, and inodes for as many files of an ordinary size.
	Free int64 `json:"free,omitempty"`
}

// leastFileSize leaves room for what the shim itself writes.
const leastFileSize = 2 * OutputCap

// check refuses a profile that does not say what it means.
func (p Profile) check() error {
	if !slices.Contains([]Files{ReadOnly, WorkspaceWrite, Full}, p.Files) {
		return fmt.Errorf("a sandbox has no profile %q of files", p.Files)
	}
	if !slices.Contains([]Network{NetworkOff, NetworkProxy, NetworkFull}, p.Network) {
		return fmt.Errorf("a sandbox has no profile %q of the network", p.Network)
	}
	if p.Network == NetworkProxy && !filepath.IsAbs(p.Proxy) {
		return fmt.Errorf("a sandbox with a proxy needs its socket")
	}
	if p.Outside && (p.Files != ReadOnly || !p.Required) {
		return fmt.Errorf("a sandbox for programs from outside has to be read-only and required")
	}
	if p.Files == WorkspaceWrite && p.Workspace == "" {
		return fmt.Errorf("a sandbox of files needs a workspace")
	}
	for _, path := range slices.Concat(p.Write, p.Others, p.See, p.Close, p.Cache, p.Blank, p.Hide, p.Seal, p.Hooks, p.Settings, []string{p.Workspace, p.Temp, p.Layers}) {
		if path != "" && !filepath.IsAbs(path) {
			return fmt.Errorf("the path %q of a sandbox is not absolute", path)
		}
	}
	for _, hooks := range p.HooksIn {
		if !filepath.IsLocal(hooks) || filepath.Clean(hooks) == "." {
			return fmt.Errorf("the hooks %q of a sandbox are not below a checkout", hooks)
		}
	}
	for _, ref := range p.Refs {
		if !strings.HasPrefix(ref, "refs/") || !filepath.IsLocal(ref) {
			return fmt.Errorf("the references %q of a sandbox are no folder of them", ref)
		}
	}
	l := p.Limits
	if l.Memory < 0 || l.Processes < 0 || l.FileSize < 0 || l.Free < 0 || l.FileSize > 0 && l.FileSize < leastFileSize {
		return fmt.Errorf("the limits of a sandbox are out of bounds: %+v", l)
	}
	return nil
}

// confines reports whether the profile takes anything from a command's thread.
func (p *Profile) confines() bool {
	return p != nil && (p.Files != Full || p.Network != NetworkFull)
}

// kind tells shims apart: one that served a command of another kind keeps traces of it.
func (p *Profile) kind() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%v %d %s", p.confines(), p.Limits.FileSize, p.Proxy)
}

// nested reports whether a shim for this profile is started in a user namespace of its own, where it may make
// the other namespaces. Who may anyhow needs none.
func (p *Profile) nested() bool { return p.confines() && !mayAdmin() }

// mayAdmin reports whether this thread may make namespaces.
func mayAdmin() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
