package git

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// union merges logs as taskdaemon does, but knows nothing of what is in them.
func union(_, one, other []byte) ([]byte, error) {
	lines := slices.Collect(strings.Lines(string(one) + string(other)))
	slices.Sort(lines)
	return []byte(strings.Join(slices.Compact(lines), "")), nil
}

var graphOptions = GraphOptions{Self: "/opt/task daemon", Merge: union}

// setup makes the graph of a repository.
func setup(t *testing.T, dir string) *Graph {
	t.Helper()
	g, conflicts, err := SetupGraph(t.Context(), dir, graphOptions)
	if err != nil {
		t.Fatalf("set up: %v (hint %q)", err, td.HintOf(err))
	}
	if len(conflicts) > 0 {
		t.Errorf("set up: conflicts %v", conflicts)
	}
	return g
}

func record(t *testing.T, g *Graph, message string) string {
	t.Helper()
	hash, _, err := g.Commit(t.Context(), message)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return hash
}

// files are the files of a folder with their content, apart from what is git's.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[strings.TrimPrefix(path, dir+"/")] = string(raw)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func expect(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := files(t, dir)
	delete(got, ".gitattributes")
	for _, p := range slices.Sorted(mapKeys(got, want)) {
		if got[p] != want[p] {
			t.Errorf("%s holds %q, want %q", p, got[p], want[p])
		}
		_, is := got[p]
		if _, should := want[p]; is != should {
			t.Errorf("%s is there: %v, want %v", p, is, should)
		}
	}
}

func mapKeys(maps ...map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, m := range maps {
			for k := range m {
				if !seen[k] && !yield(k) {
					return
				}
				seen[k] = true
			}
		}
	}
}

// ofUser is what belongs to the user: all files, the index, HEAD and branches. The list of excluded files and the
// settings are left out, as setting up adds to them.
func ofUser(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	got := files(t, dir)
	for _, p := range slices.Sorted(mapKeys(got)) {
		if !strings.HasPrefix(p, graphFolder) {
			all.WriteString(p + "=" + got[p] + "\n")
		}
	}
	for _, f := range []string{"HEAD", "index"} {
		raw, _ := os.ReadFile(filepath.Join(dir, ".git", f))
		all.Write(raw)
	}
	return all.String() + user(t, dir, "for-each-ref", "refs/heads/main", "refs/tags", "refs/stash")
}

func TestSetupGraph(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	write(t, dir+"/staged.go", "package main\n")
	user(t, dir, "add", "staged.go")
	write(t, dir+"/pkg/a.go", "package changed\n")
	before, status := ofUser(t, dir), user(t, dir, "status", "--porcelain")
	g := setup(t, dir+"/pkg")
	if g.Root() != dir || g.Dir() != dir+"/.taskdaemon" {
		t.Errorf("root %s, dir %s", g.Root(), g.Dir())
	}
	write(t, g.Dir()+"/"+GraphFile, "{\"a\":1}\n")
	first := record(t, g, "one")
	config, err := os.ReadFile(dir + "/.git/config")
	if err != nil {
		t.Fatal(err)
	}
	exclude, err := os.ReadFile(dir + "/.git/info/exclude")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		g = setup(t, dir)
	}
	for file, was := range map[string][]byte{"config": config, "info/exclude": exclude} {
		if now, _ := os.ReadFile(dir + "/.git/" + file); !bytes.Equal(now, was) {
			t.Errorf("%s changed from %q to %q", file, was, now)
		}
	}
	if hash, changed, err := g.Commit(t.Context(), "two"); err != nil || changed || hash != first {
		t.Errorf("nothing changed: %s %v %v", hash, changed, err)
	}
	if now := ofUser(t, dir); now != before || user(t, dir, "status", "--porcelain") != status {
		t.Errorf("the user's checkout was touched:\n%s\nbefore:\n%s", now, before)
	}
	if got := user(t, g.Dir(), "status", "--porcelain", "--branch"); got != "## taskdaemon/graph" {
		t.Errorf("status of the worktree: %q", got)
	}
	if got := user(t, dir, "log", "--format=%s", graphBranch); got != "one\nWork graph of taskdaemon" {
		t.Errorf("log: %q", got)
	}
	if got := user(t, dir, "config", "merge.taskdaemon-graph.driver"); got != "'/opt/task daemon' graph merge-driver %O %A %B" {
		t.Errorf("driver: %q", got)
	}
	user(t, dir, "fsck", "--strict")
	if _, err := OpenGraph(t.Context(), g.Dir(), graphOptions); err != nil {
		t.Errorf("open from inside: %v", err)
	}
}

