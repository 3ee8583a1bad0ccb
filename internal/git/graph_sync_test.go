package git

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// bareRemote is a bare repository that clones can share.
func bareRemote(t *testing.T) string {
	t.Helper()
	bare := filepath.Join(t.TempDir(), "shared.git")
	user(t, "/", "clone", "-q", "--bare", checkout(t), bare)
	return bare
}

// cloneOf is a clone with a graph.
func cloneOf(t *testing.T, bare string) *Graph {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	user(t, "/", "clone", "-q", bare, dir+"/clone")
	return setup(t, dir+"/clone")
}

func share(t *testing.T, g *Graph) SyncReport {
	t.Helper()
	rep, err := g.Sync(t.Context())
	if err != nil {
		t.Fatalf("sync: %v (hint %q)", err, td.HintOf(err))
	}
	if got := user(t, g.Dir(), "status", "--porcelain"); got != "" {
		t.Errorf("status after sync: %q", got)
	}
	return rep
}

func head(t *testing.T, g *Graph) string {
	t.Helper()
	return user(t, g.Root(), "rev-parse", graphBranch)
}

func (r SyncReport) String() string {
	return fmt.Sprintf("pulled %d pushed %d merged %v conflicts %d", r.Pulled, r.Pushed, r.Merged, len(r.Conflicts))
}

func TestSync(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	a, b := cloneOf(t, bare), cloneOf(t, bare)
	if head(t, a) != head(t, b) {
		t.Error("two graphs begin with different commits")
	}
	write(t, a.Dir()+"/"+GraphFile, "1\n")
	write(t, a.Dir()+"/knowledge/x.md", "one\ntwo\nthree\nfour\nfive\n")
	write(t, a.Dir()+"/knowledge/gone.md", "gone")
	write(t, a.Dir()+"/knowledge/changed.md", "changed")
	write(t, a.Dir()+"/becomes", "a folder")
	write(t, a.Dir()+"/folder/file", "a file")
	steps := []struct {
		what string
		g    *Graph
		do   func()
		want string
	}{
		{"a pushes", a, func() {}, "pulled 0 pushed 2 merged false conflicts 0"},
		{"again", a, func() {}, "pulled 0 pushed 0 merged false conflicts 0"},
		{"b pulls", b, func() {}, "pulled 1 pushed 0 merged false conflicts 0"},
		{"b changes", b, func() {
			write(t, b.Dir()+"/"+GraphFile, "1\n3\n")
			write(t, b.Dir()+"/knowledge/x.md", "ONE\ntwo\nthree\nfour\nfive\n")
			write(t, b.Dir()+"/knowledge/new.md", "of b")
			write(t, b.Dir()+"/knowledge/changed.md", "changed by b")
			_ = os.Remove(b.Dir() + "/knowledge/gone.md")
			_ = os.Remove(b.Dir() + "/becomes")
			write(t, b.Dir()+"/becomes/file", "in a folder")
			_ = os.RemoveAll(b.Dir() + "/folder")
			write(t, b.Dir()+"/folder", "now a file")
		}, "pulled 0 pushed 1 merged false conflicts 0"},
		{"a merges", a, func() {
			write(t, a.Dir()+"/"+GraphFile, "1\n2\n")
			write(t, a.Dir()+"/knowledge/x.md", "one\ntwo\nthree\nfour\nFIVE\n")
			_ = os.Remove(a.Dir() + "/knowledge/changed.md")
		}, "pulled 1 pushed 2 merged true conflicts 1"},
		{"b follows", b, func() {}, "pulled 2 pushed 0 merged false conflicts 0"},
	}
	for _, s := range steps {
		s.do()
		if rep := share(t, s.g); rep.String() != s.want {
			t.Errorf("%s: %s, want %s", s.what, rep, s.want)
		}
	}
	want := map[string]string{
		GraphFile: "1\n2\n3\n", "knowledge/x.md": "ONE\ntwo\nthree\nfour\nFIVE\n", "knowledge/new.md": "of b",
		"knowledge/changed.md": "changed by b", "becomes/file": "in a folder",
		"folder": "now a file",
	}
	expect(t, a.Dir(), want)
	expect(t, b.Dir(), want)
	if head(t, a) != head(t, b) || user(t, bare, "rev-parse", graphBranch) != head(t, a) {
		t.Error("they are not at the same commit")
	}
	if got := user(t, a.Root(), "status", "--porcelain", "--branch"); got != "## main...origin/main" {
		t.Errorf("the user's checkout: %q", got)
	}
	user(t, bare, "fsck", "--strict")
}

