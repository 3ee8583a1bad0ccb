package policy

import (
	"slices"
	"strings"
)

// machine are the commands that reach beyond files: processes, the network, the system, taskdaemon.
func machine() map[string]handler {
	return map[string]handler{
		"shutdown": stops, "reboot": stops, "halt": stops, "poweroff": stops, "telinit": stops, "init": stops, "kexec": stops,
		"systemctl": systemctl, "service": systemctl, "loginctl": systemctl,
		"kill": kill, "pkill": killName, "killall": killName, "skill": killName, "xkill": killName,
		"taskdaemon": ourselves, "tmux": seats, "screen": seats, "dtach": seats, "abduco": seats, "zellij": seats,
		"curl": fetch, "wget": fetch, "http": fetch, "nc": fetch, "ncat": fetch, "netcat": fetch, "socat": fetch, "telnet": fetch, "ftp": fetch,
		"sftp": fetch, "aria2c": fetch,
		"gpg": secret, "gpg2": secret, "secret-tool": secret, "pass": secret, "security": secret, "op": secret, "bw": secret, "ssh-add": secret,
		"ssh-keygen": secret, "keyctl": secret, "printenv": secret, "vault": secret,
		"gh": secret, "glab": secret, "aws": secret, "gcloud": secret, "az": secret, "kubectl": secret, "docker": containers, "podman": containers,
		"nerdctl": containers,
		"mount":   mounts, "umount": mounts, "losetup": mounts, "swapoff": mounts, "swapon": mounts, "insmod": mounts, "modprobe": mounts,
		"rmmod": mounts, "sysctl": mounts, "iptables": mounts, "nft": mounts,
		"useradd": mounts, "userdel": mounts, "usermod": mounts, "passwd": mounts, "visudo": mounts, "chsh": mounts,
		"go": goCommand,
	}
}

func stops(w *walker, c *call) bool {
	if c.name == "init" && !slices.Contains(c.args, "0") && !slices.Contains(c.args, "6") && !slices.ContainsFunc(c.args, unknown) {
		w.judgeArgs(*c)
		return false
	}
	w.r.add(Deny, floorMachine, "%s stops this machine.", c.name)
	return false
}

func systemctl(w *walker, c *call) bool {
	w.guard(c, c.args)
	for _, a := range c.args {
		switch a {
		case "poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "hybrid-sleep", "rescue", "emergency", "exit", "soft-reboot", "terminate-user", "kill-user":
			w.r.add(Deny, floorMachine, "%s %s stops this machine or what a person does on it.", c.name, a)
		}
		if strings.Contains(a, "taskdaemon") && !slices.Contains(c.args, "status") && !slices.Contains(c.args, "show") {
			w.r.add(Deny, floorMachine, "taskdaemon watches over this run; it is not for the run to stop or change.")
		}
	}
	return false
}

func kill(w *walker, c *call) bool {
	w.guard(c, c.args)
	targets := c.args
	if len(targets) > 0 && strings.HasPrefix(targets[0], "-") {
		if targets[0] == "-s" || targets[0] == "-n" {
			targets = targets[min(2, len(targets)):]
		} else if len(targets) > 1 {
			targets = targets[1:]
		}
	}
	for _, t := range targets {
		if t == "-1" || t == "1" {
			w.r.add(Deny, floorMachine, "kill %s ends every process, or the first one.", t)
		}
	}
	return false
}

func killName(w *walker, c *call) bool {
	w.guard(c, c.args)
	for i, a := range c.args {
		switch {
		case strings.Contains(a, "taskdaemon") || strings.Contains(a, "taskd") || strings.HasPrefix("taskdaemon", a) && !strings.HasPrefix(a, "-") && a != "":
			w.r.add(Deny, floorMachine, "taskdaemon watches over this run; it is not for the run to stop it.")
		case a == "." || a == ".*" || a == "-1" || a == "init" || a == "systemd", (a == "-u" || a == "-U") && i+2 == len(c.args):
			w.r.add(Deny, floorMachine, "%s %s ends processes that do not belong to the run.", c.name, readable(strings.Join(c.args, " ")))
		}
	}
	return false
}

