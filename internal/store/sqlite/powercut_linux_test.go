package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

const sigstop = syscall.SIGSTOP

// isStopped reports whether every thread of a process stands still.
func isStopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return true
	}
	for _, path := range threads {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := bytes.Cut(raw, []byte(") "))
		if len(rest) > 0 && rest[0] != 'T' {
			return false
		}
	}
	return true
}

const insideEnv = "TASKDAEMON_TEST_INSIDE"

// inside runs the test again in a mount namespace of its own, so that nothing it mounts can be left
// behind, and reports whether this is that run.
func inside(t *testing.T) bool {
	if os.Getenv(insideEnv) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("power cuts need root: they mount a file system and shut it down")
	}
	for _, tool := range []string{"unshare", "mount", "umount", "mkfs.ext4"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("power cuts need %s", tool)
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, "cuts") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return false
}

// disk is an ext4 file system in a file, which can lose its power.
type disk struct{ image, dir string }

func newDisk(t *testing.T, mib int64) *disk {
	t.Helper()
	d := &disk{image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(mib<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-F", d.image)
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput(); err != nil {
		t.Skipf("this machine cannot mount a file as a disk: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", d.dir).Run() })
	return d
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// cut takes the power away: what was not synced is gone, the file system's own journal included.
func (d *disk) cut(t *testing.T) {
	const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		t.Skipf("this kernel cannot shut a file system down: %v", errno)
	}
}

// again mounts the disk after a cut.
func (d *disk) again(t *testing.T) {
	t.Helper()
	run(t, "umount", d.dir)
	run(t, "mount", "-o", "loop", d.image, d.dir)
}

// cuts writes, cuts the power, mounts again and audits, until something is wrong or enough was done.
func cuts(t *testing.T, n int, early bool) (wrong []string) {
	d := newDisk(t, 256)
	state := filepath.Join(d.dir, "state")
	var acks []ack
	total := 0
	for i := range n {
		got := child{Dir: state, Early: early, Seed: uint64(i)}.until(t, 50+rand.IntN(300), func(p *os.Process) {
			d.cut(t)
			_ = p.Kill()
		})
		// The ledger closes when the cut begins. A real one takes the writer with it; here the kernel tells
		// an fdatasync that the shutdown overtakes that it succeeded, and a plain file loses it just so.
		acks = append(acks, slices.DeleteFunc(got, func(a ack) bool { return a.Late })...)
		d.again(t)
		s, err := Open(t.Context(), Options{Dir: state, Alive: func(td.Holder) bool { return false }})
		if err != nil {
			return []string{err.Error()}
		}
		wrong = audit(t.Context(), s, acks)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if len(wrong) > 0 {
			return wrong
		}
		if i%5 == 4 { // a fresh journal, so that audits stay short
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
			total, acks = total+len(acks), nil
		}
	}
	t.Logf("%d cuts, %d acknowledged writes", n, total+len(acks))
	return nil
}

func TestPowerCut(t *testing.T) {
	if !inside(t) {
		return
	}
	n := 40
	if soak() {
		n = 1000
	}
	for _, w := range cuts(t, n, false) {
		t.Error(w)
	}
}

// TestPowerCutNotices proves that TestPowerCut can fail: a journal that acknowledges before it syncs
// loses writes.
func TestPowerCutNotices(t *testing.T) {
	if !inside(t) {
		return
	}
	if wrong := cuts(t, 10, true); len(wrong) == 0 {
		t.Fatal("acknowledged before the sync, no write was lost in 10 cuts")
	}
}
