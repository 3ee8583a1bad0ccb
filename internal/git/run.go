package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/sandbox"
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
	dir    string   // where it runs
	own    bool     // in a repository of ours: its settings are what we wrote
	person bool     // it reads the settings of the machine and of the person
	far    bool     // it speaks with a remote over the network, for the person: see bridge
	keep   bool     // what it writes must survive a power cut
	bulk   bool     // with keep: objects are synced together, and an index not at all, as it can be made again
	set    []string // settings, as name=value
	env    []string // on top of the clean environment
	args   []string
	stdin  io.Reader
	idle   bool // nobody here has it wait, so that it does not sleep long: see mayIdle
}

// most bounds what is kept of the output of one git: a handful of objects can make a tree of millions of paths, and each level of it ten times as many.
var most = bound{bytes: 64 << 20, records: 500_000}

type bound struct{ bytes, records int }

// bounded keeps what git prints, up to a bound. What goes beyond it ends git: nobody reads on.
type bounded struct {
	kept    bytes.Buffer // a field: its ReadFrom would go past the bound
	most    bound
	records int // that ended
	over    string
}

func (b *bounded) Write(p []byte) (int, error) {
	b.records += bytes.Count(p, []byte{0})
	switch {
	case b.kept.Len()+len(p) > b.most.bytes:
		b.over = fmt.Sprintf("%d bytes", b.most.bytes)
	case b.records > b.most.records:
		b.over = fmt.Sprintf("%d entries", b.most.records)
	default:
		return b.kept.Write(p)
	}
	return 0, io.ErrShortWrite
}

// mayTake is how much memory one git may have of its own. A few objects, or a list of attributes without an end, make it take any amount.
var mayTake uint64 = 4 << 30

// mayCompute is how long a git may compute. What others wait for may do so for less: histories can be made of which a merge never comes to an end. Of a repository of ours we know what is in it.
func mayCompute(c call) time.Duration {
	switch {
	case c.own:
		return 0
	case c.args[0] == "merge-tree" || c.args[0] == "merge-base":
		return shortCompute
	}
	return longCompute
}

var shortCompute, longCompute = 2 * time.Minute, 10 * time.Minute

// mayIdle is how long a git may sleep that nobody here has wait.
var mayIdle = time.Minute

// run runs git to its end and returns what it printed. Refused if that is more than can be kept.
func run(ctx context.Context, c call) ([]byte, error) { return runIn(ctx, c, siteOf(c)) }

// runIn is run for a git that sees what the site says.
func runIn(ctx context.Context, c call, at site) ([]byte, error) {
	out := bounded{most: most}
	switch c.stdin.(type) {
	case nil, *strings.Reader, *bytes.Reader, *bytes.Buffer:
		c.idle = true
	}
	err := pipeIn(ctx, c, at, &out)
	for try := 1; try < mostRaces && raced(c, err) && ctx.Err() == nil; try++ {
		out = bounded{most: most}
		err = pipeIn(ctx, c, at, &out)
	}
	if out.over != "" && ctx.Err() == nil {
		return nil, td.Errorf(td.Refused, "git %s: it lists more than %s, which is more than taskdaemon reads", c.args[0], out.over).
			WithHint("%s", adviceAt(c.dir, "git -C %s ls-tree -r HEAD | wc -l counts the files of a commit", c.dir))
	}
	return out.kept.Bytes(), err
}

// mostRaces bounds how often refs are changed again that lost a race for a folder.
const mostRaces = 20

// folderGone is what git says when it made the folders for a new ref, and another git that deleted the last ref in them took them away again, several times over.
const folderGone = "unable to create directory for"

// raced reports whether a change of refs failed for that alone, and readies it to be made again: git changes all of them or none.
func raced(c call, err error) bool {
	if err == nil || c.args[0] != "update-ref" || !strings.Contains(err.Error(), folderGone) {
		return false
	}
	switch in := c.stdin.(type) {
	case nil:
		return true
	case io.Seeker:
		_, err := in.Seek(0, io.SeekStart)
		return err == nil
	}
	return false
}

// pipe is run for what is too long to be kept in memory.
func pipe(ctx context.Context, c call, out io.Writer) error { return pipeIn(ctx, c, siteOf(c), out) }

