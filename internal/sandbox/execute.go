package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// notExecuted is the exit code of a command whose shell could not be executed, as shells have it.
const notExecuted = 126

// execute runs the command to its end and the end of all it started, in the cell if there is one.
func (s *shim) execute(c *cell) ProcessResult {
	begin := time.Now()
	r, w, err := os.Pipe()
	if err != nil {
		return s.unable(fmt.Errorf("make pipe: %w", err))
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return s.unable(err)
	}
	var over *watch
	if c != nil {
		over = watchOver(c.repos) // before there is anything to see
		defer over.close()
	}
	var pid int
	fork := func() {
		if pid != 0 || err != nil {
			return
		}
		pid, err = syscall.ForkExec(s.spec.Shell, []string{filepath.Base(s.spec.Shell), "-c", s.spec.Script}, &syscall.ProcAttr{
			Dir:   s.spec.Dir,
			Env:   s.environ(c),
			Files: []uintptr{null.Fd(), w.Fd(), w.Fd()},
			Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
	}
	var limits Limits
	nested := countedAlone(s.spec.Profile)
	if p := s.spec.Profile; p != nil {
		limits = p.Limits
	}
	measure := meter{cell: c, begin: readMachine()}
	s.forkBound(limits, nested, c, fork)
	null.Close()
	w.Close()
	if err != nil {
		return s.unable(fmt.Errorf("run %s in %s: %w", s.spec.Shell, s.spec.Dir, err))
	}
	if s.spec.Profile != nil {
		limits.impose(pid, nested)
	}
	fpShimAfterExec.Hit()

	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		s.pump(r)
	}()
	ended := make(chan syscall.WaitStatus, 1)
	childless := make(chan struct{})
	var taken usage
	go func() {
		defer close(childless)
		taken = reap(pid, ended)
	}()

	var res ProcessResult
	status := s.supervise(begin, ended, over.caughtBy(), measure, c, &res)
	fpShimAfterExit.Hit()
	s.killRest(c, childless)
	removed, left := s.removed, s.left
	var mended, broken, wrong []string
	var lost []error
	if c != nil && s.spec.Profile.Files == WorkspaceWrite { // else nobody noted what there was
		// First what takes no longer than it has to: how long the rest takes is the command's doing.
		over.close()
		gone, kept := s.tidy(c)
		removed, left = slices.Concat(removed, gone, over.removed()), slices.Concat(left, kept)
		fpShimBeforeKeep.Hit()
		lost = append(s.keepPacks(c), s.keepStores(c.repos)...)
		removed = append(removed, s.unlockRefs()...)
		wrong = s.mendObjects(c)
		mended, broken = s.mendRefs(c), append(s.mendIndex(c), s.mendLogs(c)...)
	}
	res.Took, res.Memory, res.CPU = time.Since(begin), max(res.Memory, taken.memory), taken.cpu

	// No process of the command is left, so the pipe has ended, unless one of them handed its end to a
	// stranger: then what is in it by now is all that counts.
	_ = r.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	<-pumped
	if s.island != nil {
		for _, why := range s.island.refused.take() {
			_, _ = fmt.Fprintf(s.rec, "taskdaemon: refused: %s\n", why)
		}
	}
	var said ProcessResult
	s.rec.result(&said)
	if sealed := s.spec.Profile.sealedIn(said.Head, said.Tail); len(sealed) > 0 {
		_, _ = fmt.Fprint(s.rec, howToOpen(sealed))
	}
	removed, failed := failures(removed)
	if len(failed) > 0 {
		_, _ = fmt.Fprintf(s.rec, "taskdaemon: git may run or believe what the command left: %s\n", told(failed))
	}
	if len(removed) > 0 {
		_, _ = fmt.Fprintf(s.rec, "taskdaemon: removed %s: a command may leave in .git only what a commit needs: no hooks, no settings that run programs, no branches of other tasks\n", told(removed))
	}
	if len(left) > 0 {
		_, _ = fmt.Fprintf(s.rec, "taskdaemon: left as they are, for they may be the person's, and may run programs: %s\n", told(left))
	}
	if len(lost) > 0 {
		_, _ = fmt.Fprintf(s.rec, "taskdaemon: %d objects of git could not be stored, commits with them are broken: %v\n", len(lost), lost[0])
	}
	if len(mended) > 0 {
		_, _ = fmt.Fprintf(s.rec, "taskdaemon: set back %s: no commit, one whose history refers to objects that are missing, a branch that is not the task's, or a name that git does not take\n", told(mended))
	}
	if len(wrong) > 0 {
		_, _ = fmt.Fprintf(s.rec, "taskdaemon: removed objects of git: %s: they name objects that are missing or of another kind\n", told(wrong))
	}
	if len(broken) > 0 {
		_, _ = fmt.Fprintf(s.rec, "taskdaemon: removed %s: objects are missing that it leads to; git reset makes an index again\n", told(broken))
	}
	if status.Signaled() {
		res.Exit, res.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	} else {
		res.Exit = status.ExitStatus()
	}
	return res
}

// forkBound starts the command on the thread of its cell, or on this one, so that the kernel bounds how many processes it has, if it can.
func (s *shim) forkBound(l Limits, nested bool, c *cell, fork func()) {
	on := func(f func()) { f() }
	if c != nil {
		on = c.do
	}
	switch {
	case nested:
		l.whileBound(func() { on(fork) })
	case s.group != nil && l.Processes > 0:
		on(func() {
			if s.group.with(l.most(), fork) != nil {
				fork()
			}
		})
	default:
		on(fork)
	}
}

// tidy removes what the command must not leave, and says what it removed, and what it left though it runs programs.
func (s *shim) tidy(c *cell) (removed, left []string) {
	p := s.spec.Profile
	since, ok := startOf(s.dir)
	if !ok {
		return nil, nil
	}
	e := newEffort(disarmFor)
	removed, named := c.tidy(*p, since, e)
	if p.Files == WorkspaceWrite {
		var taken []string
		taken, left = p.disarm(c.had, since, named, e, &s.known)
		removed = append(removed, taken...)
	}
	return removed, left
}

// unable is the result of a command that could not be executed: it says so in place of its output.
func (s *shim) unable(err error) ProcessResult {
	_, _ = fmt.Fprintf(s.rec, "taskdaemon: %v\n", err)
	return ProcessResult{Exit: notExecuted}
}

// pump takes in the output until no one can write any more.
func (s *shim) pump(r *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			grows := !s.rec.full
			_, _ = s.rec.Write(buf[:n])
			if grows {
				s.tell(tellMore, "")
			}
		}
		if err != nil {
			return
		}
	}
}

