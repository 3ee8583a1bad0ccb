package git

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// agent does in a worktree what agents do.
type agent struct {
	*testing.T
	*rand.Rand
	dir string
}

// git runs git, which may fail: an agent's does, too.
func (a *agent) git(args ...string) {
	cmd := exec.Command("git", append([]string{"-c", "user.name=Agent", "-c", "user.email=agent@example.org"}, args...)...)
	cmd.Dir = a.dir
	_ = cmd.Run()
}

var agentNames = []string{"main.go", "pkg/a.go", "a b", "ü/ö.txt", "line\nbreak", "-dash", "deep/er/and/deeper", "deep", `quo"te`, "tab\tbed", "x.o", "pkg"}

func (a *agent) name() string { return agentNames[a.IntN(len(agentNames))] }

// act does one thing, and leaves it if it cannot be done.
func (a *agent) act() {
	file := filepath.Join(a.dir, a.name())
	switch a.IntN(14) {
	case 0, 1, 2:
		if os.MkdirAll(filepath.Dir(file), 0o700) == nil {
			_ = os.WriteFile(file, fmt.Appendf(nil, "line %d\nline %d\n", a.IntN(3), a.IntN(3)), 0o600)
		}
	case 3:
		_ = os.RemoveAll(file)
	case 4:
		_ = os.Remove(file)
		_ = os.Symlink(a.name(), file)
	case 5:
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			_ = os.Chmod(file, []fs.FileMode{0o600, 0o700}[a.IntN(2)])
		}
	case 6, 7:
		a.git("add", "-A", "--", a.name())
	case 8:
		a.git("add", "-A")
	case 9:
		a.git("commit", "-q", "-m", "step")
	case 10:
		a.git("rm", "-rq", "--cached", "--", a.name())
	case 11:
		a.git("mv", "--", a.name(), a.name())
	case 12:
		a.git("merge", "-q", "--no-edit", "side")
	case 13:
		a.git([][]string{{"merge", "--abort"}, {"reset", "-q"}, {"stash", "-q"}, {"cherry-pick", "side"}}[a.IntN(4)]...)
	}
}