func pipeIn(ctx context.Context, c call, at site, out io.Writer) error {
	p, err := commandIn(ctx, c, at)
	if err != nil {
		return err
	}
	said := &tail{max: 4 << 10}
	p.stdin, p.stdout, p.stderr = c.stdin, out, said
	if c.idle {
		p.launch.Idle = mayIdle
	}
	if err = p.start(); err == nil {
		err = p.wait()
	}
	switch {
	case err == nil:
		return nil
	case computedTooLong(err) && ctx.Err() == nil:
		return td.Errorf(td.Refused, "git %s: it computed for %s without coming to an end, and was stopped", c.args[0], mayCompute(c)).
			WithHint("%s", adviceAt(c.dir, "git -C %s log --graph --oneline shows the history that it has to go through", c.dir))
	case errors.Is(err, sandbox.ErrIdle):
		return td.Errorf(td.Unavailable, "git %s: %w after %s", c.args[0], err, mayIdle).
			WithHint("find %s -type p lists named pipes, on which git waits for ever: remove them", c.dir)
	case p.partial && ctx.Err() == nil && missesObjects(said.String()):
		return td.Errorf(td.Refused, "git %s: the repository is a partial clone and lacks objects: %q", c.args[0], strings.TrimSpace(said.String())).
			WithHint("git fetch --refetch --no-filter, then try again: taskdaemon fetches nothing by itself")
	}
	return failure(ctx, c.args, err, said.String())
}

// computedTooLong reports whether a git was ended because it computed too long.
func computedTooLong(err error) bool {
	exit, is := errors.AsType[*exitError](err)
	return is && exit.status.Signaled() && exit.status.Signal() == syscall.SIGXCPU
}

// missesObjects reports whether git said that it has not got an object.
func missesObjects(said string) bool {
	return slices.ContainsFunc([]string{"bad file", "bad tree", "missing", "unable to read", "could not fetch", "bad object", "could not get object info"}, func(words string) bool {
		return strings.Contains(said, words)
	})
}

// yielding is the nice value of a git that nobody waits for: about a tenth of what others get.
const yielding = 10

// line is run for commands that print one line.
func line(ctx context.Context, c call) (string, error) {
	out, err := run(ctx, c)
	return strings.TrimRight(string(out), "\n"), err
}

// fixed are the settings of every call: nothing runs on behind our back, and nothing of a repository's runs at all. What is not listed
// here cannot run either: no program but git is in its view.
var fixed = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "log.showSignature=false", "protocol.allow=never", "submodule.recurse=false",
	"gc.auto=0", "maintenance.auto=false", "advice.addEmbeddedRepo=false",
}

// command prepares a git.
func command(ctx context.Context, c call) (*process, error) { return commandIn(ctx, c, siteOf(c)) }

// commandIn prepares a git that sees what the site says. It is the only place where one is made that works in a repository.
func commandIn(ctx context.Context, c call, at site) (*process, error) {
	if _, err := os.Stat(c.dir); err != nil {
		return nil, td.Errorf(td.NotFound, "git %s: %w", c.args[0], err)
	}
	if at.refuse != nil {
		return nil, at.refuse
	}
	prog, err := findProgram(ctx)
	if err != nil {
		return nil, err
	}
	may, err := accessOf(c)
	if err != nil {
		return nil, err
	}
	set := slices.Concat(fixed, c.set)
	env := environ(prog, c)
	var lent []string
	partial := false
	standsIn := map[string]string{}
	switch {
	case c.own:
		set = append(set, "safe.directory="+real(c.dir))
		if at.common != "" {
			lent = lenders(filepath.Join(at.common, "objects"))
		}
	case !c.person:
		// Plain files of a workspace that look like a repository are none: its settings would name commands.
		set = append(set, "safe.bareRepository=explicit")
		if at.common == "" {
			break
		}
		said, err := configs.of(ctx, at)
		if err != nil {
			return nil, err
		}
		partial = len(said.namedBy("remote", "promisor")) > 0
		if lent, err = said.lenders(at); err != nil {
			return nil, err
		}
		more, lists := said.listed(at)
		set, lent = append(set, more...), append(lent, lists...)
		standsIn[filepath.Join(at.common, "config")] = said.text()
		if _, mounts, err := launcher.Lacks(); err != nil {
			return nil, err
		} else if !mounts {
			env = append(env, said.silenced()...)
		}
	}
	if alternates := variable(c.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES"); alternates != "" {
		lent = append(lent, gitfile.UnquoteAlternate(alternates))
	}
	if c.keep {
		sync := durabilityOf(prog.version)
		set = append(set, sync)
		if c.bulk && sync == syncAll {
			set = append(set, "core.fsync=loose-object,reference", "core.fsyncMethod=batch")
		}
	}
	args := []string{"git"}
	for _, s := range set {
		args = append(args, "-c", s)
	}
	l := sandbox.Launch{View: at.view(may, prog, lent), Path: prog.path, Args: append(args, c.args...), Env: lastOf(append(env, c.env...)), Dir: real(c.dir)}
	l.View.Files = standsIn
	l.Memory, l.CPU = mayTake, mayCompute(c)
	if may != reads && !c.own {
		l.View.Blank = at.logsOfTasks(may)
	}
	l.View.Links = linksTo(slices.Concat([]string{c.dir}, c.env, at.ways))
	if c.own && c.keep {
		l.Nice = yielding // nobody waits for it
	}
	return &process{ctx: ctx, launch: l, far: c.far, partial: partial}, nil
}