// usage is what processes took.
type usage struct {
	memory int64 // of the largest
	cpu    time.Duration
}

// reap waits for every child, adopted ones included, until none is left. The main one's status goes to
// ended. What a child took includes what those took that it waited for itself.
func reap(main int, ended chan<- syscall.WaitStatus) (taken usage) {
	for {
		var status syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, 0, &ru)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return taken // no children left
		}
		if !status.Exited() && !status.Signaled() {
			continue // it is kept still
		}
		taken.memory = max(taken.memory, ru.Maxrss<<10)
		taken.cpu += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		if pid == main {
			ended <- status
		}
	}
}

// supervise waits for the main process, and ends the tree when its time is over or it is told to.
func (s *shim) supervise(begin time.Time, ended <-chan syscall.WaitStatus, caught <-chan string, measure meter, c *cell, res *ProcessResult) syscall.WaitStatus {
	deadline := time.NewTimer(s.spec.Timeout)
	defer deadline.Stop()
	var limits Limits
	var disks []volume
	if p := s.spec.Profile; p != nil {
		limits = p.Limits
		disks = limits.disks(append([]string{p.Workspace, p.Temp, filepath.Dir(p.Layers)}, p.Write...))
	}
	pause := lookFirst
	look := time.NewTimer(pause)
	defer look.Stop()
	for !res.TimedOut && !res.Killed && res.Limit == "" {
		select {
		case status := <-ended:
			return status
		case <-deadline.C:
			if left := s.claimed(begin); left > 0 {
				deadline.Reset(left)
				continue
			}
			res.TimedOut = true
		case <-look.C:
			var held int64
			res.Limit, held = limits.exceeded(measure)
			res.Memory = max(res.Memory, held)
			soon := false
			if res.Limit == "" {
				res.Limit, soon = limits.crowded(disks)
			}
			if p := s.spec.Profile; res.Limit == "" && p != nil {
				res.Limit = p.overcrowded()
			}
			if pause = min(2*pause, lookMost); soon {
				pause = lookFirst
			}
			look.Reset(pause)
		case res.Limit = <-caught:
		case <-s.asked:
			switch err := s.standBy(c); {
			case errors.Is(err, errTold):
				res.Killed = true
			case err != nil:
				res.Limit = fmt.Sprintf("it could not be kept still while a hook ran (%v)", err)
			}
		case <-s.signals:
			res.Killed = true
		}
	}
	if res.Limit == "" { // what takes too much gets no time to take more
		signalTree(os.Getpid(), syscall.SIGTERM)
		select {
		case status := <-ended:
			return status
		case <-time.After(killGrace):
		}
	}
	for {
		s.killAll(c)
		select {
		case status := <-ended:
			return status
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// claimed is how much time a claim made after begin leaves. It is never more than the whole limit, so
// that a clock set back does not make a command immortal.
func (s *shim) claimed(begin time.Time) time.Duration {
	info, err := os.Stat(filepath.Join(s.dir, claimFile))
	if err != nil || !info.ModTime().After(begin) {
		return 0
	}
	return min(time.Until(info.ModTime().Add(s.spec.Timeout)), s.spec.Timeout)
}

// killAll kills all that the command started. A bomb cannot outrun it where the kernel lets nothing more be started, or kills all at once.
func (s *shim) killAll(c *cell) {
	s.group.freeze()
	c.killAtOnce()
	signalTree(os.Getpid(), syscall.SIGKILL)
}

// killRest ends whatever the command left behind, until childless says that nothing is. In the common
// case that is so at once, and /proc is not looked at.
func (s *shim) killRest(c *cell, childless <-chan struct{}) {
	tick := time.NewTimer(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-childless:
			return
		case <-tick.C:
		}
		s.killAll(c)
		for range 20 {
			killChildren()
		}
		tick.Reset(time.Millisecond)
	}
}
