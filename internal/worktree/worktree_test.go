package worktree

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// project is a repository with one commit, and the worktree of a task in it.
func project(t *testing.T, c config.Worktree) (*Trees, td.Worktree) {
	t.Helper()
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, repo, "init", "-q", "-b", "main")
	write(t, repo+"/a.txt", "a\n")
	runGit(t, repo, "add", ".")
	runGit(t, repo, "commit", "-qm", "begin")
	trunk, err := git.TrunkOf(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := For(trunk, td.Spec{Dir: repo, Handle: "t-1", Title: "do it"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Stop == 0 {
		c.Stop, c.Warn = 100, 100
	}
	return &Trees{Git: Program{}, Config: func(string) config.Worktree { return c }, Checkouts: t.TempDir(), Log: slog.New(slog.DiscardHandler), Journal: &records{}, Using: sandbox.Using}, *spec.Worktree
}

func TestFor(t *testing.T) {
	at := git.Trunk{Root: "/src/proj", Branch: "main"}
	s, err := For(at, td.Spec{Dir: "/src/proj/web", Handle: "t-1", Title: "do it"}, "login")
	if err != nil {
		t.Fatal(err)
	}
	if s.Dir != "/src/proj/.worktrees/t-1/web" || s.Worktree.Path != "/src/proj/.worktrees/t-1" || s.Worktree.Into != "taskdaemon/into/login@main" || s.Worktree.Trunk != "main" || s.Home() != "/src/proj" {
		t.Errorf("%s, %+v", s.Dir, s.Worktree)
	}
	if s, err := For(at, td.Spec{Dir: "/src/proj", Handle: "t-1"}, ""); err != nil || s.Worktree.Into != "taskdaemon/into/main" {
		t.Errorf("%+v, %v", s.Worktree, err)
	}
	if _, err := For(at, td.Spec{Dir: "/src/other", Handle: "t-1"}, ""); !td.IsKind(err, td.Refused) {
		t.Errorf("a worktree of a worktree: %v", err)
	}
}

// What was committed so that the branch could be rebased is not left in the history, and what was done is there once.
func TestWorkInProgressBecomesTheWork(t *testing.T) {
	trees, w := project(t, config.Worktree{})
	ctx := t.Context()
	if err := trees.Make(ctx, w); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one.txt", "two.txt"} {
		write(t, w.Path+"/"+name, name)
		if _, err := trees.Commit(ctx, w, td.InProgress+"do it"); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w.Repo+"/by-hand.txt", "x")
	runGit(t, w.Repo, "add", ".")
	runGit(t, w.Repo, "commit", "-qm", "by hand")
	changed, conflicts, err := trees.Rebase(ctx, w)
	if err != nil || len(conflicts) > 0 || strings.Join(changed, " ") != "by-hand.txt" {
		t.Fatalf("rebase: %v, %v, %v", changed, conflicts, err)
	}
	if is, err := trees.Rebased(ctx, w); err != nil || !is {
		t.Fatalf("it is not rebased: %v", err)
	}
	for range 2 { // the second time it finds it done
		if _, err := trees.Commit(ctx, w, "do it\n\nin two steps\n"); err != nil {
			t.Fatal(err)
		}
		if log := runGit(t, w.Path, "log", "--format=%s"); log != "do it\nby hand\nbegin" {
			t.Fatalf("log:\n%s", log)
		}
		if dirty := runGit(t, w.Path, "status", "--porcelain"); dirty != "" {
			t.Fatalf("status:\n%s", dirty)
		}
	}
	if files := runGit(t, w.Path, "ls-files"); files != "a.txt\nby-hand.txt\none.txt\ntwo.txt" {
		t.Errorf("files:\n%s", files)
	}
	write(t, w.Path+"/three.txt", "3")
	if _, err := trees.Commit(ctx, w, "more\n"); err != nil {
		t.Fatal(err)
	}
	if log := runGit(t, w.Path, "log", "--format=%s"); log != "more\ndo it\nby hand\nbegin" {
		t.Errorf("log:\n%s", log)
	}
}

func TestMergeAndFollow(t *testing.T) {
	trees, w := project(t, config.Worktree{Trunk: config.TrunkAuto})
	ctx := t.Context()
	if err := trees.Make(ctx, w); err != nil {
		t.Fatal(err)
	}
	write(t, w.Path+"/made.txt", "made\n")
	head, err := trees.Commit(ctx, w, "do it\n")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := trees.Merged(ctx, w, head); err != nil || m != nil {
		t.Fatalf("merged before it is: %+v, %v", m, err)
	}
	res, err := trees.Merge(ctx, w, merge.Work{Handle: "t-1", Title: "do it", Commit: head}, nil, nil)
	if err != nil || res.Commit != head {
		t.Fatalf("%+v, %v", res, err)
	}
	if m, err := trees.Merged(ctx, w, head); err != nil || m == nil || m.Commit != head || m.Tree != res.Tree {
		t.Fatalf("merged: %+v, %v", m, err)
	}
	write(t, w.Repo+"/a.txt", "mine\n")
	in, err := trees.Follow(ctx, w, merge.Work{Handle: "t-1"}, nil)
	if err != nil || !strings.Contains(in.Reason, "uncommitted changes: \"a.txt\"") || !strings.Contains(in.Hint, "stash") {
		t.Fatalf("a dirty checkout: %+v, %v", in, err)
	}
	lacks, err := trees.Unlanded(ctx, w.Repo)
	if err != nil || len(lacks) != 1 || lacks[0].Trunk != "main" || lacks[0].Commit != head || !slices.Equal(lacks[0].Tasks, []string{"t-1"}) {
		t.Fatalf("main lacks %+v, %v", lacks, err)
	}
	if in, err := trees.Land(ctx, lacks[0], nil, nil, nil); err != nil || in.Reason == "" {
		t.Fatalf("it landed in a dirty checkout: %+v, %v", in, err)
	}
	runGit(t, w.Repo, "checkout", "-q", "a.txt")
	told := 0
	if in, err := trees.Land(ctx, lacks[0], nil, nil, func() error { told++; return nil }); err != nil || in.Reason != "" || told != 1 {
		t.Fatalf("land: %+v, %v, told %d times", in, err, told)
	}
	if lacks, err := trees.Unlanded(ctx, w.Repo); err != nil || len(lacks) > 0 || runGit(t, w.Repo, "for-each-ref", git.UnlandedRefs) != "" {
		t.Errorf("main lacks %+v, %v", lacks, err)
	}
	if got := runGit(t, w.Repo, "rev-parse", "main"); got != head {
		t.Errorf("main is at %s", got)
	}
	if _, err := os.Stat(w.Repo + "/made.txt"); err != nil {
		t.Error(err)
	}
}

// raced is git where a person commits to the trunk at the last moment before it is updated.
type raced struct {
	Program
	commit func()
}

func (r raced) FastForward(ctx context.Context, repo, branch, to string, before func() error) error {
	return r.Program.FastForward(ctx, repo, branch, to, func() error {
		if err := before(); err != nil {
			return err
		}
		r.commit()
		return nil
	})
}

// A person who was asked about some of the work, and commits while the trunk is updated with that, is told that it was not.
func TestLandWhatWasAgreedTo(t *testing.T) {
	trees, w := project(t, config.Worktree{Trunk: config.TrunkAsk})
	ctx := t.Context()
	child := func(of, file string) string {
		runGit(t, w.Repo, "checkout", "-q", "--detach", of)
		write(t, w.Repo+"/"+file, file)
		runGit(t, w.Repo, "add", ".")
		runGit(t, w.Repo, "commit", "-qm", file)
		return runGit(t, w.Repo, "rev-parse", "HEAD")
	}
	agreed := child("main", "agreed")
	runGit(t, w.Repo, "update-ref", unlandedRef(w.Into, "t-1"), agreed)
	runGit(t, w.Repo, "update-ref", "refs/heads/"+w.Into, child(agreed, "later"))
	runGit(t, w.Repo, "checkout", "-q", "main")
	lacks, err := trees.Unlanded(ctx, w.Repo)
	if err != nil || len(lacks) != 1 || lacks[0].Commit != agreed {
		t.Fatalf("main lacks %+v, %v", lacks, err)
	}
	trees.Git = raced{commit: func() { runGit(t, w.Repo, "commit", "-q", "--allow-empty", "-m", "mine") }}
	in, err := trees.Land(ctx, lacks[0], nil, nil, func() error { return nil })
	if err != nil || !strings.Contains(in.Reason, "main has new commits") {
		t.Errorf("%+v, %v", in, err)
	}
	if lacks, err = trees.Unlanded(ctx, w.Repo); err != nil || len(lacks) != 1 || lacks[0].Reason != in.Reason {
		t.Errorf("main lacks %+v, %v", lacks, err)
	}
}

func TestRoom(t *testing.T) {
	trees, w := project(t, config.Worktree{Stop: 1, Warn: 1})
	if err := trees.Make(t.Context(), w); !td.IsKind(err, td.Storage) || !strings.Contains(td.HintOf(err), "prune") {
		t.Errorf("on a full disk: %v", err)
	}
	trees, w = project(t, config.Worktree{Quota: 4096})
	write(t, w.Repo+"/.worktrees/t-0/large", strings.Repeat("x", 8192))
	if err := trees.Make(t.Context(), w); !td.IsKind(err, td.Storage) || !strings.Contains(err.Error(), "worktree.quota") {
		t.Errorf("beyond the quota: %v", err)
	}
	conf := config.Worktree{Quota: 1000, Warn: 80, Stop: 95}
	for _, tc := range []struct {
		disk, used int
		size       int64
		want       string
	}{
		{79, 79, 799, ""},
		{80, 0, 799, "the disk of /r is 80 % full; from 95 % on"},
		{0, 80, 799, "the disk of /r has used 80 % of its inodes; from 95 % on"},
		{79, 0, 800, "the worktrees of /r take 800B of the 1KB"},
		{95, 0, 0, "the disk of /r is 95 % full, and no worktree is made"},
		{0, 95, 0, "the disk of /r has used 95 % of its inodes, and no worktree is made"},
		{79, 0, 1000, "and worktree.quota is 1KB"},
		{79, 0, 1 << 62, "and worktree.quota is 1KB"},
	} {
		got := Room{Repo: "/r", Conf: conf, Disk: tc.disk, Used: tc.used, Size: tc.size}.Warning()
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("disk %d %%, inodes %d %%, worktrees %d: %q, want %q", tc.disk, tc.used, tc.size, got, tc.want)
		}
	}
}

