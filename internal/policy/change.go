package policy

import (
	"path"
	"slices"
	"strings"
)

// changers are the commands that change files.
func changers() map[string]handler {
	return map[string]handler{
		"rm": remove, "rmdir": remove, "unlink": remove, "shred": remove, "srm": remove, "trash": remove, "mv": move,
		"chmod": rights, "chown": rights, "chgrp": rights, "setfacl": rights, "chattr": rights,
		"truncate": writeAll, "touch": writeAll, "mkdir": writeAll, "tee": writeAll, "mkfifo": writeAll, "mknod": writeAll, "patch": writeAll,
		"sponge": writeAll, "split": writeAll,
		"cp": copyTo, "install": copyTo, "ln": link, "rsync": copyTo, "scp": copyTo, "dd": dd,
		"gofmt": formats("w", "-w"), "goimports": formats("w", "-w"), "gofumpt": formats("w", "-w"), "prettier": formats("w", "--write"),
		"cd": cd, "pushd": cd, "popd": lost, "shopt": options, "set": options, "enable": options, "hash": options,
		"mkfs": disk, "wipefs": disk, "fdisk": disk, "sfdisk": disk, "cfdisk": disk, "sgdisk": disk, "gdisk": disk, "parted": disk,
		"blkdiscard": disk, "mkswap": disk, "badblocks": disk, "hdparm": disk, "cryptsetup": disk, "lvremove": disk, "vgremove": disk,
		"pvremove": disk, "mdadm": disk, "zpool": disk, "zfs": disk,
	}
}

// destroyed judges paths that would be gone or unusable.
func (w *walker) destroyed(c *call, paths []string) {
	for _, a := range paths {
		w.touch(a, Write, c.at, false, true)
		if !unknown(a) {
			w.guess(a, guess{writes: true, whole: true})
		}
	}
}

func remove(w *walker, c *call) bool {
	w.guardFlags(c)
	w.destroyed(c, positional(c.args))
	return false
}

// guardFlags asks when a word may be anything.
func (w *walker) guardFlags(c *call) {
	for _, a := range c.args {
		if strings.ContainsRune(a, markWords) {
			w.r.add(Ask, askUnknown, "%s is given %s, which is known only when it runs.", c.name, shorten(readable(a)))
		}
	}
}

func move(w *walker, c *call) bool {
	w.guardFlags(c)
	pos := positional(c.args)
	if !flag(c.args, "t", "--target-directory") && len(pos) > 1 {
		w.taken(c, pos[:len(pos)-1])
		w.destroyed(c, pos[:len(pos)-1])
		w.into(c, pos[:len(pos)-1], pos[len(pos)-1])
		return false
	}
	w.taken(c, pos)
	w.destroyed(c, pos)
	w.suspectAll(c)
	return false
}

// into judges files that are put to a place, which may be a folder.
func (w *walker) into(c *call, from []string, to string) {
	w.touch(to, Write, c.at, false, false)
	for _, f := range from {
		if !unknown(to) && !unknown(f) && !harmlessSink(to) {
			w.touch(strings.TrimSuffix(to, "/")+"/"+path.Base(f), Write, c.at, false, false)
		}
	}
}

// suspectAll judges all words for the floor, and those of flags as what nothing is known of.
func (w *walker) suspectAll(c *call) {
	for _, a := range c.args {
		w.suspect(a, Write)
		if strings.HasPrefix(a, "-") {
			w.strange(*c, []string{a}, mayTouch)
		}
	}
}

// taken notes files that are in another place, or have another name, afterwards: what is in them can be read there, and of a folder all that is below it.
func (w *walker) taken(c *call, paths []string) {
	for _, a := range paths {
		w.touch(a, Read, c.at, false, false)
		if !unknown(a) {
			w.guess(a, guess{reads: true, whole: true})
		}
	}
}

// rights are taken or given. A whole workspace may be given other rights; a home or the system may not.
func rights(w *walker, c *call) bool {
	w.guardFlags(c)
	pos := positional(c.args)
	if len(pos) > 0 && !flag(c.args, "", "--reference") {
		pos = pos[1:]
	}
	for _, a := range pos {
		own := !slices.ContainsFunc(w.each(a), func(at string) bool { return at != w.p.place.Workspace })
		w.touch(a, Write, c.at, false, !own)
	}
	return false
}

