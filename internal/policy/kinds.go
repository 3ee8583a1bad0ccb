package policy

import (
	"regexp"
	"slices"
	"strings"
)

// kinds say which words a command may be given, and note those that are paths. They are set in init, as they use the
// table that names them.
var kinds map[string]func(m *matching, words []string) bool

func init() {
	kinds = map[string]func(m *matching, words []string) bool{
		"any":      func(*matching, []string) bool { return true },
		"plain":    allPlain,
		"searches": func(m *matching, _ []string) bool { m.given["unforeseen"] = true; return true },
		"text":     func(*matching, []string) bool { return true },
		"pretty": func(_ *matching, ws []string) bool {
			return certain(ws[0]) && !strings.Contains(ws[0], "%G") && !strings.Contains(ws[0], "(signature")
		}, // they run gpg
		"path":      func(m *matching, ws []string) bool { return m.reads(ws[0], false) },
		"walk":      func(m *matching, ws []string) bool { return m.reads(ws[0], true) },
		"root":      root,
		"file":      func(m *matching, ws []string) bool { return plainFile(ws[0]) && m.reads(ws[0], false) },
		"cert":      certificate,
		"pagerfile": func(m *matching, ws []string) bool { return pagerCommand.MatchString(ws[0]) || m.reads(ws[0], false) },
		"shown":     func(_ *matching, ws []string) bool { return slices.Contains(shownVariables, ws[0]) },
		"sink":      func(_ *matching, ws []string) bool { return harmlessSink(ws[0]) },
		"pkg":       func(m *matching, ws []string) bool { return !strings.Contains(ws[0], "@") && m.text(ws[0]) },
		"rev":       revision,
		"dir":       folder,
		"set":       func(m *matching, ws []string) bool { return harmlessSetting(ws[0]) },
		"setread":   readsSetting,
		"branches":  func(m *matching, ws []string) bool { m.given["operand"] = true; return m.text(ws[0]) },
		"sed":       func(m *matching, ws []string) bool { return m.program(ws[0], sedLooks().MatchString) },
		"awk":       func(m *matching, ws []string) bool { return m.program(ws[0], awkLooks) },
		"awkfile":   awkFile,
		"jq": func(m *matching, ws []string) bool {
			return m.program(ws[0], func(s string) bool { return !jqReaches.MatchString(s) })
		},
		"yq":       yqProgram,
		"date":     func(_ *matching, ws []string) bool { return strings.HasPrefix(ws[0], "+") },
		"field":    func(_ *matching, ws []string) bool { return certain(ws[0]) && noneOf("env")(ws[0]) },
		"jqpick":   func(m *matching, ws []string) bool { return certain(ws[0]) && jqPlain(ws[0]) },
		"kube":     kubeOutput,
		"kubekind": kubeKind,
		"kubename": kubeName,
		"tarlist":  tarLists,
		"version": func(_ *matching, ws []string) bool {
			return len(ws) == 1 && slices.Contains([]string{"--version", "--help"}, ws[0])
		},
		"versions": func(_ *matching, ws []string) bool { return len(ws) == 1 && slices.Contains(versionWords, ws[0]) },
		"helps":    func(_ *matching, ws []string) bool { return helps(ws) },
		"id": func(_ *matching, ws []string) bool {
			return idText.MatchString(ws[0]) && !strings.Contains(ws[0], "arn:")
		},
		"dryrun": func(_ *matching, ws []string) bool {
			return slices.ContainsFunc(ws, func(w string) bool { return slices.Contains(dryRuns, w) })
		},
		"script":  namesScript,
		"build":   func(*matching, []string) bool { return true },
		"program": func(*matching, []string) bool { return true },
	}
	for name, shape := range shapes {
		kinds[name] = func(_ *matching, ws []string) bool { return shape.MatchString(ws[0]) }
	}
}

