package git

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// Whatever file of the person's, or variable, tells their git where hooks are, by whatever way git comes to it and whatever it depends on: the folder steers their git.
func TestSteeringByAnySetting(t *testing.T) {
	const hooks = "[core]\n\thooksPath = tools/hooks\n"
	for name, prepare := range map[string]func(t *testing.T, home, away, dir string){
		"~/.gitconfig": func(t *testing.T, home, _, _ string) { write(t, home+"/.gitconfig", hooks) },
		"~/.config/git/config beside it": func(t *testing.T, home, _, _ string) {
			write(t, home+"/.gitconfig", "")
			write(t, home+"/.config/git/config", hooks)
		},
		"a file outside of the home": func(t *testing.T, home, away, _ string) {
			write(t, away+"/team", hooks)
			write(t, home+"/.gitconfig", "[include]\n\tpath = "+away+"/team\n")
		},
		"~/.gitconfig is a link": func(t *testing.T, home, away, _ string) {
			write(t, away+"/dot", hooks)
			link(t, home+"/.gitconfig", away+"/dot")
		},
		"links on links": func(t *testing.T, home, away, _ string) {
			write(t, away+"/real/dot", hooks)
			link(t, away+"/by", "real")
			link(t, away+"/two", away+"/by/dot")
			write(t, home+"/.gitconfig", "[include]\n\tpath = "+away+"/two\n")
		},
		"~/.config/git/config is a link": func(t *testing.T, home, away, _ string) {
			write(t, away+"/dot", hooks)
			write(t, home+"/.config/git/x", "")
			link(t, home+"/.config/git/config", away+"/dot")
		},
		"many includes": func(t *testing.T, home, _, dir string) {
			var b strings.Builder
			for i := range 60 {
				b.WriteString("[include]\n\tpath = ~/i" + strconv.Itoa(i) + "\n")
			}
			write(t, home+"/i59", hooks)
			write(t, dir+"/.git/config", b.String())
		},
		"GIT_CONFIG_GLOBAL": func(t *testing.T, _, away, _ string) {
			write(t, away+"/alt", hooks)
			t.Setenv("GIT_CONFIG_GLOBAL", away+"/alt")
		},
		"a relative GIT_CONFIG_GLOBAL": func(t *testing.T, _, _, dir string) {
			write(t, dir+"/alt", hooks)
			t.Setenv("GIT_CONFIG_GLOBAL", "alt")
		},
		"GIT_CONFIG_SYSTEM": func(t *testing.T, _, away, _ string) {
			write(t, away+"/alt", hooks)
			t.Setenv("GIT_CONFIG_SYSTEM", away+"/alt")
		},
		"GIT_CONFIG_COUNT": func(t *testing.T, _, _, _ string) {
			t.Setenv("GIT_CONFIG_COUNT", "1")
			t.Setenv("GIT_CONFIG_KEY_0", "Core.HooksPath")
			t.Setenv("GIT_CONFIG_VALUE_0", "tools/hooks")
		},
		"GIT_CONFIG_COUNT that includes": func(t *testing.T, _, away, _ string) {
			write(t, away+"/alt", hooks)
			t.Setenv("GIT_CONFIG_COUNT", "1")
			t.Setenv("GIT_CONFIG_KEY_0", "include.path")
			t.Setenv("GIT_CONFIG_VALUE_0", away+"/alt")
		},
		"GIT_CONFIG_PARAMETERS": func(t *testing.T, _, _, _ string) {
			t.Setenv("GIT_CONFIG_PARAMETERS", "'core.hooksPath'='tools/hooks'")
		},
		"on some branches": func(t *testing.T, home, _, _ string) {
			write(t, home+"/rel", hooks)
			write(t, home+"/.gitconfig", "[includeIf \"onbranch:rel/**\"]\n\tpath = rel\n")
		},
		"with some remotes": func(t *testing.T, home, _, _ string) {
			write(t, home+"/rel", hooks)
			write(t, home+"/.gitconfig", "[includeIf \"hasconfig:remote.*.url:https://x.invalid/**\"]\n\tpath = ~/rel\n")
		},
		"in linked worktrees": func(t *testing.T, home, _, dir string) {
			write(t, home+"/rel", "[core]\n\thooksPath = "+dir+"/tools/hooks\n")
			write(t, home+"/.gitconfig", "[includeIf \"gitdir:**/worktrees/**\"]\n\tpath = ~/rel\n")
		},
		"a condition in a condition, by the repository": func(t *testing.T, home, _, dir string) {
			write(t, home+"/in", hooks)
			write(t, home+"/rel", "[includeIf \"onbranch:rel/2\"]\n\tpath = in\n")
			write(t, dir+"/.git/config", "[includeIf \"onbranch:rel/**\"]\n\tpath = ~/rel\n")
		},
		"settings of another checkout alone": func(t *testing.T, _, away, dir string) {
			user(t, dir, "config", "extensions.worktreeConfig", "true")
			user(t, dir, "worktree", "add", "-q", away+"/side")
			user(t, away+"/side", "config", "--worktree", "core.hooksPath", dir+"/tools/hooks")
		},
		"a repository around this one": func(t *testing.T, _, _, dir string) {
			user(t, filepath.Dir(dir), "init", "-q")
			user(t, filepath.Dir(dir), "config", "core.hooksPath", "repo/tools/hooks")
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, away, dir := fresh(t)
			prepare(t, home, away, dir)
			got, err := SteeringOf(t.Context(), dir)
			if err != nil || !slices.Contains(got.Hooks, dir+"/tools/hooks") {
				t.Errorf("%+v, %v", got, err)
			}
			again, err := SteeringOf(t.Context(), dir)
			if err != nil || !slices.Equal(again.Hooks, got.Hooks) {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// A file of the workspace that is included only now and then steers as well, and so does what that one includes.
func TestSteeringByIncludedFiles(t *testing.T) {
	home, _, dir := fresh(t)
	write(t, dir+"/tools/outer", "[include]\n\tpath = inner\n")
	write(t, home+"/.gitconfig", "[includeIf \"onbranch:rel/**\"]\n\tpath = "+dir+"/tools/outer\n")
	got, err := SteeringOf(t.Context(), dir)
	if err != nil || !slices.Equal(got.Settings, []string{dir + "/tools/outer", dir + "/tools/inner"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	write(t, home+"/.gitconfig", "")
	if got, err = SteeringOf(t.Context(), dir); err != nil || len(got.Settings) > 0 {
		t.Errorf("after a change: %+v, %v", got, err)
	}
}

// What cannot be read is an error that names the file, not a file without settings.
func TestSteeringThatCannotBeRead(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, file string){
		"a pipe": func(t *testing.T, file string) {
			if err := unix.Mkfifo(file, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a folder":                 func(t *testing.T, file string) { write(t, file+"/x", "") },
		"a link to itself":         func(t *testing.T, file string) { link(t, file, file) },
		"not what git understands": func(t *testing.T, file string) { write(t, file, "[core\n") },
		"a file without rights": func(t *testing.T, file string) {
			if os.Geteuid() == 0 {
				t.Skip("root may read all")
			}
			write(t, file, "")
			if err := os.Chmod(file, 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, away, dir := fresh(t)
			write(t, home+"/.gitconfig", "[includeIf \"onbranch:x\"]\n\tpath = "+away+"/odd\n")
			if got, err := SteeringOf(t.Context(), dir); err != nil {
				t.Fatalf("without it: %+v, %v", got, err)
			}
			make(t, away+"/odd")
			got, err := SteeringOf(t.Context(), dir)
			if err == nil || !strings.Contains(err.Error(), away+"/odd") || td.HintOf(err) == "" {
				t.Errorf("%+v, %v", got, err)
			}
			if err := os.RemoveAll(away + "/odd"); err != nil {
				t.Fatal(err)
			}
			if got, err := SteeringOf(t.Context(), dir); err != nil {
				t.Errorf("when it is gone: %+v, %v", got, err)
			}
		})
	}
	t.Run("variables", func(t *testing.T) {
		_, _, dir := fresh(t)
		t.Setenv("GIT_CONFIG_COUNT", "2")
		if got, err := SteeringOf(t.Context(), dir); !td.IsKind(err, td.Refused) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// Repositories below the folder steer the person's git as well as its own.
func TestSteeringOfRepositoriesBelow(t *testing.T) {
	home, away, dir := fresh(t)
	lib := dir + "/deep/lib"
	write(t, lib+"/g", "")
	user(t, lib, "init", "-q")
	write(t, lib+"/.git/config", "[core]\n\thooksPath = .husky\n[include]\n\tpath = ../proj\n\tpath = ../../../shared\n\tpath = later\n")
	write(t, home+"/.gitconfig", "[core]\n\thooksPath = .githooks\n")
	user(t, dir, "init", "-q", "--bare", dir+"/bare.git")
	user(t, dir, "init", "-q", "--separate-git-dir="+away+"/apart", dir+"/parted")
	write(t, away+"/apart/config", "[core]\n\thooksPath = mine\n")
	up := away + "/up"
	write(t, up+"/f", "")
	user(t, up, "init", "-q")
	user(t, up, "add", "-A")
	user(t, up, "commit", "-q", "-m", "up")
	user(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", up, "vendor/up")
	user(t, dir+"/vendor/up", "config", "include.path", dir+"/vendor/up/conf")
	got, err := SteeringOf(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Everywhere, []string{".githooks"}) {
		t.Errorf("everywhere: %q", got.Everywhere)
	}
	slices.Sort(got.Hooks)
	slices.Sort(got.Settings)
	for _, c := range []struct{ got, want []string }{
		{got.Hooks, []string{dir + "/.githooks", dir + "/deep/lib/.githooks", dir + "/deep/lib/.husky", dir + "/parted/.githooks", dir + "/parted/mine", dir + "/vendor/up/.githooks"}},
		{got.Settings, []string{dir + "/deep/lib/proj", dir + "/shared", dir + "/vendor/up/conf"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%q, not %q", c.got, c.want)
		}
	}
}

// fresh is an empty home, another folder, and a checkout.
func fresh(t *testing.T) (home, away, dir string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, away, dir = root+"/home", root+"/away", root+"/around/repo"
	for _, made := range []string{home, away, dir} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	user(t, dir, "init", "-q", "-b", "main")
	user(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	t.Setenv("HOME", home)
	return home, away, dir
}

func link(t *testing.T, at, to string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}
