package disk

import (
	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// Use is how full the file system of a folder is, in percent, rounded up.
type Use struct {
	Room   int // of what the user may fill
	Inodes int // of its inodes; 0 where it counts none
}

// UseOf looks how full the file system of a folder is.
func UseOf(dir string) (Use, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Use{}, td.Errorf(td.NotFound, "look at the disk of %s: %w", dir, err)
	}
	return Use{Room: percent(st.Blocks-st.Bfree, st.Bavail), Inodes: percent(st.Files-st.Ffree, st.Ffree)}, nil
}

// percent is how much of something is used, rounded up.
func percent(used, free uint64) int {
	if used+free == 0 {
		return 0
	}
	return int((used*100 + used + free - 1) / (used + free))
}
