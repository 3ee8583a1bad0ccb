package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Names of what the floor keeps. They are shown to people and written to the journal.
const (
	floorDestroy     = "destroying a home, a workspace or the system"
	floorDisk        = "raw disks and memory"
	floorOwn         = "taskdaemon's own files"
	floorAnswer      = "a run may not answer itself"
	floorCredentials = "credentials"
	floorHooks       = "git hooks and settings that run commands"
	floorPush        = "force-push to a protected branch"
	floorMachine     = "stopping the machine or taskdaemon"
	floorBomb        = "fork bomb"
)

// The rules of what cannot be foreseen.
const (
	askUnparsed = "not understood"
	askUnknown  = "known only when it runs"
	askHidden   = "hidden or look-alike characters"
	askRuns     = "runs what it is given"
	askEnv      = "changes how other commands run"
	askSecrets  = "tells a secret"
	askTainted  = "untrusted text"
	askGlob     = "may match a protected file" // of the workspace, to write it
)

// homeCredentials are files and folders of a home that prove who a person is, or hold what proves it.
var homeCredentials = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".kube", ".oci", ".netrc", "_netrc", ".authinfo", ".authinfo.gpg",
	".docker/config.json", ".config/containers/auth.json", ".npmrc", ".yarnrc.yml", ".pypirc", ".gem/credentials", ".cargo/credentials",
	".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".composer/auth.json",
	".git-credentials", ".config/git/credentials", ".config/gh/hosts.yml", ".config/hub", ".config/glab-cli", ".pgpass", ".my.cnf",
	".mylogin.cnf", ".vault-token", ".terraform.d/credentials.tfrc.json", ".terraformrc", ".config/doctl", ".config/op", ".op",
	".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/keepassxc", ".mozilla", ".config/google-chrome",
	".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".thunderbird", ".claude/.credentials.json",
	".codex/auth.json", ".config/anthropic", ".config/openai", ".bash_history", ".zsh_history", ".python_history", ".psql_history",
	"Library/Keychains", "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox", "snap/firefox", "snap/chromium",
}

// systemCredentials are those of the machine.
var systemCredentials = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/etc/ssh/ssh_host_*_key",
	"/etc/krb5.keytab", "/etc/security/opasswd", "/etc/kubernetes", "/var/lib/kubelet", "/var/run/secrets", "/run/secrets", "/var/run/docker.sock",
	"/run/docker.sock", "/run/containerd", "/proc/*/environ", "/proc/*/mem", "/proc/*/task/*/environ", "/proc/*/task/*/mem", "/proc/kcore",
	"/run/user/*/keyring", "/run/user/*/gnupg",
}

// homes are where homes of people are, besides the one of the place.
var homes = []string{"/root", "/home/*", "/Users/*"}

// systemFolders must not be removed, moved or given other rights.
var systemFolders = []string{
	"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr",
	"/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/share", "/usr/include", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/var", "/var/lib",
	"/var/log", "/var/spool", "/Users", "/System", "/Library", "/Applications", "/mnt", "/media", "/nix", "/snap",
}

// loginFiles decide who may enter a machine and what it starts.
var loginFiles = []string{"/etc/passwd", "/etc/group", "/etc/pam.d", "/etc/ld.so.preload", "/etc/crontab", "/etc/cron.*", "/boot", "/etc/fstab"}

// rawDevices are below /dev.
var rawDevices = []string{
	"sd[a-z]*", "hd[a-z]*", "vd[a-z]*", "xvd[a-z]*", "nvme*", "mmcblk*", "mapper", "dm-*", "md[0-9]*", "loop*", "nbd*", "sr[0-9]*", "zram*", "ram[0-9]*",
	"disk", "block", "mem", "kmem", "port", "mtd*", "bcache*", "rbd*", "drbd*",
}

// gitRuns are the files of a repository from which git runs commands, or that lead it to those of another one.
var gitRuns = split([]string{"hooks", "config", "config.worktree", "info/attributes", "commondir", "gitdir", "objects/info/alternates"})

// The lists above, split once.
var (
	homeCredentialParts   = split(homeCredentials)
	systemCredentialParts = split(systemCredentials)
	homeParts             = split(homes)
	systemFolderParts     = split(systemFolders)
	loginParts            = split(loginFiles)
	rawDeviceParts        = split(rawDevices)
)

