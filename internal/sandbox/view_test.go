package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that is forked meanwhile has for a moment a file of the root open for writing: it is sealed when that is over.
func TestRootIsSealedWhenItIsBusy(t *testing.T) {
	root := t.TempDir()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its mounts
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if err := unix.Mount("tmpfs", root, "tmpfs", 0, ""); err != nil {
				return err
			}
			f, err := os.Create(filepath.Join(root, "open"))
			if err != nil {
				return err
			}
			if err := unix.MountSetattr(unix.AT_FDCWD, root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); !errors.Is(err, unix.EBUSY) {
				t.Errorf("a root in use is sealed: %v", err)
			}
			time.AfterFunc(20*time.Millisecond, func() { f.Close() })
			if err := sealRoot(root); err != nil {
				t.Errorf("seal: %v", err)
			}
			if _, err := os.Create(filepath.Join(root, "more")); !errors.Is(err, unix.EROFS) {
				t.Errorf("written into a sealed root: %v", err)
			}
			return nil
		}()
	}()
	if err := <-done; errors.Is(err, unix.EPERM) {
		t.Skipf("nothing can be mounted here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}
