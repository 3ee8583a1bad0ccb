package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// ahead is a worktree that has a commit more than main: main.go is changed, lib.o, though ignored, and dir/file are new.
func ahead(t *testing.T) (w Worktree, trunk Trunk, to string) {
	t.Helper()
	w, trunk = made(t)
	write(t, w.Path+"/main.go", "package main // onward\n")
	write(t, w.Path+"/dir/file", "1\n")
	write(t, w.Path+"/lib.o", "tracked")
	user(t, w.Path, "add", "-f", "lib.o")
	to, err := w.Commit(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	return w, trunk, to
}

func TestFastForwardSparesWhatIsTheUsers(t *testing.T) {
	for name, c := range map[string]struct {
		kind  td.Kind
		words string
		do    func(t *testing.T, root string)
	}{
		"a change":            {td.Refused, "pkg/a.go", func(t *testing.T, root string) { write(t, root+"/pkg/a.go", "mine") }},
		"a change in the way": {td.Refused, "main.go", func(t *testing.T, root string) { write(t, root+"/main.go", "mine") }},
		"a staged change":     {td.Refused, "new", func(t *testing.T, root string) { write(t, root+"/new", "mine"); user(t, root, "add", "new") }},
		"a deletion":          {td.Refused, "pkg/a.go", func(t *testing.T, root string) { _ = os.Remove(root + "/pkg/a.go") }},
		"untracked":           {td.Refused, "dir/file", func(t *testing.T, root string) { write(t, root+"/dir/file", "mine") }},
		"a file for a folder": {td.Refused, `"dir"`, func(t *testing.T, root string) { write(t, root+"/dir", "mine") }},
		"a folder for a file": {td.Refused, "dir/file/x", func(t *testing.T, root string) { write(t, root+"/dir/file/x", "mine") }},
		"ignored":             {td.Refused, "lib.o", func(t *testing.T, root string) { write(t, root+"/lib.o", "mine") }},
		"ignored in a folder": {td.Refused, "lib.o/x.o", func(t *testing.T, root string) { write(t, root+"/lib.o/x.o", "mine") }},
		"ignored for a folder": {td.Refused, `"dir"`, func(t *testing.T, root string) {
			write(t, root+"/.git/info/exclude", "dir\n")
			write(t, root+"/dir", "mine")
		}},
		"a merge": {td.Refused, "a merge", func(t *testing.T, root string) {
			rival(t, root)
			user(t, root, "merge", "-q", "--no-commit", "--no-ff", "side")
		}},
		"a rebase": {td.Refused, "a rebase of main", func(t *testing.T, root string) {
			userFails(t, root, "rebase", "-q", "--root", "--exec", "false")
		}},
		"a rebase by mails": {td.Refused, "a rebase of main", func(t *testing.T, root string) {
			user(t, root, "switch", "-q", "--orphan", "other")
			write(t, root+"/pkg/a.go", "other")
			user(t, root, "add", ".")
			user(t, root, "commit", "-qm", "other")
			user(t, root, "switch", "-q", "main")
			userFails(t, root, "rebase", "-q", "--apply", "other")
		}},
		"a bisection": {td.Refused, "a bisection of main", func(t *testing.T, root string) {
			user(t, root, "commit", "-q", "--allow-empty", "-m", "one")
			user(t, root, "commit", "-q", "--allow-empty", "-m", "two")
			user(t, root, "branch", "later")
			user(t, root, "reset", "-q", "--hard", "HEAD~2")
			user(t, root, "bisect", "start", "later", "main")
		}},
		"a rebase elsewhere": {td.Refused, "a rebase of main", func(t *testing.T, root string) {
			elsewhere := t.TempDir() + "/elsewhere"
			user(t, root, "switch", "-q", "--detach")
			user(t, root, "worktree", "add", "-q", elsewhere, "main")
			userFails(t, elsewhere, "rebase", "-q", "--root", "--exec", "false")
		}},
		"a rebase that moves it": {td.Refused, "a rebase that moves main, too", func(t *testing.T, root string) {
			user(t, root, "switch", "-q", "-c", "top")
			user(t, root, "commit", "-q", "--allow-empty", "-m", "top")
			userFails(t, root, "rebase", "-q", "--update-refs", "--root", "--exec", "false")
		}},
		"a commit of their own": {td.Conflict, "does not descend", func(t *testing.T, root string) { user(t, root, "commit", "-q", "--allow-empty", "-m", "mine") }},
	} {
		t.Run(name, func(t *testing.T) {
			_, trunk, to := ahead(t)
			c.do(t, trunk.Root)
			before, index := picture(t, trunk.Root), user(t, trunk.Root, "ls-files", "--stage")
			refuses(t, FastForward(t.Context(), trunk.Root, "main", to, nil), c.kind, c.words)
			sameLines(t, picture(t, trunk.Root), before)
			sameLines(t, user(t, trunk.Root, "ls-files", "--stage"), index)
			if out := user(t, trunk.Root, "for-each-ref", "refs/taskdaemon"); out != "" {
				t.Errorf("left behind: %s", out)
			}
		})
	}
}

// What git keeps of a task's worktree the task writes. It keeps no branch of the person's from moving, and nobody is told to run git there.
func TestFastForwardBelievesNoTask(t *testing.T) {
	for name, forged := range map[string]map[string]string{
		"a rebase":               {"rebase-merge/head-name": "refs/heads/main\n", "rebase-merge/onto": "", "rebase-merge/git-rebase-todo": ""},
		"a rebase by mails":      {"rebase-apply/head-name": "refs/heads/main\n"},
		"a rebase that moves it": {"rebase-merge/update-refs": "refs/heads/main\n" + strings.Repeat("0", 40) + "\n" + strings.Repeat("0", 40) + "\n"},
		"a bisection":            {"BISECT_START": "main\n", "BISECT_LOG": ""},
		"a checkout":             {"HEAD": "ref: refs/heads/main\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w, trunk, to := ahead(t)
			admin := user(t, w.Path, "rev-parse", "--absolute-git-dir")
			for file, text := range forged {
				write(t, admin+"/"+file, text)
			}
			if err := FastForward(t.Context(), trunk.Root, "main", to, nil); err != nil {
				t.Fatalf("%v (%s)", err, td.HintOf(err))
			}
			if now := user(t, trunk.Root, "status", "--porcelain"); user(t, trunk.Root, "rev-parse", "main") != to || now != "" {
				t.Errorf("main is not at the work: %s", now)
			}
			if err := MoveRefUnless(t.Context(), trunk.Root, "refs/heads/main", to, to); !td.IsKind(err, td.Unavailable) || strings.Contains(td.HintOf(err), ".worktrees") {
				t.Errorf("a branch that a person has checked out was moved, or %v (%s)", err, td.HintOf(err))
			}
		})
	}
}

