package policy

import (
	"path"
	"slices"
	"strings"
)

// gitOwn are the subcommands whose changes stay in the checkout and on its branch: in two worktrees of a repository they can be at work at
// the same time.
var gitOwn = []string{
	"add", "rm", "mv", "commit", "restore", "reset", "checkout", "switch", "merge", "rebase", "cherry-pick", "revert", "am", "apply", "clean",
}

// gitRunning are settings by which git runs a command or reads settings from elsewhere.
var gitRunning = []string{
	"core.hookspath", "core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.askpass", "core.gitproxy", "core.attributesfile",
	"core.worktree", "core.alternaterefscommand", "sequence.editor", "alias.*", "pager.*", "credential.*", "diff.external", "diff.*.command",
	"diff.*.textconv",
	"difftool.*", "mergetool.*", "merge.*.driver", "filter.*", "gpg.program", "gpg.*.program", "gpg.ssh.defaultkeycommand", "include.path",
	"includeif.*", "init.templatedir", "protocol.*", "remote.*.uploadpack", "remote.*.receivepack", "remote.*.vcs", "remote.*.proxy", "uploadpack.*",
	"receive.*", "submodule.*.update", "url.*", "http.proxy", "http.*.proxy", "http.sslverify", "http.cookiefile",
	"man.*", "browser.*", "web.browser", "help.browser", "interactive.difffilter", "trailer.*", "sendemail.*", "instaweb.*", "guitool.*", "imap.*",
	"notes.*", "tar.*", "ssh.variant", "safe.directory", "extensions.*", "core.repositoryformatversion",
}

// gitHarmless are settings that change only how things look, or who commits.
var gitHarmless = []string{
	"color.*", "user.*", "advice.*", "log.*", "core.quotepath", "core.autocrlf", "core.abbrev", "core.eol", "commit.gpgsign", "tag.gpgsign",
	"init.defaultbranch", "diff.*", "merge.*", "pull.*", "rebase.*", "column.*", "format.*", "status.*", "core.ignorecase", "core.filemode",
	"core.precomposeunicode", "gc.*", "maintenance.*", "fetch.*", "rerere.*", "blame.*", "grep.*", "push.default", "branch.*",
}

// gitLooking are settings that a command which only looks may be given: each is about how something is shown, and names no file.
var gitLooking = []string{
	"color.*", "column.*", "advice.*", "log.date", "log.decorate", "log.follow", "log.abbrevcommit", "log.graphcolors", "core.quotepath", "core.abbrev", "core.ignorecase",
	"diff.renames", "diff.renamelimit", "diff.algorithm", "diff.context", "diff.interhunkcontext", "diff.noprefix", "diff.mnemonicprefix", "diff.colormoved", "diff.wordregex",
	"diff.statgraphwidth", "diff.suppressblankempty", "diff.indentheuristic", "blame.date", "blame.coloring", "blame.showemail", "blame.blankboundary", "grep.linenumber",
	"grep.patterntype", "grep.extendedregexp", "grep.column", "status.short", "status.branch", "status.showuntrackedfiles", "status.relativepaths", "user.name", "user.email",
}

func matchesAny(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		ok, _ := path.Match(g, strings.ReplaceAll(s, "/", "_"))
		return ok
	})
}

// gitSetting judges a setting that is given or stored. An alias is a command as well.
func (w *walker) gitSetting(key, val string) {
	key = strings.ToLower(key)
	switch {
	case !certain(key):
		w.r.add(Ask, askUnknown, "Which setting of git %s is, is known only when it runs.", readable(key))
	case quietSetting(key, val):
	case matchesAny(gitRunning, key):
		w.r.add(Deny, floorHooks, "By %s git runs a command, or trusts what it should not.", key)
		w.inner(func() { w.sourceIfCommand(strings.TrimPrefix(val, "!")) })
	case !matchesAny(gitHarmless, key):
		w.r.add(Ask, askEnv, "The setting %s of git is not known to be harmless.", shorten(key))
	}
}

