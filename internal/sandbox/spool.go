package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

// startLimit bounds how long a shim may take to say that its command has started.
const startLimit = 10 * time.Second

// mostStarting is how many commands may be starting at once. The start of a shim is work for the processor, and the kernel may give each
// shim as much of it as the daemon: five hundred that start together would keep it from renewing its claims.
var mostStarting = max(4, 2*runtime.NumCPU())

// staleAfter is the age at which a half-made or half-removed folder is known to be a dead daemon's.
const staleAfter = time.Minute

var (
	fpBeforeMkdir  = failpoint.New("sandbox.start.before_mkdir")
	fpAfterMkdir   = failpoint.New("sandbox.start.after_mkdir")
	fpAfterSpec    = failpoint.New("sandbox.start.after_spec")
	fpReplaced     = failpoint.New("sandbox.start.replaced")
	fpBeforeSpawn  = failpoint.New("sandbox.start.before_spawn")
	fpAfterSpawn   = failpoint.New("sandbox.start.after_spawn")
	fpAfterStarted = failpoint.New("sandbox.start.after_started")
	fpBeforeClaim  = failpoint.New("sandbox.find.before_claim")
	fpBeforeRemove = failpoint.New("sandbox.remove.before_remove")
	fpAfterAside   = failpoint.New("sandbox.remove.after_rename")
)

// Spool is the folder in which commands run under shims, one folder each. Its methods are safe for
// concurrent use. The zero values of the fields but Dir and Self are useful.
type Spool struct {
	Dir  string // absolute
	Self string // the taskdaemon binary, which is the shim, too
	// Warm is how many idle shims are kept at hand, so that a command does not wait for the start of the
	// binary. With two, one gets ready while the other serves.
	Warm int
	// Nested is whether Preheat makes shims for commands with a profile.
	Nested bool

	nesting sync.Once
	nests   bool // shims can be started in a user namespace

	once     sync.Once
	shell    string
	err      error         // of the first use
	starting chan struct{} // holds one for each command that is starting

	mu      sync.Mutex
	live    map[string]*child      // commands that this spool started and that have not ended
	told    map[string]*child      // those that have, whose results no disk took: they are known here until they are removed
	warm    map[bool][]*carrier    // fresh ones; those that are nested in a namespace of their own, and others
	idle    map[td.TaskID]*carrier // those that served a task
	warming map[bool]int           // shims on their way to warm
	rooms   map[string]bool        // in use, that are no task's
	closed  bool
	gate    sync.RWMutex      // held for reading while a confined command starts
	alone   map[string]string // folders in which a command is alone, by its spool folder
	wg      sync.WaitGroup    // one for each shim that is watched, and for each on its way to warm
}

var _ Process = (*child)(nil)

// prepare makes the folder at the first use and clears what a dead daemon left half-done in it.
func (s *Spool) prepare() error {
	s.once.Do(func() {
		s.live, s.told, s.idle, s.alone = map[string]*child{}, map[string]*child{}, map[td.TaskID]*carrier{}, map[string]string{}
		s.starting = make(chan struct{}, mostStarting)
		if !filepath.IsAbs(s.Dir) || !filepath.IsAbs(s.Self) {
			s.err = td.Errorf(td.Invalid, "open spool %q of %q: both paths must be absolute", s.Dir, s.Self)
			return
		}
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			s.err = td.Errorf(td.Storage, "make spool folder: %w", err)
			return
		}
		entries, err := os.ReadDir(s.Dir)
		if err != nil {
			s.err = td.Errorf(td.Storage, "read spool folder: %w", err)
			return
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && e.Name()[0] == '.' && time.Since(info.ModTime()) > staleAfter {
				_ = os.RemoveAll(filepath.Join(s.Dir, e.Name()))
			}
		}
		for _, name := range []string{"bash", "sh"} {
			if s.shell, err = Program(name); err == nil {
				return
			}
		}
		s.err = td.Errorf(td.Unavailable, "find a shell: %w", err)
	})
	return s.err
}