func TestFastForwardGoesOnWhatDoesNotMatter(t *testing.T) {
	_, trunk, to := ahead(t)
	write(t, trunk.Root+"/notes", "untracked and not in the way")
	write(t, trunk.Root+"/other.o", "ignored")
	if err := os.Chtimes(trunk.Root+"/main.go", time.Time{}, time.Unix(1, 0)); err != nil { // touched, not changed
		t.Fatal(err)
	}
	if err := FastForward(t.Context(), trunk.Root+"/pkg", "main", to, nil); err != nil {
		t.Fatal(err)
	}
	if got := user(t, trunk.Root, "status", "--porcelain"); got != "?? notes" {
		t.Errorf("status %q", got)
	}
}

func TestFastForwardOfABranchElsewhere(t *testing.T) {
	_, trunk, to := ahead(t)
	user(t, trunk.Root, "branch", "idle")
	linked := t.TempDir() + "/linked"
	user(t, trunk.Root, "worktree", "add", "-q", "-b", "linked", linked)
	for _, branch := range []string{"idle", "linked"} {
		if err := FastForward(t.Context(), trunk.Root, branch, to, nil); err != nil {
			t.Error(err)
		}
		if got := user(t, trunk.Root, "rev-parse", branch); got != to {
			t.Errorf("%s is at %s", branch, got)
		}
	}
	if got := user(t, linked, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	if got := user(t, trunk.Root, "rev-parse", "HEAD"); got != trunk.Commit || user(t, trunk.Root, "status", "--porcelain") != "" {
		t.Errorf("main is at %s", got)
	}
	refuses(t, FastForward(t.Context(), trunk.Root, "none", to, nil), td.NotFound, "none")
	refuses(t, FastForward(t.Context(), trunk.Root, "main", "nowhere", nil), td.NotFound, "nowhere")
}

// A person may commit between the moment in which the files of their checkout are changed and that in which the branch moves. Their commit stays, and nothing of ours is left in their checkout.
func TestFastForwardRaced(t *testing.T) {
	for name, cut := range map[string]bool{"at once": false, "found by the next": true} {
		t.Run(name, func(t *testing.T) {
			_, trunk, to := ahead(t)
			ctx, root := t.Context(), trunk.Root
			p := &place{repo: root, top: root, git: root + "/.git", common: root + "/.git", ref: "refs/heads/main"}
			user(t, root, "update-ref", movingFrom+"main", trunk.Commit)
			user(t, root, "update-ref", movingTo+"main", to)
			user(t, root, "read-tree", "-m", "-u", trunk.Commit, to)
			mine := user(t, root, "commit-tree", "-p", trunk.Commit, "-m", "mine", trunk.Commit+"^{tree}")
			user(t, root, "update-ref", "refs/heads/main", mine) // as git commit does with an index that it read before
			if cut {
				refuses(t, FastForward(ctx, root, "main", to, nil), td.Conflict, "does not descend")
			} else {
				refuses(t, p.arrive(ctx, trunk.Commit, to), td.Conflict, "")
			}
			if got := user(t, root, "status", "--porcelain", "--untracked-files=all"); got != "" {
				t.Errorf("the checkout is left with\n%s", got)
			}
			if got := user(t, root, "rev-parse", "main"); got != mine {
				t.Errorf("main is at %s", got)
			}
			noLeftovers(t, root)
		})
	}
}

// A person edits a file while an update of their checkout is cut off. They are told which one and what to type, which keeps their edit and lets the update go on.
func TestFastForwardCutOffAndEdited(t *testing.T) {
	for name, arrived := range map[string]bool{"before the index": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			_, trunk, to := ahead(t)
			ctx, root := t.Context(), trunk.Root
			user(t, root, "update-ref", movingFrom+"main", trunk.Commit)
			user(t, root, "update-ref", movingTo+"main", to)
			if arrived {
				user(t, root, "read-tree", "-m", "-u", trunk.Commit, to)
			}
			changed := strings.Fields(user(t, root, "diff", "--name-only", trunk.Commit, to))
			edited, mine := filepath.Join(root, changed[0]), strings.ReplaceAll(changed[0], "/", "-")+".mine"
			if err := errors.Join(os.MkdirAll(filepath.Dir(edited), 0o700), os.WriteFile(edited, []byte("an edit"), 0o600)); err != nil {
				t.Fatal(err)
			}
			err := FastForward(ctx, root, "main", to, nil)
			refuses(t, err, td.Refused, "was interrupted, and these files were edited since", changed[0])
			cmd := exec.Command("sh", "-c", td.HintOf(err))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", td.HintOf(err), err, out)
			}
			if err := FastForward(ctx, root, "main", to, nil); err != nil {
				t.Fatal(err)
			}
			if got := user(t, root, "status", "--porcelain", "--untracked-files=all"); got != "?? "+mine || user(t, root, "rev-parse", "main") != to {
				t.Errorf("it is left with %q", got)
			}
			if raw, err := os.ReadFile(filepath.Join(root, mine)); err != nil || string(raw) != "an edit" {
				t.Errorf("the edit is gone: %q %v", raw, err)
			}
		})
	}
}

