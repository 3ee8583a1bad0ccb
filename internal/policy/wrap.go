package policy

import (
	"slices"
	"strings"
)

// handler judges a command that is more than its words, and reports whether it only looks.
type handler func(w *walker, c *call) (looks bool)

// handlers are the commands that run others, change files or reach the machine. They are made in init, as
// they refer to each other through the walker.
var handlers, handlersByPrefix map[string]handler

// builtins are the commands of the shell itself that may only look: what their handlers say counts.
var builtins map[string]bool

func init() {
	handlers = map[string]handler{}
	handlersByPrefix = map[string]handler{"mkfs": disk, "fsck": disk, "python": interpreter, "ruby": interpreter, "perl": interpreter, "php": interpreter, "lua": interpreter, "pypy": interpreter}
	for _, set := range []map[string]handler{wrappers(), changers(), machine(), shellWords()} {
		for name, h := range set {
			handlers[name] = h
		}
	}
	handlers["git"] = gitCommand
	builtins = map[string]bool{"cd": true, "pushd": true, "popd": true, "set": true, "trap": true, "alias": true, "shopt": true, "command": true}
	for name := range shellWords() {
		builtins[name] = true
	}
}

func wrappers() map[string]handler {
	return map[string]handler{
		"sh": shell, "bash": shell, "dash": shell, "zsh": shell, "ksh": shell, "mksh": shell, "ash": shell, "rbash": shell, "fish": otherShell,
		"csh": otherShell, "tcsh": otherShell, "pwsh": otherShell, "nu": otherShell,
		"eval": eval, "source": sourced, ".": sourced, "trap": trap, "alias": alias,
		"env":     env,
		"command": builtinCommand, "builtin": prefix(), "exec": prefix("-a"), "nohup": prefix(), "setsid": prefix(), "nice": prefix("-n", "--adjustment"),
		"time": prefix("-f", "-o", "--format", "--output"), "stdbuf": prefix("-i", "-o", "-e"), "ionice": prefix("-c", "-n"), "timeout": after(1, "-k", "-s", "--kill-after", "--signal"),
		"chrt": held(after(1, "-T", "-P", "-D")), "taskset": held(after(1)), "flock": flock, "busybox": prefix(), "toybox": prefix(),
		"unbuffer": prefix(), "caffeinate": prefix("-t", "-w"),
		"sudo": held(sudo("-u", "-g", "-h", "-p", "-C", "-T", "-r", "-t", "-D", "-R", "-U", "--user", "--group", "--host", "--prompt", "--chdir", "--chroot")),
		"doas": held(prefix("-u", "-C")), "pkexec": held(prefix("--user")), "su": su, "runuser": su, "gosu": held(after(1)), "setpriv": held(prefix()),
		"chroot": held(after(1)), "unshare": held(prefix()), "nsenter": held(prefix("-t", "--target")),
		"strace": held(prefix("-o", "-e", "-p", "-s")), "ltrace": held(prefix("-o", "-e", "-p")),
		"xargs": xargs, "parallel": parallel, "watch": watch, "find": find, "fd": fd, "fdfind": fd, "ssh": remote, "at": stdinRuns,
		"batch": stdinRuns, "crontab": stdinRuns,
		"script": script, "systemd-run": held(prefix("-p", "-u", "--unit", "--property")), "awk": awk, "gawk": awk, "mawk": awk, "nawk": awk,
		"sed": sed, "gsed": sed, "tar": tar, "bsdtar": tar,
		"vi": editor, "vim": editor, "nvim": editor, "view": editor, "ex": editor, "ed": editor, "emacs": editor, "nano": editor,
		"node": interpreter, "nodejs": interpreter, "deno": interpreter, "bun": interpreter, "osascript": interpreter, "tclsh": interpreter,
		"expect": interpreter, "gdb": interpreter, "guile": interpreter, "Rscript": interpreter, "julia": interpreter, "groovy": interpreter,
		"make": building, "gmake": building, "ninja": building, "just": building,
	}
}