// Reserve makes the spool folder of a name before it is on record that a command is to run under it. A name that is on record and has no
// folder has lost it, so that nobody can say whether its command ran.
func (s *Spool) Reserve(name string) error {
	if err := s.prepare(); err != nil {
		return err
	}
	dir, err := s.path(name)
	if err != nil {
		return err
	}
	err = os.Mkdir(dir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) && !exists(dir, specFile) {
		err = create(dir, reservedFile)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return td.Errorf(td.Storage, "reserve spool folder of %s: %w", name, disk.Own(err))
	}
	return nil
}

// Start runs cmd under a shim, in the spool folder of this name, and returns when it counts as started.
// An error means that it did not start and never will, unless it is ErrLost. A name that was used before
// is a conflict unless its command never started.
func (s *Spool) Start(ctx context.Context, name string, cmd Command) (Process, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if cmd.Timeout <= 0 {
		return nil, td.Errorf(td.Invalid, "start %s: no time limit", name)
	}
	if err := cmd.direct(); err != nil {
		return nil, td.Errorf(td.Conflict, "start %s: %w", name, err)
	}
	if cmd.Profile != nil {
		if err := s.complete(&cmd); err != nil {
			return nil, err
		}
	}
	dir, id, err := s.makeRoom(ctx, name, cmd)
	if err != nil {
		return nil, disk.Own(err)
	}
	if cmd.Profile.confines() {
		admitted, err := s.admit(ctx, cmd.Profile)
		if err != nil {
			return nil, s.never(dir, err)
		}
		defer admitted()
	}
	select {
	case s.starting <- struct{}{}: // whoever came first goes first
	case <-ctx.Done():
		return nil, s.never(dir, context.Cause(ctx))
	}
	defer func() { <-s.starting }()
	fpBeforeSpawn.Hit()
	c, err := s.handOver(name, dir, id, cmd)
	if err != nil {
		state, perr := probe(dir, true)
		if state != NeverStarted {
			return nil, fmt.Errorf("start %s: %w: %w", name, ErrLost, errors.Join(err, perr))
		}
		return nil, td.Errorf(td.Unavailable, "start %s: %w", name, err) // its folder says so until it is removed
	}
	fpAfterStarted.Hit()
	if cmd.Background {
		s.warmUp(cmd.Profile.nested()) // others wait until it has ended, to leave it the machine
	}
	return c, nil
}

// makeRoom makes the folder, and where the command is to be alone has the others kept still. It is done before the command waits for its turn: those that
// it waits for may need one.
func (s *Spool) makeRoom(ctx context.Context, name string, cmd Command) (dir, id string, err error) {
	dir, id, err = s.makeFolder(name, cmd)
	if err != nil || !cmd.Alone {
		return dir, id, err
	}
	if err := s.holdOthers(ctx, dir, id, cmd); err != nil {
		return "", "", s.never(dir, err)
	}
	return dir, id, nil
}

// never sees to it that a command that was not started never is, and returns why.
func (s *Spool) never(dir string, why error) error {
	if _, err := probe(dir, true); err != nil {
		return errors.Join(why, err)
	}
	return why
}

// complete gives the command's profile its temp folder and the place of its layers, and refuses one that makes no sense.
func (s *Spool) complete(cmd *Command) error {
	p := *cmd.Profile
	if p.Late != nil {
		if err := p.Late(&p); err != nil {
			return fmt.Errorf("no command runs: %w", err)
		}
	}
	if p.confines() && p.Files != Full {
		dir, err := s.tempDir(cmp.Or(cmd.Room, string(cmd.Task), noTask))
		if err != nil {
			return err
		}
		p.Temp = dir
		boot, err := BootID()
		if err != nil {
			return err
		}
		p.Layers = filepath.Join(s.layerDirs(), filepath.Base(dir), boot)
	}
	if err := p.check(); err != nil {
		return td.Errorf(td.Invalid, "start %s: %w", cmd.Step, err)
	}
	cmd.Profile = &p
	return nil
}