// quietSetting reports whether a setting turns something off that would run a program.
func quietSetting(key, val string) bool {
	switch {
	case key == "core.pager" || strings.HasPrefix(key, "pager."):
		return val == "" || val == "cat" || val == "false"
	case key == "core.editor":
		return val == "true" || val == ":"
	case key == "core.fsmonitor":
		return val == "false"
	}
	return key == "core.hookspath" && val == "/dev/null"
}

// gitValued are the flags before a subcommand whose value may be the next word.
var gitValued = []string{"-C", "-c", "--git-dir", "--work-tree", "--exec-path", "--namespace", "--config-env", "--super-prefix", "--attr-source"}

// gitCommand judges a git that is not known to look.
func gitCommand(w *walker, c *call) bool {
	args, own := c.args, true
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		a := args[0]
		w.guard(c, args[:1])
		name, val, eq := strings.Cut(a, "=")
		step := 1
		if !eq && len(args) > 1 && slices.Contains(gitValued, a) {
			val, step = args[1], 2
		}
		switch {
		case a == "-C":
			dirs := w.dirs
			defer func() { w.dirs = dirs }()
			if !certain(val) || slices.ContainsFunc(dirs, unknown) {
				w.r.add(Ask, askUnknown, "The folder %s is known only when it runs.", readable(val))
			} else {
				w.touch(val, Read, c.at, false, false)
				w.dirs = w.each(val)
			}
		case a == "-c":
			key, v, _ := strings.Cut(val, "=")
			w.gitSetting(key, v)
		case strings.HasPrefix(a, "-c") && len(a) > 2:
			key, v, _ := strings.Cut(a[2:], "=")
			w.gitSetting(key, v)
		case name == "--exec-path" && (eq || step == 2):
			w.r.add(Deny, floorHooks, "--exec-path makes git run other programs in place of its own.")
		case name == "--config-env":
			key, _, _ := strings.Cut(val, "=")
			w.gitSetting(key, string(markValue))
		case name == "--git-dir" || name == "--work-tree" || name == "--namespace" || name == "--attr-source":
			own = false
			w.r.add(Ask, askEnv, "git %s works on another repository.", a)
			w.suspect(val, Write)
		case slices.Contains([]string{"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects", "--version", "--help", "-h", "-v", "--glob-pathspecs", "--icase-pathspecs", "--exec-path", "--html-path", "--man-path", "--info-path"}, a):
		default:
			w.r.add(Ask, askEnv, "The flag %s of git is not known to be harmless.", readable(a))
		}
		args = args[step:]
	}
	if len(args) == 0 {
		return true
	}
	sub, rest := args[0], args[1:]
	if !certain(sub) {
		w.r.add(Ask, askUnknown, "What git is told by %s is known only when it runs.", readable(sub))
		return false
	}
	here := own && !slices.ContainsFunc(w.dirs, func(d string) bool { return under(d, w.p.place.Workspace) != yes })
	w.r.cmds[c.at].own, w.r.cmds[c.at].local = here && slices.Contains(gitOwn, sub), here && slices.Contains(gitLocal, sub)
	w.gitSub(c, sub, rest)
	if sub == "add" && w.ownRepository("git add") {
		w.gitAdd(c, rest)
	}
	return false
}

