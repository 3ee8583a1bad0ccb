package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// Nothing that a repository names runs when its graph is set up, committed and synced.
func TestGraphRunsNothingOfTheRepository(t *testing.T) {
	bare := bareRemote(t)
	other := cloneOf(t, bare)
	g := cloneOf(t, bare)
	mark := filepath.Join(t.TempDir(), "ran")
	arm := func(dir string) {
		appendTo(t, dir+"/.git/config", strings.ReplaceAll(`
[core]
	fsmonitor = "CMD"
	hooksPath = .git/hooks
	editor = "CMD"
	pager = "CMD"
	attributesFile = attributes
[filter "e"]
	clean = "CMD"
	smudge = "CMD"
	process = "CMD"
	required = true
[diff]
	external = "CMD"
[diff "e"]
	textconv = "CMD"
	command = "CMD"
[merge]
	default = e
[merge "e"]
	driver = "CMD"
[merge "taskdaemon-graph"]
	driver = "CMD"
[commit]
	gpgSign = true
[push]
	gpgSign = true
[gpg]
	program = "CMD"
[gc]
	auto = 1
[alias]
	commit-tree = "!CMD"
	update-ref = "!CMD"
	ls-files = "!CMD"
[submodule]
	recurse = true
`, "CMD", "sh -c 'touch "+mark+"; cat'"))
		write(t, dir+"/.git/info/attributes", "* filter=e diff=e merge=e\n")
		for _, hook := range []string{
			"post-checkout", "post-commit", "pre-commit", "commit-msg", "post-index-change", "reference-transaction", "pre-push", "post-merge", "pre-auto-gc",
		} {
			write(t, dir+"/.git/hooks/"+hook, "#!/bin/sh\ntouch "+mark+"\n")
			if err := os.Chmod(dir+"/.git/hooks/"+hook, 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := t.TempDir() + "/fresh"
	user(t, "/", "clone", "-q", bare, fresh)
	arm(fresh)
	if _, _, err := SetupGraph(t.Context(), fresh, GraphOptions{Merge: union}); err != nil {
		t.Fatal(err)
	}
	arm(g.Root())
	write(t, other.Dir()+"/"+GraphFile, "1\n")
	write(t, other.Dir()+"/.gitattributes", "* filter=e diff=e merge=e\n")
	write(t, other.Dir()+"/.gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c 'touch "+mark+"'\n")
	write(t, other.Dir()+"/x.md", "base\nmore\n")
	if _, err := other.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, g.Dir()+"/"+GraphFile, "2\n")
	write(t, g.Dir()+"/x.md", "mine\n")
	if rep, err := g.Sync(t.Context()); err != nil || !rep.Merged || len(rep.Conflicts) != 1 {
		t.Fatalf("%s, %v", rep, err)
	}
	if got := files(t, g.Dir())[GraphFile]; got != "1\n2\n" {
		t.Errorf("merged: %q", got)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a command of the repository ran")
	}
}

// A setting that would run a program while git speaks with a remote is refused; one that the repository includes from elsewhere has no part in it.
func TestSyncRefusesProgramsOfTheRepository(t *testing.T) {
	bare := bareRemote(t)
	for _, key := range []string{
		"core.sshCommand", "core.gitProxy", "core.askPass", "core.alternateRefsCommand", "credential.helper",
		"credential.https://example.org.helper", "remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs",
	} {
		g := cloneOf(t, bare)
		mark := filepath.Join(t.TempDir(), "ran")
		user(t, g.Root(), "config", "--file", ".git/more", key, "sh -c 'touch "+mark+"'")
		user(t, g.Root(), "config", "include.path", "more")
		if _, err := g.Sync(t.Context()); err != nil {
			t.Errorf("%s, included: %v", key, err)
		}
		user(t, g.Root(), "config", key, "sh -c 'touch "+mark+"'")
		if _, err := g.Sync(t.Context()); !td.IsKind(err, td.Refused) {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: it ran", key)
		}
	}
	// The user's own hold.
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	g := cloneOf(t, bare)
	user(t, "/", "config", "--global", "credential.helper", "store")
	if _, err := g.Sync(t.Context()); err != nil {
		t.Errorf("a personal setting: %v", err)
	}
}
