package td

import "testing"

func TestDiskLevels(t *testing.T) {
	for _, c := range []struct{ room, inodes, warn, want int }{
		{89, 0, 90, 0}, {90, 0, 90, 90}, {94, 0, 90, 90}, {95, 0, 90, 95}, {100, 0, 90, 99},
		{10, 91, 90, 90}, {98, 0, 97, 97}, {96, 0, 97, 0}, {99, 0, 100, 0}, {100, 0, 100, 100}, {1, 0, 1, 1},
	} {
		u := DiskUse{Room: c.room, Inodes: c.inodes, Warn: c.warn}
		if got := u.Level(); got != c.want {
			t.Errorf("%+v: level %d, want %d", u, got, c.want)
		}
	}
	if u := (DiskUse{Room: 89, Warn: 90}); !u.Near(90) || (DiskUse{Room: 88}).Near(90) || (DiskUse{Room: 89, Warn: 100}).Near(1) {
		t.Error("a disk that hardly fell below a level is told again")
	}
}