// Versions that cannot be merged are both kept, and whoever merges makes the same commit.
func TestMergeKeepsBothAndIsTheSameForAll(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	a, b := cloneOf(t, bare), cloneOf(t, bare)
	write(t, a.Dir()+"/plan.md", "base\n")
	write(t, a.Dir()+"/a", "file")
	share(t, a)
	share(t, b)
	for g, text := range map[*Graph]string{a: "of a\n", b: "of b\n"} {
		write(t, g.Dir()+"/plan.md", text)
		write(t, g.Dir()+"/.hidden", text)
		write(t, g.Dir()+"/bin", "\x00"+text)
	}
	_ = os.Remove(b.Dir() + "/a")
	write(t, b.Dir()+"/a/b", "folder")
	write(t, a.Dir()+"/a", "file changed")
	ofA, ofB := record(t, a, "a"), record(t, b, "b")
	user(t, a.Root(), "fetch", "-q", b.Root(), graphRef)
	user(t, b.Root(), "fetch", "-q", a.Root(), graphRef)
	one, conflicts, err := a.merge(t.Context(), ofA, ofB)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := b.merge(t.Context(), ofB, ofA)
	if err != nil {
		t.Fatal(err)
	}
	if one != other {
		t.Errorf("merged here it is %s, there %s", one, other)
	}
	if len(conflicts) != 5 { // three files, one that is also a folder and also was removed
		t.Errorf("conflicts: %v", conflicts)
	}
	share(t, a)
	if rep := share(t, b); len(rep.Conflicts) < 4 {
		t.Errorf("conflicts: %v", rep.Conflicts)
	}
	share(t, a)
	got := files(t, a.Dir())
	if !maps.Equal(got, files(t, b.Dir())) {
		t.Error("the clones differ")
	}
	all := fmt.Sprintf("%q", got)
	for _, text := range []string{`"of a\n"`, `"of b\n"`, `"\x00of a\n"`, `"\x00of b\n"`, `"folder"`, `"file changed"`} {
		if !strings.Contains(all, text) {
			t.Errorf("%s is lost: %s", text, all)
		}
	}
}

