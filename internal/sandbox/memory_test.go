package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fillMain takes memory in one of the ways in which it can be taken, says that it did, and waits.
func fillMain(way, size string) int {
	n, err := strconv.Atoi(size)
	if err == nil {
		err = fill(way, n)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("filled")
	time.Sleep(2 * time.Second) // on a busy machine the shim looks seldom
	return 0
}

func fill(way string, n int) error {
	switch way {
	case "memfd":
		_, err := written(n)
		return err
	case "memfd of a thread": // which has descriptors of its own
		done := make(chan error, 1)
		var once sync.Once
		for range 2 { // one of them does not get the first thread
			go func() {
				runtime.LockOSThread()
				if unix.Gettid() == unix.Getpid() {
					select {}
				}
				once.Do(func() {
					err := unix.Unshare(unix.CLONE_FILES)
					if err == nil {
						_, err = written(n)
					}
					done <- err
				})
				select {}
			}()
		}
		return <-done
	case "memfd, mapped and closed":
		fd, err := written(n)
		if err == nil {
			err = touch(fd, n, unix.MAP_SHARED)
			_ = unix.Close(fd)
		}
		return err
	case "mapped by several":
		fd, err := written(n)
		if err != nil {
			return err
		}
		for range 4 {
			cmd := exec.Command("/proc/self/exe", "fill", "inherited", strconv.Itoa(n))
			cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "memfd")}
			cmd.Stdout = os.Stdout
			if err := cmd.Start(); err != nil {
				return err
			}
		}
		err = touch(fd, n, unix.MAP_SHARED)
		_ = unix.Close(fd)
		return err
	case "inherited":
		err := touch(3, n, unix.MAP_SHARED)
		_ = unix.Close(3)
		return err
	case "shared":
		return touch(-1, n, unix.MAP_SHARED|unix.MAP_ANON)
	case "first thread ended":
		begun := make(chan struct{})
		for range 50 { // one of them gets the first thread
			go func() {
				runtime.LockOSThread()
				if unix.Gettid() == unix.Getpid() {
					close(begun)
					_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
				}
				select {}
			}()
		}
		<-begun
		return touch(-1, n, unix.MAP_PRIVATE|unix.MAP_ANON)
	case "System V":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, n, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		mem, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return err
		}
		each(mem)
		return unix.SysvShmDetach(mem)
	case "/dev/shm":
		for i := range 8 {
			if err := os.WriteFile("/dev/shm/"+strconv.Itoa(i), make([]byte, n/8), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func written(n int) (int, error) {
	fd, err := unix.MemfdCreate("fill", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	chunk := make([]byte, 1<<20)
	for ; n > 0; n -= len(chunk) {
		if _, err := unix.Write(fd, chunk); err != nil {
			return -1, err
		}
	}
	return fd, nil
}

func touch(fd, n, flags int) error {
	mem, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, flags)
	each(mem)
	return err
}

func each(mem []byte) {
	for i := 0; i < len(mem); i += os.Getpagesize() {
		mem[i] = 1
	}
}

// hostileToMemory takes memory that belongs to no process.
func hostileToMemory(t *testing.T) {
	y := newYard(t)
	self := y.self()
	y.p.Limits = Limits{Memory: 200 << 20}
	others, err := written(300 << 20) // which is not the command's
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(others)
	for _, way := range []string{"memfd", "memfd of a thread", "memfd, mapped and closed", "mapped by several", "shared", "first thread ended", "System V", "/dev/shm"} {
		t.Run(way, func(t *testing.T) {
			y.t = t
			res := y.run(fmt.Sprintf("%s fill '%s' %d", self, way, 400<<20))
			if full := way == "/dev/shm" && strings.Contains(string(res.Head), "no space left"); !strings.Contains(res.Limit, "of memory") && !full {
				t.Errorf("400 MiB: %+v %s", res, res.Head)
			}
			if res := y.run(fmt.Sprintf("%s fill '%s' %d", self, way, 100<<20)); res.Exit != 0 || res.Limit != "" {
				t.Errorf("100 MiB: %+v %s", res, res.Head)
			}
		})
	}
	y.t = t
	if res := y.run(fmt.Sprintf("%s fill shared %d & %s fill memfd %d & %s fill /dev/shm %d & sleep 5", self, 80<<20, self, 80<<20, self, 80<<20)); !strings.Contains(res.Limit, "of memory") {
		t.Errorf("the sum: %+v %s", res, res.Head)
	}
	cmd := y.command("")
	for i, script := range []string{"echo x > /dev/shm/x && test $(stat -f -c '%b*%S' /dev/shm | tr '*' ' ' | { read n size; echo $((n * size)); }) = 209715200", "test ! -e /dev/shm/x"} { // it ends with the command
		cmd.Shell = script
		if res := wait(t, start(t, y.s, "shm"+strconv.Itoa(i), cmd)); res.Exit != 0 {
			t.Errorf("%s: %s", script, res.Head)
		}
	}
}

func TestMachineRunsShort(t *testing.T) {
	begin := parseMeminfo([]byte("MemTotal:       24681472 kB\nMemAvailable:   23000000 kB\nSwapTotal: 1000 kB\nSwapFree: 400 kB\nShmem:           1048576 kB\n"))
	if want := (machine{total: 24681472 << 10, available: 23000000 << 10, shared: 1 << 30, swapped: 600 << 10}); begin != want {
		t.Fatalf("it reads %+v", begin)
	}
	now := begin
	now.shared += 3 << 30
	if now.outgrew(begin, 2<<30) {
		t.Error("ended though there is room")
	}
	now.available = 1 << 30
	if !now.outgrew(begin, 2<<30) || now.outgrew(begin, 4<<30) {
		t.Error("a machine that runs short")
	}
}

func TestSumMapped(t *testing.T) {
	const maps = `7f2a00000000-7f2a40000000 rw-s 00000000 00:01 1026                       /dev/zero (deleted)
Size:            1048576 kB
Rss:                1024 kB
Pss:                 512 kB
Pss_Dirty:           512 kB
VmFlags: rd wr sh mr mw me ms sd
7f2a50000000-7f2a60000000 rw-s 00000000 00:01 7                          /memfd:x: (deleted)
Pss:                 100 kB
7f2a60000000-7f2a70000000 rw-s 00000000 00:01 3                          /SYSV00000000 (deleted)
Pss:                  10 kB
7f2a70000000-7f2a80000000 r-xp 00000000 fe:00 1026                       /usr/lib/x y
Pss:                   1 kB
`
	files := map[uint64]int64{7: 4096}
	for sysV, want := range map[bool]int64{true: 512 << 10, false: 522 << 10} {
		if got := sumMapped(bufio.NewScanner(strings.NewReader(maps)), unix.Mkdev(0, 1), files, sysV, time.Now().Add(time.Minute)); got != want {
			t.Errorf("%v: %d, want %d", sysV, got, want)
		}
	}
}

// TestFileTables checks that each table of descriptors is looked at once, and none when the time is over. It has a process of its own: threads with descriptors of their own are
// of no use to other tests, and what they started ends with them.
func TestFileTables(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_TABLES") == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestFileTables$")
		cmd.Env = append(os.Environ(), "SANDBOX_TEST_TABLES=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	const own = 60
	made, end := make(chan error), make(chan struct{})
	defer close(end)
	for range own {
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with it
			made <- unix.Unshare(unix.CLONE_FILES)
			<-end
		}()
	}
	for range own {
		if err := <-made; err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for range fileTables(os.Getpid()) {
		n++
	}
	if n != own+1 {
		t.Errorf("%d tables of %d", n, own+1)
	}
	fd, err := written(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	files := map[uint64]int64{}
	memoryFiles(os.Getpid(), files, time.Now().Add(-time.Second))
	if len(files) > 0 {
		t.Error("it goes on when the time is over")
	}
	memoryFiles(os.Getpid(), files, time.Now().Add(time.Minute))
	if len(files) != 1 {
		t.Errorf("files in memory: %v", files)
	}
	lines := bufio.NewScanner(strings.NewReader(strings.Repeat("7f2a00000000-7f2a40000000 rw-s 00000000 00:01 1026 /dev/zero\nPss: 4 kB\n", 10)))
	if got := sumMapped(lines, unix.Mkdev(0, 1), nil, false, time.Now().Add(-time.Second)); got != 4<<10 {
		t.Errorf("of mappings %d bytes are summed when the time is over", got)
	}
}
