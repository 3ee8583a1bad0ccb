package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// How often a command's tree is measured. Most commands are over before the first look.
const (
	lookFirst = 20 * time.Millisecond
	lookMost  = 250 * time.Millisecond
)

// threadsEach is how many threads a process may have on average.
const threadsEach = 4

// bound sets the limits that the kernel keeps, on the shim and thereby on its commands. They stay: a shim
// serves no command with others.
func (l Limits) bound() error {
	none := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &none); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	if l.FileSize > 0 {
		if err := lower(unix.RLIMIT_FSIZE, uint64(l.FileSize)); err != nil {
			return fmt.Errorf("limit file size: %w", err)
		}
	}
	if l.Processes > 0 && os.Geteuid() == 0 {
		// Root's processes are not counted by the kernel. The shim must not wait in line with those that it
		// has to stop; its own group is all that goes before them.
		if err := unix.Setpriority(unix.PRIO_PGRP, 0, -20); err != nil && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("go before what is to be limited: %w", err)
		}
	}
	return nil
}

// lower sets a limit that cannot be raised again.
func lower(resource int, to uint64) error {
	var have unix.Rlimit
	if err := unix.Getrlimit(resource, &have); err != nil {
		return err
	}
	to = min(to, have.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: to, Max: to})
}

// exceeded says which limit the tree below this process has passed, or nothing, and what memory it holds if that was
// looked at.
func (l Limits) exceeded(m meter) (why string, held int64) {
	if l.Memory == 0 && l.Processes == 0 {
		return "", 0
	}
	tree := descendants(os.Getpid())
	if l.Processes > 0 && len(tree) > l.Processes {
		return fmt.Sprintf("it had %d processes, and %d are allowed", len(tree), l.Processes), 0
	}
	if l.Memory == 0 {
		return "", 0
	}
	for _, st := range tree {
		held += unshared(st.pid)
	}
	now := m.machine()
	if held <= l.Memory {
		held += m.shared(tree, l.Memory-held, now)
	}
	switch {
	case held > l.Memory:
		return fmt.Sprintf("its processes held %s of memory, and %s are allowed", mebibytes(held), mebibytes(l.Memory)), held
	case now.outgrew(m.begin, l.Memory):
		return fmt.Sprintf("shared memory of the machine grew by %s while it ran, and %s are allowed", mebibytes(now.shared-m.begin.shared), mebibytes(l.Memory)), held
	}
	return "", held
}

// volume is a disk that a command can write to, by a folder on it.
type volume struct {
	path string
	id   unix.Fsid
	left spare // at the last look
}

// spare is what a command may still take of a disk: bytes, and inodes, of which every file and folder takes one.
type spare struct{ bytes, inodes int64 }

// inodeEach is how many bytes a disk has for every inode, as file systems are made by default. As many inodes as that makes of what must stay free have to stay free as well, but
// no more than a quarter of all.
const inodeEach = 16 << 10

// spare is what there is on a disk beyond what must stay free. Some disks make inodes as they are needed, and count none.
func (l Limits) spare(st unix.Statfs_t) spare {
	s := spare{bytes: room(st) - l.Free, inodes: math.MaxInt64}
	if st.Files > 0 {
		s.inodes = int64(st.Ffree) - l.inodes(st)
	}
	return s
}

// inodes is how many must stay free.
func (l Limits) inodes(st unix.Statfs_t) int64 { return min(l.Free/inodeEach, int64(st.Files/4)) }

// disks are those that the paths are on. Where there is less than a command must leave, the command is not to blame, and may take all.
func (l Limits) disks(paths []string) (out []volume) {
	if l.Free == 0 {
		return nil
	}
	for _, path := range paths {
		var st unix.Statfs_t
		if path == "" || unix.Statfs(path, &st) != nil {
			continue
		}
		if !slices.ContainsFunc(out, func(d volume) bool { return d.id == st.Fsid }) {
			out = append(out, volume{path, st.Fsid, l.spare(st)})
		}
	}
	return out
}

