package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/config"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/git"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/sandbox/proxy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/webfetch"
)

// ProxySocket is where the proxy of commands without a network of their own listens.
func ProxySocket(stateDir string) string { return filepath.Join(stateDir, "run", "proxy") }

// runRefs are the references of the branches that tasks' own worktrees are on, each in a folder of its task: all that its commands may write. Which
// these are goes by the task's record, which a command cannot change, and not by what a worktree says of itself.
const runRefs = "refs/heads/taskdaemon/run/"

// ofProject is what commands in a task's worktree may read of the folder of the project that it lies in: its skills, and what programs look
// for in the folders above. The rest is the person's checkout, with whatever they keep in it besides what is committed.
var ofProject = []string{".taskdaemon/skills", ".claude/skills", "node_modules", ".venv", "venv"}

// profiles is what the commands of tools may do in each workspace; nil where the sandbox is off. tree is the top of the worktree that was made for the task and that the workspace lies in, by the
// task's record; empty: the folder is a person's own, whatever it is called.
func profiles(o Options) func(workspace, tree string) *sandbox.Profile {
	c := o.Config.Sandbox
	if c.Mode == config.SandboxOff {
		return nil
	}
	home := o.Getenv("HOME")
	base := sandbox.Profile{
		Files:    sandbox.Files(c.Profile),
		Network:  sandbox.Network(c.Network),
		Required: c.Mode == config.SandboxRequired,
		GitWrite: c.Git == config.GitWrite,
		Proxy:    ProxySocket(o.StateDir),
		Limits:   sandbox.Limits{Memory: int64(c.Memory), Processes: c.Processes, FileSize: int64(c.FileSize), Free: int64(c.Free)},
		Write:    paths(c.Write, home),
		Cache:    sandbox.Caches(o.Getenv),
		Blank:    sandbox.Blanks(o.Getenv),
		See:      append(sandbox.Readable(o.Getenv), paths(c.Read, home)...),
		Hide:     append(sandbox.Hidden(o.Getenv), paths(c.Hide, home)...),
	}
	base.Hide = append(base.Hide, o.StateDir)
	if filepath.IsAbs(o.Self) {
		base.See = append(base.See, o.Self)
	}
	if o.UserDir != "" {
		base.Hide = append(base.Hide, filepath.Join(o.UserDir, "config.yaml"), filepath.Join(o.UserDir, "hooks"),
			filepath.Join(o.UserDir, "permissions.yaml"), filepath.Join(o.UserDir, "permissions.yaml.lock"))
		base.Seal = append(base.Seal, o.UserDir)
		base.See = append(base.See, filepath.Join(o.UserDir, "skills")) // for commands to use
	}
	if base.Limits.Memory == 0 {
		base.Limits.Memory = threeQuarters()
	}
	return func(workspace, tree string) *sandbox.Profile {
		p := base
		p.Workspace = workspace
		p.Seal = append(slices.Clone(base.Seal), filepath.Join(workspace, config.ProjectFile))
		p.Seal = append(p.Seal, filepath.Join(workspace, td.WorktreeFolder)) // in it others work
		if tree != "" {
			p.Close = []string{filepath.Dir(filepath.Dir(tree))} // the person's checkout, with what they keep in it besides what is committed
		}
		p.Late = func(p *sandbox.Profile) error {
			p.Person = sandbox.Person(git.PersonOf(context.Background(), workspace))
			if p.Files != sandbox.WorkspaceWrite {
				return nil
			}
			in, err := steering(workspace, tree, base.Write)
			p.Hooks, p.HooksIn, p.Settings, p.Seal = in.Hooks, in.Everywhere, in.Settings, slices.Concat(p.Seal, in.Links)
			return err
		}
		if tree != "" && tree == workspace { // below it nothing of .git can be written
			p.Refs = []string{runRefs + filepath.Base(tree)}
			p.See = slices.Clone(base.See)
			for _, name := range ofProject {
				p.See = append(p.See, filepath.Join(filepath.Dir(filepath.Dir(tree)), name))
			}
		}
		if root, ok := graph.Find(workspace); ok {
			p.Seal = append(p.Seal, filepath.Join(root, graph.Folder, graph.LogFile), filepath.Join(root, graph.Folder, graph.PRDFolder))
		}
		return &p
	}
}

// Steering are the files and folders in a folder, and in the checkout that it lies in, that the person's git runs or obeys by its settings, as the rules ask it.
func Steering(o Options) func(dir, tree string) ([]string, error) {
	write := paths(o.Config.Sandbox.Write, o.Getenv("HOME"))
	return func(dir, tree string) ([]string, error) {
		in, err := steering(dir, tree, write)
		return slices.Concat(in.Hooks, in.Settings, in.Links, in.Absent), err
	}
}

