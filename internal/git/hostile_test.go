package git

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// programKeys are the settings of git's documentation (git-config and the pages of the commands) that name a program or a path. EVIL stands
// for a program of the repository's; what git does with it is up to git.
var programKeys = []string{
	"core.fsmonitor=EVIL", "core.hooksPath=HOOKS", "core.pager=EVIL", "core.editor=EVIL", "core.sshCommand=EVIL", "core.askPass=EVIL", "core.gitProxy=EVIL",
	"core.alternateRefsCommand=EVIL", "core.worktree=/", "core.excludesFile=/etc/passwd", "core.attributesFile=ATTRIBUTES", "core.bare=true",
	"core.splitIndex=true", "core.sharedRepository=0777", "sequence.editor=EVIL", "pager.log=EVIL", "pager.status=EVIL", "pager.diff=EVIL", "pager.config=EVIL",
	"alias.status=!EVIL", "alias.log=!EVIL", "browser.x.cmd=EVIL", "browser.x.path=EVIL", "web.browser=x", "man.x.cmd=EVIL", "man.x.path=EVIL", "man.viewer=x",
	"mergetool.x.cmd=EVIL", "mergetool.x.path=EVIL", "merge.tool=x", "difftool.x.cmd=EVIL", "difftool.x.path=EVIL", "diff.tool=x", "guitool.x.cmd=EVIL",
	"diff.external=EVIL", "diff.x.command=EVIL", "diff.x.textconv=EVIL", "diff.x.xfuncname=x", "diff.orderFile=EVIL", "merge.x.driver=EVIL %A %O %B", "merge.default=x",
	"filter.x.clean=EVIL", "filter.x.smudge=EVIL", "filter.x.process=EVIL", "filter.x.required=true",
	"gpg.program=EVIL", "gpg.ssh.program=EVIL", "gpg.x509.program=EVIL", "gpg.ssh.defaultKeyCommand=EVIL", "gpg.ssh.allowedSignersFile=EVIL", "gpg.ssh.revocationFile=EVIL",
	"gpg.format=ssh", "commit.gpgSign=true", "tag.gpgSign=true", "log.showSignature=true", "user.signingKey=x", "commit.template=EVIL", "merge.verifySignatures=true",
	"credential.helper=EVIL", "credential.https://example.org.helper=EVIL", "credential.useHttpPath=true", "http.sslKey=EVIL", "http.sslCert=EVIL", "http.sslCAInfo=EVIL",
	"http.cookieFile=EVIL", "http.proxy=http://127.0.0.1:1", "imap.tunnel=EVIL", "include.path=MORE", "includeIf.gitdir:/**.path=MORE", "init.templateDir=HOOKS",
	"instaweb.httpd=EVIL", "instaweb.browser=EVIL", "interactive.diffFilter=EVIL", "mailmap.file=EVIL", "log.mailmap=true",
	"remote.evil.url=ext::EVIL", "remote.evil.uploadpack=EVIL", "remote.evil.receivepack=EVIL", "remote.evil.vcs=EVIL", "remote.evil.promisor=true", "remote.evil.proxy=EVIL",
	"extensions.partialClone=evil", "protocol.ext.allow=always", "protocol.allow=always", "url.ext::EVIL.insteadOf=x", "fetch.bundleURI=EVIL", "transfer.bundleURI=true",
	"sendemail.smtpServer=EVIL", "sendemail.sendmailCmd=EVIL", "sendemail.toCmd=EVIL", "sendemail.ccCmd=EVIL", "sendemail.headerCmd=EVIL",
	"submodule.sub.update=!EVIL", "submodule.sub.url=ext::EVIL", "submodule.sub.active=true", "submodule.recurse=true", "status.submoduleSummary=true", "diff.submodule=log",
	"diff.ignoreSubmodules=none", "fetch.recurseSubmodules=true", "tar.x.command=EVIL", "trailer.x.command=EVIL", "trailer.x.cmd=EVIL", "uploadpack.packObjectsHook=EVIL",
	"receive.procReceiveRefs=refs", "gc.recentObjectsHook=EVIL", "gc.auto=1", "maintenance.auto=true", "maintenance.strategy=incremental", "hook.x.command=EVIL", "hook.x.event=reference-transaction",
	"trace2.normalTarget=TRACE", "trace2.perfTarget=TRACE", "trace2.eventTarget=TRACE", "blame.ignoreRevsFile=EVIL", "format.signatureFile=EVIL", "notes.rewriteRef=refs/notes/x",
	"rerere.enabled=true", "extensions.worktreeConfig=true", "feature.experimental=true", "safe.directory=*", "safe.bareRepository=all", "advice.detachedHead=true", "index.sparse=true",
}

