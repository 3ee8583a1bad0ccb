package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// What is kept of what a server says on its standard error.
const (
	maxSaid      = 500 // bytes of a line
	saidPerStart = 300 // lines
	saidForWhy   = 3   // last lines, told as the reason of its end
)

var (
	fpAfterStart = failpoint.New("mcp.process.started")
	fpBeforeEnd  = failpoint.New("mcp.process.before_end")
)

// process is a server that runs as a program. It leads a session of its own, and dies with the daemon.
type process struct {
	mark    string
	grace   time.Duration
	say     func(stream, line string)
	cmd     *exec.Cmd
	in, out *os.File
	err     *os.File
	exited  chan struct{} // closed when the program has ended and been waited for
	tasks   sync.WaitGroup

	ended error // how; set before exited is closed
	fault reason

	mu   sync.Mutex
	said []string
}

// startProcess starts the program.
func startProcess(s *Server, mark string, lim limits, say func(stream, line string)) (*process, error) {
	program := s.Command
	if !strings.ContainsRune(program, '/') {
		var err error
		if program, err = sandbox.Program(program); err != nil {
			return nil, td.Errorf(td.Unavailable, "start it: %w", err)
		}
	}
	p := &process{mark: mark, grace: lim.grace, say: say, exited: make(chan struct{})}
	theirs := make([]*os.File, 3)
	defer func() {
		for _, f := range theirs {
			if f != nil {
				_ = f.Close()
			}
		}
	}()
	for i, ours := range []**os.File{&p.in, &p.out, &p.err} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeFiles()
			return nil, td.Errorf(td.Unavailable, "make pipe: %w", err)
		}
		*ours, theirs[i] = r, w
		if i == 0 {
			*ours, theirs[i] = w, r
		}
	}
	p.cmd = exec.Command(program, s.Args...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p.cmd.Dir = "/"
	p.cmd.Env = environ(s, mark)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error, 1)
	p.tasks.Go(func() { p.live(started) })
	if err := <-started; err != nil {
		p.closeFiles()
		p.tasks.Wait()
		return nil, td.Errorf(td.Unavailable, "start it: %w", err)
	}
	fpAfterStart.Hit()
	p.tasks.Go(p.listen)
	return p, nil
}

// environ is the scrubbed environment, what the config adds, and the mark.
func environ(s *Server, mark string) []string {
	env := sandbox.Environ(os.Environ())
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name]) // of two that have a name, exec takes the last
	}
	return append(env, envMark+"="+mark)
}

// live starts the program and waits for its end. The kernel kills the program when the thread that started it
// ends, so this one thread does nothing else.
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	// What it leaves behind would keep the pipes open, and run for nobody. It is killed before the program is
	// waited for: until then nobody else can get its pid.
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err := end(p.mine); err != nil {
		p.say("end", err.Error())
	}
	how := errors.New("it ended by itself")
	if err := p.cmd.Wait(); err != nil {
		how = fmt.Errorf("it ended with %w", err)
	}
	p.ended = how
	close(p.exited)
	soon := time.Now().Add(100 * time.Millisecond) // for what it wrote last
	_ = p.out.SetReadDeadline(soon)
	_ = p.err.SetReadDeadline(soon)
}

// transport speaks to the program.
func (p *process) transport(lim limits) sdk.Transport {
	noise := func(line []byte) { p.say("stdout", string(line)) }
	return &sdk.IOTransport{
		Reader:        &feed{r: p.out, noise: noise},
		Writer:        &pump{w: p.in, limit: lim.write, fail: func(err error) { p.fault.set(err); p.cut() }},
		MaxLineLength: maxLine,
	}
}

// listen takes in what the program says on its standard error.
func (p *process) listen() {
	r := bufio.NewReaderSize(p.err, 4<<10)
	var line []byte
	for n := 0; ; {
		part, err := r.ReadSlice('\n')
		line = append(line, part[:min(len(part), max(0, maxSaid-len(line)))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if text := strings.TrimSpace(tool.Clean(line)); text != "" {
			p.heard(text)
			switch n++; {
			case n <= saidPerStart:
				p.say("stderr", text)
			case n == saidPerStart+1:
				p.say("stderr", "(it says more, which is left out)")
			}
		}
		line = line[:0]
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_, _ = io.Copy(io.Discard, p.err) // ends at once: the pipe is closed or past its deadline
			}
			return
		}
	}
}

func (p *process) heard(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said = append(p.said, line); len(p.said) > saidForWhy {
		p.said = p.said[1:]
	}
}

// exit is how the program ended, with the last it said.
func (p *process) exit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.said) == 0 {
		return p.ended
	}
	return fmt.Errorf("%w; the last it said: %s", p.ended, strings.Join(p.said, " / "))
}

// cut closes the pipes: nothing waits for the program any more.
func (p *process) cut() {
	_ = p.in.Close()
	_ = p.out.Close()
}

// end ends the program and all it started: its input is closed, then it is asked, then killed. Opaque, like
// any signal; nothing needs to be found out again, since a daemon that dies takes the program with it.
func (p *process) end() {
	fpBeforeEnd.Hit()
	p.cut()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		wait := time.NewTimer(p.grace)
		select {
		case <-p.exited:
		case <-wait.C:
			found, err := procs(p.mine)
			if err != nil {
				p.say("end", err.Error())
			}
			for _, q := range found {
				q.signal(sig)
			}
		}
		wait.Stop()
	}
	<-p.exited
	_ = p.err.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	p.tasks.Wait()
	p.closeFiles()
}

// mine knows the processes of this start: by the mark, or by the session where the mark was washed off.
func (p *process) mine(q proc) bool {
	return q.session == p.cmd.Process.Pid || q.mark() == p.mark
}

func (p *process) closeFiles() {
	for _, f := range []*os.File{p.in, p.out, p.err} {
		if f != nil {
			_ = f.Close()
		}
	}
}
