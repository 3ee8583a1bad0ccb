package policy

import (
	"regexp"
	"slices"
	"strings"
)

// edits reports whether all that an action changes is files of the workspace, by name: one of the editing
// tools, or a command of which nothing else is known to happen.
func (r *report) edits(a Action) bool {
	if !r.shell {
		return writesFiles(a.Tool) && len(r.uses) > 0
	}
	if r.varied != "" {
		return false
	}
	return r.all(func(i int, c command) bool { return c.looks || r.editsBy(i) }) && !slices.ContainsFunc(r.uses, func(u use) bool { return u.redir && !u.editable() })
}

// works reports whether an action is a build or a test, with looking and edits around it, that a sandbox can hold.
func (r *report) works() bool {
	return r.sandboxed && r.all(func(i int, c command) bool { return c.looks || c.builds || r.editsBy(i) }) &&
		!slices.ContainsFunc(r.uses, func(u use) bool { return u.redir && !u.editable() })
}

// stays reports whether the mode leaves an action to a sandbox because all that it can change is the task's own: it works in its own worktree, and on nothing
// but files and that checkout, or is a program that nothing is known of: a script of the workspace may start it as well, and is not asked about.
// What is known to need a network is not among that: somebody has to be asked for it.
func (r *report) stays(a Action) bool {
	return a.Apart && r.sandboxed && freely(a) && r.all(func(i int, c command) bool {
		return !c.reaches && (c.looks || c.builds || c.local || c.offline || r.editsBy(i))
	})
}

// offline reports whether one of the programs may want a network.
func (r *report) offline() bool {
	return slices.ContainsFunc(r.cmds, func(c command) bool { return c.offline })
}

// nearby reports whether nobody is reached but this machine.
func (r *report) nearby() bool {
	return !slices.ContainsFunc(r.hosts, func(h string) bool { return !loopback(h) })
}

// loopback reports whether a host is this machine, whatever its files say.
func loopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.") && strings.Trim(host, "0123456789.") == ""
}

// all reports whether every simple command is of a kind.
func (r *report) all(is func(i int, c command) bool) bool {
	for i, c := range r.cmds {
		if !is(i, c) {
			return false
		}
	}
	return len(r.cmds) > 0 || !r.shell
}

// localPrograms change files and nothing else, and need no network. Any file of the workspace may be gone after them.
var localPrograms = strings.Fields(`rm rmdir unlink mv cp ln chmod install mkdir touch truncate tee rename sponge dos2unix unix2dos sed gsed sort split csplit patch yq
	tar bsdtar zip unzip gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd 7z sqlite3 kill openssl emacs script nohup setsid dd shuf man`)

// gitLocal are the subcommands that work on a checkout and its repository. In a worktree of its own a task can change no branch but its own.
var gitLocal = append([]string{"stash", "tag", "branch", "format-patch", "archive", "init", "bisect", "update-index", "hash-object", "write-tree", "commit-tree"}, gitOwn...)

// editsBy reports whether a simple command changes nothing but files of the workspace.
func (r *report) editsBy(cmd int) bool {
	return r.cmds[cmd].edits && !slices.ContainsFunc(r.uses, func(u use) bool { return u.cmd == cmd && !u.redir && !u.editable() })
}

// freely reports whether the mode lets an action edit the workspace: its rules need not speak of that.
func freely(a Action) bool {
	return !a.Tainted && (a.Mode == ModeAcceptEdits || a.Mode == ModeAuto)
}

// editable reports whether a use is what an edit may do. The history of a repository is nobody's to edit,
// and a glob may lead through a symlink to anywhere.
func (u use) editable() bool {
	switch {
	case u.outside:
		return false
	case u.access == Read || harmlessSink(u.path):
		return true
	case u.redir && !certain(u.path):
		return false
	}
	return !slices.Contains(segments(u.path), ".git")
}

// edited marks a command all of whose changes are the files it names, when that is so: its words are known,
// and it has no flags but these letters and long names.
func (w *walker) edited(c *call, letters string, longs ...string) {
	if !slices.ContainsFunc(c.args, func(a string) bool { return !certain(a) }) && onlyFlags(c.args, letters, longs...) {
		w.r.cmds[c.at].edits = true
	}
}

// onlyFlags reports whether args have no flags but some.
func onlyFlags(args []string, letters string, longs ...string) bool {
	for _, a := range args {
		switch {
		case a == "--":
			return true
		case len(a) < 2 || a[0] != '-':
		case strings.HasPrefix(a, "--"):
			name, _, _ := strings.Cut(a, "=")
			if !slices.Contains(longs, name) {
				return false
			}
		case strings.Trim(a[1:], letters) != "":
			return false
		}
	}
	return true
}

// sedInPlace are the flags with which sed changes the files it names and, with a suffix, others next to them.
var sedInPlace = regexp.MustCompile(`^(-[nErsuz]*i?|-i\.?[a-z0-9]+|-[nErsuz]*e|--in-place(=\.?[a-z0-9]+)?|--expression=(?s:.*)|--quiet|--silent|--regexp-extended|--)$`)

// sedEdited marks a sed that changes files in place. It replaces a link by a file, so that a glob may stand
// for names in one folder.
func (w *walker) sedEdited(c *call, paths []string) {
	for _, a := range c.args {
		if len(a) > 1 && a[0] == '-' && !sedInPlace.MatchString(a) {
			return
		}
	}
	for _, p := range paths {
		if unknown(p) || !certain(p[:strings.LastIndexByte(p, '/')+1]) || strings.ContainsRune(p, markBelow) {
			return
		}
	}
	w.r.cmds[c.at].edits = true
}