// picture is all that a worktree holds and that is not ignored.
func picture(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, user(t, dir, "rev-parse", "HEAD"))
	fmt.Fprintf(&b, "%q\n", user(t, dir, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"))
	fmt.Fprintf(&b, "%q\n", user(t, dir, "ls-files", "--stage", "-z"))
	for _, state := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "MERGE_MSG"} {
		raw, _ := os.ReadFile(user(t, dir, "rev-parse", "--absolute-git-dir") + "/" + state)
		fmt.Fprintf(&b, "%s %q\n", state, raw)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == ".git" || strings.HasSuffix(path, ".o") {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode()&fs.ModeSymlink != 0 {
			link, lerr := os.Readlink(path)
			content, err = []byte(link), lerr
		} else {
			content, err = os.ReadFile(path)
		}
		fmt.Fprintf(&b, "%q %v %q\n", strings.TrimPrefix(path, dir), info.Mode()&(fs.ModeSymlink|0o100), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const agentRuns = 6

// Whatever an agent has done: nothing is removed that is not proven to be elsewhere, and what was kept comes back as it was.
func TestNothingIsRemovedUnproven(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range agentRuns {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w, trunk := made(t)
			user(t, trunk.Root, "switch", "-q", "-c", "side")
			write(t, trunk.Root+"/main.go", "of the side\n")
			write(t, trunk.Root+"/a b", "of the side\n")
			user(t, trunk.Root, "add", "-A")
			user(t, trunk.Root, "commit", "-qm", "side")
			user(t, trunk.Root, "switch", "-q", "main")
			a := &agent{T: t, Rand: rand.New(rand.NewPCG(seed, uint64(n))), dir: w.Path}
			for round := range 3 {
				for range 4 + a.IntN(12) {
					a.act()
				}
				ref := fmt.Sprintf("refs/taskdaemon/kept/%d", round)
				if removedAll(t, w, trunk.Commit) {
					if err := w.Make(t.Context(), trunk.Commit); err != nil {
						t.Fatal(err)
					}
				}
				kept, err := w.Keep(t.Context(), ref)
				if err != nil {
					t.Fatal(err)
				}
				if a.IntN(2) == 0 {
					a.act()
					if removedAll(t, w, kept) {
						if err := w.Restore(t.Context(), ref); err != nil {
							t.Fatal(err)
						}
					}
					if kept, err = w.Keep(t.Context(), ref); err != nil {
						t.Fatal(err)
					}
				}
				want := picture(t, w.Path)
				if err := w.Remove(t.Context(), kept, nil); err != nil {
					t.Fatal(err)
				}
				looks(t, w, Missing)
				user(t, w.Repo, "gc", "-q", "--prune=now")
				if err := w.Restore(t.Context(), ref); err != nil {
					t.Fatal(err)
				}
				sameLines(t, picture(t, w.Path), want)
			}
			noLeftovers(t, w.Repo)
		})
	}
}

// removedAll asks for a removal with a proof that may be none, and reports whether it was made. If it was, all that the worktree
// held has to be found elsewhere; if not, it has to be as it was.
func removedAll(t *testing.T, w Worktree, proof string) bool {
	t.Helper()
	before := picture(t, w.Path)
	tree, err := TreeHash(t.Context(), w.Path)
	if err != nil {
		t.Fatal(err)
	}
	held := []string{tree, user(t, w.Path, "rev-parse", "HEAD")}
	for rec := range strings.SplitSeq(user(t, w.Path, "ls-files", "--stage", "-z"), "\x00") {
		if f := strings.Fields(rec); len(f) > 1 {
			held = append(held, f[1])
		}
	}
	switch err := w.Remove(t.Context(), proof, nil); {
	case td.IsKind(err, td.Refused):
		sameLines(t, picture(t, w.Path), before)
		return false
	case err != nil:
		t.Fatal(err)
	}
	user(t, w.Repo, "gc", "-q", "--prune=now") // what nobody retains is gone
	for _, id := range held {
		if err := exec.Command("git", "-C", w.Repo, "cat-file", "-e", id).Run(); err != nil {
			t.Errorf("%s is lost of\n%s", id, before)
		}
	}
	return true
}

// A git that was killed anywhere between two commits leaves files that are as before, as after, half-written or not there. The next call
// sees to it that they are as one of the two, and never takes somebody's work for its own.
func TestCutOffMoveIsEnded(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range 2 * agentRuns {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			a := &agent{T: t, Rand: rand.New(rand.NewPCG(seed, uint64(n)))}
			w, trunk := made(t)
			a.dir = w.Path
			for range 30 {
				if a.act(); a.IntN(3) == 0 {
					a.git("checkout", "-q", "--", "main.go")
				}
			}
			a.git("merge", "--abort")
			_ = os.Remove(w.Path + "/x.o")
			to, err := w.Commit(t.Context(), "work")
			if err != nil {
				t.Fatal(err)
			}
			p := &place{repo: trunk.Root, top: trunk.Root, git: trunk.Root + "/.git", common: trunk.Root + "/.git", ref: "refs/heads/main"}
			differ, err := p.between(t.Context(), trunk.Commit, to)
			if err != nil {
				t.Fatal(err)
			}
			user(t, trunk.Root, "update-ref", movingFrom+"main", trunk.Commit)
			user(t, trunk.Root, "update-ref", movingTo+"main", to)
			if a.IntN(3) == 0 { // the index was written
				user(t, trunk.Root, "read-tree", "-m", "-u", trunk.Commit, to)
			}
			for _, d := range differ {
				a.halfway(trunk.Root, w.Path, d)
			}
			theirs := a.IntN(3) == 0 && len(differ) > 0
			var file string
			if theirs {
				file = filepath.Join(trunk.Root, differ[a.IntN(len(differ))].path)
				_ = os.Remove(file) // a link would lead to another
				theirs = os.WriteFile(file, []byte("somebody's work"), 0o600) == nil
			}
			err = FastForward(t.Context(), trunk.Root, "main", to, nil)
			if theirs {
				refuses(t, err, td.Refused, "was interrupted, and these files were edited since", ".mine")
				if raw, _ := os.ReadFile(file); string(raw) != "somebody's work" {
					t.Errorf("%q holds %q", file, raw)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := user(t, trunk.Root, "rev-parse", "HEAD"); got != to {
				t.Errorf("at %s, want %s", got, to)
			}
			noLeftovers(t, trunk.Root)
		})
	}
}

// halfway leaves a file of root as a git would that was killed while it brought it to how it is in done.
func (a *agent) halfway(root, done string, d difference) {
	a.Helper()
	file, to := filepath.Join(root, d.path), filepath.Join(done, d.path)
	how := a.IntN(4)
	if how == 0 {
		return // it has not come to this one, or is done with it
	}
	if info, err := os.Lstat(file); err == nil && info.IsDir() {
		return
	}
	if err := os.Remove(file); err != nil && !gone(err) {
		a.Fatal(err)
	}
	if d.is == none || how == 1 {
		return
	}
	info, err := os.Lstat(to)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	content, err := os.ReadFile(to)
	if err != nil {
		a.Fatal(err)
	}
	if how == 2 {
		content = content[:a.IntN(len(content)+1)]
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		if !errors.Is(err, fs.ErrExist) && !gone(err) {
			a.Fatal(err)
		}
		return
	}
	_ = os.WriteFile(file, content, info.Mode().Perm())
}
