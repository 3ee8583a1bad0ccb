package git

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// gits runs f and says how often git was run meanwhile.
func gits(t *testing.T, f func()) int {
	t.Helper()
	path, count := fakeGit(t)(t, 0, "never")
	standIn = strings.TrimPrefix(path, testGit+"=")
	defer func() { standIn = "" }()
	f()
	raw, _ := os.ReadFile(count)
	return bytes.Count(raw, []byte("\n"))
}

// overwrite changes bytes of a file, and nothing that its folder tells of it: not its size, and not when it was written.
func overwrite(t *testing.T, file, text string, through func(f *os.File)) {
	t.Helper()
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if through != nil {
		through(f)
	} else if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, was.ModTime(), was.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// Files that git takes as they are are taken without it but for the ref, and each tree is the one that git makes of everything.
func TestStepsWithoutGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			dir := checkout(t)
			if format == "sha256" {
				_ = os.RemoveAll(dir + "/.git")
				user(t, dir, "init", "-q", "-b", "main", "--object-format=sha256")
				user(t, dir, "add", "-A")
				user(t, dir, "commit", "-q", "-m", "first")
			}
			write(t, dir+"/.gitignore", "*.o\n*.log\n")
			write(t, dir+"/.gitattributes", "*.txt text=auto\n*.id ident\n*.lf eol=lf\n*.bin binary\n")
			for _, name := range []string{"kept.log", "note.txt", "deep/er/one", "deep/two", "id.id", "x.bin", "a b ö"} {
				write(t, dir+"/"+name, name+"\n")
			}
			user(t, dir, "add", "-A")
			user(t, dir, "add", "-f", "kept.log")
			user(t, dir, "commit", "-q", "-m", "second")
			s := attentive(t, dir, "t-1")
			last := s.last
			at := func(name string) string { return filepath.Join(dir, name) }
			remove := func(names ...string) func() {
				return func() {
					for _, name := range names {
						if err := os.Remove(at(name)); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			put := func(name, text string) func() { return func() { write(t, at(name), text) } }
			const ref, learns, reads = 1, 2, 1
			for _, c := range []struct {
				what string
				do   func()
				gits int // 0: any number
				same bool
			}{
				{"the first change", put("main.go", "package one\n"), learns + reads + ref, false},
				{"the next", put("main.go", "package two\n"), ref, false},
				{"the same size and time", func() { overwrite(t, at("main.go"), "package six\n", nil) }, ref, false},
				{"the same size and time, through memory", func() {
					overwrite(t, at("main.go"), "", func(f *os.File) {
						mem, err := unix.Mmap(int(f.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
						if err != nil {
							t.Fatal(err)
						}
						mem[0] = 'P'
						if err := unix.Munmap(mem); err != nil {
							t.Fatal(err)
						}
					})
				}, ref, false},
				{"only touched", put("main.go", "Package six\n"), 0, true},
				{"back to what the index has", put("main.go", "package main\n"), ref, false},
				{"deep", put("deep/er/one", "changed"), learns + reads + ref, false},
				{"beside it", put("deep/two", "changed"), learns + ref, false},
				{"both", func() { put("deep/er/one", "again")(); put("deep/two", "again")() }, ref, false},
				{"gone, and its folder with it in the tree", remove("deep/er/one"), ref, false},
				{"come again", put("deep/er/one", "back"), 0, false},
				{"came and went", func() { put("deep/passing", "x")(); remove("deep/passing")() }, 0, true},
				{"a new file", put("deep/new", "x"), 0, false},
				{"it changes", put("deep/new", "y"), ref, false},
				{"a new file with another name", put("deep/.gitmodules ", "x"), 0, false},
				{"an odd name", put("a b ö", "x"), 0, false},
				{"a new file that is ignored", put("deep/new.o", "x"), 0, true},
				{"ignored and counts", put("kept.log", "more"), 0, false},
				{"ignored and gone", func() { user(t, dir, "rm", "-qf", "kept.log") }, 0, false},
				{"ignored and come again", put("kept.log", "once more"), 0, true},
				{"a program", func() { _ = os.Chmod(at("main.go"), 0o755) }, 0, false},
				{"a link", func() { remove("main.go")(); _ = os.Symlink("deep/two", at("main.go")) }, 0, false},
				{"another link", func() { remove("main.go")(); _ = os.Symlink("/nowhere", at("main.go")) }, ref, false},
				{"a file again", func() { remove("main.go")(); put("main.go", "package main\n")() }, ref, false},
				{"lines", put("note.txt", "a\nb\n"), 0, false},
				{"lines with other ends", put("note.txt", "a\r\nb\r\nc\r\n"), 0, false},
				{"lines with their ends", put("note.txt", "a\nb\nd\n"), 0, false},
				{"what looks like lines", put("x.bin", "a\r\nb\r\n"), 0, false},
				{"a name in a file", put("id.id", "$Id: x $\n"), 0, false},
				{"more than is read", put("deep/two", strings.Repeat("x", maxPlain+1)), 0, false},
				{"less again", put("deep/two", "small"), 0, false},
				{"a folder", put("folder/in/it", "x"), 0, false},
				{"… and a file in it", put("folder/in/beside", "x"), 0, false},
			} {
				c.do()
				var now Tree
				n := gits(t, func() { now = take(t, s) })
				if c.gits > 0 && n != c.gits {
					t.Errorf("%s: git was run %d times; want %d", c.what, n, c.gits)
				}
				if (now.Hash == last.Hash) != c.same || (now.Commit == last.Commit) != c.same {
					t.Errorf("%s: %+v after %+v", c.what, now, last)
				}
				want, err := TreeHash(t.Context(), dir)
				if err != nil || now.Hash != want {
					t.Errorf("%s: the tree is %s, not %s (%v)", c.what, now.Hash, want, err)
				}
				if got := user(t, dir, "log", "-1", "--format=%H %T %an %ae %cn", StepsPrefix+"t-1"); got != now.Commit+" "+now.Hash+" taskdaemon taskdaemon@localhost taskdaemon" {
					t.Errorf("%s: the ref is at %s", c.what, got)
				}
				if now.Commit != last.Commit && !strings.Contains(user(t, dir, "log", "-1", "--format=%P", now.Commit), last.Commit) {
					t.Errorf("%s: the one before is lost", c.what)
				}
				last = now
				if s.watch == nil {
					take(t, s)
					take(t, s)
				}
			}
			user(t, dir, "fsck", "--strict", "--no-dangling")
			if left, _ := filepath.Glob(dir + "/.git/objects/*/tmp_obj_*"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// What was taken without the index is in the next tree that is made of it: after a commit of the agent's, when all is compared, and when files are put back.
func TestStepsIndexBehind(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, dir string, s *Steps) Tree{
		"a commit": func(t *testing.T, dir string, s *Steps) Tree {
			user(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
			return take(t, s)
		},
		"all is compared": func(t *testing.T, _ string, s *Steps) Tree {
			now, err := s.Take(t.Context(), "a step", true)
			if err != nil {
				t.Fatal(err)
			}
			return now
		},
		"the index has it": func(t *testing.T, dir string, s *Steps) Tree {
			write(t, dir+"/main.go", "package main\n")
			now, err := s.Take(t.Context(), "a step", true)
			if err != nil {
				t.Fatal(err)
			}
			return now
		},
		"something that is not plain": func(t *testing.T, dir string, s *Steps) Tree {
			write(t, dir+"/folder/in", "x")
			return take(t, s)
		},
		"another life": func(t *testing.T, dir string, s *Steps) Tree {
			again := openSteps(t, dir, filepath.Dir(s.index))
			return take(t, again)
		},
		"put back": func(t *testing.T, dir string, s *Steps) Tree {
			if _, err := s.Restore(t.Context(), user(t, dir, "rev-parse", "HEAD^{tree}"), "back"); err != nil {
				t.Fatal(err)
			}
			return take(t, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t)
			s := attentive(t, dir, "t-1")
			write(t, dir+"/main.go", "package taken\n")
			write(t, dir+"/pkg/b.go", "package taken\n")
			take(t, s)
			if len(s.behind) != 2 {
				t.Fatalf("%d files are not in the index; want two", len(s.behind))
			}
			now := then(t, dir, s)
			want, err := TreeHash(t.Context(), dir)
			if err != nil || now.Hash != want {
				t.Errorf("the tree is %s, not %s (%v)", now.Hash, want, err)
			}
		})
	}
}

// Where settings say how files are read, git reads them.
func TestStepsPlainSettings(t *testing.T) {
	for _, c := range []struct {
		set   []setting
		plain bool
	}{
		{nil, true},
		{[]setting{{"core.filemode", "true"}, {"core.autocrlf", "input"}, {"alias.x", "!x"}}, true},
		{[]setting{{"core.filemode", "false"}}, false},
		{[]setting{{"core.symlinks", "no"}}, false},
		{[]setting{{"core.ignorecase", "true"}}, false},
		{[]setting{{"core.sparsecheckout", "true"}}, false},
		{[]setting{{"core.sharedrepository", "group"}}, false},
		{[]setting{{"i18n.commitencoding", "latin1"}}, false},
		{[]setting{{"extensions.somethingnew", "true"}}, false},
	} {
		if got := plainIn(&settings{local: c.set}); (got != nil) != c.plain {
			t.Errorf("%v: plain is %v", c.set, got != nil)
		}
	}
	for key := range needs {
		if !isStated(key) {
			t.Errorf("%s is told to no git", key)
		}
	}
}

func TestPlainPath(t *testing.T) {
	for _, name := range []string{"a", "a/b.go", ".env", "a/.golangci.yml", "x-1.2_3", "git/x", "a.git"} {
		if !plainPath(name) {
			t.Errorf("%q is plain", name)
		}
	}
	for _, name := range []string{"", "/a", "a//b", "a/", ".", "..", "a/../b", ".git", "a/.GIT/x", ".gitmodules", "GIT~1", "a b", "ö", "a\\b", "a:b", "a."} {
		if plainPath(name) {
			t.Errorf("%q is not plain", name)
		}
	}
}

// A tree is read as it was written, and what is no tree is refused.
func FuzzTreeEntries(f *testing.F) {
	f.Add([]byte("100644 a\x0001234567890123456789"))
	f.Add([]byte("100644 a\x000123456789012345678940000 b\x0001234567890123456789"))
	f.Add([]byte("100644 a-b\x000123456789012345678940000 a\x0001234567890123456789"))
	f.Add([]byte("40000 a/b\x0001234567890123456789"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		entries, ok := treeEntries(raw, 40)
		if !ok {
			return
		}
		if again := formatTree(entries); !bytes.Equal(again, raw) {
			t.Errorf("%q became %q", raw, again)
		}
		if len(entries) > 0 {
			e := entries[len(entries)/2]
			if out := withEntry(withEntry(entries, e.name, nil), e.name, &e); !slices.Equal(out, entries) {
				t.Errorf("%q became %q", entries, out)
			}
		}
	})
}
