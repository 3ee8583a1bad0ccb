package sandbox

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callMain makes one system call, for commands in a sandbox. An argument is a number; self, the own process; tid, another thread of it; or
// bytes in hex that it points to.
func callMain(words []string) int {
	other := make(chan int)
	go func() {
		runtime.LockOSThread()
		other <- unix.Gettid()
		select {}
	}()
	tid := <-other
	var args [6]uintptr
	nr, err := strconv.Atoi(words[0])
	for i, word := range words[1:] {
		switch text, bytes := strings.CutPrefix(word, "x:"); {
		case word == "self":
			args[i] = uintptr(os.Getpid())
		case word == "tid":
			args[i] = uintptr(tid)
		case bytes:
			raw, bad := hex.DecodeString(text)
			if bad != nil {
				return 2
			}
			args[i] = uintptr(unsafe.Pointer(&raw[0]))
			defer runtime.KeepAlive(raw)
		default:
			var n int
			if n, err = strconv.Atoi(word); err == nil {
				args[i] = uintptr(n)
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		return 2
	}
	if _, _, errno := unix.Syscall6(uintptr(nr), args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
		fmt.Println(unix.ErrnoName(errno))
		return 1
	}
	return 0
}

// self puts the test binary into the workspace, for commands to make calls with.
func (y *yard) self() string {
	y.t.Helper()
	self, err := os.Executable()
	if err != nil {
		y.t.Fatal(err)
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		y.t.Fatal(err)
	}
	at := filepath.Join(y.work, "self")
	if err := os.WriteFile(at, raw, 0o755); err != nil {
		y.t.Fatal(err)
	}
	return at
}

// standing is what a process has that calls with its number can change.
func standing(t *testing.T, pid int) string {
	t.Helper()
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &cpus); err != nil {
		t.Fatal(err)
	}
	io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioProcess, uintptr(pid), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintln(nice, attr.Policy, attr.Nice, attr.Runtime, cpus.Count(), io, string(limits))
}

const (
	ioProcess = 1
	ioGroup   = 2
	ioUser    = 3
	ioIdle    = 3 << 13
)

// TestForbiddenCalls makes every call that no command may make.
func TestForbiddenCalls(t *testing.T) {
	y := newYard(t)
	self := y.self()
	for _, nr := range []uint32{
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_IO_SETUP, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_MEMFD_SECRET,
	} {
		for _, files := range []Files{ReadOnly, WorkspaceWrite} {
			y.p.Files = files
			if res := y.run(fmt.Sprintf("./self call %d 1 x:0000000000000000 0 0 0 0", nr)); res.Exit != 1 || string(res.Head) != "EPERM\n" {
				t.Errorf("call %d, %s: exit %d: %s", nr, files, res.Exit, res.Head)
			}
		}
	}
	// With the same arguments outside, one of them works.
	if out, err := exec.Command(self, "call", strconv.Itoa(unix.SYS_IO_SETUP), "1", "x:0000000000000000").CombinedOutput(); err != nil {
		t.Skipf("only refusals were seen: this kernel has no io_setup: %v: %s", err, out)
	}
}

// hostileToStanding changes priority, processors, limits and memory of processes that are not the command's, by their number.
func hostileToStanding(t *testing.T) {
	y := newYard(t)
	self := y.self()
	person := exec.Command("sleep", "600")
	if err := person.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = person.Process.Kill(); _ = person.Wait() }()
	// Root's other processes have capabilities that a command lacks, which is enough for the kernel; a command of another task has not.
	p := start(t, y.s, "victim", y.command("echo $$ > victim; exec sleep 600"))
	defer func() { _ = p.Kill(t.Context()) }()
	var command int
	eventually(t, "the other command runs", func() bool {
		raw, _ := os.ReadFile(y.work + "/victim")
		command, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		return command > 0
	})
	// Size, policy, flags, nice: SCHED_BATCH, and 19.
	const attr = "x:3000000003000000000000000000000013000000000000000000000000000000000000000000000000000000000000000000000000000000"
	const one = "x:0100000000000000"
	calls := func(who string) map[string]string {
		return map[string]string{
			"setpriority":        fmt.Sprint(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, " ", who, " 19"),
			"sched_setaffinity":  fmt.Sprint(unix.SYS_SCHED_SETAFFINITY, " ", who, " 8 ", one),
			"sched_setscheduler": fmt.Sprint(unix.SYS_SCHED_SETSCHEDULER, " ", who, " ", unix.SCHED_BATCH, " x:00000000"),
			"sched_setparam":     fmt.Sprint(unix.SYS_SCHED_SETPARAM, " ", who, " x:00000000"),
			"sched_setattr":      fmt.Sprint(unix.SYS_SCHED_SETATTR, " ", who, " ", attr, " 0"),
			"ioprio_set":         fmt.Sprint(unix.SYS_IOPRIO_SET, ioProcess, " ", who, " ", ioIdle),
			"prlimit64":          fmt.Sprint(unix.SYS_PRLIMIT64, " ", who, " ", unix.RLIMIT_CORE, " x:00000000000000000000000000000000 0"),
			"migrate_pages":      fmt.Sprint(unix.SYS_MIGRATE_PAGES, " ", who, " 64 ", one, " ", one),
			"move_pages":         fmt.Sprint(unix.SYS_MOVE_PAGES, " ", who, " 0 0 0 0 0"),
		}
	}
	// Its own processes and threads it may change, by whatever number.
	for _, who := range []string{"0", "self", "tid"} {
		for name, line := range calls(who) {
			if res := y.run(self + " call " + line); res.Exit != 0 {
				t.Errorf("%s of %s: %s", name, who, res.Head)
			}
		}
	}
	for _, script := range []string{
		"nice -n 5 true", "taskset -c 0 true", "ionice -c3 true", "chrt -b 0 true", "prlimit --core=0 true", "prlimit --pid $$ --core=0",
		"renice -n 19 -p $$ && taskset -pc 0 $$ && ionice -c3 -p $$", "sleep 60 & renice -n 5 -p $! && kill $!",
		"(sleep 60 & echo $! > left); renice -n 19 -p $(cat left)", // its parent is gone
	} {
		if res := y.run(script); res.Exit != 0 && res.Exit != 127 {
			t.Errorf("%s: exit %d: %s", script, res.Exit, res.Head)
		}
	}

	victims := []int{person.Process.Pid, command}
	was := map[int]string{}
	for _, pid := range victims {
		was[pid] = standing(t, pid)
	}
	refused := func(name, line string) {
		t.Helper()
		if res := y.run(self + " call " + line); res.Exit != 1 || string(res.Head) != "EPERM\n" {
			t.Errorf("%s: exit %d: %s", name, res.Exit, res.Head)
		}
		for _, pid := range victims {
			if now := standing(t, pid); now != was[pid] {
				t.Errorf("%s: process %d had %s and has %s", name, pid, was[pid], now)
				was[pid] = now
			}
		}
	}
	for _, who := range []string{strconv.Itoa(person.Process.Pid), strconv.Itoa(command), "$PPID"} {
		for name, line := range calls(who) {
			refused(name+" of "+who, line)
		}
	}
	for name, line := range map[string]string{
		"setpriority of a group": fmt.Sprint(unix.SYS_SETPRIORITY, unix.PRIO_PGRP, command, 19),
		"setpriority of a user":  fmt.Sprint(unix.SYS_SETPRIORITY, unix.PRIO_USER, os.Getuid(), 19),
		"setpriority of its own": fmt.Sprint(unix.SYS_SETPRIORITY, unix.PRIO_USER, 0, 19),
		"ioprio_set of a group":  fmt.Sprint(unix.SYS_IOPRIO_SET, ioGroup, command, ioIdle),
		"ioprio_set of a user":   fmt.Sprint(unix.SYS_IOPRIO_SET, ioUser, os.Getuid(), ioIdle),
	} {
		refused(name, line)
	}
	for _, file := range []string{"autogroup", "oom_score_adj", "timerslack_ns", "coredump_filter", "comm"} {
		y.fails(fmt.Sprintf("echo 10 > /proc/%d/%s", person.Process.Pid, file))
	}
}

// TestNobodyToAsk is a filter where the kernel has somebody else to ask already.
func TestNobodyToAsk(t *testing.T) {
	err := onThread(func() error {
		if err := giveUpPrivileges(); err != nil {
			return err
		}
		first, err := enforceAsking(NetworkFull, closed{})
		if err != nil {
			return err
		}
		defer first.close()
		second, err := enforceAsking(NetworkFull, closed{})
		if err != nil {
			return err
		}
		if second != nil {
			second.close()
			t.Error("the kernel asks two")
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 10); !errors.Is(err, unix.EPERM) {
			t.Errorf("by its number: %v", err)
		}
		return unix.Setpriority(unix.PRIO_PROCESS, 0, 10)
	})
	if err != nil {
		t.Error(err)
	}
}