func TestCopies(t *testing.T) {
	trees, w := project(t, config.Worktree{Copy: ".env, local/keys, absent"})
	write(t, w.Repo+"/.env", "A=1\n")
	write(t, w.Repo+"/local/keys/k", "k\n")
	if err := trees.Make(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{".env": "A=1\n", "local/keys/k": "k\n"} {
		if raw, err := os.ReadFile(filepath.Join(w.Path, name)); err != nil || string(raw) != want {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
}

// TestCopiesFollowNoLinks: links that a repository holds lead nowhere, neither what is copied nor where it goes.
func TestCopiesFollowNoLinks(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/secret", "secret\n")
	for name, tc := range map[string]struct {
		copies string
		links  map[string]string
		fails  bool
	}{
		"the file":            {".env", map[string]string{".env": outside + "/secret"}, false},
		"by a relative path":  {".env", map[string]string{".env": "../../../../../../../.." + outside + "/secret"}, false},
		"in the folder":       {"local", map[string]string{"local/keys": outside}, false},
		"its folder":          {"local/secret", map[string]string{"local": outside}, true},
		"where it goes":       {"conf/new", map[string]string{"conf": outside}, true},
		"where it goes, .git": {"conf/post-merge", map[string]string{"conf": ".git/hooks"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			trees, w := project(t, config.Worktree{Copy: tc.copies})
			for link, target := range tc.links {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(w.Repo, link)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(target, filepath.Join(w.Repo, link)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.copies == "conf/new" { // committed as a link, and by now a folder
				runGit(t, w.Repo, "add", ".")
				runGit(t, w.Repo, "commit", "-qm", "link")
				if err := os.Remove(w.Repo + "/conf"); err != nil {
					t.Fatal(err)
				}
				write(t, w.Repo+"/conf/new", "new\n")
			}
			if err := trees.Make(t.Context(), w); (err != nil) != tc.fails || err != nil && !strings.Contains(err.Error(), "symbolic link") {
				t.Errorf("make: %v", err)
			}
			_ = filepath.WalkDir(w.Path, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					if raw, err := os.ReadFile(path); err != nil || strings.Contains(string(raw), "secret") && d.Name() != ".git" {
						t.Errorf("%s holds %q, %v", path, raw, err)
					}
				}
				return nil
			})
			if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
				t.Errorf("outside are %v, %v", left, err)
			}
		})
	}
}

// TestWithdraw: what is withdrawn is not taken along, and what was taken along is not withdrawn.
func TestWithdraw(t *testing.T) {
	trees, own := project(t, config.Worktree{})
	ctx := t.Context()
	offer := func(handle string) (td.Worktree, merge.Work) {
		w := own
		w.Path, w.Branch = filepath.Join(w.Repo, ".worktrees", handle), "taskdaemon/run/"+handle
		if err := trees.Make(ctx, w); err != nil {
			t.Fatal(err)
		}
		write(t, w.Path+"/"+handle, handle)
		head, err := trees.Commit(ctx, w, "do "+handle)
		if err != nil {
			t.Fatal(err)
		}
		return w, merge.Work{Task: td.TaskID(handle), Handle: handle, Commit: head}
	}
	a, workA := offer("t-a")
	b, workB := offer("t-b")
	c, workC := offer("t-c")
	for range 2 { // the second time after a crash
		if m, err := trees.Withdraw(ctx, b, workB.Commit); err != nil || m != nil {
			t.Fatalf("withdraw: %+v, %v", m, err)
		}
	}
	l := trees.line(a)
	from, _, err := l.Heads(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Move(ctx, workA.Commit, from, []merge.Work{workC, workB}); !td.IsKind(err, td.Conflict) {
		t.Errorf("moved with what was withdrawn: %v", err)
	}
	res, err := trees.Merge(ctx, a, workA, []merge.Work{workB, workC}, nil)
	if err != nil || len(res.Beside) != 1 || res.Beside[0] != "t-c" {
		t.Fatalf("%+v, %v", res, err)
	}
	if m, err := trees.Withdraw(ctx, c, workC.Commit); err != nil || m == nil || m.Commit != res.Commit {
		t.Errorf("too late: %+v, %v", m, err)
	}
	if m, err := trees.Merged(ctx, b, workB.Commit); err != nil || m != nil {
		t.Errorf("what was withdrawn is merged: %+v, %v", m, err)
	}
}

// A person is asked before their branch follows commits that lack what theirs go through, and not where there is nothing to follow.
func TestAsksForHooksAndSignatures(t *testing.T) {
	for name, c := range map[string]struct {
		set    string
		demand func(t *testing.T, repo string)
		wanted bool
		lacks  string
	}{
		"nothing":        {demand: func(*testing.T, string) {}},
		"asked anyway":   {set: config.TrunkAsk, demand: func(*testing.T, string) {}, wanted: true},
		"left alone":     {set: config.TrunkBranch, demand: hooked("pre-commit", 0o755)},
		"a hook":         {demand: hooked("pre-commit", 0o755), lacks: "have not passed your git hooks (pre-commit)"},
		"not executable": {demand: hooked("pre-commit", 0o644)},
		"told only":      {demand: hooked("post-merge", 0o755)},
		"a signature":    {demand: func(t *testing.T, repo string) { runGit(t, repo, "config", "commit.gpgsign", "true") }, lacks: "are not signed, as your commit.gpgSign asks for"},
		"no signature":   {demand: func(t *testing.T, repo string) { runGit(t, repo, "config", "commit.gpgsign", "false") }},
		"hooks by settings": {demand: func(t *testing.T, repo string) {
			runGit(t, repo, "config", "core.hooksPath", "tools")
			hookAt(t, repo+"/tools/commit-msg", 0o755)
		}, lacks: "have not passed your git hooks (commit-msg)"},
		"no hooks at all": {demand: func(t *testing.T, repo string) {
			hookAt(t, repo+"/.git/hooks/pre-commit", 0o755)
			runGit(t, repo, "config", "core.hooksPath", "/dev/null")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			trees, w := project(t, config.Worktree{Trunk: c.set})
			c.demand(t, w.Repo)
			for _, step := range []struct {
				wanted bool
				lacks  string
			}{{}, {c.wanted, c.lacks}} { // there is nothing to follow, and then there is
				wanted, lacks, err := trees.Asks(t.Context(), w)
				if err != nil || wanted != step.wanted || lacks != step.lacks {
					t.Fatalf("%v, %q, %v; want %v, %q", wanted, lacks, err, step.wanted, step.lacks)
				}
				runGit(t, w.Repo, "branch", "-f", w.Into, runGit(t, w.Repo, "commit-tree", "-p", "main", "-m", "work", "main^{tree}"))
			}
		})
	}
}

func hooked(name string, mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, repo string) { hookAt(t, repo+"/.git/hooks/"+name, mode) }
}

func hookAt(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	write(t, path, "#!/bin/sh\nexit 1\n")
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// History that lacks an object would keep the person from pushing and cloning their branch, whatever its newest commit holds.
func TestCommitRefusesHistoryThatLacksObjects(t *testing.T) {
	t.Parallel()
	trees, w := project(t, config.Worktree{})
	ctx := t.Context()
	if err := trees.Make(ctx, w); err != nil {
		t.Fatal(err)
	}
	mktree := exec.Command("git", "-C", w.Path, "mktree", "--missing")
	mktree.Stdin = strings.NewReader("100644 blob 1234567890123456789012345678901234567890\tz\n")
	bad, err := mktree.Output()
	if err != nil {
		t.Fatal(err)
	}
	begin := runGit(t, w.Path, "rev-parse", "HEAD")
	step := runGit(t, w.Path, "commit-tree", strings.TrimSpace(string(bad)), "-p", begin, "-m", "step")
	runGit(t, w.Path, "update-ref", "HEAD", runGit(t, w.Path, "commit-tree", "HEAD^{tree}", "-p", step, "-m", "step2"))
	write(t, w.Path+"/n", "n\n")
	for _, message := range []string{td.InProgress + "x", "do it"} {
		if _, err := trees.Commit(ctx, w, message); !td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), "1234567890123456789012345678901234567890") || !strings.Contains(err.Error(), "git reset --soft "+begin[:12]) {
			t.Errorf("%s: %v", message, err)
		}
	}
	runGit(t, w.Path, "reset", "-q", "--soft", begin[:12])
	if head, err := trees.Commit(ctx, w, "do it"); err != nil || runGit(t, w.Repo, "show", head+":n") != "n" {
		t.Errorf("%s, %v", head, err)
	}
}

// To be a parent of a merge is not to be in it: a branch whose commits are merged without their content is not taken for merged, nor rebased onto that.
func TestWorkMergedWithoutItsContent(t *testing.T) {
	t.Parallel()
	trees, w := project(t, config.Worktree{})
	ctx := t.Context()
	if err := trees.Make(ctx, w); err != nil {
		t.Fatal(err)
	}
	write(t, w.Path+"/b.txt", "b\n")
	head, err := trees.Commit(ctx, w, "do it")
	if err != nil {
		t.Fatal(err)
	}
	if err := trees.Kept(ctx, w, head); err != nil {
		t.Errorf("it is not merged: %v", err)
	}
	runGit(t, w.Repo, "merge", "-q", "-s", "ours", "-m", "m", w.Branch)
	if err := trees.Kept(ctx, w, head); !td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), "b.txt") {
		t.Errorf("merged without it: %v", err)
	}
	if _, _, err := trees.Rebase(ctx, w); !td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), "b.txt") {
		t.Errorf("rebased onto a merge without it: %v", err)
	}
	if runGit(t, w.Repo, "rev-parse", w.Branch) != head {
		t.Error("the branch went on without it")
	}
	runGit(t, w.Repo, "reset", "-q", "--hard", "HEAD^")
	runGit(t, w.Repo, "merge", "-q", "--no-ff", "-m", "m", w.Branch)
	if err := trees.Kept(ctx, w, head); err != nil {
		t.Errorf("merged: %v", err)
	}
}

func TestCommitRefusesCommitsOfOtherTasks(t *testing.T) {
	t.Parallel()
	trees, a := project(t, config.Worktree{})
	ctx := t.Context()
	b := a
	b.Path, b.Branch = filepath.Join(filepath.Dir(a.Path), "t-2"), git.BranchName("t-2", "other")
	for _, w := range []td.Worktree{a, b} {
		if err := trees.Make(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	write(t, b.Path+"/b.txt", "b\n")
	if _, err := trees.Commit(ctx, b, "b"); err != nil {
		t.Fatal(err)
	}
	runGit(t, a.Path, "merge", "-q", "--no-ff", "-s", "ours", "-m", "m", b.Branch)
	write(t, a.Path+"/a.txt", "a\n")
	if _, err := trees.Commit(ctx, a, "a"); !td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), "a commit of t-2") {
		t.Errorf("%v", err)
	}
	if _, err := trees.Commit(ctx, b, "b"); err != nil {
		t.Errorf("the other is kept from its own: %v", err)
	}
}