// makeFolder puts the spec into the folder, and makes it if it was not reserved: under another name first, so that one with its own
// name is complete.
func (s *Spool) makeFolder(name string, cmd Command) (dir, id string, err error) {
	dir, err = s.path(name)
	if err != nil {
		return "", "", err
	}
	boot, err := BootID()
	if err != nil {
		return "", "", err
	}
	id = rand.Text()
	env := cmd.Profile.environment(os.Environ(), cmd.Env)
	if cmd.Own {
		env = environIn(cmd.Dir, os.Environ(), cmd.Env)
	}
	shell, err := s.shellFor(cmd.Profile, env)
	if err != nil {
		return "", "", err
	}
	raw, err := json.Marshal(spec{
		ID: id, Boot: boot, Shell: shell, Script: cmd.Shell, Dir: cmd.Dir,
		Env:     append(env, marks(s.Dir, cmd)...),
		Timeout: cmd.Timeout, Background: cmd.Background,
		Task: cmd.Task, Run: cmd.Run, Step: cmd.Step, Since: time.Now(), Alone: cmd.Alone, Profile: cmd.Profile,
	})
	if err != nil {
		return "", "", fmt.Errorf("encode spec of %s: %w", name, err)
	}
	if filled, err := fillReserved(dir, raw); filled || err != nil {
		return dir, id, err
	}
	fresh := filepath.Join(s.Dir, ".new-"+id)
	fpBeforeMkdir.Hit()
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return "", "", td.Errorf(td.Storage, "make spool folder of %s: %w", name, err)
	}
	fpAfterMkdir.Hit()
	if err := os.WriteFile(filepath.Join(fresh, specFile), raw, 0o600); err != nil {
		return "", "", td.Errorf(td.Storage, "write spec of %s: %w", name, errors.Join(err, os.RemoveAll(fresh)))
	}
	fpAfterSpec.Hit()
	// A rename over a folder works only when that is empty, and a spool folder never is.
	err = os.Rename(fresh, dir)
	if errors.Is(err, fs.ErrExist) {
		if state, perr := probe(dir, true); state != NeverStarted {
			err = td.Errorf(td.Conflict, "start %s: its command is %s already", name, state)
			return "", "", errors.Join(err, perr, os.RemoveAll(fresh))
		}
		err = s.replace(dir, fresh)
	}
	if err != nil {
		return "", "", td.Errorf(td.Storage, "name spool folder of %s: %w", name, errors.Join(err, os.RemoveAll(fresh)))
	}
	return dir, id, nil
}

// fillReserved puts the spec into a folder that was reserved and that no shim was told of, and reports whether there is one.
func fillReserved(dir string, raw []byte) (bool, error) {
	if !exists(dir, reservedFile) || exists(dir, specFile) {
		return false, nil
	}
	fresh := filepath.Join(dir, specFile+".new")
	err := os.WriteFile(fresh, raw, 0o600)
	fpAfterSpec.Hit()
	if err == nil {
		err = os.Rename(fresh, filepath.Join(dir, specFile))
	}
	if err != nil {
		return false, td.Errorf(td.Storage, "write spec in %s: %w", dir, errors.Join(err, os.RemoveAll(fresh)))
	}
	return true, nil
}

// shellFor is the shell for a command with this profile and environment.
func (s *Spool) shellFor(p *Profile, env []string) (string, error) {
	if p == nil || !p.Outside {
		return s.shell, nil
	}
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			if shell := p.outsideShell(path); shell != "" {
				return shell, nil
			}
		}
	}
	return "", td.Errorf(td.Unavailable, "find a shell: no folder of PATH lies outside of what commands can write")
}