// shapes are the kinds of words that a pattern describes.
var shapes = map[string]*regexp.Regexp{
	"name":      plainText,
	"toolchain": regexp.MustCompile(`^\+[a-z0-9][a-z0-9.-]*$`),
	"loopback":  regexp.MustCompile(`^(localhost|127\.0\.0\.1|::1)$`),
	"page":      regexp.MustCompile(`^[A-Za-z0-9_.:@%+-]+$`), // with a slash it would be a file
	"ps":        regexp.MustCompile(`^[aAxuTrwfjlsvm]+$|^[0-9]+$`),
	"sqlite":    regexp.MustCompile(`^\.(tables|schema|indexes|databases)( [A-Za-z0-9_%]+)?$|^(?i:select) (\*|count\(\*\)|[a-z0-9_, ]+) (?i:from) [a-z0-9_]+( (?i:limit) [0-9]+)?;?$`),
	"psql":      regexp.MustCompile(`^\\(l|d|dt|dn|di|dv|ds|dx|df|du|conninfo)\+?( [A-Za-z0-9_.*]+)?$|^(?i:select (1|version\(\)|now\(\)|current_database\(\)));?$`),
	"mysql":     regexp.MustCompile(`^(?i:show (databases|tables|engines|status)|(describe|show columns from) [a-z0-9_]+|select (1|version\(\)|now\(\)|database\(\)));?$`),
	// What is asked of the API of a forge without changing anything there. By graphql something may be changed, and with // another host be named.
	"get":      regexp.MustCompile(`^(GET|get)$`),
	"accept":   regexp.MustCompile(`^Accept: [A-Za-z0-9./+;=, *-]+$|^X-GitHub-Api-Version: [0-9-]+$`),
	"endpoint": regexp.MustCompile(`^/?(repos|users?|orgs|search|issues|notifications|projects|groups|rate_limit|gists|events|licenses|meta|emojis)(/\.?[A-Za-z0-9_~%:@{}+,-][A-Za-z0-9_.~%:@{}+,-]*)*(\?[A-Za-z0-9_.~%:@{}+,&=/-]*)?$`),
	// Fields of a container, and columns of a list, but none of what a program gets as its environment.
	"inspect": regexp.MustCompile(`^([^{}]|\{\{ ?(json )?\.(State|Name|Id|Image|Created|Path|Platform|Driver|RestartCount|NetworkSettings|Mounts|RepoTags|RepoDigests|Architecture|Os|Size|Config\.Image|Config\.ExposedPorts|HostConfig\.(RestartPolicy|PortBindings|NetworkMode|Memory))(\.[A-Za-z0-9_.]+)? ?\}\})+$`),
	"columns": regexp.MustCompile(`^(table|value|csv)(\[[a-z-]+\])?\((name|id|status|state|zone|region|location|networkIP|externalIP|machineType|createTime|creationTimestamp|metadata\.name|status\.url|databaseVersion|,| )+\)$`),
}

// namePart is a part of a name, with what tells which one of that name.
const namePart = `[A-Za-z0-9_.%+-]+(:[A-Za-z0-9_.%+-]+)*(@(sha256:)?[A-Za-z0-9_.%+-]+)?`

// dryRuns are the flags with which a program says what it would do, or does it with what is there.
var dryRuns = []string{"--dry-run", "--dry-run=client", "--dry-run=server", "--dryrun", "--check", "--syntax-check", "--list-tasks", "--list-hosts", "--list-tags", "--draft", "--simulate", "--snapshot", "--no-act", "--offline"}

// scriptNames are what projects call their builds and tests.
var scriptNames = strings.Fields(`build bundle check ci clean codegen compile coverage dev docs e2e fmt format generate lint preview start storybook test typecheck
	type-check types unit validate verify`)

// namesScript reports whether the first word is a script of the project by its usual name, perhaps with more of it after a colon, or a program that builds
// or tests.
func namesScript(_ *matching, ws []string) bool {
	if len(ws) == 0 {
		return false
	}
	name, _, _ := strings.Cut(ws[0], ":")
	builds := func(e *entry) bool { return e.class == classBuild && e.free }
	return slices.Contains(scriptNames, name) || slices.ContainsFunc(known()[ws[0]], builds)
}

// helps reports whether a program is asked for its version, or for help on a subcommand, and nothing else.
func helps(ws []string) bool {
	if len(ws) == 0 || len(ws) > 4 {
		return false
	}
	first, last := ws[0], ws[len(ws)-1]
	others := ws[:len(ws)-1]
	switch {
	case len(ws) == 1:
		return slices.Contains(versionWords, first)
	case slices.Contains([]string{"--help", "-h", "-help", "help"}, last):
	case first == "help":
		others = ws[1:]
	case first == "version" || first == "--version":
		return strings.HasPrefix(last, "--") && len(ws) == 2 && subcommand.MatchString(last[2:])
	default:
		return false
	}
	return !slices.ContainsFunc(others, func(w string) bool { return !subcommand.MatchString(w) })
}

var versionWords = []string{"--version", "--help", "-V", "-v", "-version", "-vV", "-h", "version", "help", "doctor"}

