package wire

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxAddress is the longest path the kernel takes as a socket's address.
const maxAddress = len(unix.RawSockaddrUnix{}.Path) - 1

// Address is a name for the socket at path that the kernel accepts, however long the path is: a long
// one is reached through a descriptor of its folder. Call done when the name is no longer needed.
func Address(path string) (name string, done func(), err error) {
	if len(path) <= maxAddress {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), func() { _ = unix.Close(fd) }, nil
}
