package git

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"taskdaemon/internal/sandbox"
)

// standIn is a program that tests of this package run in git's place: one that fails, waits or kills at will.
var standIn string

// launch starts a git in its view. Only a test's stand-in, and a git that speaks with a far remote for the person, run without one.
func launch(l sandbox.Launch, far bool) (running, error) {
	if program := cmp.Or(standIn, inPlaceOfGit()); program != "" {
		l.Path = program
		l.Env = lastOf(append(slices.Clone(l.Env), "PATH="+os.Getenv("PATH"))) // it may be a script
		return launchUnconfined(l)
	}
	if far {
		return launchUnconfined(l)
	}
	return launcher.Start(l)
}

// unconfined is a git without a view.
type unconfined struct{ cmd *exec.Cmd }

func launchUnconfined(l sandbox.Launch) (running, error) {
	cmd := exec.Command(l.Path, l.Args[1:]...)
	cmd.Env, cmd.Dir = l.Env, l.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.Stdin, l.Stdout, l.Stderr
	// ssh would ask at the terminal; and git's helpers must go with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &unconfined{cmd}, nil
}

func (f *unconfined) Wait() (syscall.WaitStatus, error) {
	err := f.cmd.Wait()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return 0, err
	}
	status, _ := f.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status, nil
}

func (f *unconfined) Kill() { _ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGKILL) }
