package disk

import (
	"slices"

	"golang.org/x/sys/unix"
)

// near are the file systems that nobody changes but this kernel.
var near = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, zfsMagic, bcachefsMagic}

const (
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)

// Near reports whether a file system is one that nobody changes but this kernel, so that it tells of every change, by its times and otherwise.
func Near(on *unix.Statfs_t) bool { return slices.Contains(near, on.Type) }