var (
	// What follows an @ is a version or a digest: git@host:name would be an address.
	plainText = regexp.MustCompile(`^(@?` + namePart + `)?(/` + namePart + `)?$`)
	// What reads more than it is given: the environment, and other files. A field may have such a name.
	jqReaches    = regexp.MustCompile(`(^|[^.\w])env\b|\$([\s#]|ENV|__prog)|\b(import|include|input_filename|modulemeta)\b`)
	yqReaches    = regexp.MustCompile(`(^|[^.\w])(env|strenv|envsubst|(str)?load\w*|system|eval)\b|\$([\s#]|ENV)`)
	pagerCommand = regexp.MustCompile(`^\+(G|g|F|\d+[Gg]?)$`) // to the end, to a line: others run programs
	subcommand   = regexp.MustCompile(`^[a-z][a-z0-9:_-]*$`)
	// The name of something that a service has: no address, and by @ and file: no file.
	idText = regexp.MustCompile(`^[A-Za-z0-9_.:%+=,*-]*(/[A-Za-z0-9_.:%+=,*-]+)*$`)
)

// shownVariables hold no secrets.
var shownVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "PWD", "TMPDIR", "GOPATH", "GOROOT", "JAVA_HOME", "VIRTUAL_ENV", "NVM_DIR"}

// text reports that a word may be any text. The first character of one that is known only when it runs may be a dash:
// flagLike has seen to that.
func (m *matching) text(string) bool { return true }

// reads notes a path. By @ some programs read their words from a file, and by + pagers take commands.
func (m *matching) reads(word string, walk bool) bool {
	if strings.HasPrefix(word, "@") || strings.HasPrefix(word, "+") {
		return false
	}
	if word != "-" {
		m.paths = append(m.paths, pathWord{word: word, walk: walk || m.given["walk"]})
	}
	return true
}

// program judges a program in one of the small languages. One that is not known needs a sandbox.
func (m *matching) program(text string, looks func(string) bool) bool {
	if !certain(text) {
		m.soften(text)
		return true
	}
	return looks(text)
}

func noneOf(parts ...string) func(string) bool {
	return func(s string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
	}
}

// plainFile reports whether a word is a file for programs that take addresses as well, as http:// or file:.
func plainFile(word string) bool { return !strings.Contains(word, ":") }

// certificate is a file of which only a certificate is shown, though there may be a key in it.
func certificate(m *matching, ws []string) bool {
	if !plainFile(ws[0]) || !m.reads(ws[0], false) {
		return false
	}
	if n := len(m.paths); n > 0 {
		m.paths[n-1].public = true
	}
	return true
}

// plainWord is a name, a path, or a flag with one. A program in some small language has other characters.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=~^*?-]*$`)

// allPlain are words of a program that a sandbox holds to looking. None of them may be a program itself.
func allPlain(m *matching, ws []string) bool {
	for _, word := range ws {
		switch {
		case !certain(word):
			m.soften(word)
		case !plainWord.MatchString(word):
			return false
		}
	}
	return true
}

// yqProgram is the first operand of yq: a program, or a file if there is one of that name. A file of that name may be a
// program itself.
func yqProgram(m *matching, ws []string) bool {
	word := ws[0]
	if strings.HasSuffix(word, ".yq") {
		return false
	}
	names, ok := []string{word}, true
	if certain(word) && !strings.Contains(word, "/") {
		names, ok = m.w.globs(word)
	}
	if (!ok || len(names) > 0) && !m.reads(word, false) {
		return false
	}
	return m.program(word, func(s string) bool { return !yqReaches.MatchString(s) })
}

// root is where find begins, or a bracket of its expression.
func root(m *matching, ws []string) bool {
	if slices.Contains([]string{"(", ")", "!", ","}, ws[0]) {
		return true
	}
	return m.reads(ws[0], false)
}

// revision is a commit, a file in one, or a path.
func revision(m *matching, ws []string) bool {
	word := ws[0]
	if strings.HasPrefix(word, ":/") || strings.HasPrefix(word, ":(") || strings.HasPrefix(word, ":!") || strings.HasPrefix(word, ":^") {
		return true
	}
	if before, file, ok := strings.Cut(word, ":"); ok && !strings.HasPrefix(word, "/") && !strings.Contains(before, "/.") {
		word = file
	}
	if unknown(word) {
		m.given["unforeseen"] = true
		if m.entry.key == "git diff" {
			return m.reads(word, false) // it compares files outside of the repository, too
		}
		return true // git takes it for a revision, or for a path of its own repository
	}
	return m.reads(word, false)
}

// folder is where git works.
func folder(m *matching, ws []string) bool {
	m.at = ws[0]
	return true
}

func harmlessSetting(word string) bool {
	key, val, _ := strings.Cut(word, "=")
	key = strings.ToLower(key)
	if !certain(word) {
		return false
	}
	return quietSetting(key, val) || matchesAny(gitLooking, key) && !strings.Contains(val, "%G")
}