func writeAll(w *walker, c *call) bool {
	w.guardFlags(c)
	for _, a := range positional(c.args) {
		w.touch(a, Write, c.at, false, c.name == "truncate")
	}
	w.suspectAll(c)
	switch c.name {
	case "mkdir":
		w.edited(c, "pvm", "--parents", "--verbose")
	case "touch":
		w.edited(c, "acmdt", "--no-create", "--date")
	case "tee":
		w.edited(c, "aip", "--append")
	}
	return false
}

func copyTo(w *walker, c *call) bool {
	w.guardFlags(c)
	pos := positional(c.args)
	for _, a := range pos {
		if host, _, ok := strings.Cut(a, ":"); ok && !strings.Contains(host, "/") && c.name != "cp" && c.name != "install" {
			if _, h, at := strings.Cut(host, "@"); at {
				host = h
			}
			w.r.host(readable(host))
		}
	}
	if c.name == "rsync" && flag(c.args, "e", "--rsh", "--rsync-path") {
		w.r.add(Ask, askRuns, "rsync is told which command to run.")
		for _, a := range pos {
			w.inner(func() { w.sourceIfCommand(a) })
		}
	}
	if len(pos) < 2 || flag(c.args, "t", "--target-directory") && c.name != "rsync" {
		w.taken(c, pos)
		for _, a := range pos {
			w.touch(a, Write, c.at, false, false)
		}
		w.suspectAll(c)
		return false
	}
	last := pos[len(pos)-1]
	w.taken(c, pos[:len(pos)-1])
	from := pos[:len(pos)-1]
	if c.name == "rsync" { // what is left out is not put anywhere
		from = positional(without(c.args, "--exclude", "--include"))
		from = from[:max(0, len(from)-1)]
	}
	w.into(c, from, last)
	if flag(c.args, "", "--delete", "--delete-after", "--delete-before", "--remove-source-files") {
		w.destroyed(c, pos)
	}
	w.suspectAll(c)
	if c.name == "cp" && !slices.ContainsFunc(pos, func(a string) bool { return path.Base(a) == ".." }) {
		w.edited(c, "pvnu", "--preserve", "--verbose", "--no-clobber", "--update")
	}
	return false
}

// link judges both ends: what a link leads to can be reached through it. A symlink leads from the folder
// it lies in, which is not the one the command runs in.
func link(w *walker, c *call) bool {
	w.guardFlags(c)
	pos := positional(c.args)
	w.taken(c, pos[:max(len(pos)-1, min(1, len(pos)))])
	for _, a := range pos {
		w.touch(a, Write, c.at, false, false)
	}
	if len(pos) != 2 || !certain(pos[0]) || !certain(pos[1]) || slices.ContainsFunc(w.dirs, unknown) {
		return false
	}
	for _, dir := range w.dirs {
		at := w.p.canonical(dir, pos[1], w.links)
		to := w.p.canonical(dir, pos[0], w.links)
		within := to // at may be a folder: then the link lies in it
		if flag(c.args, "s", "--symbolic") {
			to, within = w.p.canonical(path.Dir(at), pos[0], w.links), w.p.canonical(at, pos[0], w.links)
			w.touch(to, Write, c.at, false, false)
			w.touch(within, Write, c.at, false, false)
			w.edited(c, "sv", "--symbolic", "--verbose")
		}
		w.links[at] = to
		w.links[path.Join(at, path.Base(to))] = within
	}
	return false
}

func dd(w *walker, c *call) bool {
	w.guard(c, c.args)
	for _, a := range c.args {
		switch name, val, _ := strings.Cut(a, "="); name {
		case "of":
			w.touch(w.tilde(val), Write, c.at, false, false)
		case "if":
			w.touch(w.tilde(val), Read, c.at, false, false)
		}
	}
	return false
}

func (w *walker) tilde(s string) string {
	if s == "~" || strings.HasPrefix(s, "~/") {
		return w.p.place.Home + s[1:]
	}
	return s
}