// prefix is a command whose words are those of another command, after flags.
func prefix(valued ...string) handler { return after(0, valued...) }

// after is a prefix with some words of its own before the command.
func after(skip int, valued ...string) handler {
	return func(w *walker, c *call) bool {
		inner := operands(c.args, valued...)
		w.guard(c, c.args[:len(c.args)-len(inner)])
		if len(inner) <= skip {
			w.judgeArgs(*c)
			return false
		}
		w.guard(c, inner[:skip])
		w.nested(c, func() { w.exec(inner[skip:]) })
		return false
	}
}

// held is a wrapper that gives the command more than it would have: a rule for the command alone is not
// enough, and it never only looks.
func held(h handler) handler {
	return func(w *walker, c *call) bool {
		h(w, c)
		w.r.cmds[c.at].plain, w.r.cmds[c.at].looks = false, false
		return false
	}
}

// sudo is a prefix with assignments before the command.
func sudo(valued ...string) handler {
	return func(w *walker, c *call) bool {
		inner := operands(c.args, valued...)
		for len(inner) > 0 && strings.Contains(inner[0], "=") {
			name, val, _ := strings.Cut(inner[0], "=")
			w.setting(name, val)
			delete(w.vars, name)
			inner = inner[1:]
		}
		if len(inner) == 0 {
			w.r.add(Ask, askRuns, "sudo waits for commands that nobody has seen.")
			return false
		}
		w.guard(c, c.args[:len(c.args)-len(inner)])
		w.nested(c, func() { w.exec(inner) })
		return false
	}
}

// guard asks when one of the words is known only when it runs: any of them may be what decides.
func (w *walker) guard(c *call, words []string) {
	for _, a := range words {
		if unknown(a) || a != "" && (a[0] == markMany || a[0] == markOne) {
			w.r.may.shifted(c.args)
			w.r.add(Ask, askUnknown, "%s is given %s, which is known only when it runs.", c.name, shorten(readable(a)))
		}
	}
}

func env(w *walker, c *call) bool {
	args, strange := c.args, false
	for len(args) > 0 {
		a := args[0]
		w.guard(c, args[:1])
		switch {
		case a == "-u" || a == "--unset":
			args = args[min(2, len(args)):]
			continue
		case a == "-C" || strings.HasPrefix(a, "--chdir") || strings.HasPrefix(a, "-S") || strings.HasPrefix(a, "--split-string"):
			w.r.add(Ask, askUnparsed, "env %s rebuilds the command it runs.", readable(a))
			_, src, _ := strings.Cut(a, "=")
			if a == "-S" || a == "-C" || src == "" {
				src = strings.Join(args[1:], " ")
			}
			w.nested(c, func() { w.inner(func() { w.source(src) }) })
			w.judgeArgs(*c)
			return false
		case a == "-" || a == "-i" || a == "--ignore-environment":
		case strings.HasPrefix(a, "-"):
			strange = true
		case strings.Contains(a, "="):
			name, val, _ := strings.Cut(a, "=")
			w.setting(name, val)
			delete(w.vars, name)
		default:
			if !strange {
				w.plain(c)
			}
			w.nested(c, func() { w.exec(args) })
			return false
		}
		args = args[1:]
	}
	return false // it prints the environment
}

func builtinCommand(w *walker, c *call) bool {
	if len(c.args) > 0 && (c.args[0] == "-v" || c.args[0] == "-V") {
		return true
	}
	return prefix()(w, c)
}

func flock(w *walker, c *call) bool {
	rest := operands(c.args, "-w", "--timeout", "-E")
	w.guard(c, c.args)
	switch {
	case len(rest) > 2 && (rest[1] == "-c" || rest[1] == "--command"):
		w.nested(c, func() { w.inner(func() { w.source(rest[2]) }) })
	case len(rest) > 1:
		w.nested(c, func() { w.exec(rest[1:]) })
	}
	if len(rest) > 0 {
		w.touch(rest[0], Write, c.at, false, false)
	}
	return false
}

