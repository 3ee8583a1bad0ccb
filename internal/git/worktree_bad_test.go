package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestTrunkOf(t *testing.T) {
	dir := checkout(t)
	user(t, dir, "switch", "-q", "-c", "möwe/ü")
	want := Trunk{Root: dir, Branch: "möwe/ü", Commit: user(t, dir, "rev-parse", "HEAD")}
	user(t, dir, "worktree", "add", "-q", "-b", "other", dir+"/linked")
	for _, at := range []string{dir, dir + "/pkg", dir + "/linked", dir + "/linked/pkg"} {
		if got, err := TrunkOf(t.Context(), at); err != nil || got != want {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
	}
}

func TestTrunkOfWhatTasksCannotWorkOn(t *testing.T) {
	check := func(name string, kind td.Kind, hint string, make func(t *testing.T) string) {
		t.Run(name, func(t *testing.T) {
			_, err := TrunkOf(t.Context(), make(t))
			refuses(t, err, kind, hint)
			if td.HintOf(err) == "" && hint != "" {
				t.Errorf("%v has no hint", err)
			}
		})
	}
	check("no repository", td.NotFound, "", func(t *testing.T) string { return t.TempDir() })
	check("no folder", td.NotFound, "", func(t *testing.T) string { return t.TempDir() + "/none" })
	check("bare", td.Refused, "git clone", func(t *testing.T) string { return bareRemote(t) })
	check("worktree of a bare one", td.Refused, "not bare", func(t *testing.T) string {
		dir, bare, linked := checkout(t), t.TempDir()+"/bare.git", t.TempDir()+"/linked"
		user(t, dir, "clone", "-q", "--bare", dir, bare)
		user(t, bare, "worktree", "add", "-q", linked)
		return linked
	})
	check("no commit yet", td.Refused, "commit", func(t *testing.T) string {
		dir := t.TempDir()
		user(t, dir, "init", "-q")
		return dir
	})
	check("detached", td.Refused, "switch", func(t *testing.T) string {
		dir := checkout(t)
		user(t, dir, "switch", "-q", "--detach")
		return dir
	})
	check("submodule", td.Refused, "one task at a time", func(t *testing.T) string {
		dir, sub := checkout(t), checkout(t)
		user(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "a sub")
		user(t, dir, "commit", "-qm", "sub")
		return dir
	})
	check("large files", td.Refused, "one task at a time", func(t *testing.T) string {
		dir := checkout(t)
		user(t, dir, "config", "filter.lfs.clean", "cat")
		write(t, dir+"/.gitattributes", "*.bin filter=lfs\n")
		write(t, dir+"/large.bin", "large")
		user(t, dir, "add", "-A")
		user(t, dir, "commit", "-qm", "large")
		return dir
	})
	t.Run("filters that no file goes through", func(t *testing.T) {
		dir := checkout(t)
		user(t, dir, "config", "filter.lfs.clean", "cat")
		user(t, dir, "config", "filter.odd name.clean", "cat")
		if _, err := TrunkOf(t.Context(), dir); err != nil {
			t.Error(err)
		}
	})
	t.Run("the inside of a submodule", func(t *testing.T) {
		dir, sub := checkout(t), checkout(t)
		user(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "sub")
		trunk, err := TrunkOf(t.Context(), dir+"/sub")
		if err != nil || trunk.Root != dir+"/sub" {
			t.Fatalf("%+v, %v", trunk, err)
		}
		w := Worktree{Repo: trunk.Root, Path: trunk.Root + "/.worktrees/t-1", Branch: BranchName("t-1", "")}
		if err := w.Make(t.Context(), trunk.Commit); err != nil {
			t.Fatal(err)
		}
		looks(t, w, Good)
		write(t, w.Path+"/new", "1\n")
		commit, err := w.Commit(t.Context(), "work")
		if err != nil {
			t.Fatal(err)
		}
		if err := FastForward(t.Context(), trunk.Root, trunk.Branch, commit, nil); err != nil {
			t.Fatal(err)
		}
		if got := user(t, trunk.Root, "status", "--porcelain"); got != "" {
			t.Errorf("status %q", got)
		}
	})
}

// stand puts a script in front of git. It gets the real one as $REAL.
func stand(t *testing.T, script string) {
	t.Helper()
	real, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	write(t, bin+"/git", "#!/bin/sh\nREAL="+real+"\n"+script)
	if err := os.Chmod(bin+"/git", 0o700); err != nil {
		t.Fatal(err)
	}
	standIn = bin + "/git"
	t.Cleanup(func() { standIn = "" })
}

func TestGitIsMissingOrTooOld(t *testing.T) {
	dir := checkout(t)
	t.Run("too old", func(t *testing.T) {
		bin := t.TempDir()
		real, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		write(t, bin+"/git", "#!/bin/sh\n[ \"$1\" = version ] && echo 'git version 2.37.9' && exit\nexec "+real+" \"$@\"\n")
		if err := os.Chmod(bin+"/git", 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		_, err = TrunkOf(t.Context(), dir)
		refuses(t, err, td.Unavailable, "2.38")
	})
	t.Setenv("PATH", t.TempDir())
	_, err := TrunkOf(t.Context(), dir)
	refuses(t, err, td.Unavailable, "install git")
}

// A disk that is full while files are written leaves nothing of the worktree, and no branch.
func TestWorktreeOnAFullDisk(t *testing.T) {
	w, trunk := sketch(t)
	stand(t, `case "$*" in *"reset --quiet --hard"*)
	echo half > main.go
	echo "error: unable to write file pkg/a.go: No space left on device" >&2; exit 128;;
esac
exec "$REAL" "$@"
`)
	refuses(t, w.Make(t.Context(), trunk.Commit), td.Storage, "free some space")
	looks(t, w, Missing)
	noLeftovers(t, trunk.Root)
	if out := user(t, trunk.Root, "worktree", "list", "--porcelain"); strings.Contains(out, "t-4k7q2m9x") {
		t.Error(out)
	}
	if out := user(t, trunk.Root, "branch", "--list", "taskdaemon/*"); out != "" {
		t.Errorf("branches %q", out)
	}
}

func TestRepositoryIsDeletedUnderneath(t *testing.T) {
	outer := checkout(t) // a repository around it must not be taken for it
	user(t, outer, "init", "-q", "-b", "main", "inner")
	write(t, outer+"/inner/file", "1")
	user(t, outer+"/inner", "add", "-A")
	user(t, outer+"/inner", "commit", "-qm", "first")
	trunk, err := TrunkOf(t.Context(), outer+"/inner")
	if err != nil {
		t.Fatal(err)
	}
	w := Worktree{Repo: trunk.Root, Path: trunk.Root + "/.worktrees/t-1", Branch: BranchName("t-1", "")}
	if err := w.Make(t.Context(), trunk.Commit); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{trunk.Root + "/.git", trunk.Root} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		_, err := w.Look(t.Context())
		refuses(t, err, td.NotFound)
		_, err = w.Head(t.Context())
		refuses(t, err, td.NotFound)
		_, err = w.Commit(t.Context(), "m")
		refuses(t, err, td.NotFound)
		_, err = w.Rebase(t.Context(), trunk.Commit, "")
		refuses(t, err, td.NotFound)
		_, err = w.Keep(t.Context(), runKept)
		refuses(t, err, td.NotFound)
		_, err = Worktrees(t.Context(), trunk.Root)
		refuses(t, err, td.NotFound)
		refuses(t, w.Make(t.Context(), trunk.Commit), td.NotFound)
		refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.NotFound)
		refuses(t, w.Restore(t.Context(), runKept), td.NotFound)
		refuses(t, Tidy(t.Context(), trunk.Root), td.NotFound)
	}
	if out := user(t, outer, "for-each-ref", "refs/heads/taskdaemon", "refs/taskdaemon"); out != "" {
		t.Error(out)
	}
}

