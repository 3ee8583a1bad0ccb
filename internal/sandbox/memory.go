package sandbox

import (
	"bufio"
	"bytes"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory that is shared belongs to no process: the kernel holds what is written to a file in memory whether it is mapped or not. Its pages
// are counted once, where they are:
//
//	/dev/shm          a file system of the command's own, which knows its size and has no room for more than is allowed
//	System V          a namespace of the command's own, which knows it as well
//	memfd_create      by the descriptors of the processes
//	shared mappings   by what is in the tables of the processes, each page divided by those who have it
//
// To look at all descriptors takes time, so nobody does while the whole machine has no more shared memory than the command may still take.

// lookFor is how long a look at shared memory may take: nothing else is supervised meanwhile.
const lookFor = 200 * time.Millisecond

// meter measures the memory of a command with all that it starts.
type meter struct {
	cell  *cell          // nil: it shares /dev/shm and System V memory with everybody, and these are not counted
	begin machine        // before the command
	now   func() machine // nil: as the kernel says
}

// machine is what the kernel says of the memory of all, in bytes.
type machine struct {
	total, available int64
	shared           int64 // in memory
	swapped          int64 // of all kinds
}

// machineTotal is how much memory there is.
var machineTotal = sync.OnceValue(func() int64 { return readMachine().total })

func readMachine() machine {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return machine{}
	}
	return parseMeminfo(raw)
}

func (m *meter) machine() machine {
	if m.now != nil {
		return m.now()
	}
	return readMachine()
}

func parseMeminfo(raw []byte) machine {
	return machine{
		total: kibibytes(raw, "MemTotal:"), available: kibibytes(raw, "MemAvailable:"),
		shared: kibibytes(raw, "Shmem:"), swapped: max(0, kibibytes(raw, "SwapTotal:")-kibibytes(raw, "SwapFree:")),
	}
}

