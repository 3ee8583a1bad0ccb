package policy

import (
	"strings"
)

// interpreter is python and its kin: text that is given to it is not judged, but it must not name what is kept.
func interpreter(w *walker, c *call) bool {
	code, module := false, module(append([]string{c.name}, c.args...)) != ""
	for i, a := range c.args {
		w.mentions(a)
		switch {
		case module, i > 0 && code: // the flags are the module's
		case strings.HasPrefix(a, "-c") || strings.HasPrefix(a, "-e") || strings.HasPrefix(a, "-E") || strings.HasPrefix(a, "-p") || a == "--eval" || a == "--print" || a == "-r" || a == "eval" || a == "-x":
			code = true
		}
	}
	script := positional(c.args)
	switch {
	case code:
		w.r.add(Ask, askRuns, "%s is given a program in the command itself, which is not judged.", c.name)
	case len(script) == 0 || script[0] == "-":
		if w.fed != nil {
			w.mentions(*w.fed)
		}
		w.r.add(Ask, askRuns, "%s runs what it reads, unseen.", c.name)
	}
	w.judgeArgs(*c)
	return false
}

// mentions denies program text that names credentials or taskdaemon's files.
func (w *walker) mentions(text string) {
	home := w.p.place.Home
	for _, cred := range homeCredentials {
		for _, form := range []string{home + "/" + cred, "~/" + cred, "$HOME/" + cred} {
			if i := strings.Index(text, form); i >= 0 && ends(text[i+len(form):]) {
				w.r.add(Deny, floorCredentials, "The program names %s, which holds credentials.", form)
			}
		}
	}
	for _, cred := range systemCredentials {
		if strings.Contains(text, cred) {
			w.r.add(Deny, floorCredentials, "The program names %s, which holds secrets of this machine.", cred)
		}
	}
	lent := w.p.inCheckout()
	if lent {
		text = cutPath(text, w.p.place.Workspace)
	}
	for _, own := range append([]string{w.p.place.State}, w.p.place.Own...) {
		if own != "" && (lent || under(w.p.place.Workspace, own) == no) && strings.Contains(text, own) {
			w.r.add(Deny, floorOwn, "The program names %s, which belongs to taskdaemon.", own)
		}
	}
}

// cutPath is text without a path, where it stands as a whole.
func cutPath(text, path string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, path)
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:i])
		if text = text[i+len(path):]; !ends(text) {
			b.WriteString(path)
		}
	}
}

// ends reports whether a name is over here.
func ends(rest string) bool {
	return rest == "" || !strings.ContainsAny(rest[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
}

func editor(w *walker, c *call) bool {
	for i, a := range c.args {
		if (a == "-c" || a == "--cmd" || a == "-S" || a == "-s" || a == "--eval" || a == "-l" || a == "--load") && i+1 < len(c.args) || strings.HasPrefix(a, "+") {
			w.r.add(Ask, askRuns, "%s runs commands: %s.", c.name, shorten(readable(a)))
			if i+1 < len(c.args) {
				w.escapes(c.args[i+1])
			}
			w.escapes(strings.TrimPrefix(a, "+"))
		}
	}
	for _, a := range positional(c.args) {
		if !strings.HasPrefix(a, "+") {
			w.touch(a, Write, c.at, false, false)
		}
	}
	w.judgeArgs(*c)
	return false
}

// escapes judges what an editor is told to run in a shell.
func (w *walker) escapes(text string) {
	if _, cmd, ok := strings.Cut(text, "!"); ok {
		w.inner(func() { w.source(cmd) })
	}
}
