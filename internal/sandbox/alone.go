package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

// A person's program that runs in a workspace (a hook) is not confined, and a job of the agent's could change under its eyes what its git
// runs. So it runs alone there: the shims of all commands that could change the folder keep them still, take away what a command must not
// leave, and let them go on when the program has ended. Who asks and until when is on disk, so that neither the
// daemon nor the program has to live for a job to go on.

// Names of requests in the spool folder of a command: to be still, and that it is. The rest of the name is the id of the spec that asks.
const (
	askPrefix  = "still-"
	heldPrefix = "held-"
)

// heldWithin is how long a shim may take to keep its command still and to look around, before the command is ended.
const heldWithin = stillWithin + disarmFor + 2*time.Second

var (
	fpAloneAsked = failpoint.New("sandbox.alone.asked")
	fpAloneHeld  = failpoint.New("sandbox.alone.held")
	fpShimHeld   = failpoint.New("sandbox.shim.held")
)

// standby is what a shim is asked: to keep its command still while another runs.
type standby struct {
	Dir string    `json:"dir"` // the spool folder of the other
	ID  string    `json:"id"`  // of its spec
	By  td.Holder `json:"by"`  // the daemon that is about to start it
}

func decodeStandby(raw []byte) (a standby, err error) {
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, td.Errorf(td.Corrupt, "parse a request to be still: %w", err)
	}
	return a, nil
}

// over reports whether the command that is to be alone has ended, or will not begin.
func (a standby) over() bool {
	if sp, err := load(a.Dir, specFile, decodeSpec); err != nil || sp.ID != a.ID {
		return true
	}
	state, _ := probe(a.Dir, false)
	return state != StillRunning && (state != NeverStarted || exists(a.Dir, voidFile) || !Alive(a.By))
}

// changes reports whether a command with this profile can change what is in dir or what it is in. One that is not confined needs no trick.
func (p *Profile) changes(dir string) bool {
	if p == nil || p.Files != WorkspaceWrite {
		return false
	}
	return slices.ContainsFunc(append([]string{p.Workspace}, p.Write...), func(path string) bool {
		path = resolved(path)
		return path != "" && (covered(path, []string{dir}) || covered(dir, []string{path}))
	})
}

// register notes which folder a command is alone in, after all that were starting have started.
func (s *Spool) register(spoolDir, dir string) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.alone[spoolDir] = resolved(dir)
}

// admit waits until nobody is alone in a folder that this command can change. From then on it counts as starting, until admitted is called.
func (s *Spool) admit(ctx context.Context, p *Profile) (admitted func(), err error) {
	for {
		s.gate.RLock()
		busy := ""
		for spoolDir, dir := range s.alone {
			if p.changes(dir) {
				busy = spoolDir
				break
			}
		}
		if busy == "" {
			return s.gate.RUnlock, nil
		}
		s.gate.RUnlock()
		if state, _ := probe(busy, false); state != StillRunning && (state != NeverStarted || exists(busy, voidFile)) {
			s.gate.Lock()
			delete(s.alone, busy)
			s.gate.Unlock()
			continue
		}
		if err := sleep(ctx, pollMost); err != nil {
			return nil, err
		}
	}
}

// holdOthers has all commands kept still that could change the folder of cmd, whose own spool folder is dir. One that cannot be is ended.
func (s *Spool) holdOthers(ctx context.Context, dir, id string, cmd Command) error {
	s.register(dir, cmd.Dir)
	self, err := Self()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(standby{Dir: dir, ID: id, By: self})
	if err != nil {
		return fmt.Errorf("encode a request to be still: %w", err)
	}
	entries, err := s.List()
	if err != nil {
		return err
	}
	at := resolved(cmd.Dir)
	var asked []string
	for _, e := range entries {
		other := filepath.Join(s.Dir, e.Name)
		if e.State != StillRunning || other == dir {
			continue
		}
		sp, err := load(other, specFile, decodeSpec)
		if err != nil || !sp.Profile.changes(at) {
			continue
		}
		if err := replaceFile(other, askPrefix+id, raw); err != nil {
			return td.Errorf(td.Storage, "ask %s to be still: %w", e.Name, err)
		}
		_ = signal(e.Shim, syscall.SIGCONT)
		asked = append(asked, other)
	}
	fpAloneAsked.Hit()
	for _, other := range asked {
		if err := s.awaitHeld(ctx, other, id); err != nil {
			return err
		}
	}
	fpAloneHeld.Hit()
	return nil
}

// awaitHeld returns when the command in a spool folder is still, or has ended.
func (s *Spool) awaitHeld(ctx context.Context, dir, id string) error {
	begin := time.Now()
	for wait := pollFirst; !exists(dir, heldPrefix+id); wait = min(2*wait, pollMost) {
		if state, _ := probe(dir, false); state != StillRunning {
			return nil
		}
		if time.Since(begin) > heldWithin {
			return kill(ctx, dir)
		}
		// It may have come before the shim listened, or while it was at something else.
		if h, err := load(dir, lockFile, decodeHolder); err == nil {
			_ = signal(h, syscall.SIGCONT)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile makes a file of a spool folder, whole from the moment that it has its name.
func replaceFile(dir, name string, raw []byte) error {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".tmp", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// standbys are the requests in this shim's folder: the names of those that stand, and whether any of them was not met yet.
func (s *shim) standbys() (names []string, fresh bool) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, false
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, askPrefix) && !strings.HasPrefix(name, heldPrefix) || strings.HasSuffix(name, ".tmp") {
			continue
		}
		a, err := load(s.dir, name, decodeStandby)
		if err != nil || a.over() {
			_ = os.Remove(filepath.Join(s.dir, name))
			continue
		}
		names = append(names, name)
		fresh = fresh || strings.HasPrefix(name, askPrefix)
	}
	return names, fresh
}

// standBy keeps the command still as long as it is asked for, without what it must not leave. It returns errTold when the shim is told to end the
// command meanwhile, and another error if the command cannot be kept still.
func (s *shim) standBy(c *cell) error {
	if names, _ := s.standbys(); len(names) == 0 {
		return nil
	}
	held, err := stillTree()
	if err != nil {
		return err
	}
	defer held.release()
	if err := s.tidyHeld(c, held); err != nil {
		return err
	}
	fpShimHeld.Hit()
	for wait := pollFirst; ; wait = min(2*wait, pollMost) {
		names, fresh := s.standbys()
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if id, is := strings.CutPrefix(name, askPrefix); is {
				_ = os.Rename(filepath.Join(s.dir, name), filepath.Join(s.dir, heldPrefix+id))
			}
		}
		if fresh {
			wait = pollFirst
		}
		select {
		case <-s.signals:
			return errTold
		case <-s.asked:
		case <-time.After(wait):
		}
	}
}

// tidyHeld takes away what a command that is held must not leave. If a part of it dies meanwhile, what was judged may have been changed by that, and is judged again.
func (s *shim) tidyHeld(c *cell, held *stillness) error {
	if c == nil {
		return nil
	}
	for {
		before, err := held.settle()
		if err != nil {
			return err
		}
		removed, left := s.tidy(c)
		s.removed, s.left = append(s.removed, removed...), append(s.left, left...)
		if now, err := held.settle(); err != nil || now == before { // they only become fewer
			return err
		}
	}
}
