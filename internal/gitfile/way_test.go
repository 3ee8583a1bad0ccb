package gitfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A path is followed as the kernel does: a link counts before the ".." behind it, and every link on the way is named.
func TestWay(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, top+"/a/b/f", "x")
	put(t, top+"/a/g", "x")
	for name, to := range map[string]string{"l": "a/b", "abs": top + "/l", "loop": "loop", "dead": "none/at/all"} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]Way{
		"a/b/f":      {nil, top + "/a/b/f", true},
		"a/../a/b":   {nil, top + "/a/b", true},
		"l/../g":     {[]string{top + "/l"}, top + "/a/g", true},
		"abs/f":      {[]string{top + "/abs", top + "/l"}, top + "/a/b/f", true},
		"dead/x":     {[]string{top + "/dead"}, top + "/none/at/all/x", false},
		"none/../a":  {nil, top + "/a", false},
		"l/./none//": {[]string{top + "/l"}, top + "/a/b/none", false},
	} {
		got := WayOf(Literal(top, path))
		if got.End != want.End || got.There != want.There || !slices.Equal(got.Links, want.Links) {
			t.Errorf("%s: %+v, not %+v", path, got, want)
		}
		if real, err := filepath.EvalSymlinks(top + "/" + path); (err == nil) != got.There || err == nil && real != got.End {
			t.Errorf("%s: the kernel finds %s, %v", path, real, err)
		}
	}
	if got := Beside(top, "l/../g"); got != top+"/a/g" {
		t.Errorf("behind a link: %s", got)
	}
	if got := Beside(top, "a/../l/."); got != top+"/l" {
		t.Errorf("without need: %s", got)
	}
	if got := WayOf(top + "/loop/x"); got.There {
		t.Errorf("a link to itself: %+v", got)
	}
}

// FuzzWay checks that a path that leads somewhere leads where the kernel says.
func FuzzWay(f *testing.F) {
	top, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	if err := os.MkdirAll(top+"/a/b", 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("a/b", top+"/l"); err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{"a/b", "l/..", "l/../../l", "x/../l", "/", "../l\x00"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := WayOf(Literal(top, path))
		real, err := filepath.EvalSymlinks(Literal(top, path))
		if err == nil && (!got.There || got.End != real) {
			t.Errorf("%q: %+v; the kernel finds %s", path, got, real)
		}
	})
}
