package disk

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// A disk that fails under a file of the daemon's own is the machine's trouble; under one of the workspace it is what a tool found.
func TestTrouble(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{Own(nil), false},
		{fmt.Errorf("write: %w", syscall.ENOSPC), true},
		{&fs.PathError{Op: "read", Path: "main.go", Err: syscall.EIO}, false},
		{fmt.Errorf("read result: %w", Own(&fs.PathError{Op: "read", Path: "result.json", Err: syscall.EIO})), true},
		{Own(syscall.EROFS), true},
		{syscall.EROFS, false},
		{Own(fs.ErrNotExist), false},
	} {
		if got := Trouble(tc.err); got != tc.want {
			t.Errorf("trouble is %v of %v", got, tc.err)
		}
	}
}