// Two gits that make and delete refs of one folder take it away from each other. That is no conflict with what is on the branch: the refs are changed again.
func TestFoldersOfRefsAreRacedFor(t *testing.T) {
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	_, trunk, to := ahead(t)
	bin := t.TempDir()
	write(t, bin+"/git", "#!/bin/sh\ncase \"$*\" in\n*update-ref*) n=$(cat "+bin+"/n 2>/dev/null || echo 0); echo $((n + 1)) > "+bin+"/n\n"+
		"if [ $n -lt 3 ]; then cat > /dev/null; echo \"fatal: cannot lock ref 'refs/x/y': unable to create directory for refs/x/y\" >&2; exit 128; fi;;\nesac\nexec "+program+" \"$@\"\n")
	if err := os.Chmod(bin+"/git", 0o700); err != nil {
		t.Fatal(err)
	}
	standIn = bin + "/git"
	err = MoveRef(t.Context(), trunk.Root, "refs/taskdaemon/some/ref", to, "")
	standIn = ""
	if err != nil || user(t, trunk.Root, "rev-parse", "refs/taskdaemon/some/ref") != to {
		t.Error(err)
	}
}

// A person may commit at any moment while their checkout is updated. Their commit is made on what they saw, or it fails, with git's own words; it never holds files of ours
// under their name.
func TestFastForwardWhileAPersonCommits(t *testing.T) {
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		when string // the git of ours around which they commit
		made bool
		kind td.Kind
	}{
		"before the branch is held": {`before *"update-ref"*"--stdin"*`, true, td.Conflict},
		"before the files change":   {`before *"read-tree"*`, false, ""},
		"before the branch moves":   {`after *"read-tree"*`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, trunk, to := ahead(t)
			root, bin := trunk.Root, t.TempDir()
			when, words, _ := strings.Cut(c.when, " ")
			commit := `[ -e ` + bin + `/done ] || { touch ` + bin + `/done; ` + program + ` -C ` + root + ` -c user.name=p -c user.email=p@example.org commit --allow-empty -qm mine > ` + bin + `/said 2>&1; echo $? > ` + bin + `/rc; }`
			before, after := commit, ":"
			if when == "after" {
				before, after = ":", commit
			}
			write(t, bin+"/git", "#!/bin/sh\ncase \"$*\" in\n"+words+") "+before+"; "+program+" \"$@\"; rc=$?; "+after+"; exit $rc;;\n*) exec "+program+" \"$@\";;\nesac\n")
			if err := os.Chmod(bin+"/git", 0o700); err != nil {
				t.Fatal(err)
			}
			standIn = bin + "/git"
			err := FastForward(t.Context(), root, "main", to, nil)
			standIn = ""
			if c.kind == "" && err != nil || c.kind != "" && !td.IsKind(err, c.kind) {
				t.Errorf("fast-forward: %v", err)
			}
			rc, said := textOf(bin+"/rc"), textOf(bin+"/said")
			if (rc == "0") != c.made || !c.made && !strings.Contains(said, "cannot lock ref") {
				t.Errorf("the commit ended with %s and said %q", rc, said)
			}
			want := to
			if c.made {
				want = user(t, root, "rev-parse", "main")
				if subject := user(t, root, "log", "-1", "--format=%s", "main"); subject != "mine" {
					t.Errorf("main is at %q", subject)
				}
				if files := user(t, root, "diff", "--name-only", trunk.Commit, "main"); files != "" {
					t.Errorf("their commit holds %s", files)
				}
			}
			if got := user(t, root, "rev-parse", "main"); got != want {
				t.Errorf("main is at %s", got)
			}
			if got := user(t, root, "status", "--porcelain", "--untracked-files=all"); got != "" {
				t.Errorf("the checkout is left with\n%s", got)
			}
			for _, lock := range []string{"HEAD", "index", "refs/heads/main"} {
				if _, err := os.Lstat(filepath.Join(root, ".git", lock+".lock")); err == nil {
					t.Errorf("the lock of %s is left behind", lock)
				}
			}
			noLeftovers(t, root)
		})
	}
}

