package sandbox

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestCachesHoldNoPrograms checks that no folder of PATH, nor one that programs take settings or plugins from,
// can be written to as a cache.
func TestCachesHoldNoPrograms(t *testing.T) {
	home := t.TempDir()
	env := map[string]string{
		"HOME": home, "GOPATH": home + "/gp", "GOCACHE": home + "/gc", "PNPM_HOME": home + "/pnpm", "GRADLE_USER_HOME": home + "/gr",
		"CARGO_HOME": home + "/cg", "UV_CACHE_DIR": home + "/tools", "XDG_CACHE_HOME": home + "/xdg", "PIP_CACHE_DIR": home + "/bin/pip",
		"PATH": home + "/tools:" + home + "/xdg/x/bin:" + home + "/bin:/usr/bin",
	}
	got := Caches(func(name string) string { return env[name] })
	if blank := Blanks(func(name string) string { return env[name] }); !slices.Equal(blank, []string{home + "/.cache"}) {
		t.Errorf("blank: %q", blank)
	}
	for _, want := range []string{".cache/go-build", ".cache/pip", "gp/pkg", "gc", "pnpm/store", "gr/caches", "cg/registry", ".gradle/caches", ".cargo/git"} {
		if !slices.Contains(got, filepath.Join(home, want)) {
			t.Errorf("%s is no cache", want)
		}
	}
	for _, path := range []string{
		"tools", "xdg", ".cache", ".cache/p10k-instant-prompt-x.zsh", ".cache/gh", "bin/pip", "pnpm/bin", "gr/init.d", "cg/bin", "gp/bin", ".deno/bin", ".dotnet/tools", ".yarn/bin", ".pub-cache/bin",
		".local/share/pnpm/x", ".local/share/uv/tools", ".sbt/1.0/plugins", ".cargo/config.toml", ".mix/escripts", ".bun/install/global", ".local/bin",
	} {
		if covered(filepath.Join(home, path), got) {
			t.Errorf("%s can be written to", path)
		}
	}
}

func TestAgentsAreHidden(t *testing.T) {
	env := map[string]string{
		"SSH_AUTH_SOCK": "/home/ann/.agent/ssh", "DOCKER_HOST": "unix:///home/ann/docker.sock", "CONTAINER_HOST": "tcp://192.0.2.1:2375",
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=/home/ann/bus,guid=1;unix:abstract=/x", "TMUX": "/home/ann/tmux/default,12,0",
	}
	got := Hidden(func(name string) string { return env[name] })
	for _, want := range []string{"/home/ann/.agent/ssh", "/home/ann/docker.sock", "/home/ann/bus", "/home/ann/tmux/default"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s can be reached", want)
		}
	}
	if slices.ContainsFunc(got, func(p string) bool { return p == "/" || !filepath.IsAbs(p) }) {
		t.Errorf("hidden: %q", got)
	}
}