// steering is what they are, but for what the person lets commands write. In a task's own worktree a hook of theirs runs git, or they themselves do; there what they let be written
// in their checkout may be, too.
func steering(workspace, tree string, write []string) (git.Steering, error) {
	found, err := git.SteeringOf(context.Background(), workspace)
	if err != nil {
		return git.Steering{}, fmt.Errorf("%w (to mend it: %s)", err, td.HintOf(err)) // whoever is told of it may not be shown hints
	}
	opened := func(path string) bool {
		return slices.ContainsFunc(write, func(dir string) bool {
			if rel, err := filepath.Rel(tree, path); tree != "" && err == nil && filepath.IsLocal(rel) && within(filepath.Join(filepath.Dir(filepath.Dir(tree)), rel), dir) {
				return true
			}
			return within(path, dir)
		})
	}
	return git.Steering{
		Everywhere: found.Everywhere, Hooks: slices.DeleteFunc(found.Hooks, opened), Settings: slices.DeleteFunc(found.Settings, opened), Links: slices.DeleteFunc(found.Links, opened),
		Absent: slices.DeleteFunc(found.Absent, opened),
	}, nil
}

// Enforced reports whether this machine can enforce the whole sandbox. It is tried once, when somebody asks.
func Enforced(o Options) func() bool {
	return sync.OnceValue(func() bool {
		found, err := sandbox.Check(context.Background(), o.Self)
		return err == nil && !slices.ContainsFunc(found, func(f sandbox.Finding) bool { return !f.OK })
	})
}

// Confines reports whether a task's commands in a workspace and a mode can be held by the sandbox, as the engine asks it.
func Confines(o Options, workspace string, mode td.PermissionMode) bool {
	profile := profiles(o)
	return profile != nil && engine.Confines(engine.UnderMode(profile(workspace, ""), mode), Enforced(o))
}

// mayRunGit refuses to go on where the whole sandbox is wanted and the daemon's own git cannot have it.
func mayRunGit(mode string, confined func() error) error {
	if mode != config.SandboxRequired {
		return nil
	}
	if err := confined(); err != nil {
		return td.Errorf(td.Refused, "sandbox.mode is %s, and the daemon's own git cannot be confined on this machine: %w", mode, err).
			WithHint("taskdaemon sandbox check says what is missing; sandbox.mode: %s goes on with what there is", config.SandboxPreferred)
	}
	return nil
}

// Temps are the folders that a command in a workspace has for itself, whatever else is in them on this machine.
func Temps(o Options) func(workspace string) []string {
	profile := profiles(o)
	return func(workspace string) []string {
		if profile == nil {
			return nil
		}
		return profile(workspace, "").PrivateTemps()
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

// proxy lets commands reach the hosts of the config, where the network is the proxy's.
func (d *Daemon) proxy(ctx context.Context) error {
	c := d.o.Config
	if c.Sandbox.Mode == config.SandboxOff || c.Sandbox.Network != string(sandbox.NetworkProxy) {
		return nil
	}
	allowed := hosts(c.Sandbox.Hosts)
	private := hosts(c.Web.AllowPrivate)
	for _, h := range allowed {
		if name, _, _ := strings.Cut(h, ":"); !strings.ContainsAny(name, "*?[") {
			private = append(private, name) // named itself, not only meant by a pattern
		}
	}
	web, err := webfetch.New(webfetch.Options{AllowPrivate: private})
	if err != nil {
		return fmt.Errorf("set sandbox.hosts: %w", err)
	}
	l, err := listenProxy(ProxySocket(d.o.StateDir))
	if err != nil {
		return err
	}
	return proxy.Serve(ctx, l, proxy.Options{Hosts: allowed, Dial: web.Dial, Log: d.o.Log})
}

// listenProxy replaces what a dead daemon left: the folder's lock says that there is no other.
func listenProxy(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, td.Errorf(td.Storage, "remove the proxy's old socket: %w", err)
	}
	addr, done, err := wire.Address(path)
	if err != nil {
		return nil, td.Errorf(td.Storage, "listen on %s: %w", path, err)
	}
	defer done()
	l, err := net.Listen("unix", addr)
	if err != nil {
		return nil, td.Errorf(td.Storage, "listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(td.Errorf(td.Storage, "protect %s: %w", path, err), l.Close())
	}
	return l, nil
}

// weigh says in the log what this machine cannot enforce, once: a sandbox with holes must not be silent.
func (d *Daemon) weigh(ctx context.Context) error {
	if d.o.Config.Sandbox.Mode == config.SandboxOff {
		return nil
	}
	found, err := sandbox.Check(ctx, d.o.Self)
	if err != nil && ctx.Err() == nil {
		d.o.Log.Warn("try the sandbox", "err", err)
	}
	for _, f := range found {
		if !f.OK {
			d.o.Log.Warn("the sandbox lacks something", "what", f.Name, "why", f.Detail, "hint", f.Hint)
		}
	}
	return nil
}
