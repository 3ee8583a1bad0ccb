package git

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func openTest(t *testing.T) *Repo {
	t.Helper()
	r, err := OpenBare(t.Context(), filepath.Join(t.TempDir(), "bare.git"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOpenBare(t *testing.T) {
	parent := checkout(t) // a repository above must not be taken for ours
	path := parent + "/state/bare.git"
	open := func(what string) *Repo {
		t.Helper()
		r, err := OpenBare(t.Context(), path)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := r.Fsck(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return r
	}
	r := open("new")
	commit(t, r, "refs/heads/a", "")
	tip, err := r.Tip(t.Context(), "refs/heads/a")
	if err != nil || tip == "" {
		t.Fatalf("%q, %v", tip, err)
	}
	kept := func(what string) {
		t.Helper()
		if got, err := open(what).Tip(t.Context(), "refs/heads/a"); err != nil || got != tip {
			t.Errorf("%s: tip %q, %v", what, got, err)
		}
	}
	kept("again")
	write(t, path+".making/HEAD", "half")
	kept("a draft lies about")
	write(t, path+"/HEAD", "")
	kept("HEAD is empty")
	write(t, path+"/config", "[[[\n")
	kept("the config cannot be read")
	_ = os.Remove(path + "/config")
	kept("no config")

	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	write(t, path+"/HEAD", "")
	write(t, path+".making/objects/x", "half")
	open("half made")
	if broken, _ := filepath.Glob(path + ".broken-*/HEAD"); len(broken) != 1 {
		t.Errorf("what was there is not kept: %v", broken)
	}
	_ = os.RemoveAll(path)
	write(t, path, "a file")
	open("a file in the way")
}

// commit imports one commit on ref.
func commit(t *testing.T, r *Repo, ref, onto string) string {
	t.Helper()
	im, err := r.Import(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := Commit{Ref: ref, Onto: onto, When: time.Unix(1e9, 0), Message: "m after " + onto, Files: []File{{Path: "f", Parts: []string{onto}}}}
	if err := im.Add(c); err != nil {
		t.Fatal(err)
	}
	tips, err := im.Done()
	if err != nil {
		t.Fatal(err)
	}
	return tips[ref]
}

func TestImport(t *testing.T) {
	r := openTest(t)
	im, err := r.Import(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("0123456789abcdef", 50<<20/16)
	for _, c := range []Commit{
		{Ref: "refs/heads/a", When: time.Unix(-5, 0), Message: "first\n", Files: []File{{Path: "d/f", Parts: []string{"one ", "two"}}, {Path: "old"}}},
		{Ref: "refs/heads/b", When: time.Unix(1<<62, 0), Message: "big", Files: []File{{Path: "big", Parts: []string{"head\n", big}}}},
		{Ref: "refs/heads/a", When: time.Unix(1e9, 0), Message: "second", Removed: []string{"old"}, Files: []File{{Path: "odd \"\\\n\xff name", Parts: []string{"\x00\xff"}}}},
	} {
		if err := im.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if im.Size() < int64(len(big)) {
		t.Errorf("size %d", im.Size())
	}
	tips, err := im.Done()
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"refs/heads/a", "refs/heads/b"} {
		if got, _ := r.Tip(t.Context(), ref); got == "" || got != tips[ref] {
			t.Errorf("%s is %q, tips say %q", ref, got, tips[ref])
		}
	}
	if got := user(t, r.Path(), "log", "--format=%ct %s", "a"); got != "1000000000 second\n0 first" {
		t.Errorf("log: %q", got)
	}
	if got := user(t, r.Path(), "cat-file", "-s", "b:big"); got != "52428805" {
		t.Errorf("size of the big file: %s", got)
	}
	objects, err := r.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	for name, want := range map[string]string{"refs/heads/a:d/f": "one two", "refs/heads/a:old": "", "refs/heads/none": "", "": ""} {
		got, id, err := objects.Get(name)
		if err != nil || string(got) != want || (id == "") != (want == "") {
			t.Errorf("%s: %q, %q, %v", name, got, id, err)
		}
	}
	if _, _, err := objects.Get("a\nb"); !td.IsKind(err, td.Invalid) {
		t.Errorf("a name with a newline: %v", err)
	}
	if err := r.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestImportMovesNothingUnlessDone(t *testing.T) {
	r := openTest(t)
	one := commit(t, r, "refs/heads/a", "")
	two := commit(t, r, "refs/heads/a", one)

	im, err := r.Import(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if nice := im.git.launch.Nice; nice != yielding {
		t.Errorf("an import has the nice value %d", nice)
	}
	if err := im.Add(Commit{Ref: "refs/heads/a", Onto: two, Message: "cut"}); err != nil {
		t.Fatal(err)
	}
	im.Abort()

	// A stream that just ends, as when the daemon is killed.
	if im, err = r.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := im.Add(Commit{Ref: "refs/heads/a", Onto: two, Message: "cut"}); err != nil {
		t.Fatal(err)
	}
	_ = im.buf.Flush()
	if err := im.broken(nil); err == nil {
		t.Error("git took a cut stream")
	}
	if got, _ := r.Tip(t.Context(), "refs/heads/a"); got != two {
		t.Errorf("tip %s, want %s", got, two)
	}

	// Built on something the ref has left behind.
	if im, err = r.Import(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := im.Add(Commit{Ref: "refs/heads/a", Onto: one, Message: "late"}); err != nil {
		t.Fatal(err)
	}
	if _, err := im.Done(); !td.IsKind(err, td.Conflict) {
		t.Errorf("not forward: %v", err)
	}
	im.Abort() // after Done it does nothing
	if left, _ := filepath.Glob(r.Path() + "/tmp_*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRename(t *testing.T) {
	r := openTest(t)
	one := commit(t, r, "refs/heads/a", "")
	if err := r.Rename(t.Context(), "refs/heads/a", "refs/kept/a"); err != nil {
		t.Fatal(err)
	}
	if a, _ := r.Tip(t.Context(), "refs/heads/a"); a != "" {
		t.Errorf("still there: %s", a)
	}
	if a, _ := r.Tip(t.Context(), "refs/kept/a"); a != one {
		t.Errorf("kept: %q", a)
	}
}

func TestFsckFindsDamage(t *testing.T) {
	r := openTest(t)
	commit(t, r, "refs/heads/a", "")
	if err := os.RemoveAll(filepath.Join(r.Path(), "objects/pack")); err != nil {
		t.Fatal(err)
	}
	if err := r.Fsck(t.Context()); !td.IsKind(err, td.Corrupt) {
		t.Errorf("%v", err)
	}
}

func TestUpkeepAndSweep(t *testing.T) {
	r := openTest(t)
	tip := ""
	for range 40 {
		tip = commit(t, r, "refs/heads/a", tip)
	}
	if err := r.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if packs, _ := filepath.Glob(r.Path() + "/objects/pack/*.pack"); len(packs) != 1 {
		t.Errorf("packs: %v", packs)
	}
	if r.Untidiness() >= 1 {
		t.Errorf("still untidy: %v", r.Untidiness())
	}
	write(t, r.Path()+"/refs/heads/a.lock", "")
	write(t, r.Path()+"/objects/pack/tmp_pack_x", "")
	if gone, err := r.Sweep(time.Hour); err != nil || len(gone) != 0 {
		t.Errorf("young files went: %v, %v", gone, err)
	}
	if gone, err := r.Sweep(-time.Second); err != nil || len(gone) != 2 {
		t.Errorf("old files stayed: %v, %v", gone, err)
	}
	if got, _ := r.Tip(t.Context(), "refs/heads/a"); got != tip {
		t.Errorf("tip %q, want %q", got, tip)
	}
	if err := r.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}

// Several who open a repository whose config is garbled, or that is not there yet, at the same time all get it: it is mended once. A lock that a killed git
// left is no hindrance.
func TestOpenBareTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conversations.git")
	for range 5 {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if r, err := OpenBare(t.Context(), path); err != nil || r.Aside() != "" {
					t.Errorf("opened: %v", err)
				}
			})
		}
		wg.Wait()
		for _, name := range []string{"config", "config.lock"} {
			if err := os.WriteFile(filepath.Join(path, name), []byte("[[["), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
