package git

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// What was proven once is not unpacked again, and still any byte that changes is found: in a pack that was proven, in its index, in one that came since, and in an
// object that is in none, though times and sizes are as they were.
func TestFsckAgain(t *testing.T) {
	r := openTest(t)
	tip := ""
	for range 5 {
		tip = commit(t, r, "refs/heads/a", tip)
	}
	if err := r.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Fsck(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := readProven(r.Path())
	if err != nil || len(first) == 0 {
		t.Fatalf("proven are %v, %v", first, err)
	}
	commit(t, r, "refs/heads/a", tip)
	for _, end := range []string{".pack", ".idx"} {
		files, err := filepath.Glob(filepath.Join(r.Path(), "objects", "pack", "*"+end))
		if err != nil || len(files) < 2 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, file := range files {
			if err := writeProven(r.Path(), first); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			put := func(raw []byte) {
				t.Helper()
				if err := os.Chmod(file, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, raw, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(file, time.Time{}, info.ModTime()); err != nil {
					t.Fatal(err)
				}
			}
			harmed := bytes.Clone(raw)
			harmed[len(harmed)/2] ^= 4
			put(harmed)
			if err := r.Fsck(t.Context()); !td.IsKind(err, td.Corrupt) {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
			put(raw)
			if err := r.Fsck(t.Context()); err != nil {
				t.Errorf("%s, put back: %v", filepath.Base(file), err)
			}
		}
	}
	if now, err := readProven(r.Path()); err != nil || len(now) != len(first)+1 {
		t.Errorf("proven are %v, %v", now, err)
	}
}

func FuzzProven(f *testing.F) {
	dir := f.TempDir()
	if err := writeProven(dir, map[string]string{"pack-1": "aa", "pack-2": "bb"}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, provenFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("pack-1 aa\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		proven := parseProven(raw)
		if len(proven) == 0 {
			return
		}
		// Only what ends in its own hash counts.
		raw = bytes.Clone(raw)
		raw[0] ^= 1
		if again := parseProven(raw); len(again) > 0 {
			t.Errorf("%q counts, too", raw)
		}
	})
}