func TestCommitTakesEverythingByteByByte(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := checkout(t)
	user(t, dir, "config", "core.autocrlf", "true")
	write(t, dir+"/.git/info/attributes", "* text eol=crlf ident working-tree-encoding=UTF-16\n")
	write(t, dir+"/.git/info/exclude", "*.md\nknowledge/\n")
	g := setup(t, dir)
	all := map[string]string{
		GraphFile: "{\"a\":1}\r\n{\"b\":2}\n", "knowledge/a.md": "$Id$\r\nx", "empty": "", "ö \"'\t\n:x": "odd",
		"-f": "dash", ".hidden/.x": "1", "bin.dat": "\x00\xff", ".gitignore": "cache/\n*.log\n",
	}
	for p, content := range all {
		write(t, g.Dir()+"/"+p, content)
	}
	write(t, g.Dir()+"/cache/x", "ignored by the branch itself")
	write(t, g.Dir()+"/half.tmp", "about to be renamed")
	if err := os.Symlink("/etc/passwd", g.Dir()+"/link"); err != nil {
		t.Fatal(err)
	}
	user(t, dir, "init", "-q", g.Dir()+"/inner")
	write(t, g.Dir()+"/inner/x", "another repository")
	hash := record(t, g, "-m: $(odd)\n\nbody")
	if got := user(t, dir, "ls-tree", "-r", "--name-only", "-z", hash); strings.Count(got, "\x00") != len(all)+1 {
		t.Errorf("committed: %q", got)
	}
	for p, want := range all {
		got, err := g.blob(t.Context(), entry{id: user(t, dir, "rev-parse", hash+":"+p)})
		if err != nil || string(got) != want {
			t.Errorf("%q holds %q, want %q (%v)", p, got, want, err)
		}
	}
	if got := user(t, dir, "log", "-1", "--format=%an <%ae> %cn%n%B", hash); got != "taskdaemon <taskdaemon@localhost> taskdaemon\n-m: $(odd)\n\nbody" {
		t.Errorf("commit: %q", got)
	}
	// Tracked, then replaced by a link: the branch keeps the file. Removed, then gone.
	for _, p := range []string{"bin.dat", "empty"} {
		if err := os.Remove(g.Dir() + "/" + p); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", g.Dir()+"/bin.dat"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(g.Dir()+"/-f", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(g.Dir()+"/knowledge", t.TempDir()+"/knowledge"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", g.Dir()+"/knowledge"); err != nil {
		t.Fatal(err)
	}
	user(t, dir, "config", "user.name", "Eve")
	user(t, dir, "config", "user.email", "eve@example.org")
	hash = record(t, g, "second")
	if got := user(t, dir, "diff-tree", "-r", "--name-status", "--no-renames", hash+"^", hash); got != "M\t-f\nD\tempty" {
		t.Errorf("second: %q", got)
	}
	if got := user(t, dir, "log", "-1", "--format=%an <%ae> %cn", hash); got != "Eve <eve@example.org> Eve" {
		t.Errorf("as: %q", got)
	}
	// What stands in the environment wins, as for git.
	t.Setenv("GIT_AUTHOR_NAME", "Ada")
	t.Setenv("GIT_COMMITTER_EMAIL", "ada@example.org")
	write(t, g.Dir()+"/"+GraphFile, "third\n")
	hash = record(t, g, "third")
	if got := user(t, dir, "log", "-1", "--format=%an <%ae> %cn <%ce>", hash); got != "Ada <eve@example.org> Eve <ada@example.org>" {
		t.Errorf("as: %q", got)
	}
}

