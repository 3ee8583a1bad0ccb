package disk

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"taskdaemon/internal/td"
)

// What comes of too many open files says so, with what to type; anything else is left alone.
func TestNoMoreFiles(t *testing.T) {
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE} {
		err := NoMoreFiles(fmt.Errorf("unable to open database file: %w", errno), true)
		if !td.IsKind(err, td.Storage) || !strings.Contains(err.Error(), "files") || td.HintOf(err) == "" || !errors.Is(err, errno) {
			t.Errorf("%v: %v, hint %q", errno, err, td.HintOf(err))
		}
	}
	for _, other := range []error{nil, syscall.EACCES, errors.New("unable to open database file")} {
		if err := NoMoreFiles(other, true); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
}
