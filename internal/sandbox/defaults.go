package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Below a home folder: where secrets are kept, by the programs that keep them there.
var secretPlaces = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".config/glab-cli", ".config/op", ".config/hub",
	".config/containers/auth.json", ".config/rclone", ".config/sops", ".config/age", ".config/doctl", ".config/heroku",
	".netrc", ".docker/config.json", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".config/git/credentials", ".password-store",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".terraform.d/credentials.tfrc.json", ".vault-token",
	".m2/settings.xml", ".gradle/gradle.properties", ".pgpass", ".my.cnf", ".s3cfg", ".boto", ".databrickscfg", ".snowflake",
	".anthropic", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json",
	".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history", ".psql_history", ".mysql_history",
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
	".config/vivaldi", ".config/opera", "snap/firefox", "snap/chromium", ".var/app/org.mozilla.firefox",
	".local/share/keyrings", ".local/share/kwalletd", ".config/1Password", ".config/Bitwarden", ".config/keepassxc",
	".config/Signal", ".config/Slack", ".electrum", ".bitcoin", ".ethereum", ".config/solana",
}

// Of the system: secrets, and sockets through which a command could have somebody else act for it.
var systemPlaces = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssh/ssh_host_*", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d",
	"/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/dbus", "/run/systemd/private", "/run/snapd.socket", "/run/snapd-snap.socket",
	"/run/libvirt", "/run/lxd.socket", "/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/run/secrets",
}

// Hidden is what commands cannot read unless a person says so: secrets, and the sockets of those who would
// act for them.
func Hidden(getenv func(string) string) []string {
	paths := append([]string(nil), systemPlaces...)
	if home := getenv("HOME"); filepath.IsAbs(home) {
		for _, p := range secretPlaces {
			paths = append(paths, filepath.Join(home, p))
		}
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		paths = append(paths, dir)
	}
	return append(paths, "/run/user/"+strconv.Itoa(os.Geteuid()))
}

// Below a home folder: what builds keep for the next time.
var cachePlaces = []string{
	".cache", ".npm", ".cargo/registry", ".cargo/git", ".rustup/downloads", ".rustup/tmp", "go/pkg", ".gradle/caches", ".gradle/daemon", ".gradle/native",
	".gradle/wrapper", ".m2/repository", ".ivy2", ".sbt", ".nuget/packages", ".local/share/NuGet", ".dotnet", ".pub-cache", ".ccache", ".yarn",
	".local/share/pnpm", ".local/state/pnpm", ".bun/install", ".deno", ".local/share/uv", ".stack", ".cabal/packages", ".hex", ".mix", ".composer/cache", ".node-gyp",
	".bundle/cache", "Library/Caches",
}

// Caches are the folders that builds write to besides the workspace. Those without which the first build on a
// machine would fail are made.
func Caches(getenv func(string) string) []string {
	var paths []string
	home := getenv("HOME")
	if filepath.IsAbs(home) {
		for _, p := range cachePlaces {
			paths = append(paths, filepath.Join(home, p))
		}
		ensure(filepath.Join(home, ".cache"))
		for program, dir := range map[string]string{"go": "go/pkg/mod", "npm": ".npm", "cargo": ".cargo/registry"} {
			if _, err := exec.LookPath(program); err == nil {
				ensure(filepath.Join(home, dir))
			}
		}
	}
	for _, name := range []string{
		"XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "CCACHE_DIR", "PIP_CACHE_DIR", "UV_CACHE_DIR", "npm_config_cache",
		"YARN_CACHE_FOLDER", "PNPM_HOME", "GRADLE_USER_HOME",
	} {
		if dir := getenv(name); filepath.IsAbs(dir) {
			paths = append(paths, dir)
		}
	}
	for dir := range strings.SplitSeq(getenv("GOPATH"), string(filepath.ListSeparator)) {
		if filepath.IsAbs(dir) {
			paths = append(paths, filepath.Join(dir, "pkg"))
		}
	}
	if dir := getenv("CARGO_HOME"); filepath.IsAbs(dir) {
		paths = append(paths, filepath.Join(dir, "registry"), filepath.Join(dir, "git"))
	}
	return paths
}

// ensure makes a folder; where that does not work the command will say so.
func ensure(dir string) { _ = os.MkdirAll(dir, 0o755) }
