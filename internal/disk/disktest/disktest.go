// Package disktest gives tests a disk that can be filled and lose its power: an ext4 file system in a file, mounted in a
// mount namespace of the test's own. It needs root, and tests that cannot have it are skipped.
package disktest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const insideEnv = "TASKDAEMON_TEST_INSIDE"

// options keep what was not synced off the disk for as long as a test runs, and data from being written with a rename.
const options = "loop,commit=3600,noauto_da_alloc"

// Inside runs the test again in a mount namespace of its own, so that nothing it mounts can be left
// behind, and reports whether this is that run.
func Inside(t *testing.T) bool {
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

// Disk is the file system, mounted at Dir.
type Disk struct {
	Dir   string
	image string
}

// New makes a disk of so many MiB.
func New(t *testing.T, mib int64) *Disk {
	t.Helper()
	d := &Disk{image: filepath.Join(t.TempDir(), "image"), Dir: t.TempDir()}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(mib<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-F", d.image)
	if out, err := exec.Command("mount", "-o", options, d.image, d.Dir).CombinedOutput(); err != nil {
		t.Skipf("this machine cannot mount a file as a disk: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", d.Dir).Run() })
	return d
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// Cut takes the power away: what was not synced is gone, the file system's own journal included.
func (d *Disk) Cut(t *testing.T) {
	const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	f, err := os.Open(d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		t.Skipf("this kernel cannot shut a file system down: %v", errno)
	}
}

// Again mounts the disk anew. Nobody may have a file of it open.
func (d *Disk) Again(t *testing.T) {
	t.Helper()
	run(t, "umount", d.Dir)
	run(t, "mount", "-o", options, d.image, d.Dir)
}
