package mirror

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that can be counted.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), words)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func tries(t *testing.T, file string) int {
	raw, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(raw)
}

// A git that cannot write is tried again until it can, and the log says so once.
func TestDiskFull(t *testing.T) {
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
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
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