func (w *walker) gitSub(c *call, sub string, args []string) {
	w.gitRunners(c, sub, args)
	first := ""
	if pos := positional(args); len(pos) > 0 {
		first = pos[0]
	}
	for _, a := range args {
		if unknown(a) && (maybeFlag(a) || sub == "push" || sub == "config") {
			w.r.add(Ask, askUnknown, "git %s is given %s, which is known only when it runs.", sub, shorten(readable(a)))
		}
	}
	w.gitPaths(sub, args)
	switch sub {
	case "mv", "hash-object":
		w.taken(c, positional(args))
	case "push", "send-pack":
		w.push(args)
	case "config":
		w.gitConfig(c, args)
	case "remote":
		for _, a := range positional(args) {
			w.gitHost(a)
		}
	case "credential", "credential-store", "credential-cache":
		w.r.add(Deny, floorCredentials, "git %s tells a password, or stores one.", sub)
	case "daemon", "upload-pack", "receive-pack", "shell", "send-email", "fast-import":
		w.r.add(Ask, askRuns, "git %s speaks to others.", sub)
	case "clone", "fetch", "pull", "ls-remote":
		w.gitHost(first)
	}
	for i, a := range args {
		name, val, ok := strings.Cut(a, "=")
		if short, found := strings.CutPrefix(a, "-o"); found && slices.Contains(gitOutputs, sub) {
			name, val, ok = "--output", short, short != ""
		}
		if name == "--output" || name == "--output-directory" {
			if !ok && i+1 < len(args) {
				val = args[i+1]
			}
			w.touch(val, Write, c.at, false, false)
		}
	}
}

// gitOutputs are the subcommands whose -o names where they write.
var gitOutputs = []string{"archive", "format-patch"}

// gitAdd marks what puts files of the workspace on the list of those to commit: nothing of them changes.
func (w *walker) gitAdd(c *call, args []string) {
	if slices.ContainsFunc(args, func(a string) bool { return unknown(a) || maybeFlag(a) }) ||
		!onlyFlags(args, "AunvN", "--all", "--update", "--verbose", "--dry-run", "--intent-to-add", "--no-all") {
		return
	}
	for _, a := range positional(args) {
		w.touch(a, Read, c.at, false, false)
	}
	w.r.cmds[c.at].edits = true
}

// gitRecords are the subcommands that change no file that they are given.
var gitRecords = []string{"add", "commit", "branch", "tag", "push", "fetch", "remote", "config", "notes", "commit-tree", "update-ref", "update-index", "write-tree", "hash-object"}

// gitPaths judges words that may be paths of what is kept.
func (w *walker) gitPaths(sub string, args []string) {
	for i, a := range args {
		if i > 0 && slices.Contains([]string{"-m", "-am", "--message"}, args[i-1]) {
			continue // words for people
		}
		w.suspect(a, Write)
		if slices.Contains(gitRecords, sub) {
			continue
		}
		if unknown(a) {
			w.r.may.reads, w.r.may.writes = true, true
		}
		for _, part := range w.wordParts(a) {
			w.guess(part, guess{reads: true, writes: true, whole: true})
		}
	}
}

// gitHost finds the machine in an address. The transport ext:: runs a command.
func (w *walker) gitHost(addr string) {
	if strings.Contains(addr, "::") {
		w.r.add(Ask, askRuns, "The address %s makes git run a command.", shorten(readable(addr)))
		_, src, _ := strings.Cut(addr, "::")
		w.inner(func() { w.sourceIfCommand(src) })
	}
	if _, rest, ok := strings.Cut(addr, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if _, h, at := strings.Cut(host, "@"); at {
			host = h
		}
		host, _, _ = strings.Cut(host, ":")
		w.r.host(readable(host))
	} else if before, _, ok := strings.Cut(addr, ":"); ok && !strings.Contains(before, "/") {
		if _, h, at := strings.Cut(before, "@"); at {
			before = h
		}
		w.r.host(readable(before))
	}
}