// Files do not come into folders that are somebody else's: whatever is in a person's environment or repository is run.
func TestFastForwardLeavesFoldersOfOthersAlone(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		theirs func(t *testing.T, root string)
		words  string
	}{
		"an environment": {".venv/lib/zz.pth", func(t *testing.T, root string) { write(t, root+"/.venv/bin/python", "") }, `".venv"`},
		"a repository":   {"inner.git/hooks/post-update", func(t *testing.T, root string) { user(t, root, "init", "-q", "--bare", "inner.git") }, `"inner.git"`},
		"a deep one":     {"pkg/cache/x/y", func(t *testing.T, root string) { write(t, root+"/pkg/cache/z", "") }, `"pkg/cache"`},
		"a worktree":     {".worktrees/t-other/conftest.py", func(t *testing.T, root string) {}, `".worktrees"`},
		"the graph":      {".taskdaemon/skills/x/SKILL.md", func(t *testing.T, root string) {}, `".taskdaemon"`},
		"an empty folder": {"fresh/a/b", func(t *testing.T, root string) {
			if err := os.MkdirAll(root+"/fresh/a", 0o700); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"a folder that git knows": {"pkg/new", func(t *testing.T, root string) { write(t, root+"/pkg/x.o", "") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, trunk := made(t)
			write(t, trunk.Root+"/.git/info/exclude", ".venv\n*.git/\n*.o\n/pkg/cache\n.worktrees\n")
			write(t, filepath.Join(w.Path, c.path), "planted")
			user(t, w.Path, "add", "-f", c.path)
			to, err := w.Commit(t.Context(), "work")
			if err != nil {
				t.Fatal(err)
			}
			c.theirs(t, trunk.Root)
			err = FastForward(t.Context(), trunk.Root, "main", to, nil)
			if c.words == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refuses(t, err, td.Refused, c.words)
			if _, err := os.Lstat(filepath.Join(trunk.Root, c.path)); err == nil {
				t.Error("it was planted")
			}
		})
	}
}

// What a task makes of its own branch is done to that alone: as a symbolic one it may name a person's.
func TestBranchThatNamesAnother(t *testing.T) {
	w, trunk, to := ahead(t)
	p, err := w.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := user(t, trunk.Root, "rev-parse", "main")
	user(t, trunk.Root, "symbolic-ref", p.ref, "refs/heads/main")
	_ = p.transact(t.Context(), "update "+p.ref+" "+to+" "+before)
	if got := user(t, trunk.Root, "rev-parse", "main"); got != before {
		t.Errorf("main is at %s", got)
	}
	user(t, trunk.Root, "symbolic-ref", p.ref, "refs/heads/main")
	if held, err := p.claim(t.Context(), before, to); err == nil {
		_ = held.move()
		held.release()
	}
	if got := user(t, trunk.Root, "rev-parse", "main"); got != before {
		t.Errorf("main is at %s after a claim", got)
	}
}

// A git that changes the files of a checkout sees of a task's its own files, and can change nothing that git keeps but an index of ours.
func TestGitsThatChangeFilesAreGuarded(t *testing.T) {
	w, trunk, _ := ahead(t)
	prog, err := findProgram(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	index, err := p.ownIndex()
	if err != nil {
		t.Fatal(err)
	}
	main := &place{repo: trunk.Root, top: trunk.Root, git: trunk.Root + "/.git", common: trunk.Root + "/.git", ref: "refs/heads/main"}
	for _, at := range []*place{p, main} {
		v := siteOf(at.with("GIT_INDEX_FILE="+index).call(true, "read-tree", "-u")).view(checksOut, prog, nil)
		if slices.Contains(v.Write, at.common) || slices.Contains(v.Write, at.git) || !slices.Contains(v.Read, at.common) {
			t.Errorf("%s: git can write %q, and reads %q", at.top, v.Write, v.Read)
		}
		if !slices.Contains(v.Write, at.top) || at != main && slices.Contains(slices.Concat(v.Read, v.Write), trunk.Root) {
			t.Errorf("%s: git can write %q, and reads %q", at.top, v.Write, v.Read)
		}
	}
}

// A person's git that takes the lock of the index at the last moment keeps it, however long it takes.
func TestFastForwardLeavesALockAlone(t *testing.T) {
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	_, trunk, to := ahead(t)
	bin, lock := t.TempDir(), trunk.Root+"/.git/index.lock"
	write(t, bin+"/git", "#!/bin/sh\ncase \"$*\" in *update-ref*) touch "+lock+";; esac\nexec "+program+" \"$@\"\n")
	if err := os.Chmod(bin+"/git", 0o700); err != nil {
		t.Fatal(err)
	}
	standIn = bin + "/git"
	err = FastForward(t.Context(), trunk.Root, "main", to, nil)
	standIn = ""
	refuses(t, err, td.Locked, "index.lock")
	old := time.Now().Add(-2 * staleLock)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	refuses(t, FastForward(t.Context(), trunk.Root, "main", to, nil), td.Refused, "another git is at work")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	noLeftovers(t, trunk.Root)
	if err := FastForward(t.Context(), trunk.Root, "main", to, nil); err != nil {
		t.Error(err)
	}
}