func su(w *walker, c *call) bool {
	w.guard(c, c.args)
	for i, a := range c.args {
		switch {
		case (a == "-c" || a == "--command") && i+1 < len(c.args):
			w.nested(c, func() { w.inner(func() { w.source(c.args[i+1]) }) })
		case strings.HasPrefix(a, "--command="):
			w.nested(c, func() { w.inner(func() { w.source(a[len("--command="):]) }) })
		}
	}
	w.r.add(Ask, askRuns, "%s acts as another user.", c.name)
	return false
}

func script(w *walker, c *call) bool {
	for i, a := range c.args {
		name, text, has := strings.Cut(a, "=")
		switch letters, rest, short := strings.Cut(a, "c"); {
		case short && strings.HasPrefix(letters, "-") && !strings.HasPrefix(letters, "--"): // -c may stand in a group of letters
			text, has = rest, rest != ""
		case len(name) < 4 || !strings.HasPrefix("--command", name):
			continue
		}
		if !has && i+1 < len(c.args) {
			text = c.args[i+1]
		}
		w.nested(c, func() { w.inner(func() { w.source(text) }) })
	}
	w.judgeArgs(*c)
	return false
}

func parallel(w *walker, c *call) bool {
	inner := operands(c.args, "-j", "--jobs", "-a", "--colsep", "-n", "-N")
	if i := slices.IndexFunc(inner, func(a string) bool { return strings.HasPrefix(a, ":::") }); i >= 0 {
		inner = inner[:i]
	}
	w.r.add(Ask, askRuns, "parallel runs commands that it puts together itself.")
	if len(inner) > 0 {
		w.nested(c, func() { w.inner(func() { w.source(strings.Join(inner, " ")) }) })
	}
	w.judgeArgs(*c)
	return false
}

func watch(w *walker, c *call) bool {
	inner := operands(c.args, "-n", "--interval")
	own := c.args[:len(c.args)-len(inner)]
	w.guard(c, own)
	if onlyFlags(own, "bcdegtn", "--interval", "--differences", "--no-title", "--color") {
		w.plain(c)
	}
	w.nested(c, func() { w.inner(func() { w.source(strings.Join(inner, " ")) }) })
	return false
}

// remote runs a command on another machine: nothing there is known.
func remote(w *walker, c *call) bool {
	rest := operands(c.args, "-p", "-l", "-i", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-m", "-W", "-w", "-E", "-S")
	if len(rest) > 0 {
		_, host, ok := strings.Cut(rest[0], "@")
		if !ok {
			host = rest[0]
		}
		w.r.host(readable(host))
	}
	w.r.add(Ask, askRuns, "ssh acts on another machine.")
	w.judgeArgs(*c)
	return false
}

func stdinRuns(w *walker, c *call) bool {
	w.r.add(Ask, askRuns, "%s runs commands later, when nobody watches.", c.name)
	if w.fed != nil {
		text := *w.fed
		w.nested(c, func() { w.inner(func() { w.source(text) }) })
	}
	w.judgeArgs(*c)
	return false
}

func building(w *walker, c *call) bool {
	for i, a := range c.args {
		name, _, assigns := strings.Cut(a, "=")
		switch {
		case flag([]string{a}, "", "--eval", "--shell", "--command") || c.name == "just" && a == "-c":
			w.r.add(Ask, askRuns, "%s is given a program in the command itself, which is not judged.", c.name)
		case assigns && slices.Contains([]string{"SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE"}, strings.TrimRight(name, ":?+")):
			w.r.add(Ask, askRuns, "%s is told which shell runs its commands: %s.", c.name, shorten(readable(a)))
		case (a == "-f" || a == "--file" || a == "--makefile") && i+1 < len(c.args) && slices.Contains([]string{"-", "/dev/stdin"}, c.args[i+1]), a == "-f-":
			w.r.add(Ask, askRuns, "%s runs what it reads, unseen.", c.name)
		}
	}
	w.judgeArgs(*c)
	return false
}