// kibibytes is a value of a file like /proc/meminfo, in bytes.
func kibibytes(raw []byte, name string) int64 {
	for line := range bytes.Lines(raw) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			fields := bytes.Fields(value)
			if len(fields) == 0 {
				return 0
			}
			n, err := strconv.ParseInt(string(fields[0]), 10, 48)
			if err != nil || n < 0 {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

// outgrew reports whether a machine that runs short has got more shared memory than is allowed since the command began. Some of it may be
// hidden from every look: a descriptor on its way through a socket, a mapping that gave its pages back. The kernel would end commands first, too, but
// knows no better whose it is.
func (now machine) outgrew(begin machine, allowed int64) bool {
	return now.available < now.total/10 && now.shared-begin.shared > allowed
}

// shared is the shared memory of the processes of a tree, or zero if it cannot be more than what is left to them.
func (m *meter) shared(tree []stat, left int64, now machine) int64 {
	if now.shared+now.swapped <= left {
		return 0
	}
	sum, sysV := m.cell.ownShared()
	until := time.Now().Add(lookFor)
	files := map[uint64]int64{}
	for _, st := range tree {
		if time.Now().After(until) {
			break
		}
		memoryFiles(st.pid, files, until)
	}
	for _, size := range files {
		sum += size
	}
	for _, st := range tree {
		if sum > left || time.Now().After(until) {
			break
		}
		sum += mappedOnly(st.pid, files, sysV, until)
	}
	return sum
}

// ownShared is what is in the command's own /dev/shm and System V memory. counted says that the latter is the command's own.
func (c *cell) ownShared() (sum int64, counted bool) {
	if c == nil {
		return 0, false
	}
	var st unix.Statfs_t
	if c.shm != nil && unix.Fstatfs(int(c.shm.Fd()), &st) == nil {
		sum = int64(st.Blocks-st.Bfree) * st.Bsize
	}
	if !c.mounted {
		return sum, false // there is none
	}
	var info struct { // struct shm_info
		ids                                      int32
		total, resident, swapped, tries, success uint64
	}
	const shmInfo = 14
	c.do(func() { // only there it is this namespace's
		_, _, errno := unix.Syscall(unix.SYS_SHMCTL, 0, shmInfo, uintptr(unsafe.Pointer(&info)))
		counted = errno == 0
	})
	return sum + int64(info.resident+info.swapped)*int64(os.Getpagesize()), counted
}

// memoryDevice is that of files in memory that no file system holds.
var memoryDevice = sync.OnceValue(func() uint64 {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st)
	return st.Dev
})

// memoryFiles adds the sizes of the files in memory that a process has open, by inode, as far as it comes until then: how many descriptors and threads there are is
// the command's doing.
func memoryFiles(pid int, files map[uint64]int64, until time.Time) {
	for at := range fileTables(pid) {
		for _, name := range names(at) {
			if time.Now().After(until) {
				return
			}
			// Only the link is read of others: to ask a file system for a file may take forever.
			if text, err := os.Readlink(at + "/" + name); err != nil || !strings.HasPrefix(text, "/memfd:") {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(at+"/"+name, &st) == nil && st.Dev == memoryDevice() {
				files[st.Ino] = st.Blocks * 512
			}
		}
	}
}

// fileTables are the folders of a process's descriptors: one, unless threads have some of their own. The kernel has an order of them, so that not each is held against all others.
func fileTables(pid int) iter.Seq[string] {
	return func(yield func(string) bool) {
		var known []int // threads, one for each table, in that order
		for _, tid := range threads(pid) {
			gone := false
			at, same := slices.BinarySearchFunc(known, tid, func(other, tid int) int {
				order, err := compareTables(other, tid)
				gone = gone || err != nil
				return order
			})
			if same || gone {
				continue
			}
			known = slices.Insert(known, at, tid)
			if !yield(fmt.Sprintf("/proc/%d/task/%d/fd", pid, tid)) {
				return
			}
		}
	}
}

// compareTables is the kernel's order of the descriptors of two threads.
func compareTables(one, other int) (int, error) {
	const kcmpFiles = 2
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(one), uintptr(other), kcmpFiles, 0, 0, 0)
	switch {
	case errno != 0:
		return 0, errno
	case order == 0:
		return 0, nil
	case order == 1:
		return -1, nil
	}
	return 1, nil
}

// threads are those of a process that live.
func threads(pid int) (tids []int) {
	for _, name := range names(fmt.Sprintf("/proc/%d/task", pid)) {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if tid == pid {
			if st, err := readStat(pid); err == nil && st.zombie() { // it left the others alone
				continue
			}
		}
		tids = append(tids, tid)
	}
	return tids
}

func names(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// mappedOnly is what a process has mapped of shared memory that is in none of these files.
func mappedOnly(pid int, files map[uint64]int64, sysV bool, until time.Time) int64 {
	for _, tid := range threads(pid) {
		at := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
		status, err := os.ReadFile(at + "status")
		if err != nil {
			continue
		}
		if kibibytes(status, "RssShmem:") == 0 {
			return 0
		}
		f, err := os.Open(at + "smaps")
		if err != nil {
			return kibibytes(status, "RssShmem:") // it hides how much of it others have, too
		}
		defer f.Close()
		return sumMapped(bufio.NewScanner(f), memoryDevice(), files, sysV, until)
	}
	return 0
}

// sumMapped reads the mappings of /proc/<pid>/smaps that are on a device.
func sumMapped(lines *bufio.Scanner, device uint64, files map[uint64]int64, sysV bool, until time.Time) (sum int64) {
	on := fmt.Sprintf("%02x:%02x", unix.Major(device), unix.Minor(device))
	counts := false
	for lines.Scan() {
		line := lines.Bytes()
		if share, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			if counts {
				sum += kibibytes(share, "")
			}
			if time.Now().After(until) { // once for each mapping
				break
			}
			continue
		}
		// 7f2a00000000-7f2a40000000 rw-s 00000000 00:01 1026  /dev/zero (deleted)
		fields := bytes.Fields(line)
		if len(fields) < 5 || bytes.HasSuffix(fields[0], []byte(":")) {
			continue
		}
		inode, err := strconv.ParseUint(string(fields[4]), 10, 64)
		_, open := files[inode]
		ofSystemV := len(fields) > 5 && bytes.HasPrefix(fields[5], []byte("/SYSV"))
		counts = err == nil && string(fields[3]) == on && (ofSystemV && !sysV || !ofSystemV && !open)
	}
	return sum
}
