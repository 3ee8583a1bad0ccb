package sandbox

import (
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// A program with the setuid bit runs as its owner, whoever starts it: a shell with it in the workspace is the person to every user of
// the machine, and stays when the task is gone. So commands cannot give a file that bit, nor that of the group.

// modeCall is a call that gives a file its mode.
type modeCall struct {
	nr   uint32
	mode uint32 // offset of the mode
	// flags is the offset of the flags that say whether the mode counts; zero: it always does.
	flags uint32
}

// creating are the flags with which an open makes a file. The second is O_TMPFILE without O_DIRECTORY, as the kernel looks for it.
const creating = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

var modeCalls = append([]modeCall{
	{nr: unix.SYS_FCHMOD, mode: dataArg1},
	{nr: unix.SYS_FCHMODAT, mode: dataArg2},
	{nr: unix.SYS_FCHMODAT2, mode: dataArg2},
	{nr: unix.SYS_MKNODAT, mode: dataArg2},
	{nr: unix.SYS_OPENAT, mode: dataArg3, flags: dataArg2},
}, map[string][]modeCall{"amd64": { // which has the calls of before as well
	{nr: 2, mode: dataArg2, flags: dataArg1}, // open
	{nr: 85, mode: dataArg1},                 // creat
	{nr: 90, mode: dataArg1},                 // chmod
	{nr: 133, mode: dataArg1},                // mknod
}}[runtime.GOARCH]...)

// refuseModes refuses each call that gives a file one of the bits.
func (f *filter) refuseModes(bits uint32) {
	if bits == 0 {
		return
	}
	for _, call := range modeCalls {
		f.only(call.nr, func(f *filter) {
			if call.flags != 0 {
				f.load(call.flags)
				f.unless(unix.BPF_JSET, creating, 0)
			}
			f.load(call.mode)
			f.when(unix.BPF_JSET, bits, unix.EPERM)
		})
	}
	// Its mode is in memory, where a filter cannot look; programs that know the call go on with openat.
	f.when(unix.BPF_JEQ, unix.SYS_OPENAT2, unix.ENOSYS)
}

// refusedModes are the bits that a command gives no file. In a folder that a group shares, folders have that of the group, and git
// gives it to those that it makes.
func (p Profile) refusedModes() uint32 {
	if p.Files == Full {
		return 0
	}
	shared := []string{p.Workspace, filepath.Join(p.Workspace, ".git")}
	if _, common := p.worktree(); common != "" {
		shared = append(shared, common)
	}
	for _, dir := range shared {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && info.Mode()&os.ModeSetgid != 0 {
			return unix.S_ISUID
		}
	}
	return unix.S_ISUID | unix.S_ISGID
}
