package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
)

// What commands may do depends on whose folder they work in, and not on what they could write into it.
func TestProfileOfWorktree(t *testing.T) {
	o := Options{StateDir: t.TempDir(), Getenv: func(string) string { return "" }}
	o.Config.Sandbox = config.Sandbox{Profile: "workspace-write", Network: "full"}
	profile := profiles(o)
	const tree = "/src/proj/.worktrees/t-n4hh12px"
	for _, c := range []struct {
		dir, tree string
		own       bool
	}{
		{"/src/proj", "", false}, {tree, tree, true},
		{tree + "/sub", tree, false}, // of .git nothing can be written there
		{tree, "", false},            // it is a person's, and only called like that; or another task's
	} {
		dir, own := c.dir, c.own
		p := profile(dir, c.tree)
		if closed := slices.Equal(p.Close, []string{"/src/proj"}); closed != (c.tree != "") {
			t.Errorf("%s: closed %q", dir, p.Close)
		}
		if p.GitReadOnly() == own {
			t.Errorf("%s: git is read-only: %v", dir, p.GitReadOnly())
		}
		if got := slices.Equal(p.Refs, []string{"refs/heads/taskdaemon/run/t-n4hh12px"}); got != own || !own && p.Refs != nil {
			t.Errorf("%s: references %q", dir, p.Refs)
		}
		if got := slices.Contains(p.See, "/src/proj/node_modules"); got != own || slices.Contains(p.See, "/src/proj") {
			t.Errorf("%s: can be read: %q", dir, p.See)
		}
		if !slices.Contains(p.Seal, filepath.Join(dir, ".worktrees")) {
			t.Errorf("%s: worktrees of others can be changed: %q", dir, p.Seal)
		}
	}
}

// Where the whole sandbox is wanted, the daemon does not start with a git that is confined in part; and looks for that nowhere else.
func TestGitMustBeConfined(t *testing.T) {
	lacking := func() error { return errors.New("no mounts") }
	if err := mayRunGit(config.SandboxRequired, lacking); !td.IsKind(err, td.Refused) || !strings.Contains(err.Error(), "no mounts") {
		t.Errorf("required and not to be had: %v", err)
	}
	if err := mayRunGit(config.SandboxRequired, func() error { return nil }); err != nil {
		t.Errorf("required and there: %v", err)
	}
	for _, mode := range []string{config.SandboxPreferred, config.SandboxOff} {
		if err := mayRunGit(mode, func() error { t.Error("it was looked for"); return nil }); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// The profile of commands has no way to a person's files but what lists name: caches are never written, and the home is not read as a whole.
func TestProfileOpensNoHome(t *testing.T) {
	env := map[string]string{"HOME": "/home/ann", "PATH": "/usr/bin:/home/ann/bin"}
	o := Options{StateDir: "/home/ann/.local/state/taskdaemon", UserDir: "/home/ann/.config/taskdaemon", Getenv: func(name string) string { return env[name] }}
	o.Config.Sandbox = config.Sandbox{Profile: "workspace-write", Network: "full", Read: "~/notes", Write: "~/out"}
	p := profiles(o)("/home/ann/proj", "")
	for _, path := range p.See {
		if path == "/home/ann" || path == "/home" || path == "/" || path == o.UserDir {
			t.Errorf("%s can be read", path)
		}
	}
	if !slices.Equal(p.Write, []string{"/home/ann/out"}) || !slices.Contains(p.See, "/home/ann/notes") || !slices.Contains(p.See, "/home/ann/bin") {
		t.Errorf("writes %q, reads %q", p.Write, p.See)
	}
	if !slices.Contains(p.Cache, "/home/ann/.cache/go-build") || slices.Contains(p.Cache, "/home/ann/.cache") || !slices.Equal(p.Blank, []string{"/home/ann/.cache"}) {
		t.Errorf("caches %q, blank %q", p.Cache, p.Blank)
	}
}

// Where it cannot be told what git obeys, the profile says so, and the rules do.
func TestUnreadableSettingsRefuse(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(home+"/.gitconfig", []byte("[core\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{StateDir: t.TempDir(), Getenv: os.Getenv}
	o.Config.Sandbox = config.Sandbox{Profile: "workspace-write", Network: "full"}
	p := profiles(o)(t.TempDir(), "")
	if err := p.Late(p); err == nil || !strings.Contains(err.Error(), home+"/.gitconfig") {
		t.Errorf("refused for %v", err)
	}
	if paths, err := Steering(o)(t.TempDir(), ""); err == nil {
		t.Errorf("%q steer", paths)
	}
}