// replace puts one folder in the place of another, at once where the file system can: without one in its place the command would count as lost.
func (s *Spool) replace(dir, fresh string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err == nil {
		fpReplaced.Hit()
		return disk.RemoveAll(fresh)
	}
	if err := s.discard(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

// Find looks for what became of the command started under this name, and claims it if it runs: its time
// limit counts anew. A command that never started never will; one whose folder is gone or cannot be read is lost,
// and the error says why.
func (s *Spool) Find(name string) (Process, ProcessState, error) {
	if err := s.prepare(); err != nil {
		return nil, Lost, err
	}
	dir, err := s.path(name)
	if err != nil {
		return nil, Lost, err
	}
	state, err := probe(dir, true)
	switch state {
	case StillRunning:
		s.mu.Lock()
		c := s.live[name]
		s.mu.Unlock()
		if c != nil {
			return c, state, nil // it runs under this daemon's eyes: no claim is needed
		}
		if sp, err := load(dir, specFile, decodeSpec); err == nil && sp.Alone {
			s.register(dir, sp.Dir)
		}
		fpBeforeClaim.Hit()
		if err := claim(dir); err != nil {
			return nil, state, err
		}
		return adopted{dir}, state, nil
	case Finished:
		return adopted{dir}, state, nil
	case Lost:
		s.mu.Lock()
		c := s.told[name]
		s.mu.Unlock()
		if c != nil {
			return c, Finished, nil
		}
		if !disk.Trouble(err) { // else it may run, and can be looked at later
			killStrays(s.Dir, dir)
		}
	}
	return nil, state, err
}

// Remove forgets a command that has ended or never started. It is gone from Find at once, even if a
// crash leaves its files for the next daemon to clear.
func (s *Spool) Remove(name string) error {
	dir, err := s.path(name)
	if err != nil {
		return err
	}
	switch state, _ := probe(dir, true); state {
	case StillRunning:
		return td.Errorf(td.Conflict, "remove %s: its command is still running", name)
	case Lost:
		killStrays(s.Dir, dir)
	}
	s.mu.Lock()
	delete(s.told, name)
	s.mu.Unlock()
	fpBeforeRemove.Hit()
	if err := s.discard(dir); err != nil {
		return td.Errorf(td.Storage, "remove %s: %w", name, err)
	}
	return nil
}

// discard renames a folder out of the way before it empties it: half a folder would tell a lie.
func (s *Spool) discard(dir string) error {
	aside := filepath.Join(s.Dir, ".old-"+rand.Text())
	if err := os.Rename(dir, aside); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	fpAfterAside.Hit()
	return disk.RemoveAll(aside) // a command can close its folder of objects
}

// Entry is one command in the spool.
type Entry struct {
	Name       string
	State      ProcessState
	Task       td.TaskID
	Run        td.RunID
	Step       td.StepKey
	Background bool
	Since      time.Time
	Shim       td.Holder // zero when no shim runs
	Err        error     // why a lost one cannot be read
}

// List shows every command in the spool. It changes nothing and claims nothing.
func (s *Spool) List() ([]Entry, error) { return list(s.Dir) }

func list(root string) ([]Entry, error) {
	dirs, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, td.Errorf(td.Storage, "read spool folder: %w", err)
	}
	var entries []Entry
	for _, d := range dirs {
		if !d.IsDir() || d.Name()[0] == '.' {
			continue
		}
		dir := filepath.Join(root, d.Name())
		e := Entry{Name: d.Name()}
		e.State, e.Err = probe(dir, false)
		if sp, err := load(dir, specFile, decodeSpec); err == nil {
			e.Task, e.Run, e.Step, e.Background, e.Since = sp.Task, sp.Run, sp.Step, sp.Background, sp.Since
		}
		if h, err := load(dir, lockFile, decodeHolder); err == nil && e.State == StillRunning {
			e.Shim = h
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// path is the folder of a name, which comes from outside and must not lead elsewhere.
func (s *Spool) path(name string) (string, error) {
	if name == "" || len(name) > 200 || name[0] == '.' || strings.ContainsAny(name, "/\x00\n") {
		return "", td.Errorf(td.Invalid, "%q cannot name a spool folder", name)
	}
	return filepath.Join(s.Dir, name), nil
}

// claim tells a shim that a daemon looks after its command.
func claim(dir string) error {
	if err := create(dir, claimFile); err != nil {
		return err
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, claimFile), now, now); err != nil {
		return td.Errorf(td.Storage, "touch claim: %w", err)
	}
	return nil
}
