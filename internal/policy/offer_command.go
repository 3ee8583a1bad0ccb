package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// never are commands that no stored answer should speak for: what they do is decided by their words, which
// are programs, other commands or whatever a machine elsewhere sends.
var never = []string{
	"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "pwsh", "nu",
	"eval", "source", ".", "exec", "env", "command", "builtin", "trap", "alias", "xargs", "parallel", "watch", "busybox", "toybox",
	"sudo", "doas", "su", "runuser", "gosu", "pkexec", "setpriv", "chroot", "unshare", "nsenter", "strace", "ltrace", "systemd-run", "script", "flock",
	"ssh", "scp", "sftp", "rsync", "curl", "wget", "http", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "aria2c",
	"rm", "shred", "srm", "dd", "find", "fd", "awk", "gawk", "mawk", "nawk", "chown", "kill", "pkill", "killall", "taskdaemon", "podman", "nerdctl",
	"node", "nodejs", "deno", "bun", "osascript", "tclsh", "expect", "gdb", "guile", "Rscript", "julia", "groovy",
	"vim", "vi", "nvim", "view", "ex", "ed", "emacs", "nano", "less", "more", "most", "man", "tmux", "screen", "at", "batch", "crontab",
}

// exactly are commands of which only the very one that was asked about is offered: their words say where
// they write, or what becomes of things that others use.
var exactly = []string{
	"cp", "mv", "ln", "tee", "tar", "bsdtar", "sed", "gsed", "chmod", "install", "truncate", "unzip", "patch",
	"aws", "gcloud", "az", "glab", "vault", "op", "bw", "pass", "gpg", "gpg2", "ssh-keygen", "psql", "mysql", "sqlite3", "redis-cli", "mongosh",
}

// exactHeads are subcommands of the same kind: they lose work, or reach what others use.
var exactHeads = []string{
	"git push", "git reset", "git clean", "git checkout", "git restore", "git rm", "git update-ref", "git gc", "git reflog", "git remote", "git submodule",
	"git rebase", "git worktree", "git stash", "git branch", "git tag", "git switch", "kubectl delete", "kubectl apply", "terraform apply", "terraform destroy",
	"helm uninstall", "helm delete", "gh repo", "gh pr", "gh release", "gh workflow", "gh secret", "npm publish", "cargo publish", "cargo run", "mix run",
}

// neverHeads are subcommands that run whatever their words say, or change how others work.
var neverHeads = []string{"git config", "git bisect", "git filter-branch", "gh api", "gh alias", "gh auth", "kubectl exec", "rails runner"}

// builders are programs of which also a form with flags first may be offered, as it is.
var builders = []string{"go", "cargo", "make", "gmake", "ninja", "just", "terraform", "mvn", "gradle", "bazel"}

// subcommands are programs whose first word says what they do.
var subcommands = []string{
	"go", "git", "npm", "pnpm", "yarn", "cargo", "pip", "uv", "poetry", "kubectl", "gh", "bundle", "rake", "mvn", "gradle", "dotnet", "terraform",
	"apt", "brew", "systemctl", "helm", "bazel", "mix", "rails", "swift", "zig", "composer", "make", "gmake", "ninja", "just", "npx", "bunx", "docker",
}

// runners are subcommands that run what the next word names, so that it belongs to the rule.
var runners = []string{
	"npm run", "yarn run", "pnpm run", "npm exec", "npm x", "pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "uv run", "poetry run",
	"bundle exec", "go tool", "go run", "docker compose",
}

// composes are what docker compose may be offered for: the others run a command that follows.
var composes = []string{"up", "down", "ps", "logs", "build", "pull", "start", "stop", "restart", "config", "images", "top"}

// modules are those of Python that do one thing, whatever their words are.
var modules = []string{
	"pytest", "unittest", "mypy", "ruff", "black", "isort", "flake8", "pylint", "pyright", "build", "tox", "nox", "compileall", "json.tool", "pyflakes",
}

