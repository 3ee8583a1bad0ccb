package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"taskdaemon/internal/td"
)

// Author and committer of everything taskdaemon commits on its own behalf.
const (
	authorName  = "taskdaemon"
	authorEmail = "taskdaemon@localhost"
)

// killGrace is how long a cancelled git's children may hold its pipes open.
const killGrace = 2 * time.Second

// call is one run of git.
type call struct {
	dir   string   // where it runs
	own   bool     // in a repository of ours: no system or personal config applies
	keep  bool     // what it writes must survive a power cut
	bulk  bool     // with keep: objects are synced together, and an index not at all, as it can be made again
	far   bool     // it speaks with a remote
	set   []string // settings, as name=value
	env   []string // on top of the clean environment
	args  []string
	stdin io.Reader
}

// run runs git to its end and returns what it printed.
func run(ctx context.Context, c call) ([]byte, error) {
	cmd, err := command(ctx, c)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	said := &tail{max: 4 << 10}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, &out, said
	if err = start(cmd, c); err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.Bytes(), failure(ctx, c.args, err, said.String())
	}
	return out.Bytes(), nil
}

// start starts git. What is written to a repository of ours is waited for by nobody, and yields the processor to all that is.
func start(cmd *exec.Cmd, c call) error {
	err := cmd.Start()
	if err == nil && c.own && c.keep {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, yielding)
	}
	return err
}

// yielding is the nice value of such a git: about a tenth of what others get.
const yielding = 10

// line is run for commands that print one line.
func line(ctx context.Context, c call) (string, error) {
	out, err := run(ctx, c)
	return strings.TrimRight(string(out), "\n"), err
}

// settings hold for every call: nothing of the user's runs, and nothing runs on behind our back.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "log.showSignature=false",
	"gc.auto=0", "maintenance.auto=false", "advice.addEmbeddedRepo=false",
}

// command prepares git with a clean environment and our settings.
func command(ctx context.Context, c call) (*exec.Cmd, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	set := slices.Concat(settings, c.set)
	if c.own {
		set = append(set, "safe.directory="+c.dir)
	} else {
		// Plain files of a workspace that look like a repository are none: its settings would name commands.
		set = append(set, "safe.bareRepository=explicit")
	}
	if c.keep {
		sync, err := durability(ctx, path)
		if err != nil {
			return nil, err
		}
		set = append(set, sync)
		if c.bulk && sync == syncAll {
			set = append(set, "core.fsync=loose-object,reference", "core.fsyncMethod=batch")
		}
	}
	var args []string
	for _, s := range set {
		args = append(args, "-c", s)
	}
	cmd := exec.CommandContext(ctx, path, append(args, c.args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(environ(c.own), c.env...)
	// git's helpers must go with it, and a Ctrl-C at the terminal is not meant for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.far {
		cmd.Env = append(cmd.Env, farEnviron()...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // ssh would ask at the terminal
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killGrace
	return cmd, nil
}

func binary() (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", td.Errorf(td.Unavailable, "find git: %w", err).
			WithHint("install git and make sure it is on the PATH")
	}
	return path, nil
}

// passed are the variables git gets of this process's environment: what it needs to find itself, its
// settings and its temporary folder. A filter that a repository names runs as a child of git and must
// find no key there.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME"}

// keepMemory tells glibc to give memory back to the system only when much of it is free. git takes a quarter of a megabyte to compress
// an object and frees it again; to ask the system for it each time was two fifths of what an import cost.
const keepMemory = "MALLOC_TRIM_THRESHOLD_=16777216"

func environ(own bool) []string {
	var env []string
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	env = append(env,
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", keepMemory,
		"GIT_AUTHOR_NAME="+authorName, "GIT_AUTHOR_EMAIL="+authorEmail,
		"GIT_COMMITTER_NAME="+authorName, "GIT_COMMITTER_EMAIL="+authorEmail,
	)
	if own {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	}
	return env
}

// farPassed are the variables a git that speaks with a remote gets besides: how to get there, and the agent that
// holds the user's keys.
var farPassed = []string{
	"SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

func farEnviron() []string {
	// Addresses of other kinds are commands.
	env := []string{"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh"}
	for _, name := range farPassed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// failure gives git's failure its kind and quotes what it said.
func failure(ctx context.Context, args []string, err error, said string) error {
	verb := "git " + args[0]
	if ctx.Err() != nil {
		return td.Errorf(td.Interrupted, "%s: %w", verb, context.Cause(ctx))
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) && said == "" {
		return td.Errorf(td.NotFound, "%s: %w", verb, err)
	}
	said = strings.TrimSpace(said)
	if said == "" {
		return td.Errorf(td.Internal, "%s: %w", verb, err)
	}
	kind, hint := judge(said)
	return &td.Error{Kind: kind, Hint: hint, Err: fmt.Errorf("%s: %w: %q", verb, err, said)}
}

const notRepository = "not a git repository"

// signs are words of git, in the C locale, that tell the kind of a failure.
var signs = []struct {
	words string
	kind  td.Kind
	hint  string
}{
	{notRepository, td.NotFound, ""},
	{"must be run in a work tree", td.NotFound, ""},
	{"dubious ownership", td.Refused, "the repository belongs to another user; see git's safe.directory"},
	{"No space left on device", td.Storage, "free some space on the disk"},
	{"Disk quota exceeded", td.Storage, "free some space on the disk"},
	{"Read-only file system", td.Storage, ""},
	{"Input/output error", td.Storage, ""},
	{".lock': File exists", td.Locked, ""},
	{"could not lock config file", td.Locked, ""},
	{"Another git process seems to be running", td.Locked, ""},
	{"cannot lock ref", td.Conflict, ""},
	{"Not updating refs/", td.Conflict, ""},
	{"refusing to merge unrelated histories", td.Conflict, ""},
	{"is corrupt", td.Corrupt, "taskdaemon doctor"},
	{"missing blob", td.Corrupt, "taskdaemon doctor"},
	{"missing tree", td.Corrupt, "taskdaemon doctor"},
	{"bad object", td.Corrupt, "taskdaemon doctor"},
	{"Permission denied", td.Storage, ""},
}

func judge(said string) (td.Kind, string) {
	for _, s := range signs {
		if strings.Contains(said, s.words) {
			return s.kind, s.hint
		}
	}
	return td.Internal, ""
}

// tail keeps the last bytes written to it: a flood of warnings must not fill the memory.
type tail struct {
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }
