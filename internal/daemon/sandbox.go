package daemon

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/config"
	"taskdaemon/internal/sandbox"
)

// ProxySocket is where the proxy of commands without a network of their own listens.
func ProxySocket(stateDir string) string { return filepath.Join(stateDir, "run", "proxy") }

// profiles is what the commands of tools may do in each workspace; nil where the sandbox is off.
func profiles(o Options) func(workspace string) *sandbox.Profile {
	c := o.Config.Sandbox
	if c.Mode == config.SandboxOff {
		return nil
	}
	home := o.Getenv("HOME")
	base := sandbox.Profile{
		Files:    sandbox.Files(c.Profile),
		Network:  sandbox.Network(c.Network),
		Required: c.Mode == config.SandboxRequired,
		Proxy:    ProxySocket(o.StateDir),
		Limits:   sandbox.Limits{Memory: int64(c.Memory), Processes: c.Processes, FileSize: int64(c.FileSize)},
		Write:    append(sandbox.Caches(o.Getenv), paths(c.Write, home)...),
		Hide:     append(sandbox.Hidden(o.Getenv), paths(c.Hide, home)...),
	}
	base.Hide = append(base.Hide, o.StateDir)
	if o.UserDir != "" {
		// Skills lie there, too, and are for commands to use.
		base.Hide = append(base.Hide, filepath.Join(o.UserDir, "config.yaml"), filepath.Join(o.UserDir, "hooks"))
	}
	if base.Limits.Memory == 0 {
		base.Limits.Memory = threeQuarters()
	}
	return func(workspace string) *sandbox.Profile {
		p := base
		p.Workspace = workspace
		return &p
	}
}

// threeQuarters of the machine's memory.
func threeQuarters() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) / 4 * 3
}

// paths are the words of a list separated by commas, with ~ for the home folder.
func paths(list, home string) []string {
	var out []string
	for p := range strings.SplitSeq(list, ",") {
		p = strings.TrimSpace(p)
		if rest, ok := strings.CutPrefix(p, "~"); ok {
			p = home + rest
		}
		if p != "" {
			out = append(out, filepath.Clean(p))
		}
	}
	return out
}