// readsSetting is the name of a setting that git config is asked for. A second word would be its new value.
func readsSetting(m *matching, ws []string) bool {
	word := ws[0]
	if !m.given["operand"] && (word == "get" || word == "list") {
		m.given["--get"], m.given["operand"] = true, true
		return true
	}
	asked := m.given["--get"] || m.given["--get-all"] || m.given["--get-regexp"] || m.given["--list"] || m.given["-l"]
	if m.given["operand"] && !asked || !certain(word) {
		return false
	}
	m.given["operand"] = true
	return asked || strings.Contains(word, ".")
}

// awkFile is a file that awk reads, or a variable.
func awkFile(m *matching, ws []string) bool {
	if name, _, ok := strings.Cut(ws[0], "="); ok && isName(name) {
		return true
	}
	return m.reads(ws[0], false)
}

// awkLooks reports whether a program of awk neither runs nor writes anything, nor reads what it is not given.
func awkLooks(prog string) bool {
	return !awkRuns.MatchString(prog) && !awkWrites(prog)
}

// tarLists reports whether tar only lists an archive. Its first word may be letters without a dash, whose values follow.
func tarLists(m *matching, ws []string) bool {
	lists, files := false, 0
	for i := 0; i < len(ws); i++ {
		a := ws[i]
		switch {
		case strings.HasPrefix(a, "--file="):
			if a = strings.TrimPrefix(a, "--file="); strings.Contains(a, ":") || !m.reads(a, false) {
				return false
			}
		case a == "--list":
			lists = true
		case slices.Contains([]string{"--verbose", "--gzip", "--bzip2", "--xz", "--zstd", "--auto-compress", "--wildcards"}, a):
		case strings.HasPrefix(a, "--exclude="):
		case i == 0 && !strings.HasPrefix(a, "-") || len(a) > 1 && a[0] == '-' && a[1] != '-':
			letters := strings.TrimPrefix(a, "-")
			if strings.Trim(letters, "tvzjJafO") != "" || strings.Count(letters, "f") > 1 || strings.Contains(letters, "f") && a[0] == '-' && !strings.HasSuffix(letters, "f") {
				return false
			}
			lists = lists || strings.Contains(letters, "t")
			if strings.Contains(letters, "f") { // an archive "host:file" is read through a remote shell
				if i++; i >= len(ws) || strings.Contains(ws[i], ":") || !certain(ws[i]) || !m.reads(ws[i], false) {
					return false
				}
				files++
			}
		case m.flagLike(a):
			return false
		}
	}
	return lists && files < 2
}

// wholes are what must hold of all words of a command together.
var wholes = map[string]func(m *matching) bool{
	"git branch": listsRefs, "git tag": listsRefs,
	"git config": func(m *matching) bool {
		return m.given["operand"] || m.given["--list"] || m.given["-l"]
	},
	"git diff": comparesOwn,
	"ls":       listsRoot,
	"top":      func(m *matching) bool { return m.given["-b"] }, // else it waits for keys
	"git grep": func(m *matching) bool { // it goes through what is tracked
		m.paths = append(m.paths, pathWord{word: ".", walk: true})
		return true
	},
	"git symbolic-ref": func(m *matching) bool { return true },
	"docker inspect":   formatted, "docker container inspect": formatted, "docker image inspect": formatted, "nerdctl inspect": formatted,
	"podman inspect": formatted, "podman container inspect": formatted, "podman image inspect": formatted,
}

// formatted reports whether it is said what is shown: all of a container would show its environment, where secrets are.
func formatted(m *matching) bool { return m.given["-f"] || m.given["--format"] }

// comparesOwn reports whether git diff stays in the workspace where it is told to compare any files. It goes through
// folders then.
func comparesOwn(m *matching) bool {
	if !m.given["--no-index"] {
		return true
	}
	for i, p := range m.paths {
		m.paths[i].walk = true
		outside := func(dir string) bool {
			return unknown(dir) || !m.w.p.inWorkspace(m.w.p.canonical(dir, p.word, m.w.links))
		}
		if unknown(p.word) || slices.ContainsFunc(m.w.dirs, outside) {
			return false
		}
	}
	return true
}

// listsRoot leaves the root out of what ls reads: its names are the same on every machine.
func listsRoot(m *matching) bool {
	if !m.given["-R"] && !m.given["--recursive"] {
		m.paths = slices.DeleteFunc(m.paths, func(p pathWord) bool { return p.word == "/" })
	}
	return true
}

// listsRefs reports whether names given to git branch or tag are patterns of a list, and not of something new.
func listsRefs(m *matching) bool {
	if !m.given["operand"] {
		return true
	}
	return slices.ContainsFunc([]string{"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"}, func(f string) bool { return m.given[f] })
}