// Three clones that change, commit and sync as they like end with the same bytes, and no line is lost.
func TestClonesConverge(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	bare := bareRemote(t)
	clones := []*Graph{cloneOf(t, bare), cloneOf(t, bare), cloneOf(t, bare)}
	lines := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, g := range clones {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for n := range 12 {
				line := fmt.Sprintf("%02d-%d", n, i)
				appendTo(t, g.Dir()+"/"+GraphFile, line+"\n")
				if rnd.IntN(2) == 0 {
					write(t, g.Dir()+fmt.Sprintf("/knowledge/%d.md", rnd.IntN(4)), line)
				}
				mu.Lock()
				lines[line] = true
				mu.Unlock()
				switch rnd.IntN(4) {
				case 0:
					if _, _, err := g.Commit(t.Context(), line); err != nil {
						t.Errorf("commit: %v", err)
					}
				case 1:
					if _, err := g.Sync(t.Context()); err != nil && !td.IsKind(err, td.Conflict) {
						t.Errorf("sync: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	for range 2 {
		for _, g := range clones {
			share(t, g)
		}
	}
	first := files(t, clones[0].Dir())
	for _, g := range clones[1:] {
		if !maps.Equal(first, files(t, g.Dir())) || head(t, g) != head(t, clones[0]) {
			t.Errorf("%s differs from %s", g.Dir(), clones[0].Dir())
		}
	}
	for l := range lines {
		if strings.Count(first[GraphFile], l+"\n") != 1 {
			t.Errorf("line %s is there %d times", l, strings.Count(first[GraphFile], l+"\n"))
		}
	}
	user(t, bare, "fsck", "--strict")
}

func appendTo(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := f.WriteString(text); err != nil {
		t.Error(err)
	}
	_ = f.Close()
}

func TestSyncUnrelatedHistories(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	a, b := cloneOf(t, bare), cloneOf(t, bare)
	write(t, a.Dir()+"/"+GraphFile, "1\n")
	share(t, a)
	// A branch that began elsewhere.
	own := user(t, b.Root(), "commit-tree", "-m", "own", user(t, b.Root(), "mktree", "--missing"))
	user(t, b.Root(), "update-ref", graphRef, own)
	write(t, b.Dir()+"/"+GraphFile, "2\n")
	if rep := share(t, b); !rep.Merged {
		t.Errorf("%s", rep)
	}
	expect(t, b.Dir(), map[string]string{GraphFile: "1\n2\n"})
	share(t, a)
	expect(t, a.Dir(), map[string]string{GraphFile: "1\n2\n"})
}

func TestSyncWithoutARemoteThatAnswers(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	for name, c := range map[string]struct {
		prepare func(g *Graph)
		kind    td.Kind
		hint    string
	}{
		"none":           {func(g *Graph) { user(t, g.Root(), "remote", "remove", "origin") }, td.NotFound, "git remote add"},
		"not there":      {func(g *Graph) { user(t, g.Root(), "remote", "set-url", "origin", "/nonexistent") }, td.Unavailable, "git remote"},
		"nobody listens": {func(g *Graph) { user(t, g.Root(), "remote", "set-url", "origin", "git://127.0.0.1:1/x") }, td.Unavailable, "committed here"},
		"odd name":       {func(g *Graph) { user(t, g.Root(), "config", "taskdaemon.remote", "--upload-pack=x") }, td.Invalid, "git config"},
		"unknown name":   {func(g *Graph) { user(t, g.Root(), "config", "taskdaemon.remote", "other") }, td.NotFound, "git remote add other"},
		"a command": {func(g *Graph) {
			user(t, g.Root(), "config", "protocol.ext.allow", "always")
			user(t, g.Root(), "remote", "set-url", "origin", "ext::sh -c true")
		}, td.Refused, "ssh or https"},
		"its own program": {func(g *Graph) { user(t, g.Root(), "config", "core.sshCommand", "true") }, td.Refused, "--global core.sshcommand"},
		"read-only": {func(g *Graph) {
			write(t, bare+"/hooks/pre-receive", "#!/bin/sh\nexit 1\n")
			if err := os.Chmod(bare+"/hooks/pre-receive", 0o700); err != nil {
				t.Fatal(err)
			}
		}, td.Refused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := cloneOf(t, bare)
			c.prepare(g)
			write(t, g.Dir()+"/"+GraphFile, "1\n")
			rep, err := g.Sync(t.Context())
			if !td.IsKind(err, c.kind) || !strings.Contains(td.HintOf(err), c.hint) {
				t.Errorf("%s: %v (%s), hint %q", rep, err, td.KindOf(err), td.HintOf(err))
			}
			if got := user(t, g.Dir(), "status", "--porcelain"); got != "" {
				t.Errorf("status: %q", got)
			}
			if got := user(t, g.Root(), "show", graphBranch+":"+GraphFile); got != "1" {
				t.Errorf("committed: %q", got)
			}
			expect(t, g.Dir(), map[string]string{GraphFile: "1\n"})
		})
	}
}

// What others push must not lead a writer out of the folder.
func TestSyncRefusesWhatIsNoPlainFile(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"link":      "120000 blob %s\ttasks.jsonl\n",
		"submodule": "160000 commit 0123456789012345678901234567890123456789\tsub\n",
	} {
		t.Run(name, func(t *testing.T) {
			bare := bareRemote(t)
			g := cloneOf(t, bare)
			share(t, g)
			tree := mktree(t, bare, strings.ReplaceAll(line, "%s", blobIn(t, bare, "/etc/passwd")))
			evil := user(t, bare, "commit-tree", "-m", "evil", "-p", graphBranch, tree)
			user(t, bare, "update-ref", graphRef, evil)
			before := head(t, g)
			_, err := g.Sync(t.Context())
			if !td.IsKind(err, td.Refused) || td.HintOf(err) == "" {
				t.Errorf("%v, hint %q", err, td.HintOf(err))
			}
			if head(t, g) != before {
				t.Error("the branch has moved")
			}
			expect(t, g.Dir(), map[string]string{})
			dir := t.TempDir() + "/new"
			user(t, "/", "clone", "-q", bare, dir)
			if _, _, err := SetupGraph(t.Context(), dir, graphOptions); !td.IsKind(err, td.Refused) {
				t.Errorf("set up: %v", err)
			}
		})
	}
}

// What was changed while a sync went on, or after a crash in one, is kept.
func TestApplyMergesWhatWasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	a, b := cloneOf(t, bare), cloneOf(t, bare)
	for _, p := range []string{"x.md", "gone.md", "changed.md", "torn.md"} {
		write(t, a.Dir()+"/"+p, "one\ntwo\nthree\nfour\nfive\n")
	}
	write(t, a.Dir()+"/"+GraphFile, "1\n")
	share(t, a)
	share(t, b)
	write(t, a.Dir()+"/"+GraphFile, "1\n2\n")
	write(t, a.Dir()+"/x.md", "ONE\ntwo\nthree\nfour\nfive\n")
	write(t, a.Dir()+"/torn.md", "of a")
	write(t, a.Dir()+"/new/file", "of a")
	_ = os.Remove(a.Dir() + "/changed.md")
	_ = os.Remove(a.Dir() + "/gone.md")
	share(t, a)
	to := head(t, a)
	user(t, b.Root(), "fetch", "-q", bare, graphRef)
	leave, err := b.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	appendTo(t, b.Dir()+"/"+GraphFile, "3\n")
	appendTo(t, b.Dir()+"/x.md", "six\n")
	write(t, b.Dir()+"/torn.md", "of b")
	write(t, b.Dir()+"/changed.md", "by b")
	if err := os.Symlink("/tmp", b.Dir()+"/new"); err != nil {
		t.Fatal(err)
	}
	conflicts, err := b.goTo(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if len(conflicts) != 2 {
		t.Errorf("conflicts: %v", conflicts)
	}
	expect(t, b.Dir(), map[string]string{
		GraphFile: "1\n2\n3\n", "x.md": "ONE\ntwo\nthree\nfour\nfive\nsix\n", "torn.md": "of b",
		"torn.conflict-" + conflictID(t, "of a") + ".md": "of a", "changed.md": "by b", "new/file": "of a",
	})
	if to, err := os.Readlink(b.Dir() + "/new.conflict-local"); err != nil || to != "/tmp" {
		t.Errorf("what stood in the way: %s, %v", to, err)
	}
	if head(t, b) != to {
		t.Error("the branch has not moved")
	}
}

// Lines that others append while a sync goes on are kept, and nobody has to wait for the remote.
func TestHoldKeepsWritersOff(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	held := filepath.Join(t.TempDir(), "held")
	write(t, bare+"/hooks/pre-receive", "#!/bin/sh\ntest ! -e "+held+"\n")
	if err := os.Chmod(bare+"/hooks/pre-receive", 0o700); err != nil {
		t.Fatal(err)
	}
	other, g := cloneOf(t, bare), cloneOf(t, bare)
	far := served(t, bare)
	for _, one := range []*Graph{other, g} {
		user(t, one.Root(), "remote", "set-url", "origin", far)
	}
	var mu sync.Mutex
	hold := func(context.Context) (func(), error) {
		mu.Lock()
		write(t, held, "")
		return func() { _ = os.Remove(held); mu.Unlock() }, nil
	}
	g.Hold = hold
	stop := make(chan struct{})
	var wrote []string
	var wg sync.WaitGroup
	wg.Go(func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			mu.Lock()
			appendTo(t, g.Dir()+"/"+GraphFile, fmt.Sprintf("mine %d\n", n))
			mu.Unlock()
			wrote = append(wrote, fmt.Sprintf("mine %d", n))
		}
	})
	for n := range 4 {
		appendTo(t, other.Dir()+"/"+GraphFile, fmt.Sprintf("theirs %d\n", n))
		share(t, other)
		if _, err := g.Sync(t.Context()); err != nil {
			t.Errorf("sync: %v", err)
		}
	}
	close(stop)
	wg.Wait()
	share(t, g)
	share(t, other)
	here, there := files(t, g.Dir())[GraphFile], files(t, other.Dir())[GraphFile]
	if here != there {
		t.Error("the clones differ")
	}
	lines := strings.Split(there, "\n")
	slices.Sort(lines)
	for _, l := range append(wrote, "theirs 0", "theirs 3") {
		if _, found := slices.BinarySearch(lines, l); !found {
			t.Fatalf("%q is lost, of %d", l, len(wrote))
		}
	}
	g.Hold = func(context.Context) (func(), error) { return nil, td.Errorf(td.Locked, "not now") }
	if _, _, err := g.Commit(t.Context(), "m"); !td.IsKind(err, td.Locked) {
		t.Errorf("not held: %v", err)
	}
}