func TestSetupGraphIn(t *testing.T) {
	refused := func(hint string, kind td.Kind) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			_, _, err := SetupGraph(t.Context(), dir, graphOptions)
			if !td.IsKind(err, kind) || !strings.Contains(td.HintOf(err), hint) {
				t.Errorf("%v (%s), hint %q", err, td.KindOf(err), td.HintOf(err))
			}
		}
	}
	works := func(t *testing.T, dir string) {
		g := setup(t, dir)
		write(t, g.Dir()+"/"+GraphFile, "1\n")
		hash := record(t, g, "m")
		if got := user(t, g.Dir(), "status", "--porcelain"); got != "" {
			t.Errorf("status: %q", got)
		}
		if got := user(t, g.Root(), "rev-parse", graphBranch); got != hash {
			t.Errorf("branch is at %s, want %s", got, hash)
		}
	}
	remove := func(path string) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string) string
		then    func(t *testing.T, dir string)
	}{
		"no repository": {func(t *testing.T, _ string) string { return t.TempDir() }, refused("", td.NotFound)},
		"inside .git":   {func(_ *testing.T, dir string) string { return dir + "/.git" }, refused("", td.NotFound)},
		"no commit":     {func(t *testing.T, _ string) string { d := t.TempDir(); user(t, d, "init", "-q", d); return d }, works},
		"detached":      {func(t *testing.T, dir string) string { user(t, dir, "checkout", "-q", "--detach"); return dir }, works},
		"no info":       {func(_ *testing.T, dir string) string { remove(dir + "/.git/info"); return dir }, works},
		"sha256": {func(t *testing.T, _ string) string {
			d := t.TempDir()
			user(t, d, "init", "-q", "--object-format=sha256", d)
			return d
		}, works},
		"odd name": {func(t *testing.T, _ string) string {
			d := t.TempDir() + "/a [*] ö\n'\"%"
			user(t, "/", "init", "-q", d)
			return d
		}, works},
		"packed refs": {func(t *testing.T, dir string) string { setup(t, dir); user(t, dir, "pack-refs", "--all"); return dir }, works},
		"tracked folder": {func(t *testing.T, dir string) string {
			write(t, dir+"/.taskdaemon/x", "1")
			user(t, dir, "add", "-A")
			return dir
		}, refused("git rm", td.Conflict)},
		"a file":             {func(t *testing.T, dir string) string { write(t, dir+"/.taskdaemon", "1"); return dir }, refused("move it away", td.Conflict)},
		"a repository there": {func(t *testing.T, dir string) string { user(t, dir, "init", "-q", ".taskdaemon"); return dir }, refused("move it away", td.Conflict)},
		"branch in the way":  {func(t *testing.T, dir string) string { user(t, dir, "branch", "taskdaemon"); return dir }, refused("git branch -m", td.Conflict)},
		"a link": {func(t *testing.T, dir string) string {
			if err := os.Symlink(t.TempDir(), dir+"/.taskdaemon"); err != nil {
				t.Fatal(err)
			}
			return dir
		}, refused("move it away", td.Conflict)},
		"checked out elsewhere": {func(t *testing.T, dir string) string {
			user(t, dir, "branch", graphBranch)
			user(t, dir, "worktree", "add", "-q", t.TempDir()+"/other", graphBranch)
			return dir
		}, refused("git worktree remove", td.Conflict)},
		"checked out here": {func(t *testing.T, dir string) string {
			user(t, dir, "checkout", "-q", "-b", graphBranch)
			return dir
		}, refused("git switch", td.Conflict)},
		"bare with a worktree": {func(t *testing.T, dir string) string {
			bare := t.TempDir() + "/bare.git"
			user(t, dir, "clone", "-q", "--bare", dir, bare)
			user(t, bare, "worktree", "add", "-q", bare+"/../wt", "main")
			return bare + "/../wt"
		}, refused("clone", td.Conflict)},
		"linked worktree": {func(t *testing.T, dir string) string {
			linked := t.TempDir() + "/linked"
			user(t, dir, "worktree", "add", "-q", linked)
			return linked
		}, func(t *testing.T, linked string) {
			works(t, linked)
			if _, err := os.Lstat(linked + "/.taskdaemon"); err == nil {
				t.Error("the graph is in the linked worktree")
			}
			if got := user(t, linked, "status", "--porcelain"); got != "" {
				t.Errorf("status: %q", got)
			}
		}},
		"submodule": {func(t *testing.T, dir string) string {
			user(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", checkout(t), "sub")
			return dir + "/sub"
		}, func(t *testing.T, sub string) {
			works(t, sub)
			if _, err := os.Lstat(sub + "/.taskdaemon/.git"); err != nil {
				t.Error(err)
			}
		}},
		"folder removed by hand": {func(t *testing.T, dir string) string { works(t, dir); remove(dir + "/.taskdaemon"); return dir }, works},
		"link removed by hand":   {func(t *testing.T, dir string) string { works(t, dir); remove(dir + "/.taskdaemon/.git"); return dir }, works},
		"git's part removed":     {func(t *testing.T, dir string) string { works(t, dir); remove(dir + "/.git/worktrees"); return dir }, works},
		"git stopped half-way": {func(t *testing.T, dir string) string {
			g := setup(t, dir)
			remove(dir + "/.taskdaemon/.gitattributes")
			write(t, g.admin+"/locked", "initializing")
			write(t, g.admin+"/HEAD", strings.Repeat("0", 40)+"\n")
			return dir
		}, works},
		"moved elsewhere, then copied back": {func(t *testing.T, dir string) string {
			setup(t, dir)
			other := t.TempDir() + "/other"
			user(t, dir, "worktree", "move", ".taskdaemon", other)
			if err := os.CopyFS(dir+"/.taskdaemon", os.DirFS(other)); err != nil {
				t.Fatal(err)
			}
			return dir
		}, refused("git worktree remove", td.Conflict)},
		"led to another repository": {func(t *testing.T, dir string) string {
			g := setup(t, dir)
			evil := g.Dir() + "/evil"
			if err := os.CopyFS(evil, os.DirFS(g.admin)); err != nil {
				t.Fatal(err)
			}
			write(t, g.Dir()+"/.git", "gitdir: "+evil+"\n")
			if _, err := OpenGraph(t.Context(), dir, graphOptions); !td.IsKind(err, td.NotFound) {
				t.Errorf("open: %v", err)
			}
			return dir
		}, works},
		"sparse": {func(t *testing.T, dir string) string { user(t, dir, "sparse-checkout", "set", "pkg"); return dir }, works},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.then(t, c.prepare(t, checkout(t)))
		})
	}
}

