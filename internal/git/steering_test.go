package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// What in place cannot be changed does not come by a merge either, nor by a fast-forward after settings have changed.
func TestSteeringIsComparedOnTrees(t *testing.T) {
	for name, c := range map[string]struct {
		before []string // what the person types first
		change []string // what comes
		want   string   // what steers of that
	}{
		"a file that is included":               {[]string{"echo '[alias]' > .gitconfig", "git config include.path ../.gitconfig"}, []string{"echo '[core]' >> .gitconfig"}, ".gitconfig"},
		"one that is not there yet":             {[]string{"git config include.path ../.gitconfig"}, []string{"echo '[core]' >> .gitconfig"}, ".gitconfig"},
		"one for some repositories only":        {[]string{"git config includeIf.onbranch:x.path ../conf"}, []string{"echo '[core]' >> conf"}, "conf"},
		"one that the person's settings name":   {[]string{`git config --global include.path "$PWD/conf"`}, []string{"echo '[core]' >> conf"}, "conf"},
		"hooks":                                 {[]string{"mkdir .githooks; echo > .githooks/README", "git config core.hooksPath .githooks"}, []string{"echo > .githooks/post-checkout"}, ".githooks/post-checkout"},
		"a folder of hooks that is not there":   {[]string{"git config core.hooksPath a/b"}, []string{"mkdir -p a/b; echo > a/b/post-checkout; echo > a/c"}, "a/b/post-checkout"},
		"a link on the way to it":               {[]string{"git config core.hooksPath a/b"}, []string{"ln -s other a"}, "a"},
		"hooks behind a link":                   {[]string{"mkdir tools; echo > tools/x; ln -s tools hooks", "git config core.hooksPath hooks"}, []string{"echo > tools/post-checkout"}, "tools/post-checkout"},
		"the link itself":                       {[]string{"mkdir tools; echo > tools/x; ln -s tools hooks", "git config core.hooksPath hooks"}, []string{"ln -sfn elsewhere hooks"}, "hooks"},
		"hooks behind a link of the commit":     {[]string{"mkdir tools; echo > tools/x; ln -s tools hooks; git add -A; git commit -qm links; git switch -qc other HEAD~1; git switch -q main; git config core.hooksPath hooks"}, []string{"echo > tools/post-checkout"}, "tools/post-checkout"},
		"a name in other letters":               {[]string{"git config core.hooksPath .githooks"}, []string{"mkdir .GitHooks; echo > .GitHooks/post-checkout"}, ".GitHooks/post-checkout"},
		"the whole checkout is where hooks are": {[]string{"git config core.hooksPath ."}, []string{"echo > post-checkout; echo > notes"}, "post-checkout"},
		"another checkout has the hooks":        {[]string{"git worktree add -q ../side", `git config core.hooksPath "$PWD/../side/hooks"`}, []string{"mkdir hooks; echo > hooks/post-checkout"}, "hooks/post-checkout"},
		"a repository below includes it":        {[]string{"git init -q lib; echo lib/ > .gitignore; git -C lib config include.path ../../conf"}, []string{"echo '[core]' >> conf"}, "conf"},
		"on some branches only":                 {[]string{`git config --global includeIf.onbranch:x.path "$HOME/x"; git config -f "$HOME/x" core.hooksPath hk`}, []string{"mkdir hk; echo > hk/post-checkout"}, "hk/post-checkout"},
		"nothing of it":                         {[]string{"git config core.hooksPath .githooks"}, []string{"echo > .githooks-not; echo > x"}, ""},
		"hooks outside":                         {[]string{"git config core.hooksPath /nowhere/hooks"}, []string{"mkdir hooks; echo > hooks/post-checkout"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
			dir := checkout(t)
			for _, line := range c.before {
				shell(t, dir, line)
			}
			shell(t, dir, "git add -A; git -c core.hooksPath=/dev/null commit -q --allow-empty -m before")
			from := user(t, dir, "rev-parse", "HEAD")
			for _, line := range c.change {
				shell(t, dir, line)
			}
			shell(t, dir, "git add -A; git -c core.hooksPath=/dev/null commit -q -m change")
			to := user(t, dir, "rev-parse", "HEAD")
			shell(t, dir, "git -c core.hooksPath=/dev/null reset -q --hard HEAD~1")
			n, err := Differing(t.Context(), dir, from, to, "none")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range n.Steering {
				got = append(got, d.Path)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("steering is %q, want %q", got, c.want)
			}
			err = FastForward(t.Context(), dir, "main", to, nil)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "":
				refuses(t, err, td.Refused, "run or obey")
				if hint := td.HintOf(err); !strings.Contains(hint, "diff main "+to[:12]+" -- "+c.want+";") {
					t.Errorf("hint: %s", hint)
				}
				if at := user(t, dir, "rev-parse", "main"); at != from {
					t.Errorf("the trunk is at %s", at)
				}
			}
		})
	}
}

// shell runs what a person types, with their settings.
func shell(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// Every link on the way to what steers git is named, and what is not there yet, in a checkout and in a worktree of it.
func TestSteeringOf(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	user(t, dir, "init", "-q", "-b", "main")
	user(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	if err := os.MkdirAll(dir+"/tools/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"tools/l": "a", "li": "tools/inc"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	user(t, dir, "config", "core.hooksPath", "tools/l/b")
	user(t, dir, "config", "--add", "include.path", "../li")
	user(t, dir, "config", "--add", "includeIf.onbranch:z*.path", "../later/one")
	got, err := SteeringOf(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ got, want []string }{
		{got.Hooks, []string{dir + "/tools/a/b"}},
		{got.Settings, []string{dir + "/tools/inc", dir + "/later/one"}},
		{got.Links, []string{dir + "/tools/l", dir + "/li"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
	user(t, dir, "worktree", "add", "-q", "-b", "one", dir+"-one")
	t.Cleanup(func() { _ = os.RemoveAll(dir + "-one") })
	if got, err = SteeringOf(t.Context(), dir+"-one"); err != nil || !slices.Equal(got.Hooks, []string{dir + "-one/tools/l/b"}) || len(got.Settings) > 0 {
		t.Errorf("in a worktree: %+v, %v", got, err)
	}
}
