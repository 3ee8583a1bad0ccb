package tool

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func workspace(t testing.TB) *Workspace {
	t.Helper()
	w, err := OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestRel(t *testing.T) {
	w, outside := workspace(t), t.TempDir()
	if err := os.MkdirAll(filepath.Join(w.Dir(), "d/e"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir(), "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"in": "d/e", "abs": filepath.Join(w.Dir(), "d"), "out": outside, "up": "..", "self": "self",
		"dangling": "d/new", "dangling-out": outside + "/new", "chain": "out/new", "chain2": "chain", "sneaky": "d/../../x",
	} {
		link(t, target, filepath.Join(w.Dir(), name))
	}
	for in, want := range map[string]string{
		".": ".", "f": "f", "./f": "f", "d//e/": "d/e", "d/../f": "f", "new/deep/file": "new/deep/file",
		filepath.Join(w.Dir(), "f"): "f", w.Dir(): ".", "in/x": "d/e/x", "abs/x": "d/x", "dangling": "d/new", "dangling/x": "d/new/x",
		"..f": "..f", "d/...": "d/...",
	} {
		if got, err := w.Rel(in); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"..", "../x", "d/../../x", "/", "/etc/passwd", w.Dir() + "x", w.Dir() + "/../x", outside,
		"out", "out/x", "up", "up/x", "self", "self/x", "dangling-out", "chain", "chain2", "sneaky", "f/x",
	} {
		if got, err := w.Rel(in); !td.IsKind(err, td.Refused) {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "a\x00b"} {
		if got, err := w.Rel(in); !td.IsKind(err, td.Invalid) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// TestWorkspaceBehindASymlink names files by another path to the folder than its own. The folder itself is opened by the
// path that the task was given, and by no link that was put there since.
func TestWorkspaceBehindASymlink(t *testing.T) {
	real := filepath.Join(t.TempDir(), "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(t.TempDir(), "alias")
	link(t, real, alias)
	w, err := OpenWorkspace(real)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, in := range []string{"x", filepath.Join(real, "x"), filepath.Join(alias, "x")} {
		if got, err := w.Rel(in); err != nil || got != "x" {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	if _, err := OpenWorkspace(alias); !td.IsKind(err, td.Unavailable) || !strings.Contains(err.Error(), alias+" is a symbolic link now") {
		t.Errorf("open by a link: %v", err)
	}
}

// TestIntact puts another folder, or a link, in the place of the workspace. Files are still those of the one that is held.
func TestIntact(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	for _, d := range []string{dir, dir + "-other"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/f", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Intact(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func() error{
		"nothing": func() error { return nil },
		"folder":  func() error { return os.Mkdir(dir, 0o755) },
		"link":    func() error { return os.Symlink(dir+"-away", dir) },
	} {
		if err := take(); err != nil {
			t.Fatal(err)
		}
		if err := w.Intact(); !td.IsKind(err, td.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if f, _, err := w.Open("f"); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			_ = f.Close()
		}
		_ = os.Remove(dir)
	}
}

func TestOpenWorkspaceThatIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "-none"} {
		if _, err := OpenWorkspace(dir); !td.IsKind(err, td.Unavailable) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// FuzzRel checks that whatever Rel lets through stays inside, and that it says the same of its own answer.
func FuzzRel(f *testing.F) {
	for _, s := range []string{"a", "../a", "/", "out/x", "in/../..", "./", "a/./b", "\xff", "in/out"} {
		f.Add(s)
	}
	w, outside := workspace(f), f.TempDir()
	link(f, outside, filepath.Join(w.Dir(), "out"))
	if err := os.Mkdir(filepath.Join(w.Dir(), "d"), 0o755); err != nil {
		f.Fatal(err)
	}
	link(f, "d", filepath.Join(w.Dir(), "in"))
	link(f, "..", filepath.Join(w.Dir(), "d", "out"))
	f.Fuzz(func(t *testing.T, path string) {
		rel, err := w.Rel(path)
		if err != nil {
			return
		}
		if !filepath.IsLocal(rel) {
			t.Errorf("%q gave %q", path, rel)
		}
		if again, err := w.Rel(rel); err != nil || again != rel {
			t.Errorf("%q gave %q, and that gave %q, %v", path, rel, again, err)
		}
		if info, err := w.Lstat(rel); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			t.Errorf("%q gave %q, which is a link", path, rel)
		}
	})
}
