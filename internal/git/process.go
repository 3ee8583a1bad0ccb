package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// launcher starts every git of this process, confined. There is one because its helper and the threads it keeps ready are to be shared.
var launcher sandbox.Launcher

// Confined says what of a git's confinement this machine cannot enforce; nil when it can enforce all of it.
func Confined() error {
	lacks, mounts, err := launcher.Lacks()
	switch {
	case err != nil:
		return err
	case !mounts || len(lacks) > 0:
		return errors.New(strings.Join(lacks, "; "))
	}
	return nil
}

// scratch makes a folder for files that are needed for a moment, which every git can write to. Its maker removes it.
func scratch() (string, error) {
	in, err := launcher.Scratch()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(in, "git-")
	if err != nil {
		return "", td.Errorf(td.Storage, "make temporary folder: %w", err)
	}
	return dir, nil
}

// apart makes an empty folder that no git can write to unless it works there. Its maker removes what is around it.
func apart() (string, error) {
	around, err := launcher.Private()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(around, "repository")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", td.Errorf(td.Storage, "make temporary folder: %w", err)
	}
	return dir, nil
}

// exitError says that git ended, and how.
type exitError struct{ status syscall.WaitStatus }

func (e *exitError) Error() string {
	if e.status.Signaled() {
		return "signal: " + e.status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", e.status.ExitStatus())
}

// exitCode is what git ended with; zero when it did not run to its end.
func exitCode(err error) int {
	if exit, is := errors.AsType[*exitError](err); is && !td.IsKind(err, td.Interrupted) && exit.status.Exited() {
		return exit.status.ExitStatus()
	}
	return 0
}

// process is one git. It is used like exec.Cmd.
type process struct {
	ctx     context.Context
	launch  sandbox.Launch
	far     bool // without a view
	partial bool // the repository may lack objects that git would fetch
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer

	run   running
	ours  []*os.File // ends of pipes that stay here
	wg    sync.WaitGroup
	stop  func() bool // undoes the watch over ctx
	mu    sync.Mutex
	ended bool
}

// running is a git that was started.
type running interface {
	Wait() (syscall.WaitStatus, error)
	Kill()
}

// start starts git, with pipes for what is no file.
func (p *process) start() error {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	fail := func(err error) error {
		for _, f := range p.ours {
			_ = f.Close()
		}
		p.wg.Wait()
		return err
	}
	l := p.launch
	if p.ctx.Err() != nil {
		for _, f := range []*os.File{l.Stdin, l.Stdout, l.Stderr} {
			if f != nil {
				theirs = append(theirs, f)
			}
		}
		return fail(context.Cause(p.ctx))
	}
	for _, end := range []struct {
		file **os.File
		in   bool
	}{{&l.Stdin, true}, {&l.Stdout, false}, {&l.Stderr, false}} {
		if *end.file != nil {
			theirs = append(theirs, *end.file)
			continue
		}
		var err error
		if *end.file, err = p.connect(end.in, end.file == &l.Stderr); err != nil {
			return fail(err)
		}
		theirs = append(theirs, *end.file)
	}
	var err error
	if p.run, err = launch(l, p.far); err != nil {
		for _, f := range theirs {
			_ = f.Close()
		}
		theirs = nil
		return fail(err)
	}
	p.stop = context.AfterFunc(p.ctx, p.kill)
	return nil
}

// connect makes the file that git reads from or writes to, and copies what passes.
func (p *process) connect(in, errors bool) (*os.File, error) {
	if in && p.stdin == nil {
		return os.Open(os.DevNull)
	}
	w := p.stdout
	if errors {
		w = p.stderr
	}
	if !in && w == nil {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if in {
		p.ours = append(p.ours, pw)
		p.wg.Go(func() {
			_, _ = io.Copy(pw, p.stdin) // git says itself what it missed
			_ = pw.Close()
		})
		return pr, nil
	}
	p.ours = append(p.ours, pr)
	p.wg.Go(func() {
		_, _ = io.Copy(w, pr)
		_ = pr.Close()
	})
	return pw, nil
}

// inPipe is a pipe to git's standard input; it must be asked for before start.
func (p *process) inPipe() (io.WriteCloser, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	p.launch.Stdin = r
	p.ours = append(p.ours, w)
	return w, nil
}

// outPipe is a pipe from git's standard output; it must be asked for before start.
func (p *process) outPipe() (io.Reader, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	p.launch.Stdout = w
	p.ours = append(p.ours, r)
	return r, nil
}

// kill ends git and its helpers.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.run.Kill()
	}
}

// wait waits for git to end, and for what it wrote to be taken in. What its children hold open is not waited for long.
func (p *process) wait() error {
	status, err := p.run.Wait()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.stop()
	copied := make(chan struct{})
	go func() {
		p.wg.Wait()
		close(copied)
	}()
	late := time.NewTimer(killGrace)
	defer late.Stop()
	select {
	case <-copied:
	case <-late.C:
	}
	for _, f := range p.ours {
		_ = f.Close()
	}
	<-copied
	switch {
	case err != nil:
		return err
	case status.ExitStatus() != 0:
		return &exitError{status}
	}
	return nil
}