func TestSetupGraphKeepsWhatWasThere(t *testing.T) {
	t.Parallel()
	origin := checkout(t)
	g := setup(t, origin)
	write(t, g.Dir()+"/"+GraphFile, "1\n3\n")
	write(t, g.Dir()+"/config.yaml", "team: 1\n")
	write(t, g.Dir()+"/knowledge/same.md", "same")
	write(t, g.Dir()+"/skills", "a file here, a folder there")
	record(t, g, "m")
	clone := t.TempDir() + "/clone"
	user(t, "/", "clone", "-q", origin, clone)
	write(t, clone+"/.taskdaemon/"+GraphFile, "2\n3\n")
	write(t, clone+"/.taskdaemon/config.yaml", "mine: 1\n")
	write(t, clone+"/.taskdaemon/knowledge/same.md", "same")
	write(t, clone+"/.taskdaemon/knowledge/own.md", "own")
	write(t, clone+"/.taskdaemon/skills/a/SKILL.md", "skill")
	if err := os.Symlink("own.md", clone+"/.taskdaemon/knowledge/link.md"); err != nil {
		t.Fatal(err)
	}
	g, conflicts, err := SetupGraph(t.Context(), clone, graphOptions)
	if err != nil {
		t.Fatal(err)
	}
	if len(conflicts) != 2 {
		t.Errorf("conflicts: %v", conflicts)
	}
	expect(t, g.Dir(), map[string]string{
		GraphFile: "1\n2\n3\n", "config.yaml": "team: 1\n", "knowledge/same.md": "same", "knowledge/own.md": "own",
		"config.conflict-" + conflictID(t, "mine: 1\n") + ".yaml": "mine: 1\n",
		"skills": "a file here, a folder there", "skills.conflict-local/a/SKILL.md": "skill",
	})
	if to, err := os.Readlink(g.Dir() + "/knowledge/link.md"); err != nil || to != "own.md" {
		t.Errorf("link: %s, %v", to, err)
	}
	if left, _ := filepath.Glob(clone + "/.taskdaemon?*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if got := user(t, clone, "config", "branch.taskdaemon/graph.merge"); got != graphRef {
		t.Errorf("tracks %q", got)
	}
}