// trap is a hostile repository.
type trap struct {
	dir      string
	evil     string // the program that must not run
	told     int    // where the kernel tells of files that are opened
	tellsWho bool   // and by whom
}

// newTrap makes a repository with two branches that differ, and a program in its .git that is watched.
func newTrap(t *testing.T) *trap {
	t.Helper()
	tr := &trap{dir: checkout(t)}
	user(t, tr.dir, "switch", "-qc", "side")
	write(t, tr.dir+"/pkg/a.go", "package pkg // side\n")
	user(t, tr.dir, "commit", "-qam", "side")
	user(t, tr.dir, "switch", "-q", "main")
	tr.evil = tr.dir + "/.git/evil"
	write(t, tr.evil, "#!/bin/sh\necho \"$0 $*\" >> "+tr.dir+"/.git/ran\ncat\n")
	hooks := tr.dir + "/.git/evil-hooks"
	for _, hook := range []string{"pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-merge", "pre-auto-gc", "post-rewrite", "update", "pre-receive"} {
		write(t, hooks+"/"+hook, "#!/bin/sh\n"+tr.evil+" "+hook+"\n")
		write(t, tr.dir+"/.git/hooks/"+hook, "#!/bin/sh\n"+tr.evil+" "+hook+"\n")
		for _, path := range []string{hooks, tr.dir + "/.git/hooks"} {
			if err := os.Chmod(path+"/"+hook, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(tr.evil, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, tr.dir+"/.git/evil-attributes", "* filter=x merge=x diff=x\n")
	write(t, tr.dir+"/.git/evil-more", "[filter \"x\"]\n\tclean = "+tr.evil+"\n\tsmudge = "+tr.evil+"\n[core]\n\tfsmonitor = "+tr.evil+"\n")
	write(t, tr.dir+"/.git/info/attributes", "* merge=x diff=x\n")
	tr.watch(t, tr.evil, hooks, tr.dir+"/.git/hooks")
	return tr
}

// watch has the kernel tell who opens the files. That takes rights that not everybody has; without them only the program itself is watched: hooks are also read, by us.
func (tr *trap) watch(t *testing.T, program string, hooks ...string) {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	for _, path := range append([]string{program}, hooks...) {
		if err == nil {
			err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, path)
		}
	}
	if tr.tellsWho = err == nil; !tr.tellsWho {
		t.Logf("without the right to ask who opens files, only %s is watched: %v", program, err)
		if fd, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC); err == nil {
			_, err = unix.InotifyAddWatch(fd, program, unix.IN_OPEN)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tr.told = fd
	t.Cleanup(func() { _ = unix.Close(fd) })
}

// opened is how often others than this process opened a file that is watched.
func (tr *trap) opened() (times int) {
	buf := make([]byte, 64<<10)
	for {
		n, _ := unix.Read(tr.told, buf)
		if n <= 0 {
			return times
		}
		if !tr.tellsWho {
			times++
			continue
		}
		for at := buf[:n]; len(at) >= int(unsafe.Sizeof(unix.FanotifyEventMetadata{})); {
			ev := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&at[0]))
			if ev.Pid != int32(os.Getpid()) {
				times++
			}
			if ev.Fd >= 0 {
				_ = unix.Close(int(ev.Fd))
			}
			at = at[ev.Event_len:]
		}
	}
}

// value fills a setting's value in.
func (tr *trap) value(v string) string {
	return strings.NewReplacer("EVIL", tr.evil, "HOOKS", tr.dir+"/.git/evil-hooks", "ATTRIBUTES", tr.dir+"/.git/evil-attributes",
		"MORE", tr.dir+"/.git/evil-more", "TRACE", tr.dir+"/.git/evil-trace").Replace(v)
}

// set puts settings into a file, one by one, as text: a git that reads it must not be needed.
func (tr *trap) set(t *testing.T, file string, keys ...string) {
	t.Helper()
	var b strings.Builder
	for _, kv := range keys {
		key, value, _ := strings.Cut(kv, "=")
		first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
		section := "[" + key[:first] + "]"
		if first < last {
			section = "[" + key[:first] + ` "` + tr.value(key[first+1:last]) + `"]`
		}
		fmt.Fprintf(&b, "%s\n\t%s = \"%s\"\n", section, key[last+1:], tr.value(value))
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(b.String()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// sprung reports whether the program was opened, or ran.
func (tr *trap) sprung() string {
	n := tr.opened()
	ran, _ := os.ReadFile(tr.dir + "/.git/ran")
	if n == 0 && len(ran) == 0 {
		if _, err := os.Lstat(tr.dir + "/.git/evil-trace"); err == nil {
			return "a trace was written"
		}
		return ""
	}
	return fmt.Sprintf("opened %d times; it said %q", n, ran)
}

// driven are the functions of this package that look at or work on a repository, each as it is used. Errors are theirs: what counts is that nothing runs.
var driven = map[string]func(ctx context.Context, t *testing.T, dir string){
	"Describe": func(ctx context.Context, _ *testing.T, dir string) { _, _ = Describe(ctx, dir) },
	"TreeHash": func(ctx context.Context, _ *testing.T, dir string) { _, _ = TreeHash(ctx, dir) },
	"Snapshot": func(ctx context.Context, _ *testing.T, dir string) { _, _, _ = Snapshot(ctx, dir, "x", "m") },
	"TreeOf":   func(ctx context.Context, _ *testing.T, dir string) { _, _ = TreeOf(ctx, dir, "HEAD") },
	"Changed":  func(ctx context.Context, _ *testing.T, dir string) { _, _ = Changed(ctx, dir, "main", "side") },
	"Differing": func(ctx context.Context, _ *testing.T, dir string) {
		n, _ := Differing(ctx, dir, "main", "side", "x")
		_, _ = UntakableOf(ctx, dir, "main", "main", n)
	},
	"Sound":      func(ctx context.Context, _ *testing.T, dir string) { _ = Sound(ctx, dir, "side", "refs/heads/main") },
	"CheckoutOf": func(ctx context.Context, _ *testing.T, dir string) { _, _ = CheckoutOf(ctx, dir, "main") },
	"Whole":      func(ctx context.Context, _ *testing.T, dir string) { _ = Whole(ctx, dir, "side", "refs/heads/main") },
	"Borrowed": func(ctx context.Context, _ *testing.T, dir string) {
		_, _, _ = Borrowed(ctx, dir, "side", "t-1", "refs/heads/main")
	},
	"BrokenRefs": func(ctx context.Context, _ *testing.T, dir string) { _, _ = BrokenRefs(ctx, dir) },
	"Emptied": func(ctx context.Context, _ *testing.T, dir string) {
		_, _, _, _ = Emptied(ctx, dir, "side", "t-1", "refs/heads/main")
	},
	"Undone":      func(ctx context.Context, _ *testing.T, dir string) { _, _ = Undone(ctx, dir, "main", "side", "main") },
	"Log":         func(ctx context.Context, _ *testing.T, dir string) { _, _ = Log(ctx, dir, "HEAD", 5) },
	"Refs":        func(ctx context.Context, _ *testing.T, dir string) { _, _ = Refs(ctx, dir, "refs/heads/") },
	"RefAt":       func(ctx context.Context, _ *testing.T, dir string) { _, _ = RefAt(ctx, dir, "HEAD") },
	"IsAncestor":  func(ctx context.Context, _ *testing.T, dir string) { _, _ = IsAncestor(ctx, dir, "main", "side") },
	"MergeBase":   func(ctx context.Context, _ *testing.T, dir string) { _, _ = MergeBase(ctx, dir, "main", "side") },
	"LineageOf":   func(ctx context.Context, _ *testing.T, dir string) { _, _ = LineageOf(ctx, dir, "main", "side") },
	"MergeTree":   func(ctx context.Context, _ *testing.T, dir string) { _, _ = MergeTree(ctx, dir, "main", "side") },
	"PersonOf":    func(ctx context.Context, _ *testing.T, dir string) { _ = PersonOf(ctx, dir) },
	"Replay":      func(ctx context.Context, _ *testing.T, dir string) { _, _, _ = Replay(ctx, dir, "side", "main", "") },
	"Between":     func(ctx context.Context, _ *testing.T, dir string) { _, _, _ = Between(ctx, dir, "main", "side") },
	"Recent":      func(ctx context.Context, _ *testing.T, dir string) { _, _ = Recent(ctx, dir) },
	"FirstCommit": func(ctx context.Context, _ *testing.T, dir string) { _, _ = FirstCommit(ctx, dir) },
	"RootOf":      func(ctx context.Context, _ *testing.T, dir string) { _, _ = RootOf(ctx, dir) },
	"TrunkOf":     func(ctx context.Context, _ *testing.T, dir string) { _, _ = TrunkOf(ctx, dir) },
	"TrunksOf":    func(ctx context.Context, _ *testing.T, dir string) { _, _ = TrunksOf(ctx, dir, "boat") },
	"Free":        func(ctx context.Context, _ *testing.T, dir string) { _ = Free(ctx, dir, "taskdaemon/into/boat@main") },
	"Worktrees":   func(ctx context.Context, _ *testing.T, dir string) { _, _ = Worktrees(ctx, dir) },
	"Tidy":        func(ctx context.Context, _ *testing.T, dir string) { _ = Tidy(ctx, dir) },
	"KeptOf":      func(ctx context.Context, _ *testing.T, dir string) { _, _ = KeptOf(ctx, dir) },
	"SetAside":    func(ctx context.Context, _ *testing.T, dir string) { _ = SetAside(ctx, dir, "refs/heads/side") },
	"RunBranches": func(ctx context.Context, _ *testing.T, dir string) { _, _ = RunBranches(ctx, dir) },
	"RetireBranches": func(ctx context.Context, _ *testing.T, dir string) {
		_, _ = RetireBranches(ctx, dir, []string{BranchName("t-9", "")}, func([]Retired) error { return nil })
	},
	"MoveRef": func(ctx context.Context, _ *testing.T, dir string) {
		at, _ := RefAt(ctx, dir, "refs/heads/main")
		_ = MoveRef(ctx, dir, "refs/heads/moved", at, "")
	},
	"MoveRefUnless": func(ctx context.Context, _ *testing.T, dir string) {
		at, _ := RefAt(ctx, dir, "refs/heads/main")
		_ = MoveRefUnless(ctx, dir, "refs/heads/moved-too", at, "")
	},
	"CommitTree": func(ctx context.Context, _ *testing.T, dir string) {
		tree, _ := TreeOf(ctx, dir, "HEAD")
		_, _ = CommitTree(ctx, dir, tree, "m")
	},
	"DemandsOf":   func(ctx context.Context, _ *testing.T, dir string) { _, _ = DemandsOf(ctx, dir) },
	"SteeringOf":  func(ctx context.Context, _ *testing.T, dir string) { _, _ = SteeringOf(ctx, dir) },
	"FastForward": func(ctx context.Context, _ *testing.T, dir string) { _ = FastForward(ctx, dir, "main", "side", nil) },
	"Uncommitted": func(ctx context.Context, t *testing.T, dir string) {
		write(t, dir+"/pkg/a.go", "package pkg // changed\n")
		_, _, _ = Uncommitted(ctx, dir)
	},
	"Altered": func(ctx context.Context, t *testing.T, dir string) {
		write(t, dir+"/pkg/a.go", "package pkg // altered\n")
		_, _ = Altered(ctx, dir, "HEAD")
	},
	"Ahead": func(ctx context.Context, _ *testing.T, dir string) { _, _ = Ahead(ctx, dir, "side") },
	"OpenSteps": func(ctx context.Context, t *testing.T, dir string) {
		s, err := OpenSteps(ctx, dir, "x", t.TempDir()+"/x")
		if err != nil {
			return
		}
		defer s.Close()
		var one Tree
		for range 3 { // until it is watched
			one, _ = s.Take(ctx, "one", false)
		}
		write(t, dir+"/main.go", "package main // two\n")
		two, _ := s.Take(ctx, "two", false)
		_, _ = Differences(ctx, dir, one.Hash, two.Hash)
		_, _ = s.Restore(ctx, one.Hash, "back")
		_, _ = StepRefs(ctx, dir)
		_ = DropSteps(ctx, dir, "x")
	},
	"Checkout": func(ctx context.Context, t *testing.T, dir string) {
		tree, _ := TreeHash(ctx, dir)
		_ = Checkout(ctx, dir, tree, t.TempDir()+"/made")
		_ = CheckoutCommit(ctx, dir, "HEAD", t.TempDir()+"/made")
	},
	"NewForecast": func(ctx context.Context, _ *testing.T, dir string) {
		one, _ := RefAt(ctx, dir, "refs/heads/main")
		two, _ := RefAt(ctx, dir, "refs/heads/side")
		_, _ = NewForecast(dir).Clashes(ctx, map[string]string{"a": one, "b": two})
	},
	"SetupGraph": func(ctx context.Context, t *testing.T, dir string) {
		g, _, err := SetupGraph(ctx, dir, graphOptions)
		if err != nil {
			return
		}
		write(t, g.Dir()+"/"+GraphFile, "1\n")
		_, _, _ = g.Commit(ctx, "m")
		_, _ = g.Sync(ctx)
		_, _ = OpenGraph(ctx, dir, graphOptions)
	},
	"Worktree": func(ctx context.Context, t *testing.T, dir string) {
		w := Worktree{Repo: dir, Path: dir + "/.worktrees/t-1", Branch: BranchName("t-1", "")}
		if w.Make(ctx, "main") != nil {
			return
		}
		_, _ = w.Look(ctx)
		write(t, w.Path+"/main.go", "package main // mine\n")
		write(t, w.Path+"/.gitattributes", "* filter=x merge=x diff=x\n")
		_, _ = w.Keep(ctx, KeptRef("t-1"))
		_, _ = w.Commit(ctx, "mine")
		_, _ = w.Rebase(ctx, "side", "")
		_, _ = w.Head(ctx)
		_, _ = w.Stands(ctx, "main")
		_ = w.Lock(ctx, "why")
		_, _, _ = w.Locked(ctx)
		_ = w.Unlock(ctx)
		_ = w.Restore(ctx, KeptRef("t-1"))
		_ = w.Remove(ctx, "", func(string) error { return nil })
	},
}

// drivenBy are functions that others of the table call.
var drivenBy = []string{"Differences", "StepRefs", "DropSteps", "CheckoutCommit", "OpenGraph", "OpenBare", "UntakableOf"}

// Every function that takes a repository is driven: one that is added must be, too.
func TestHostileDrivesEverything(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || len(fn.Type.Params.List) == 0 {
				continue
			}
			if sel, ok := fn.Type.Params.List[0].Type.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Context" {
				continue
			}
			found++
			if driven[fn.Name.Name] == nil && !slices.Contains(drivenBy, fn.Name.Name) {
				t.Errorf("%s: no hostile repository is put before it", fn.Name.Name)
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d functions found: the test is blind", found)
	}
}

// drive runs every function on a folder.
func (tr *trap) drive(t *testing.T, dir string, only ...string) {
	t.Helper()
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range driven {
			if !yield(name) {
				return
			}
		}
	}) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		driven[name](t.Context(), t, dir)
		if what := tr.sprung(); what != "" {
			t.Fatalf("%s ran a program of the repository: %s", name, what)
		}
	}
}

