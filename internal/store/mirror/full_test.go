//go:build failpoint

package mirror

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func tries(t *testing.T, file string) int {
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(raw)
}

// A git that cannot write is tried again until it can, and the log says so once.
func TestFailpointsDiskFull(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin, full, count := t.TempDir(), filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "count")
	script := "#!/bin/sh\nif [ -e " + full + " ]; then case \"$*\" in *fast-import*)\n" +
		"echo >> " + count + "; echo 'fatal: unable to write: No space left on device' >&2; exit 128;; esac; fi\nexec " + real + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TASKDAEMON_FAILPOINT_GIT", filepath.Join(bin, "git"))
	if err := os.WriteFile(full, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	j.add(task(1), life(task(1), 1)...)
	log := &lines{}
	m := New(Options{Journal: j, Path: path, Log: log.logger(), Window: time.Millisecond, Retry: time.Millisecond})
	during(t, m, func() {
		until(t, "a failure", func() bool { return log.count("trying again") > 0 })
		before := tries(t, count)
		until(t, "more failures", func() bool { return tries(t, count) >= before+3 })
		if err := os.Remove(full); err != nil {
			t.Fatal(err)
		}
		until(t, "mirrored", func() bool { return m.Mirrored() == j.last() })
	})
	if n := log.count("trying again"); n != 1 {
		t.Errorf("said %d times", n)
	}
	fsck(t, path)
}