// served offers a repository over the network, and returns its address.
func served(t *testing.T, bare string) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	cmd := exec.Command("git", "daemon", "--reuseaddr", "--listen=127.0.0.1", fmt.Sprintf("--port=%d", port), "--export-all",
		"--enable=receive-pack", "--base-path="+filepath.Dir(bare), filepath.Dir(bare))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	for until := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(until) {
			t.Fatalf("git daemon does not listen: %v", err)
		}
		runtime.Gosched()
	}
	return fmt.Sprintf("git://127.0.0.1:%d/%s", port, filepath.Base(bare))
}

// A clone that lacks files, and would fetch them when they are needed, is told apart from one that is damaged: nothing is fetched unasked.
func TestSetupInACloneWithoutBlobs(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	user(t, bare, "config", "uploadpack.allowFilter", "true")
	a := cloneOf(t, bare)
	write(t, a.Dir()+"/"+GraphFile, "1\n")
	share(t, a)
	dir := t.TempDir() + "/clone"
	user(t, "/", "clone", "-q", "--filter=blob:none", "file://"+bare, dir)
	_, _, err := SetupGraph(t.Context(), dir, graphOptions)
	if !td.IsKind(err, td.Refused) || !strings.Contains(td.HintOf(err), "git fetch --refetch") {
		t.Errorf("%v, hint %q", err, td.HintOf(err))
	}
}