// carriers are the ways in which a repository brings its settings along.
var carriers = map[string]func(t *testing.T, tr *trap, keys ...string) (dir string){
	"its config": func(t *testing.T, tr *trap, keys ...string) string {
		tr.set(t, tr.dir+"/.git/config", keys...)
		return tr.dir
	},
	"attributes in its files": func(t *testing.T, tr *trap, keys ...string) string {
		write(t, tr.dir+"/.gitattributes", "* filter=x merge=x diff=x\n")
		user(t, tr.dir, "add", "-A")
		user(t, tr.dir, "commit", "-qm", "attributes")
		tr.set(t, tr.dir+"/.git/config", keys...)
		return tr.dir
	},
	"an included file": func(t *testing.T, tr *trap, keys ...string) string {
		tr.set(t, tr.dir+"/settings", keys...)
		tr.set(t, tr.dir+"/.git/config", "include.path=../settings", "includeIf.onbranch:*.path=../settings")
		return tr.dir
	},
	"the config of a worktree": func(t *testing.T, tr *trap, keys ...string) string {
		tr.set(t, tr.dir+"/.git/config.worktree", keys...)
		tr.set(t, tr.dir+"/.git/config", "core.repositoryFormatVersion=1", "extensions.worktreeConfig=true")
		return tr.dir
	},
	"a repository inside": func(t *testing.T, tr *trap, keys ...string) string {
		sub := tr.dir + "/sub"
		write(t, sub+"/file", "1\n")
		user(t, sub, "init", "-qb", "main")
		user(t, sub, "add", "-A")
		user(t, sub, "commit", "-qm", "inside")
		write(t, sub+"/file", "2\n")
		write(t, sub+"/.gitattributes", "* filter=x\n")
		tr.set(t, sub+"/.git/config", keys...)
		return tr.dir
	},
	"a gitlink": func(t *testing.T, tr *trap, keys ...string) string {
		sub := tr.dir + "/sub"
		write(t, sub+"/file", "1\n")
		write(t, sub+"/.gitattributes", "* filter=x\n")
		user(t, sub, "init", "-qb", "main")
		user(t, sub, "add", "-A")
		user(t, sub, "commit", "-qm", "inside")
		user(t, tr.dir, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
		write(t, tr.dir+"/.gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::"+tr.evil+"\n\tignore = none\n")
		user(t, tr.dir, "add", ".gitmodules")
		user(t, tr.dir, "commit", "-qm", "link")
		write(t, sub+"/file", "2\n")
		tr.set(t, sub+"/.git/config", keys...)
		return tr.dir
	},
	"the inside of a repository inside": func(t *testing.T, tr *trap, keys ...string) string {
		sub := tr.dir + "/sub"
		user(t, tr.dir, "clone", "-q", tr.dir, sub)
		tr.set(t, sub+"/.git/config", keys...)
		return sub
	},
	"a submodule's folder": func(t *testing.T, tr *trap, keys ...string) string {
		from := checkout(t)
		user(t, tr.dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "sub")
		user(t, tr.dir, "commit", "-qm", "submodule")
		write(t, tr.dir+"/sub/main.go", "package main // sub\n")
		write(t, tr.dir+"/.git/modules/sub/info/attributes", "* filter=x\n")
		tr.set(t, tr.dir+"/.git/modules/sub/config", keys...)
		return tr.dir
	},
	"a lender": func(t *testing.T, tr *trap, keys ...string) string {
		clone := tr.dir + "/.git/clone"
		user(t, tr.dir, "clone", "-q", "--shared", tr.dir, clone)
		tr.set(t, tr.dir+"/.git/config", keys...)
		return clone
	},
	"a linked worktree of it": func(t *testing.T, tr *trap, keys ...string) string {
		linked := t.TempDir() + "/linked"
		user(t, tr.dir, "worktree", "add", "-qb", "linked", linked)
		tr.set(t, tr.dir+"/.git/config", keys...)
		return linked
	},
	"a bare repository among the files": func(t *testing.T, tr *trap, keys ...string) string {
		bare := tr.dir + "/bare"
		user(t, tr.dir, "clone", "-q", "--bare", tr.dir, bare)
		tr.set(t, bare+"/config", keys...)
		return bare
	},
}

// Whatever settings a repository brings along, in whatever way, no function of ours runs anything that it names. (P-3, G-4)
func TestHostileRepositories(t *testing.T) {
	for name, carry := range carriers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrap(t)
			dir := carry(t, tr, programKeys...)
			tr.sprung() // git of the test's own
			_ = os.Remove(tr.dir + "/.git/ran")
			_ = os.Remove(tr.dir + "/.git/evil-trace")
			tr.drive(t, dir)
			if dir != tr.dir {
				tr.drive(t, tr.dir)
			}
		})
	}
}

