package beneath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// eachWay runs a test with openat2, and as on a kernel without it.
func eachWay(t *testing.T, run func(t *testing.T)) {
	t.Run("openat2", run)
	t.Run("part by part", func(t *testing.T) {
		withoutOpenat2.Store(true)
		defer withoutOpenat2.Store(false)
		run(t)
	})
}

func open(t testing.TB, dir string) *Folder {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// yard is a folder with files, folders, links and others, and something outside that nobody may reach.
func yard(t testing.TB) (dir, outside string) {
	t.Helper()
	dir, outside = t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t,
		os.MkdirAll(at("d/e"), 0o755), os.MkdirAll(at(".git/hooks"), 0o755),
		os.WriteFile(at("f"), []byte("f"), 0o644), os.WriteFile(at("d/e/g"), []byte("g"), 0o644),
		os.WriteFile(filepath.Join(outside, "g"), []byte("outside"), 0o644),
		os.Symlink("d", at("in")), os.Symlink(outside, at("out")), os.Symlink("../f", at("d/file")),
		os.Symlink("/proc/self/root", at("magic")), os.Symlink("none", at("dangling")), os.Symlink("self", at("self")),
		os.Symlink("../../in/e", at("d/e/twice")),
		syscall.Mkfifo(at("pipe"), 0o600),
	)
	return dir, outside
}

func TestLinksAreNotFollowed(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		dir, _ := yard(t)
		f := open(t, dir)
		for name, link := range map[string]string{
			"in/e/g": "in", "in": "in", "out/g": "out", "d/file": "d/file", "magic/etc/passwd": "magic", "dangling": "dangling",
			"self/x": "self", "d/e/twice/g": "d/e/twice", "d/../in/e": "in",
		} {
			_, _, err := f.File(name)
			if e, ok := errors.AsType[*fs.PathError](err); !errors.Is(err, ErrLink) || !ok || e.Path != link {
				t.Errorf("open %s: %v", name, err)
			}
			if _, err := f.Folder(name); !errors.Is(err, ErrLink) {
				t.Errorf("open folder %s: %v", name, err)
			}
			if _, err := f.ReadDir(name); !errors.Is(err, ErrLink) {
				t.Errorf("list %s: %v", name, err)
			}
			if d, err := f.Make(name + "/made"); !errors.Is(err, ErrLink) {
				t.Errorf("make in %s: %v, %v", name, d, err)
			}
		}
		for _, name := range []string{"", "..", "../x", "/etc/passwd", "d/../../x", "a\x00b", "/"} {
			if _, _, err := f.File(name); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open %q: %v", name, err)
			}
		}
		for name, want := range map[string]error{"none": fs.ErrNotExist, "f/x": unix.ENOTDIR, "d": ErrNotRegular, "pipe": ErrNotRegular, ".": ErrNotRegular} {
			if _, _, err := f.File(name); !errors.Is(err, want) {
				t.Errorf("open %s: %v", name, err)
			}
		}
		if _, err := Open(filepath.Join(dir, "in")); !errors.Is(err, ErrLink) {
			t.Errorf("open a folder by a link: %v", err)
		}
		if _, err := Open("x"); err == nil {
			t.Error("a relative path was opened")
		}
		if r, err := OpenResolved(filepath.Join(dir, "in")); err != nil || r.Name() != filepath.Join(dir, "d") {
			t.Errorf("open resolved: %v, %v", r, err)
		} else {
			_ = r.Close()
		}
	})
}

func TestReadAndList(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		dir, _ := yard(t)
		f := open(t, dir)
		if raw, info, err := f.Read("d/e/g", 1); string(raw) != "g" || err != nil || info.Size() != 1 {
			t.Errorf("read: %q, %v", raw, err)
		}
		if _, _, err := f.Read("f", 0); !errors.Is(err, ErrTooLarge) {
			t.Errorf("read too much: %v", err)
		}
		if raw, _, more, err := f.Head("f", 0); len(raw) != 0 || !more || err != nil {
			t.Errorf("the head: %q, %v, %v", raw, more, err)
		}
		if info, err := f.Lstat("in"); err != nil || info.Mode()&fs.ModeSymlink == 0 || info.Name() != "in" {
			t.Errorf("lstat of a link: %v, %v", info, err)
		}
		if _, err := f.Lstat("in/e"); !errors.Is(err, ErrLink) {
			t.Errorf("lstat beyond a link: %v", err)
		}
		var seen []string
		err := f.Walk(".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() != "." {
				_, err = d.Info()
			}
			seen = append(seen, name)
			return err
		})
		want := ". .git .git/hooks d d/e d/e/g d/e/twice d/file dangling f in magic out pipe self"
		if got := strings.Join(seen, " "); err != nil || got != want {
			t.Errorf("walked %s, %v", got, err)
		}
		sub, err := f.Folder("d/e")
		must(t, err)
		defer sub.Close()
		var up []string
		if err := sub.Climb(f, func(at *Folder) error { up = append(up, filepath.Base(at.Name())); return nil }); err != nil || !slices.Equal(up, []string{"e", "d", filepath.Base(dir)}) {
			t.Errorf("climbed %v, %v", up, err)
		}
		if err := f.Climb(sub, func(*Folder) error { return nil }); err == nil {
			t.Error("the top lies in what is below it")
		}
	})
}

