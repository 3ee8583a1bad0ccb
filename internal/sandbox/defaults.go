package sandbox

import (
	"os"
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
	".docker/run", ".docker/desktop", ".colima", ".lima", ".rd", ".orbstack", ".1password", ".bitwarden-ssh-agent.sock", ".config/Signal", ".config/Slack", ".electrum", ".bitcoin", ".ethereum", ".config/solana",
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
	return append(append(paths, "/run/user/"+strconv.Itoa(os.Geteuid())), agents(getenv)...)
}

// agentVariables name the sockets of programs that act for the user, as paths or as addresses.
var agentVariables = []string{"SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS", "GPG_AGENT_INFO", "XAUTHORITY", "TMUX", "BUILDKIT_HOST"}

// agents are the sockets that the environment names, wherever they lie.
func agents(getenv func(string) string) []string {
	var paths []string
	for _, name := range agentVariables {
		for part := range strings.FieldsFuncSeq(getenv(name), func(r rune) bool { return strings.ContainsRune(",;:=", r) }) {
			if path := filepath.Clean(part); filepath.IsAbs(path) && path != "/" {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
