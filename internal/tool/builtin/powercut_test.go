package builtin

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk/disktest"
	"taskdaemon/internal/tool"
)

// TestChangeOutlastsThePower cuts the power as soon as a change counts as made: the file has its new content.
func TestChangeOutlastsThePower(t *testing.T) {
	if !disktest.Inside(t) {
		return
	}
	write := args{"path": "a", "content": "new\n"}
	for name, tc := range map[string]struct {
		file string
		make func(b *bench)
	}{
		"created": {"d/a", func(b *bench) { b.ok("Write", args{"path": "d/a", "content": "new\n"}) }},
		"written": {"a", func(b *bench) { b.ok("Write", write) }},
		"edited":  {"a", func(b *bench) { b.ok("Edit", args{"path": "a", "old_string": "old", "new_string": "new"}) }},
		"found made": {"a", func(b *bench) { // by a daemon that was killed before it synced the folder
			call := b.prepare("Write", write)
			b.put("temp", "new\n")
			f, err := os.Open(filepath.Join(b.dir, "temp"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
			if err := os.Rename(f.Name(), filepath.Join(b.dir, "a")); err != nil {
				b.Fatal(err)
			}
			if res := b.resolve("Write", write, call); res.State != tool.Done || res.Result.IsError {
				b.Errorf("it is found as %+v", res)
			}
		}},
	} {
		d := disktest.New(t, 64)
		t.Run(name, func(t *testing.T) {
			b := newBenchIn(t, d.Dir, Options{Ripgrep: NoRipgrep})
			b.put("a", "old\n")
			b.put("d/b", "")
			syncAll(t, d.Dir)
			b.ok("Read", args{"path": "a"})
			tc.make(b)
			d.Cut(t)
		})
		d.Again(t)
		if raw, err := os.ReadFile(filepath.Join(d.Dir, tc.file)); err != nil || string(raw) != "new\n" {
			t.Errorf("%s: after the cut the file is %q, %v", name, raw, err)
		}
	}
}

// syncAll puts all that is on a file system on its disk.
func syncAll(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
}