func TestWriting(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		dir, outside := yard(t)
		f := open(t, dir)
		sub, err := f.Make("d/new/deep")
		must(t, err)
		defer sub.Close()
		must(t, sub.Replace("x", ".tmp", []byte("one"), 0o600), sub.Replace("x", ".tmp", []byte("two"), 0o644))
		if raw, err := os.ReadFile(filepath.Join(dir, "d/new/deep/x")); string(raw) != "two" || err != nil {
			t.Errorf("it is %q, %v", raw, err)
		}
		// Links at the place of the file, and of the temporary file, are replaced and not followed.
		must(t, os.Symlink(filepath.Join(outside, "g"), filepath.Join(dir, "d/new/deep/y")),
			os.Symlink(filepath.Join(outside, "made"), filepath.Join(dir, "d/new/deep/.tmp")),
			sub.Replace("y", ".tmp", []byte("three"), 0o644))
		if raw, err := os.ReadFile(filepath.Join(dir, "d/new/deep/y")); string(raw) != "three" || err != nil {
			t.Errorf("it is %q, %v", raw, err)
		}
		// Other names of a hard link keep their content.
		must(t, os.Link(filepath.Join(outside, "g"), filepath.Join(dir, "d/new/deep/z")), sub.Replace("z", ".tmp", []byte("four"), 0o644))
		if raw, err := os.ReadFile(filepath.Join(outside, "g")); string(raw) != "outside" || err != nil {
			t.Errorf("outside is %q, %v", raw, err)
		}
		for _, name := range []string{"", ".", "..", "a/b", "a\x00"} {
			if _, err := sub.Create(name, 0o644); err == nil {
				t.Errorf("created %q", name)
			}
			if sub.Remove(name) == nil || sub.Rename("x", name) == nil {
				t.Errorf("removed or renamed to %q", name)
			}
		}
		must(t, sub.Remove("gone"), sub.Remove("x"), f.RemoveFolder("gone"))
		if f.RemoveFolder("d") == nil {
			t.Error("a folder that holds something was removed")
		}
		log, err := sub.Append("log", 0o644)
		must(t, err)
		_, err = log.WriteString("a")
		must(t, err, log.Close())
		must(t, os.Symlink(filepath.Join(outside, "made"), filepath.Join(dir, "d/new/deep/log2")), syscall.Mkfifo(filepath.Join(dir, "d/new/deep/log3"), 0o600))
		for _, name := range []string{"log2", "log3", ".."} {
			if _, err := sub.Append(name, 0o644); err == nil {
				t.Errorf("opened %s to append", name)
			}
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
			t.Errorf("outside holds %v, %v", left, err)
		}
	})
}

// TestRaced opens and makes files while a folder and a link change places.
func TestRaced(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		dir, _ := yard(t)
		f := open(t, dir)
		must(t, os.WriteFile(filepath.Join(dir, ".git/hooks/g"), []byte("hook"), 0o644), os.Symlink("../.git/hooks", filepath.Join(dir, "d/trap")))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			for ctx.Err() == nil {
				if err := unix.Renameat2(f.fd(), "d/e", f.fd(), "d/trap", unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		})
		read, wrote, refused := 0, 0, 0
		for i := range 4000 {
			if i%2 == 0 {
				raw, _, err := f.Read("d/e/g", 100)
				switch {
				case err == nil && string(raw) == "g":
					read++
				case errors.Is(err, ErrLink):
					refused++
				default:
					t.Fatalf("read %q, %v", raw, err)
				}
				continue
			}
			sub, err := f.Make("d/e/sub")
			if err != nil {
				refused++
				continue
			}
			must(t, sub.Replace(fmt.Sprint("n", i%10), ".tmp", nil, 0o644), sub.Close())
			wrote++
		}
		stop()
		running.Wait()
		if left, err := os.ReadDir(filepath.Join(dir, ".git/hooks")); err != nil || len(left) != 1 {
			t.Errorf("the hooks are %v, %v", left, err)
		}
		if read == 0 || wrote == 0 || refused == 0 {
			t.Errorf("%d were read, %d written, %d refused: the race shows nothing", read, wrote, refused)
		}
	})
}