// installed reports whether there is a git at all, wherever.
func installed() bool {
	_, err := exec.LookPath("git")
	return !errors.Is(err, exec.ErrNotFound)
}

func binary() (string, error) {
	path, err := sandbox.Program("git")
	if err != nil {
		return "", td.Errorf(td.Unavailable, "find git: %w", err).
			WithHint("install git and make sure that it is in a folder of PATH that lies outside of your projects")
	}
	return path, nil
}

// keepMemory tells glibc to give memory back to the system only when much of it is free. git takes a quarter of a megabyte to compress
// an object and frees it again; to ask the system for it each time was two fifths of what an import cost.
const keepMemory = "MALLOC_TRIM_THRESHOLD_=16777216"

// environ is all that a git gets of an environment. Nothing of this process's own is passed on.
func environ(p *program, c call) []string {
	env := []string{
		"PATH=" + p.lib, "GIT_EXEC_PATH=" + p.lib, "LC_ALL=C", "HOME=/nonexistent", keepMemory,
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_ATTR_NOSYSTEM=1",
		"GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false",
		"GIT_AUTHOR_NAME=" + authorName, "GIT_AUTHOR_EMAIL=" + authorEmail,
		"GIT_COMMITTER_NAME=" + authorName, "GIT_COMMITTER_EMAIL=" + authorEmail,
	}
	if !c.far {
		env = append(env, "GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_SSH_COMMAND=false")
	}
	if !c.person {
		env = append(env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	}
	return env
}

// lastOf keeps the last of the variables of one name: programs would take the first.
func lastOf(env []string) (out []string) {
	at := map[string]int{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

// linksTo are the symbolic links on the way to the paths that a git is given, by name or in its environment.
func linksTo(words []string) map[string]string {
	links := map[string]string{}
	for _, w := range words {
		if name, value, is := strings.Cut(w, "="); is && (strings.HasPrefix(name, "GIT_") || name == "HOME" || name == "XDG_CONFIG_HOME") {
			w = value
		}
		if !filepath.IsAbs(w) {
			continue
		}
		for _, at := range gitfile.WayOf(w).Links {
			if text, err := os.Readlink(at); err == nil {
				links[at] = text
			}
		}
	}
	return links
}

// failure gives git's failure its kind and quotes what it said.
func failure(ctx context.Context, args []string, err error, said string) error {
	verb := "git " + args[0]
	if ctx.Err() != nil {
		return td.Errorf(td.Interrupted, "%s: %w", verb, context.Cause(ctx))
	}
	if td.IsKind(err, td.Unavailable) {
		return fmt.Errorf("%s: %w", verb, err) // it could not be started
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
	{"Out of memory", td.Refused, "it takes more memory than taskdaemon lets a git have: look for odd files, as a .gitattributes without an end"},
	{"No space left on device", td.Storage, "free some space on the disk"},
	{"Disk quota exceeded", td.Storage, "free some space on the disk"},
	{"Read-only file system", td.Storage, ""},
	{"Input/output error", td.Storage, ""},
	{".lock': File exists", td.Locked, ""},
	{"could not lock config file", td.Locked, ""},
	{"Another git process seems to be running", td.Locked, ""},
	{folderGone, td.Locked, ""},
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