// A clone that has only a part of the history takes part like any other.
func TestSyncInPartialClones(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	user(t, bare, "config", "uploadpack.allowFilter", "true")
	a := cloneOf(t, bare)
	write(t, a.Dir()+"/"+GraphFile, "1\n")
	write(t, a.Dir()+"/x.md", "x")
	share(t, a)
	want := "1\n"
	far := served(t, bare)
	for n, how := range [][]string{{"--depth=1"}, {"--single-branch"}, {"--depth=1", "--no-single-branch"}, {"--depth=1", "far"}, {"far"}} {
		dir := t.TempDir() + "/clone"
		from := "file://" + bare
		if at := slices.Index(how, "far"); at >= 0 {
			from, how = far, slices.Delete(how, at, at+1)
		}
		user(t, "/", append(append([]string{"clone", "-q"}, how...), from, dir)...)
		g := setup(t, dir)
		line := fmt.Sprintf("2%d\n", n)
		appendTo(t, g.Dir()+"/"+GraphFile, line)
		want += line
		share(t, g)
		expect(t, g.Dir(), map[string]string{GraphFile: want, "x.md": "x"})
		share(t, a)
		expect(t, a.Dir(), map[string]string{GraphFile: want, "x.md": "x"})
	}
}

// A merge that fails leaves everything as it was.
func TestSyncWhoseMergeFails(t *testing.T) {
	t.Parallel()
	bare := bareRemote(t)
	a, b := cloneOf(t, bare), cloneOf(t, bare)
	write(t, a.Dir()+"/"+GraphFile, "1\n")
	share(t, a)
	write(t, b.Dir()+"/"+GraphFile, "2\n")
	b.Merge = func(_, _, _ []byte) ([]byte, error) { return nil, td.Errorf(td.Newer, "a newer line") }
	if _, err := b.Sync(t.Context()); !td.IsKind(err, td.Newer) {
		t.Errorf("%v", err)
	}
	expect(t, b.Dir(), map[string]string{GraphFile: "2\n"})
	b.Merge = union
	share(t, b)
	expect(t, b.Dir(), map[string]string{GraphFile: "1\n2\n"})
}

func blobIn(t *testing.T, dir, content string) string {
	t.Helper()
	file := t.TempDir() + "/blob"
	write(t, file, content)
	return user(t, dir, "hash-object", "-w", "--no-filters", file)
}

// mktree makes a tree of lines as git ls-tree prints them.
func mktree(t *testing.T, dir, lines string) string {
	t.Helper()
	cmd := exec.Command("git", "mktree", "--missing")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(lines)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