func conflictID(t *testing.T, content string) string {
	t.Helper()
	id, err := (&Graph{format: 40}).nameOf(strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return id[:shortName]
}

// A repository that was moved or copied has a folder that leads to the old place.
func TestSetupGraphAfterMoveAndCopy(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	g := setup(t, dir)
	write(t, g.Dir()+"/"+GraphFile, "1\n")
	write(t, g.Dir()+"/x.md", "one")
	first := record(t, g, "m")
	write(t, g.Dir()+"/"+GraphFile, "1\n2\n")
	write(t, g.Dir()+"/x.md", "two")
	copied, moved := t.TempDir()+"/copy", t.TempDir()+"/moved"
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenGraph(t.Context(), copied, graphOptions); !td.IsKind(err, td.NotFound) || td.HintOf(err) != "taskdaemon init" {
		t.Errorf("a copy that was not set up: %v", err)
	}
	c := setup(t, copied)
	expect(t, c.Dir(), map[string]string{GraphFile: "1\n2\n", "x.md": "two"})
	second := record(t, c, "in the copy")
	if got := user(t, dir, "rev-parse", graphBranch); got != first {
		t.Errorf("the copy's commit went to the original: %s", got)
	}
	if got := user(t, copied, "rev-parse", graphBranch+"^"); got != first || second == first {
		t.Errorf("the copy: %s", got)
	}
	if _, err := OpenGraph(t.Context(), dir, graphOptions); err != nil {
		t.Errorf("the original: %v", err)
	}
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	m := setup(t, moved)
	expect(t, m.Dir(), map[string]string{GraphFile: "1\n2\n", "x.md": "two"})
	if record(t, m, "moved") == first {
		t.Error("nothing was committed")
	}
}

func TestGraphRefusesUnfitWorktree(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	if _, err := OpenGraph(t.Context(), dir, graphOptions); !td.IsKind(err, td.NotFound) || td.HintOf(err) == "" {
		t.Errorf("not set up: %v", err)
	}
	g := setup(t, dir)
	user(t, g.Dir(), "checkout", "-q", "--detach")
	if _, _, err := g.Commit(t.Context(), "m"); !td.IsKind(err, td.Conflict) || !strings.Contains(td.HintOf(err), "switch") {
		t.Errorf("detached: %v", err)
	}
	user(t, g.Dir(), "switch", "-q", graphBranch)
	write(t, g.admin+"/MERGE_HEAD", user(t, dir, "rev-parse", "main"))
	if _, _, err := g.Commit(t.Context(), "m"); !td.IsKind(err, td.Conflict) || !strings.Contains(td.HintOf(err), "merge") {
		t.Errorf("in a merge: %v", err)
	}
	if err := os.Remove(g.admin + "/MERGE_HEAD"); err != nil {
		t.Fatal(err)
	}
	write(t, g.Dir()+"/"+GraphFile, "1\n")
	record(t, g, "m")
	if err := os.Remove(g.Dir() + "/" + GraphFile); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Commit(t.Context(), "m"); !td.IsKind(err, td.Conflict) || !strings.Contains(td.HintOf(err), "restore") {
		t.Errorf("without its log: %v", err)
	}
	user(t, g.Dir(), strings.Fields("restore --source=HEAD --staged --worktree "+GraphFile)...)
	record(t, g, "m")
	if err := os.Rename(g.Dir(), g.Dir()+"-moved"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Commit(t.Context(), "m"); !td.IsKind(err, td.Conflict) || td.HintOf(err) != "taskdaemon init" {
		t.Errorf("without its folder: %v", err)
	}
	if err := os.Rename(g.Dir()+"-moved", g.Dir()); err != nil {
		t.Fatal(err)
	}
	unlock, err := g.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := g.Commit(ctx, "m"); !td.IsKind(err, td.Interrupted) {
		t.Errorf("locked: %v", err)
	}
}

// A machine that went down may leave git's locks. Those of a git that may still be at work are respected.
func TestGraphSweepsOldLocks(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	g := setup(t, dir)
	locks := []string{dir + "/.git/" + graphRef + ".lock", dir + "/.git/" + graphNext + ".lock", g.admin + "/HEAD.lock"}
	for i, lock := range locks {
		write(t, lock, "")
		old := time.Now().Add(-2 * staleLock)
		if err := os.Chtimes(lock, old, old); err != nil {
			t.Fatal(err)
		}
		write(t, g.Dir()+"/x", lock)
		if _, changed, err := g.Commit(t.Context(), "m"); err != nil || !changed {
			t.Errorf("an old lock %d: %v %v", i, changed, err)
		}
		if _, err := os.Lstat(lock); err == nil {
			t.Errorf("%s is still there", lock)
		}
	}
	write(t, locks[0], "")
	write(t, g.Dir()+"/x", "again")
	if _, _, err := g.Commit(t.Context(), "m"); !td.IsKind(err, td.Locked) {
		t.Errorf("a new lock: %v", err)
	}
	if err := os.Remove(locks[0]); err != nil {
		t.Fatal(err)
	}
	record(t, g, "m")
}