// crowded says which disk has too little left by now, or nothing; soon reports that one loses so much that it has to be looked at again at once.
func (l Limits) crowded(disks []volume) (why string, soon bool) {
	for i, d := range disks {
		var st unix.Statfs_t
		if unix.Statfs(d.path, &st) != nil {
			continue
		}
		now := l.spare(st)
		switch {
		case now.bytes < 0 && d.left.bytes >= 0:
			return l.tooFull(d.path, st), false
		case now.inodes < 0 && d.left.inodes >= 0:
			return l.tooMany(d.path, st), false
		}
		for _, one := range []struct {
			left *int64
			now  int64
		}{{&disks[i].left.bytes, now.bytes}, {&disks[i].left.inodes, now.inodes}} {
			if *one.left >= 0 { // what was too little before the command stays so
				soon = soon || one.now < *one.left/4*3
				*one.left = one.now
			}
		}
	}
	return "", soon
}

func (l Limits) tooFull(path string, st unix.Statfs_t) string {
	return fmt.Sprintf("the disk of %s has only %s left, and %s must stay free", path, mebibytes(room(st)), mebibytes(l.Free))
}

func (l Limits) tooMany(path string, st unix.Statfs_t) string {
	return fmt.Sprintf("the disk of %s has only %d inodes left for files, and %d must stay free", path, st.Ffree, l.inodes(st))
}

// room is what is free for those who are not root.
func room(st unix.Statfs_t) int64 { return int64(st.Bavail) * st.Bsize }

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// unshared is the memory of a process that is its own.
func unshared(pid int) int64 {
	at := "/proc/" + strconv.Itoa(pid)
	raw, err := os.ReadFile(at + "/statm")
	if err == nil && bytes.HasPrefix(raw, []byte("0 ")) { // its first thread has ended, and let go of the memory
		for _, tid := range threads(pid) {
			raw, err = os.ReadFile(at + "/task/" + strconv.Itoa(tid) + "/statm")
			break
		}
	}
	if err != nil {
		return 0
	}
	return parseStatm(raw)
}

func parseStatm(raw []byte) int64 {
	fields := bytes.Fields(raw)
	if len(fields) < 3 {
		return 0
	}
	resident, err := strconv.ParseInt(string(fields[1]), 10, 48)
	if err != nil {
		return 0
	}
	shared, err := strconv.ParseInt(string(fields[2]), 10, 48)
	if err != nil {
		return 0
	}
	return max(0, resident-shared) * int64(os.Getpagesize())
}

// most is how many processes and threads of a command the kernel is asked to bear; zero: as many as come.
func (l Limits) most() uint64 { return uint64(l.Processes) * threadsEach }

// countedAlone reports whether the kernel counts the processes of this shim's commands for themselves: those of a user namespace are, and
// RLIMIT_NPROC bounds them. Root's are never bound by it, in no namespace.
func countedAlone(p *Profile) bool { return p.confines() && os.Geteuid() != 0 && mayAdmin() }

// whileBound calls f, which starts a command, with the limit of processes that the command is to have: what it forks
// before impose is done is bound like this, too. It is a limit that can be raised again, for the shim must be free to start
// threads of its own afterwards.
func (l Limits) whileBound(f func()) {
	var have unix.Rlimit
	if most := l.most(); most > 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &have) == nil {
		_ = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: min(most, have.Max), Max: have.Max})
		defer func() { _ = unix.Setrlimit(unix.RLIMIT_NPROC, &have) }()
	}
	f()
}

// impose sets, on a command that was just started, what must not bind the shim. The kernel counts processes of
// a user namespace for itself, threads included, so that those of a nested shim can be limited before the shim
// looks; the shim must be free to start threads of its own meanwhile. When memory runs out, the kernel
// ends the command before anything else.
func (l Limits) impose(pid int, nested bool) {
	_ = unix.Setpriority(unix.PRIO_PROCESS, pid, 0)
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("800"), 0)
	if most := l.most(); nested && most > 0 {
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
}