// Settings a few at a time, too: one must not keep another from being looked at. With TASKDAEMON_SOAK each is alone.
func TestHostileSettings(t *testing.T) {
	few := 16
	if os.Getenv("TASKDAEMON_SOAK") != "" {
		few = 1
	}
	for keys := range slices.Chunk(programKeys, few) {
		t.Run(strings.ReplaceAll(keys[0], "/", "_"), func(t *testing.T) {
			t.Parallel()
			tr := newTrap(t)
			tr.set(t, tr.dir+"/.git/config", keys...)
			write(t, tr.dir+"/.git/info/attributes", "* filter=x merge=x diff=x\n")
			tr.drive(t, tr.dir, "Describe", "Snapshot", "MergeTree", "FastForward")
		})
	}
}

// A repository that lacks an object, and names where it is to be had, gets nobody to go there.
func TestHostilePromise(t *testing.T) {
	tr := newTrap(t)
	blob := user(t, tr.dir, "rev-parse", "HEAD:main.go")
	tree := user(t, tr.dir, "rev-parse", "HEAD^{tree}")
	tr.set(t, tr.dir+"/.git/config", "core.repositoryFormatVersion=1", "extensions.partialClone=evil", "remote.evil.promisor=true", "remote.evil.url="+tr.dir, "remote.evil.uploadpack=EVIL")
	for _, id := range []string{blob, tree} {
		if err := os.Remove(tr.dir + "/.git/objects/" + id[:2] + "/" + id[2:]); err != nil {
			t.Fatal(err)
		}
	}
	tr.drive(t, tr.dir)
	if _, err := Describe(t.Context(), tr.dir); err != nil && !td.IsKind(err, td.Refused) && !td.IsKind(err, td.Corrupt) {
		t.Errorf("%v", err)
	}
}

