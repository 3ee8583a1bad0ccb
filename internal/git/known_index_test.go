package git

import (
	"bytes"
	"crypto/sha1"
	be "encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// believing are the ways in which an index can tell git that a file has not changed.
var believing = map[string]func(t *testing.T, w Worktree, file string){
	"assume-unchanged": func(t *testing.T, w Worktree, file string) {
		user(t, w.Path, "update-index", "--assume-unchanged", file)
	},
	"skip-worktree": func(t *testing.T, w Worktree, file string) { user(t, w.Path, "update-index", "--skip-worktree", file) },
	"its times":     forgeStat,
}

// forgeStat writes into the index that it knows the file as it is on disk.
func forgeStat(t *testing.T, w Worktree, file string) {
	t.Helper()
	index := user(t, w.Path, "rev-parse", "--path-format=absolute", "--git-path", "index")
	raw, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(filepath.Join(w.Path, file), &st); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(raw, []byte(file+"\x00")) - 62
	for i, v := range []int64{st.Ctim.Sec, st.Ctim.Nsec, st.Mtim.Sec, st.Mtim.Nsec, int64(st.Dev), int64(st.Ino)} {
		be.BigEndian.PutUint32(raw[at+4*i:], uint32(v))
	}
	be.BigEndian.PutUint32(raw[at+36:], uint32(st.Size))
	sum := sha1.Sum(raw[:len(raw)-sha1.Size])
	copy(raw[len(raw)-sha1.Size:], sum[:])
	if err := os.WriteFile(index, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(index, later, later); err != nil {
		t.Fatal(err)
	}
	if said := user(t, w.Path, "status", "--short"); said != "" {
		t.Fatalf("git is not deceived: %s", said)
	}
}

// A validator sees the files. What is hashed, committed and kept has to be the same, whatever the task wrote into its index.
func TestIndexOfATaskIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, believe := range believing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			w, _ := made(t)
			for _, at := range []string{"begun", "committed by us"} {
				write(t, w.Path+"/pkg/a.go", "package BAD\n")
				user(t, w.Path, "commit", "-qam", "work")
				write(t, w.Path+"/pkg/a.go", "package pkg\n")
				believe(t, w, "pkg/a.go")
				seen, err := TreeHash(ctx, w.Path)
				if err != nil {
					t.Fatal(err)
				}
				if is := user(t, w.Path, "rev-parse", "main^{tree}"); seen != is {
					t.Errorf("%s: the files are hashed as %s, and are %s", at, seen, is)
				}
				s, err := OpenSteps(ctx, w.Path, "t-"+at[:5], t.TempDir()+"/x")
				if err != nil {
					t.Fatal(err)
				}
				if shot, err := s.Take(ctx, "x", false); err != nil || shot.Hash != seen {
					t.Errorf("%s: the snapshot is %s, %v, want %s", at, shot.Hash, err, seen)
				}
				commit, err := w.Commit(ctx, "work")
				if err != nil {
					t.Fatal(err)
				}
				if is := user(t, w.Path, "show", commit+":pkg/a.go"); is != "package pkg" {
					t.Errorf("%s: committed is %q", at, is)
				}
				if said := user(t, w.Path, "ls-files", "-v", "pkg/a.go"); said != "H pkg/a.go" {
					t.Errorf("%s: the index says %q", at, said)
				}
			}
		})
	}
}

// Which files there are the task's index does say: one that is ignored is committed if it was added.
func TestIndexOfATaskNamesFiles(t *testing.T) {
	t.Parallel()
	w, _ := made(t)
	write(t, w.Path+"/made.o", "one\n")
	write(t, w.Path+"/not.o", "not\n")
	user(t, w.Path, "add", "-f", "made.o")
	write(t, w.Path+"/made.o", "two\n")
	user(t, w.Path, "rm", "-q", "--cached", "pkg/a.go")
	write(t, w.Path+"/.gitignore", "*.o\npkg\n")
	commit, err := w.Commit(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	if is := user(t, w.Path, "ls-tree", "-r", "--name-only", commit); is != ".gitignore\nmade.o\nmain.go" {
		t.Errorf("committed is %s", is)
	}
	if is := user(t, w.Path, "show", commit+":made.o"); is != "two" {
		t.Errorf("committed is %q", is)
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Files that have not changed since they were last read by us are not read again: a checkout may have very many.
func TestKnownFilesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	w, trunk := made(t)
	known := knownIndex(filepath.Join(trunk.Root, ".git"), user(t, w.Path, "rev-parse", "--absolute-git-dir"))
	raw, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(time.Hour) // as if the files were checked out long before
	// What is known is wrong for once: who reads the file sees that.
	main := user(t, w.Path, "hash-object", "main.go")
	wrong := bytes.Replace(raw, unhex(t, main), unhex(t, user(t, w.Path, "hash-object", "pkg/a.go")), 1)
	if trees := bytes.LastIndex(wrong, []byte("TREE")); trees > 0 { // which has the trees of the right ones
		wrong = wrong[:trees]
	}
	sum := sha1.Sum(wrong)
	wrong = append(wrong, sum[:]...)
	if err := os.WriteFile(known, wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(known, old, old); err != nil {
		t.Fatal(err)
	}
	right := user(t, w.Path, "rev-parse", "HEAD^{tree}")
	if seen, err := TreeHash(t.Context(), w.Path); err != nil || seen == right {
		t.Errorf("all files were read: %s, %v", seen, err)
	}
	if err := os.Chtimes(w.Path+"/main.go", time.Time{}, time.Unix(1, 0)); err != nil { // it has changed, says the kernel
		t.Fatal(err)
	}
	if err := os.Chtimes(known, old, time.Now()); err != nil {
		t.Fatal(err)
	}
	if seen, err := TreeHash(t.Context(), w.Path); err != nil || seen != right {
		t.Errorf("a file that changed was not read: %s, %v", seen, err)
	}
}