// plainName is a word that is a name and nothing else.
var plainName = regexp.MustCompile(`^[A-Za-z0-9@._/][A-Za-z0-9@._/+-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

func (p *Policy) commandOffers(a Action, r *report) []Offer {
	var out []Offer
	for i, c := range r.cmds {
		if c.looks {
			for _, u := range r.uses {
				if u.cmd != i || !u.outside {
					continue
				}
				if !certain(u.path) || odd(u.path) {
					return nil
				}
				out = append(out, Offer{Rule: "Read(" + p.shown(u.path) + ")", Words: "reading " + p.shown(u.path)})
			}
			continue
		}
		if freely(a) && r.editsBy(i) {
			continue
		}
		o, ok := p.offerFor(c)
		if !ok {
			return nil
		}
		if !slices.ContainsFunc(out, func(x Offer) bool { return x.Rule == o.Rule }) {
			out = append(out, o)
		}
	}
	if slices.ContainsFunc(r.uses, func(u use) bool {
		return u.redir && u.access == Write && !harmlessSink(u.path) && !(freely(a) && u.editable())
	}) {
		return nil // the file it writes is another question
	}
	return together(out)
}

// offerFor is the rule for one simple command, if there is one that a person may give away.
func (p *Policy) offerFor(c command) (Offer, bool) {
	name := c.words[0]
	switch {
	case c.via == "sudo", slices.ContainsFunc(c.words, unknown):
		return Offer{}, false
	case module(c.words) != "":
		return starred(strings.Join(c.words[:3], " "))
	case runsAnything(name):
		return Offer{}, false
	case slices.Contains(exactly, path.Base(name)):
		return exact(c)
	case !slices.Contains(subcommands, name):
		return starred(name)
	case len(c.words) == 1:
		return exact(c)
	}
	sub := c.words[1]
	head := name + " " + sub
	switch {
	case strings.HasPrefix(sub, "-") || strings.Contains(sub, "="):
		if !slices.Contains(builders, name) {
			return Offer{}, false // what it does comes later
		}
		return exact(c)
	case slices.Contains(neverHeads, head):
		return Offer{}, false
	case head == "git push" && !p.pushesNamed(c.words[2:]):
		return Offer{}, false
	case slices.Contains(exactHeads, head):
		return exact(c)
	case (name == "npx" || name == "bunx") && runsAnything(sub):
		return Offer{}, false
	case name == "docker" && sub != "compose":
		return Offer{}, false
	case slices.Contains(runners, head):
		return runnerOffer(c, head)
	}
	return starred(head)
}

// runnerOffer is the rule for a subcommand that runs what its next word names.
func runnerOffer(c command, head string) (Offer, bool) {
	if len(c.words) == 2 {
		return exact(c)
	}
	what := c.words[2]
	switch {
	case head == "go run" && strings.HasPrefix(what, "."):
		return starred(head + " " + what)
	case strings.HasPrefix(what, "-") || runsAnything(what):
		return Offer{}, false
	case head == "docker compose" && !slices.Contains(composes, what):
		return Offer{}, false
	case head == "go run":
		return exact(c) // it may be fetched from anywhere
	}
	return starred(head + " " + what)
}

// runsAnything reports whether what a program does is in its words.
func runsAnything(name string) bool {
	name = path.Base(name)
	for prefix := range handlersByPrefix {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains(never, name)
}

// module is the module of Python that a command runs, if it is one of those that may be offered.
func module(words []string) string {
	if len(words) < 3 || !strings.HasPrefix(words[0], "python") || words[1] != "-m" || !slices.Contains(modules, words[2]) {
		return ""
	}
	return words[2]
}

// pushesNamed reports whether a push says where it goes, and that is no protected branch.
func (p *Policy) pushesNamed(args []string) bool {
	pos := positional(args)
	if len(pos) < 2 || !onlyFlags(args, "u", "--set-upstream") {
		return false
	}
	w := walker{p: p}
	return !slices.ContainsFunc(pos[1:], func(ref string) bool {
		return strings.ContainsAny(ref, ":+") || w.protected(strings.TrimPrefix(ref, "refs/heads/")) != no
	})
}

// exact is the offer of the very command, where its words mean the same in a rule.
func exact(c command) (Offer, bool) {
	for _, a := range c.words {
		if a == "" || !certain(a) || strings.ContainsAny(a, "*() \t\n") {
			return Offer{}, false
		}
	}
	return Offer{Rule: "Bash(" + c.text() + ")", Words: "exactly this command"}, true
}

// starred is the offer of all commands that begin like this one.
func starred(head string) (Offer, bool) {
	for _, a := range strings.Split(head, " ") {
		if a != "-m" && !plainName.MatchString(a) {
			return Offer{}, false
		}
	}
	return Offer{Rule: "Bash(" + head + " *)", Words: fmt.Sprintf("any %s command", head)}, true
}
