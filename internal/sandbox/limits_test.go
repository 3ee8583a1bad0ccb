package sandbox

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpare checks that inodes have to stay free as room does, and that disks which count none have enough.
func TestSpare(t *testing.T) {
	l := Limits{Free: 512 << 20}
	for _, c := range []struct {
		st   unix.Statfs_t
		want spare
	}{
		{unix.Statfs_t{Bsize: 4096, Bavail: 1 << 20, Files: 10_000_000, Ffree: 40_000}, spare{bytes: 4<<30 - 512<<20, inodes: 40_000 - 32_768}},
		{unix.Statfs_t{Bsize: 4096, Bavail: 1 << 10, Files: 20_000, Ffree: 4_999}, spare{bytes: 4<<20 - 512<<20, inodes: -1}},
		{unix.Statfs_t{Bsize: 4096, Bavail: 1 << 20}, spare{bytes: 4<<30 - 512<<20, inodes: math.MaxInt64}},
	} {
		if got := l.spare(c.st); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.st, got, c.want)
		}
	}
}