// formats are tools that show what they would write, unless they are told to write it.
func formats(letters, long string) handler {
	return func(w *walker, c *call) bool {
		w.guard(c, c.args)
		access := Read
		if slices.Contains(c.args, long) || flag(c.args, letters, long, "--write") || c.name == "prettier" && flag(c.args, "", "--plugin", "--config") {
			access = Write
		}
		for _, a := range positional(c.args) {
			w.touch(a, access, c.at, false, false)
		}
		if c.name != "prettier" && !slices.ContainsFunc(c.args, func(a string) bool {
			return strings.HasPrefix(a, "-") && !slices.Contains([]string{"-w", "-s", "-l", "-d", "-e"}, a)
		}) {
			w.edited(c, "wslde")
		}
		return false
	}
}

// cd follows the shell into another folder. It may fail, and what follows then runs where it was.
func cd(w *walker, c *call) bool {
	pos := positional(c.args)
	to := []string{string(markValue)}
	switch _, elsewhere := w.vars["CDPATH"]; {
	case elsewhere || c.name == "pushd" && len(pos) == 0:
	case len(pos) == 0:
		if home, ok := w.vars["HOME"]; ok {
			to = []string{home}
		}
	case len(pos) == 1 && pos[0] != "-" && certain(pos[0]):
		to = w.goes(pos[0])
	}
	w.went, w.dirs = to, mergeDirs(to, w.dirs)
	delete(w.vars, "OLDPWD")
	delete(w.vars, "PWD")
	return true
}

// goes is where a cd leads to from wherever it may be.
func (w *walker) goes(word string) (to []string) {
	to = w.each(word)
	for _, dir := range w.dirs {
		// The shell goes up from the name it came by, the kernel from the folder.
		named := path.Clean(word)
		if !path.IsAbs(named) {
			named = path.Join(dir, named)
		}
		w.linked = w.linked || !slices.Contains(to, named)
	}
	if w.linked && strings.Contains(word, "..") {
		return []string{string(markValue)}
	}
	return to
}

// each is what a word may mean as a path, from wherever it may be.
func (w *walker) each(word string) (paths []string) {
	for _, dir := range w.dirs {
		at := string(markValue)
		switch {
		case path.IsAbs(word):
			at = w.p.canonical("/", word, w.links)
		case !unknown(dir) && !unknown(word):
			at = w.p.canonical(dir, word, w.links)
		}
		paths = mergeDirs(paths, []string{at})
	}
	return paths
}

// inWorkspace reports whether a path lies in the workspace, from wherever it may be.
func (w *walker) inWorkspace(word string) bool {
	return !slices.ContainsFunc(w.each(word), func(at string) bool { return under(at, w.p.place.Workspace) != yes })
}

// inTemp reports whether a word is a path in the private temp folder: what lies there a command of the task has made.
func (w *walker) inTemp(word string) bool {
	return !slices.ContainsFunc(w.each(word), func(at string) bool { return !w.p.inTemp(at) })
}

func lost(w *walker, _ *call) bool {
	w.dirs = []string{string(markValue)}
	delete(w.vars, "PWD")
	return true
}

func printf(w *walker, c *call) bool {
	if len(c.args) > 0 && maybeFlag(c.args[0]) {
		w.r.add(Ask, askUnknown, "What printf prints or sets is known only when it runs.")
	}
	return true
}

// options change how the shell reads what follows.
func options(w *walker, c *call) bool {
	for _, a := range c.args {
		if strings.HasPrefix(a, "-") && strings.Trim(a, "-euxo") == "" || a == "pipefail" || a == "errexit" || a == "nounset" || a == "xtrace" {
			continue
		}
		w.r.add(Ask, askEnv, "%s %s changes how the shell reads the rest.", c.name, readable(a))
	}
	return len(c.args) > 0 || c.name != "set"
}

func disk(w *walker, c *call) bool {
	if len(c.args) > 0 && slices.Contains([]string{"-l", "--list", "list", "status", "--version", "--help", "get"}, c.args[0]) {
		return false
	}
	for _, a := range c.args {
		if strings.HasPrefix(a, "/dev/") || unknown(a) {
			w.r.add(Deny, floorDisk, "%s changes a whole disk.", c.name)
			return false
		}
	}
	switch c.name {
	case "zpool", "zfs", "lvremove", "vgremove", "pvremove", "mdadm", "cryptsetup", "parted":
		w.r.add(Deny, floorDisk, "%s changes whole disks.", c.name)
	}
	w.judgeArgs(*c)
	return false
}