// floorPath is what the floor says of a path: a deny when the path is kept, an ask when it may be.
func (p *Policy) floorPath(path string, access Access, destroys bool) (finding, bool) {
	f := finding{verdict: Deny}
	m := no
	ps := segments(path)
	consider := func(with match, rule, format string) {
		if with > m {
			m, f.rule, f.why = with, rule, fmt.Sprintf(format, readable(path))
		}
	}
	if destroys {
		p.floorDestroys(ps, consider)
	}
	p.floorCredentials(path, ps, consider)
	floorDevices(ps, consider)
	if access == Write {
		p.floorOwned(path, destroys, consider)
		p.floorGit(path, ps, destroys, consider)
		for _, s := range []string{"/proc/sysrq-trigger", "/sys/power", "/proc/sys/kernel"} {
			consider(under(path, s), floorMachine, "%s stops this machine, or changes how it runs.")
		}
		for _, l := range loginParts {
			consider(ps.under(l), floorDestroy, "%s decides how this machine starts and who may enter it.")
		}
	}
	if m == could {
		f.verdict = Ask
		f.why = fmt.Sprintf("%s may match a protected file. %s", readable(path), f.why)
		if access == Write && p.inWorkspace(path) {
			f.rule = askGlob
		}
	}
	return f, m != no
}

// considering keeps the worst that is said of a path. The format has a place for the path.
type considering func(with match, rule, format string)

func (p *Policy) floorDestroys(ps parts, consider considering) {
	for _, s := range systemFolderParts {
		consider(ps.above(s), floorDestroy, "%s is a folder of the system.")
	}
	consider(ps.above(segments(p.place.Home)), floorDestroy, "%s is a home, or holds one.")
	whole := ps
	for len(whole) > 0 && strings.Trim(whole[len(whole)-1], "\x02\x04") == "" {
		whole = whole[:len(whole)-1]
	}
	for _, h := range homeParts {
		if len(whole) == len(h) {
			consider(whole.under(h), floorDestroy, "%s is a home, or holds one.")
		}
	}
	consider(ps.above(segments(p.place.Workspace)), floorDestroy, "%s is the workspace, or holds it.")
}

func (p *Policy) floorCredentials(path string, ps parts, consider considering) {
	if strings.HasSuffix(path, ".pub") && certain(path) || under(path, p.place.Home+"/.ssh/known_hosts") == yes {
		return
	}
	p.homeCredentials(ps, segments(p.place.Home), consider)
	for _, home := range homeParts {
		p.homeCredentials(ps, home, consider)
	}
	for _, c := range systemCredentialParts {
		consider(ps.under(c), floorCredentials, "%s holds secrets of this machine.")
	}
}

func (p *Policy) homeCredentials(ps, home parts, consider considering) {
	const why = "%s holds credentials."
	within := min(len(ps), len(home))
	switch at := ps[:within].under(home[:within]); {
	case at == no, within < len(home) && !slices.ContainsFunc(ps, func(s string) bool { return strings.ContainsRune(s, markBelow) }):
	case within < len(home) || slices.ContainsFunc(ps[:within], func(s string) bool { return strings.ContainsRune(s, markBelow) }):
		consider(could, floorCredentials, why) // a walk goes through the whole home
	default:
		for _, c := range homeCredentialParts {
			consider(min(at, ps[within:].under(c)), floorCredentials, why)
		}
	}
}

func floorDevices(ps parts, consider considering) {
	if len(ps) == 0 || ps[:1].under(parts{"dev"}) == no {
		return
	}
	at := ps[:1].under(parts{"dev"})
	for _, d := range rawDeviceParts {
		consider(min(at, ps[1:].under(d)), floorDisk, "%s is a raw device: it goes past every file and its owner.")
	}
}

func (p *Policy) floorOwned(path string, destroys bool, consider considering) {
	const why = "%s belongs to taskdaemon, which watches over this run."
	lent := p.inCheckout() && under(path, p.place.Workspace) == yes
	for _, own := range p.place.Own {
		if lent && under(p.place.Workspace, own) == yes {
			continue
		}
		consider(under(path, own), floorOwn, why)
		if destroys {
			consider(above(path, own), floorOwn, why)
		}
	}
	if lent {
		return
	}
	consider(under(path, p.place.State), floorOwn, why)
	if destroys {
		consider(above(path, p.place.State), floorOwn, why)
	}
}

// inCheckout reports whether the workspace is one of taskdaemon's own checkouts, and not more than one.
func (p *Policy) inCheckout() bool {
	return p.place.Checkouts != "" && filepath.Dir(p.place.Workspace) == p.place.Checkouts
}
