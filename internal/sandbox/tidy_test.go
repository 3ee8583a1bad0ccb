package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUnreplace checks that replacements go out of packed-refs, that nothing else does, and that whoever holds git's lock is waited for.
func TestUnreplace(t *testing.T) {
	id, other := strings.Repeat("a", 40), strings.Repeat("b", 40)
	kept := "# pack-refs with: peeled fully-peeled sorted \n" + id + " refs/heads/main\n" + other + " refs/replace/" + id + "\n" + id + " refs/tags/v1\n^" + other + "\n"
	evil := id + " refs/replace/" + other + "\n^" + id + "\n"
	git := gitFolder(t)
	d := asGitDir(git)
	d.replaced = []string{other + " refs/replace/" + id}
	read := func() string {
		raw, err := os.ReadFile(filepath.Join(git.Name(), packedRefs))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for _, text := range []string{kept, kept + evil, evil + kept} {
		put(t, git, packedRefs, text)
		told := d.unreplace(7)
		if want := strings.ReplaceAll(text, evil, ""); read() != want || strings.Contains(text, evil) != (len(told) == 1) {
			t.Errorf("%.200q is left, and told %q", read(), told)
		}
	}

	// Somebody's git is at it, and puts another file there.
	put(t, git, packedRefs, evil)
	put(t, git, packedRefs+".lock", "")
	go func() {
		for range 20 {
			_ = os.WriteFile(filepath.Join(git.Name(), packedRefs+".lock"), []byte(kept+evil), 0o644)
			time.Sleep(time.Millisecond)
		}
		_ = os.Rename(filepath.Join(git.Name(), packedRefs+".lock"), filepath.Join(git.Name(), packedRefs))
	}()
	if told := d.unreplace(7); read() != kept || len(told) != 1 {
		t.Errorf("%q is left, and told %q", read(), told)
	}
	// A command left the lock.
	put(t, git, packedRefs, kept+evil)
	put(t, git, packedRefs+".lock", "")
	if told := d.unreplace(7); read() != kept || len(told) != 1 || fileExists(git.Name()+"/"+packedRefs+".lock") {
		t.Errorf("%q is left, and told %q", read(), told)
	}
	// What is none of git's is kept.
	for i, spoil := range []func(at string) error{
		func(at string) error { return os.Truncate(at, maxPackedRefs+1) },
		func(at string) error { return os.WriteFile(at, []byte(kept+strings.Repeat("x", 2*maxRefLine)), 0o644) },
	} {
		since := int64(7 + i)
		put(t, git, packedRefs, kept+evil)
		if err := spoil(filepath.Join(git.Name(), packedRefs)); err != nil {
			t.Fatal(err)
		}
		if told := d.unreplace(since); !fileExists(git.Name()+"/"+packedRefs+keptAs(since)) || fileExists(git.Name()+"/"+packedRefs) {
			t.Errorf("told %q", told)
		}
	}
}