// ourLooks are commands of taskdaemon that change nothing. They are asked about: what other tasks do is
// not for a run to read unasked.
var ourLooks = []string{
	"status", "list", "ls", "show", "log", "logs", "version", "help", "doctor", "cost", "locks", "history", "diff", "--version", "--help", "-h",
	"explain", "check",
}

func ourselves(w *walker, c *call) bool {
	pos := positional(c.args)
	last := ""
	if len(pos) > 0 {
		last = pos[0]
		if len(pos) > 1 && slices.Contains([]string{"task", "config", "daemon", "loop", "hook", "hooks", "mcp", "skill", "skills", "sandbox", "policy", "permissions", "learnings", "knowledge"}, last) {
			last = pos[1]
		}
	} else if len(c.args) > 0 {
		last = c.args[0]
	}
	if slices.Contains(ourLooks, last) && !slices.ContainsFunc(c.args, unknown) {
		w.r.add(Ask, floorAnswer, "taskdaemon is asked about by a run.")
		return false
	}
	w.r.add(Deny, floorAnswer, "A run may not answer, approve, add, change or stop tasks: that is for people.")
	return false
}

// seats type into terminals of people.
func seats(w *walker, c *call) bool {
	w.r.add(Ask, askRuns, "%s can run commands outside this run.", c.name)
	for _, a := range c.args {
		if strings.Contains(a, " ") {
			w.inner(func() { w.sourceIfCommand(a) })
		}
	}
	w.judgeArgs(*c)
	return false
}

// secretWords are what these tools are told when they print a secret.
var secretWords = []string{
	"--export-secret-keys", "--export-secret-subkeys", "lookup", "show", "find-generic-password", "find-internet-password", "dump-keychain", "token",
	"auth", "print", "read", "get", "item",
	"print-access-token", "print-identity-token", "get-session-token", "get-secret-value", "configure", "--raw", "secret", "secrets",
	"get-login-password", "get-parameter", "get-access-token", "kv", "-d", "--decrypt", "search", "pipe",
}

func secret(w *walker, c *call) bool {
	for _, a := range c.args {
		tells := slices.Contains(secretWords, a) && (c.name != "gh" || a == "auth" || a == "token" || a == "secret")
		if c.name == "kubectl" {
			tells = a == "--raw" || kubeSecret(a)
		}
		if tells {
			w.r.add(Ask, askSecrets, "%s %s may tell a secret, or change one.", c.name, a)
		}
	}
	if c.name == "printenv" {
		w.r.add(Ask, askSecrets, "printenv shows the environment, where secrets may be.")
	}
	w.judgeArgs(*c)
	return false
}

// containers may see the whole machine.
func containers(w *walker, c *call) bool {
	for i, a := range c.args {
		vol := ""
		switch {
		case (a == "-v" || a == "--volume" || a == "--mount") && i+1 < len(c.args):
			vol = c.args[i+1]
		case strings.HasPrefix(a, "--volume=") || strings.HasPrefix(a, "--mount="):
			_, vol, _ = strings.Cut(a, "=")
		case a == "--privileged" || strings.HasPrefix(a, "--pid=host") || strings.HasPrefix(a, "--device"):
			w.r.add(Ask, askUnknown, "%s %s gives a container this machine.", c.name, a)
		}
		if host, _, ok := strings.Cut(vol, ":"); ok && strings.HasPrefix(host, "/") {
			w.touch(host, Write, c.at, false, true)
		}
	}
	w.judgeArgs(*c)
	return false
}

func mounts(w *walker, c *call) bool {
	w.r.add(Ask, askEnv, "%s changes the machine for everyone on it.", c.name)
	w.judgeArgs(*c)
	return false
}

func goCommand(w *walker, c *call) bool {
	for i, a := range c.args {
		name, val, ok := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		name = strings.TrimPrefix(name, "-")
		if strings.HasPrefix(a, "-") && slices.Contains([]string{"toolexec", "exec", "vettool", "overlay", "modfile"}, name) {
			if !ok && i+1 < len(c.args) {
				val = c.args[i+1]
			}
			w.r.add(Ask, askRuns, "go %s runs or reads something else: %s.", a, shorten(readable(val)))
			w.inner(func() { w.sourceIfCommand(val) })
		}
		if a == "-o" && i+1 < len(c.args) {
			w.touch(c.args[i+1], Write, c.at, false, false)
		}
	}
	w.judgeArgs(*c)
	return false
}