// The suite sees what an ordinary git does: it is not blind.
func TestHostileSuiteSees(t *testing.T) {
	for name, act := range map[string]struct {
		carrier string
		args    []string
	}{
		"a filter of its own":   {"its config", []string{"status"}},
		"a filter in a gitlink": {"a gitlink", []string{"-c", "core.fsmonitor=false", "status"}},
		"a file system monitor": {"its config", []string{"-c", "filter.x.clean=", "status"}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrap(t)
			dir := carriers[act.carrier](t, tr, "core.fsmonitor=EVIL", "filter.x.clean=EVIL")
			tr.sprung()
			_ = os.Remove(tr.dir + "/.git/ran")
			write(t, tr.dir+"/.git/info/attributes", "* filter=x\n")
			write(t, tr.dir+"/main.go", "package nain\n")
			cmd := exec.Command("git", act.args...)
			cmd.Dir = dir
			_ = cmd.Run()
			if tr.sprung() == "" {
				t.Error("an ordinary git ran the program, and nobody saw it")
			}
		})
	}
}

// Where nothing can be mounted, what may be executed is all that keeps programs from running: it does.
func TestHostileWithoutMounts(t *testing.T) {
	plain := &launcher
	plain.Close()
	plain.WithoutMounts = true
	t.Cleanup(func() {
		plain.Close()
		plain.WithoutMounts = false
	})
	if lacks, mounts, err := plain.Lacks(); err != nil || mounts || len(lacks) == 0 {
		t.Fatalf("%v, %v, %v", lacks, mounts, err)
	}
	for _, name := range []string{"its config", "a gitlink", "attributes in its files"} {
		t.Run(name, func(t *testing.T) {
			tr := newTrap(t)
			dir := carriers[name](t, tr, "filter.x.clean=EVIL", "filter.x.smudge=EVIL", "diff.x.textconv=EVIL", "merge.x.driver=EVIL", "core.fsmonitor=EVIL")
			tr.sprung()
			_ = os.Remove(tr.dir + "/.git/ran")
			tr.drive(t, dir)
		})
	}
}