// gitRunners judges the words by which subcommands run others.
func (w *walker) gitRunners(c *call, sub string, args []string) {
	runs := func(src string) {
		w.r.add(Ask, askRuns, "git %s runs a command of its own: %s.", sub, shorten(readable(src)))
		w.nested(c, func() { w.inner(func() { w.source(src) }) })
	}
	for i, a := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		name, val, eq := strings.Cut(a, "=")
		if !eq {
			val = next
		}
		switch {
		case len(name) > 5 && (strings.HasPrefix("--upload-pack", name) || strings.HasPrefix("--receive-pack", name)), name == "--exec" && sub != "rebase",
			a == "-u" && sub == "clone":
			runs(val)
		case sub == "rebase" && (name == "--exec" || name == "-x"), sub == "difftool" && (name == "-x" || name == "--extcmd"), strings.HasSuffix(name, "-filter") && sub == "filter-branch":
			runs(val)
		case sub == "clone" && (name == "--config" || name == "-c"):
			key, v, _ := strings.Cut(val, "=")
			w.gitSetting(key, v)
		case name == "--template" && (sub == "clone" || sub == "init"):
			w.r.add(Ask, askRuns, "git %s --template brings hooks along.", sub)
		case sub == "submodule" && a == "foreach", sub == "bisect" && a == "run", sub == "for-each-repo" && i == len(args)-1:
			runs(strings.Join(args[i+1:], " "))
			return
		}
	}
}

// gitConfig judges settings that are written.
func (w *walker) gitConfig(c *call, args []string) {
	pos := positional(args)
	if flag(args, "e", "--edit") || len(pos) > 0 && pos[0] == "edit" {
		w.r.add(Ask, askRuns, "git config --edit opens the settings in an editor.")
		return
	}
	if len(pos) > 0 && slices.Contains([]string{"get", "list", "set", "unset", "rename-section", "remove-section"}, pos[0]) {
		pos = pos[1:]
	}
	for i, a := range args {
		if name, val, eq := strings.Cut(a, "="); name == "--file" || name == "-f" {
			if !eq && i+1 < len(args) {
				val = args[i+1]
			}
			w.suspect(val, Write)
			w.r.add(Ask, askEnv, "git config --file uses settings of %s.", readable(val))
		}
	}
	pos = slices.DeleteFunc(slices.Clone(pos), func(a string) bool { return !strings.Contains(a, ".") && len(pos) > 2 })
	switch len(pos) {
	case 0:
	case 1:
		w.gitSetting(pos[0], "")
	default:
		w.gitSetting(pos[0], pos[1])
	}
}

// push judges what is sent where. A branch that is protected may only be added to.
func (w *walker) push(args []string) {
	force := flag(args, "f", "--force", "--force-with-lease", "--force-if-includes")
	remove := flag(args, "d", "--delete", "--prune")
	if flag(args, "", "--mirror") {
		w.r.add(Deny, floorPush, "git push --mirror overwrites and removes every branch there.")
		return
	}
	pos := positional(without(args, "-o", "--push-option", "--receive-pack", "--exec", "--repo"))
	if len(pos) > 0 {
		w.gitHost(pos[0])
		pos = pos[1:]
	}
	for _, ref := range pos {
		plus := strings.HasPrefix(ref, "+")
		ref = strings.TrimPrefix(ref, "+")
		src, dst, split := strings.Cut(ref, ":")
		if !split {
			dst = src
		}
		if !(force || remove || plus || split && src == "") {
			continue
		}
		dst = strings.TrimPrefix(strings.TrimPrefix(dst, "refs/"), "heads/")
		switch m := w.protected(dst); {
		case m == yes:
			w.r.add(Deny, floorPush, "The branch %s is protected: its history is not overwritten or removed.", readable(dst))
		case m == could:
			w.r.add(Ask, floorPush, "Whether %s is a protected branch is known only when it runs.", readable(dst))
		}
	}
	if (force || remove) && len(pos) == 0 {
		if flag(args, "", "--all", "--branches") {
			w.r.add(Deny, floorPush, "It overwrites every branch there, the protected ones too.")
			return
		}
		w.r.add(Ask, floorPush, "Which branch is overwritten is known only when it runs.")
	}
}

func (w *walker) protected(branch string) match {
	if branch == "HEAD" || branch == "@" || branch == "" || unknown(branch) {
		return could
	}
	for _, b := range w.p.branches {
		if ok, _ := path.Match(b, branch); ok || b == branch || strings.Contains(branch, "*") {
			return yes
		}
		if globbed(branch) {
			return could
		}
	}
	return no
}