// FuzzPath checks that whatever the path, what is opened is below the folder, and no part of the path was a link.
func FuzzPath(f *testing.F) {
	for _, s := range []string{
		"f", "d/e/g", "in/e/g", "out/g", "../x", "/etc/passwd", "d/../f", "d/./e//g", "magic/etc/passwd", "d/e/twice/g", "", ".", "..",
		"f/", "pipe", "a\x00b", "d/e/../../in/e/g", "\xff", "self/self", strings.Repeat("d/../", 900) + "f", strings.Repeat("x", 300),
	} {
		f.Add(s)
	}
	dir, outside := yard(f)
	top := open(f, dir)
	f.Fuzz(func(t *testing.T, name string) {
		var said [2]error
		for i, old := range []bool{false, true} {
			withoutOpenat2.Store(old)
			file, _, err := top.File(name)
			withoutOpenat2.Store(false)
			if said[i] = err; err != nil {
				continue
			}
			at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
			must(t, err, file.Close())
			if want := filepath.Join(dir, name); at != want || strings.HasPrefix(at, outside) {
				t.Errorf("%q opened %s", name, at)
			}
			for p := filepath.Join(dir, name); p != dir; p = filepath.Dir(p) {
				if info, err := os.Lstat(p); err != nil || info.Mode()&fs.ModeSymlink != 0 {
					t.Errorf("%q went through %s, %v", name, p, err)
				}
			}
		}
		if (said[0] == nil) != (said[1] == nil) || errors.Is(said[0], ErrLink) != errors.Is(said[1], ErrLink) {
			t.Errorf("%q: %v with openat2, %v without", name, said[0], said[1])
		}
	})
}

func TestCopyAndRemoveAll(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		dir, outside := yard(t)
		f, to := open(t, dir), open(t, t.TempDir())
		must(t, f.Copy("d", to, "copy"), f.Copy("pipe", to, "pipe"), f.Copy("out", to, "out"), os.Chmod(filepath.Join(dir, "f"), 0o700), f.Copy("f", to, "f"))
		var got []string
		must(t, to.Walk(".", func(name string, d fs.DirEntry, err error) error {
			got = append(got, name)
			return err
		}))
		if want := ". copy copy/e copy/e/g copy/e/twice copy/file f out"; strings.Join(got, " ") != want {
			t.Errorf("copied %v", got)
		}
		if target, err := to.Readlink("out"); target != outside || err != nil {
			t.Errorf("the link leads to %s, %v", target, err)
		}
		if info, err := to.Lstat("f"); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the file is %v, %v", info, err)
		}
		if err := f.Copy("f", to, "f"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("copied over a file: %v", err)
		}
		must(t, to.RemoveAll("copy"), to.RemoveAll("out"), to.RemoveAll("gone"))
		if left, err := to.ReadDir("."); err != nil || len(left) != 1 {
			t.Errorf("left are %v, %v", left, err)
		}
		if _, err := os.Stat(filepath.Join(outside, "g")); err != nil {
			t.Error(err)
		}
	})
}

// What its owner cannot list is unlocked, and removed; root can list everything.
func TestUnlocked(t *testing.T) {
	eachWay(t, func(t *testing.T) {
		dir, outside := yard(t)
		f := open(t, dir)
		lock := func(names ...string) {
			for _, name := range names {
				must(t, os.Chmod(filepath.Join(dir, name), 0o300))
			}
		}
		lock("d/e", "d")
		sub, err := f.Unlocked("d/e")
		must(t, err)
		if _, _, err := sub.Read("g", 1); err != nil || sub.Name() != filepath.Join(dir, "d/e") {
			t.Errorf("read in %s: %v", sub.Name(), err)
		}
		must(t, sub.Close())
		if info, err := os.Stat(filepath.Join(dir, "d/e")); os.Geteuid() != 0 && (err != nil || info.Mode().Perm() != 0o700) {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
		must(t, os.Chmod(outside, 0o300))
		if _, err := f.Unlocked("out"); !errors.Is(err, ErrLink) {
			t.Errorf("a link: %v", err)
		}
		if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o300 {
			t.Errorf("what a link leads to was unlocked: %v, %v", info.Mode(), err)
		}
		must(t, os.Chmod(outside, 0o700))
		// What can be listed and not searched is unlocked, too.
		must(t, os.Chmod(filepath.Join(dir, "d"), 0o600))
		sub, err = f.Unlocked("d")
		must(t, err)
		if _, err := sub.Lstat("e"); err != nil {
			t.Errorf("look into a folder that cannot be searched: %v", err)
		}
		must(t, sub.Close())
		must(t, os.Chmod(filepath.Join(dir, "d/e"), 0o500))
		lock("d")
		if must(t, f.RemoveAll("d")); slices.Contains(names(t, dir), "d") {
			t.Error("it is left")
		}
	})
}

// What is deeper than there are descriptors is removed, too, and holds few of them.
func TestRemoveDeep(t *testing.T) {
	f := open(t, t.TempDir())
	before := len(names(t, "/proc/self/fd"))
	at, err := f.Folder(".")
	must(t, err)
	for range 5 * mostHeld {
		must(t, unix.Mkdirat(at.fd(), "d", 0o755))
		must(t, unix.Mkdirat(at.fd(), "e", 0o755))
		next, err := at.Folder("d")
		must(t, err)
		must(t, at.Close())
		at = next
	}
	must(t, at.Close())
	var have unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &have))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(before + 2*mostHeld), Max: have.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &have)) }()
	must(t, f.RemoveAll("d"))
	if got := names(t, f.Name()); !slices.Equal(got, []string{"e"}) {
		t.Errorf("left: %v", got)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
