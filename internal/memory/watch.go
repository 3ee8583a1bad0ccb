package memory

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// watch is told by the kernel what is changed in the folder, so that nothing has to be looked at while nothing
// happens. It has no goroutine: what was heard waits in the kernel until somebody asks.
type watch struct {
	fd  int
	dir fs.FileInfo // the folder it hears of
}

// heard are the changes a watch tells of. What is done by way of memory that is mapped is not among them.
const heard = syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_MOVED_FROM |
	syscall.IN_MOVED_TO | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_ONLYDIR

// elsewhere are file systems that others may change without this kernel's knowledge, by what statfs calls them:
// NFS, SMB and its successors, FUSE, 9P, Ceph, AFS.
var elsewhere = []uint32{0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x65735546, 0x01021997, 0x00c36400, 0x5346414f}

// newWatch begins to hear of a folder. Without one, or where changes would go unheard, it is nil.
func newWatch(f *folder) *watch {
	d := f.root
	info, err := d.Lstat(".")
	if err != nil {
		return nil
	}
	var on syscall.Statfs_t
	if err := syscall.Fstatfs(int(d.Fd()), &on); err != nil || slices.Contains(elsewhere, uint32(on.Type)) {
		return nil
	}
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	// By its descriptor: a name might lead to another folder by now.
	if _, err := syscall.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", d.Fd()), heard); err != nil {
		_ = syscall.Close(fd)
		return nil
	}
	return &watch{fd, info}
}

func (w *watch) close() {
	if w != nil {
		_ = syscall.Close(w.fd)
	}
}

// changed are the learnings whose files may have changed since it was last asked; ok is false when it cannot tell.
func (w *watch) changed(f *folder) (ids []string, ok bool) {
	if w == nil {
		return nil, false
	}
	if info, err := f.root.Lstat("."); err != nil || !os.SameFile(info, w.dir) {
		return nil, false // another folder has taken its place
	}
	buf := make([]byte, 64<<10)
	for len(ids) < batch {
		n, err := syscall.Read(w.fd, buf)
		switch {
		case err == syscall.EAGAIN:
			return ids, true
		case err == syscall.EINTR:
			continue
		case err != nil || n <= 0:
			return nil, false
		}
		more, ok := readHeard(buf[:n])
		if !ok {
			return nil, false
		}
		for _, id := range more {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return nil, false // so much that a look at all of them is cheaper
}

// readHeard reads what the kernel tells: struct inotify_event, each followed by a name.
func readHeard(raw []byte) (ids []string, ok bool) {
	const head = syscall.SizeofInotifyEvent
	for len(raw) > 0 {
		if len(raw) < head {
			return nil, false
		}
		mask, length := binary.NativeEndian.Uint32(raw[4:]), int(binary.NativeEndian.Uint32(raw[12:]))
		if mask&(syscall.IN_Q_OVERFLOW|syscall.IN_IGNORED|syscall.IN_UNMOUNT|syscall.IN_DELETE_SELF|syscall.IN_MOVE_SELF) != 0 || length > len(raw)-head {
			return nil, false
		}
		name, _, _ := bytes.Cut(raw[head:head+length], []byte{0})
		if id, is := learningOf(string(name)); is {
			ids = append(ids, id)
		}
		raw = raw[head+length:]
	}
	return ids, true
}

// learningOf is the id of the learning whose file has this name.
func learningOf(name string) (id string, is bool) {
	id, is = strings.CutSuffix(name, extension)
	return id, is && !strings.HasPrefix(name, ".")
}