// Hooks of the user's that would hang do not run, in no stage.
func TestUsersHooksDoNotRun(t *testing.T) {
	dir := runScene(t)
	mark := filepath.Join(t.TempDir(), "ran")
	for _, hook := range []string{
		"pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-checkout", "post-merge", "pre-rebase", "post-rewrite",
		"reference-transaction", "post-index-change", "pre-merge-commit",
	} {
		write(t, dir+"/.git/hooks/"+hook, "#!/bin/sh\necho "+hook+" >> "+mark+"\nexit 1\n")
		if err := os.Chmod(dir+"/.git/hooks/"+hook, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := runTree(dir)
	for _, stage := range runOrder {
		if stage == "wt commit" || stage == "wt keep" {
			write(t, w.Path+"/new", stage)
		}
		runStages[stage](t, dir)
	}
	if raw, err := os.ReadFile(mark); err == nil {
		t.Errorf("hooks ran:\n%s", raw)
	}
}

func TestManyBranchesOfStaleRuns(t *testing.T) {
	w, trunk := sketch(t)
	for i := range 200 {
		write(t, fmt.Sprintf("%s/.git/refs/heads/taskdaemon/run/t-%d-stale", trunk.Root, i), trunk.Commit+"\n")
	}
	if err := w.Make(t.Context(), trunk.Commit); err != nil {
		t.Fatal(err)
	}
	if all, err := Worktrees(t.Context(), trunk.Root); err != nil || len(all) != 1 || all[0].Worktree != w {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestFoldersWithOddNames(t *testing.T) {
	for _, name := range []string{"with space", "ünï", "line\nbreak", "quo\"te", "-dash", "glob*[x]", ":(top)"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			if err := os.Rename(runScene(t), dir); err != nil {
				t.Fatal(err)
			}
			if trunk, err := TrunkOf(t.Context(), dir+"/pkg"); err != nil || trunk.Root != dir {
				t.Errorf("%+v, %v", trunk, err)
			}
			w := runTree(dir)
			for _, stage := range runOrder {
				if stage == "wt commit" || stage == "wt keep" {
					write(t, w.Path+"/"+name, stage)
				}
				runStages[stage](t, dir)
			}
			looks(t, w, Good)
			if got := user(t, w.Path, "status", "--porcelain", "-z"); got != " M "+name+"\x00" {
				t.Errorf("status %q", got)
			}
		})
	}
}

func TestWorktreesAreListed(t *testing.T) {
	w, trunk := made(t)
	gone, odd := w, w
	gone.Path, gone.Branch = trunk.Root+"/.worktrees/t-2", BranchName("t-2", "gone")
	odd.Path, odd.Branch = trunk.Root+"/.worktrees/t-3", BranchName("t-3", "odd")
	for _, w := range []Worktree{gone, odd} {
		if err := w.Make(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
	}
	user(t, trunk.Root, "worktree", "lock", w.Path)
	user(t, trunk.Root, "worktree", "add", "-q", "-b", "theirs", t.TempDir()+"/theirs")
	if err := os.RemoveAll(gone.Path); err != nil {
		t.Fatal(err)
	}
	write(t, odd.Path+"/.git", "gitdir: /elsewhere\n")
	list := func() string {
		all, err := Worktrees(t.Context(), trunk.Root)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, i := range all {
			if i.Head != trunk.Commit || i.Repo != trunk.Root {
				t.Errorf("%+v", i)
			}
			fmt.Fprintf(&b, "%s %s %s %v\n", strings.TrimPrefix(i.Path, trunk.Root+"/.worktrees/"), i.Branch, i.Condition, i.Locked)
		}
		return b.String()
	}
	const whole = "t-3 taskdaemon/run/t-3/odd foreign false\nt-4k7q2m9x taskdaemon/run/t-4k7q2m9x/mend-the-roof good true\n"
	if got := list(); got != "t-2 taskdaemon/run/t-2/gone missing false\n"+whole {
		t.Error(got)
	}
	if err := Tidy(t.Context(), trunk.Root); err != nil {
		t.Fatal(err)
	}
	if got := list(); got != whole {
		t.Error(got)
	}
	refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.Refused, "unlock")
	refuses(t, odd.Remove(t.Context(), trunk.Commit, nil), td.Conflict, odd.Path)
	if err := gone.Make(t.Context(), trunk.Commit); err != nil {
		t.Error(err)
	}
}

func TestWorktreesOfNoRun(t *testing.T) {
	w, trunk := sketch(t)
	for _, bad := range []Worktree{
		{Repo: w.Repo, Path: w.Path, Branch: "main"},
		{Repo: w.Repo, Path: w.Path, Branch: runBranches},
		{Repo: w.Repo, Path: "relative", Branch: w.Branch},
		{Repo: "", Path: w.Path, Branch: w.Branch},
		{},
	} {
		refuses(t, bad.Make(t.Context(), trunk.Commit), td.Invalid)
		refuses(t, bad.Remove(t.Context(), trunk.Commit, nil), td.Invalid)
	}
	w.Branch = runBranches + "a..b"
	if err := w.Make(t.Context(), trunk.Commit); err == nil {
		t.Error("made a branch that git does not allow")
	}
	noLeftovers(t, trunk.Root)
	w.Branch = BranchName("t-1", "")
	refuses(t, w.Make(t.Context(), "nowhere"), td.NotFound, "nowhere")
	_, err := w.Keep(t.Context(), "refs/heads/taskdaemon/run/x")
	refuses(t, err, td.Invalid)
}

func TestBranchName(t *testing.T) {
	for _, c := range []struct{ handle, title, want string }{
		{"t-4k7q2m9x", "Mend the roof", "t-4k7q2m9x/mend-the-roof"},
		{"t-1", "", "t-1/work"},
		{"t-1", "  Ünï çødé.lock ", "t-1/n-d-lock"},
		{"t-1", "日本語", "t-1/work"},
		{"t-1", "../../etc/passwd~^:?*[\\", "t-1/etc-passwd"},
		{"t-1", strings.Repeat("word ", 30), "t-1/word-word-word-word-word-word-word-word"},
		{"t-1", strings.Repeat("x", 99), "t-1/" + strings.Repeat("x", maxSlug)},
	} {
		if got := BranchName(c.handle, c.title); got != runBranches+c.want {
			t.Errorf("%q: %s, want %s", c.title, got, c.want)
		}
	}
}

// A few objects can make a tree of any number of paths. What git lists of it is bounded, and the work is refused.
func TestTreeOfTooManyPaths(t *testing.T) {
	w, trunk := made(t)
	id := strings.TrimSpace(user(t, w.Path, "rev-parse", "HEAD:main.go"))
	kind, mode := "blob", "100644"
	for range 3 {
		var list strings.Builder
		for i := range 10 {
			fmt.Fprintf(&list, "%s %s %s\t%d\n", mode, kind, id, i)
		}
		id, kind, mode = mktree(t, w.Path, list.String()), "tree", "040000"
	}
	commit := strings.TrimSpace(user(t, w.Path, "commit-tree", "-m", "bomb", "-p", "HEAD", id))
	user(t, w.Path, "update-ref", "HEAD", commit)
	for name, b := range map[string]bound{"entries": {1 << 20, 500}, "bytes": {5000, 1 << 20}} {
		was := most
		most = b
		_, err := w.Commit(t.Context(), "work")
		refuses(t, err, td.Refused, "git diff-index: it lists more than", name)
		_, err = Changed(t.Context(), trunk.Root, "main", commit)
		refuses(t, err, td.Refused, "git diff-tree: it lists more than", name)
		most = was
	}
	if names, err := Changed(t.Context(), trunk.Root, "main", commit); err != nil || len(names) < 1000 {
		t.Errorf("%d files changed, %v", len(names), err)
	}
}
