package policy

import (
	"slices"
	"strings"
)

// shell is bash and its kin: what they run is judged, if it can be seen.
func shell(w *walker, c *call) bool {
	args := c.args
	for len(args) > 0 {
		a := args[0]
		w.guard(c, args[:1])
		// With -e it ends at what fails, so that what other commands read decides whether it goes on.
		w.r.chosen = w.r.chosen || a == "-o" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "e")
		switch {
		case a == "--rcfile" || a == "--init-file":
			w.r.add(Ask, askRuns, "%s runs a file of its own choice first.", c.name)
			return false
		case a == "-o" || a == "+o" || a == "-O" || a == "+O":
			args = args[min(2, len(args)):]
			continue
		case strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "c"):
			rest := operands(args[1:], "-o", "-O", "+o", "+O")
			if len(rest) == 0 {
				w.r.add(Ask, askUnparsed, "%s -c is given no command.", c.name)
				return false
			}
			w.plain(c)
			w.nested(c, func() { w.shellSource(rest[0], rest[1:]) })
			return false
		case a == "-s" || a == "-":
			return w.shellInput(c)
		case strings.HasPrefix(a, "-") || strings.HasPrefix(a, "+"):
			args = args[1:]
			continue
		}
		switch {
		case a == "/dev/stdin":
			return w.shellInput(c)
		case strings.HasPrefix(a, "/dev/fd/"), strings.HasPrefix(a, "/proc/"):
			w.r.add(Ask, askRuns, "%s runs whatever another command hands it, unseen.", c.name)
			return false
		}
		w.scripted(c, a, args[1:])
		return false
	}
	return w.shellInput(c)
}

// shellSource judges a source in a shell of its own, with its positional words.
func (w *walker) shellSource(src string, args []string) {
	w.fork(func() {
		for i, a := range args {
			if i > 0 && i <= 9 {
				w.vars[string(rune('0'+i))] = a
			}
		}
		w.source(src)
	})
}

// shellInput judges a shell that runs what it reads.
func (w *walker) shellInput(c *call) bool {
	switch {
	case w.fed != nil:
		text := *w.fed
		w.plain(c)
		w.nested(c, func() { w.inner(func() { w.source(text) }) })
	case w.piped:
		w.r.add(Ask, askRuns, "%s runs whatever another command hands it, unseen.", c.name)
	default:
		w.r.add(Ask, askRuns, "%s waits for commands that nobody has seen.", c.name)
	}
	return false
}

func otherShell(w *walker, c *call) bool {
	w.r.add(Ask, askRuns, "%s runs commands in a language that is not judged here.", c.name)
	w.judgeArgs(*c)
	return false
}

func eval(w *walker, c *call) bool {
	w.plain(c)
	src := strings.Join(c.args, " ")
	w.nested(c, func() { w.source(src) })
	if !certain(src) {
		w.forget()
	}
	return false
}

// forget makes everything unknown that a command nobody has seen may have changed.
func (w *walker) forget() {
	w.vars = map[string]string{}
	w.dirs = []string{string(markValue)}
}

// scripted judges a script that a shell runs. One of the workspace is like a program of it.
func (w *walker) scripted(c *call, file string, args []string) {
	judge := func() {
		w.touch(file, Read, c.at, false, false)
		w.judgeArgs(call{name: c.name, args: args, at: c.at})
	}
	if certain(file) && w.inWorkspace(file) {
		w.r.cmds[c.at].builds = true
		w.softly(judge)
		return
	}
	judge()
}

func sourced(w *walker, c *call) bool {
	if len(c.args) == 0 {
		return false
	}
	w.scripted(c, c.args[0], c.args[1:])
	asks := func() { w.r.add(Ask, askRuns, "It runs a file as part of this command.") }
	if w.r.cmds[c.at].builds {
		w.softly(asks)
	} else {
		asks()
	}
	w.forget()
	return false
}

func trap(w *walker, c *call) bool {
	args := operands(c.args)
	if len(args) > 1 && args[0] != "-" {
		w.plain(c)
		w.nested(c, func() {
			w.inner(func() { // it runs at another time, when variables and folder are others
				home, ok := w.vars["HOME"]
				w.forget()
				if ok {
					w.vars["HOME"] = home
				}
				w.source(args[0])
			})
		})
	}
	return true
}

func alias(w *walker, c *call) bool {
	for _, a := range positional(c.args) {
		if _, src, ok := strings.Cut(a, "="); ok {
			w.r.add(Ask, askEnv, "An alias makes a name stand for another command.")
			w.nested(c, func() { w.inner(func() { w.source(src) }) })
		}
	}
	return !slices.ContainsFunc(c.args, func(a string) bool { return !certain(a) })
}
