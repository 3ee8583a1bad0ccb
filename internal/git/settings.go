package git

import (
	"fmt"
	"os"
	account "os/user"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// Git reads its settings from files that whoever works in a repository may write, and many of them name programs. So no git of ours
// reads them: they are read here, as data, and those that are on the list of what matters and names nothing are stated again.

// setting is one line of git's config. Its key is in lower case but for what stands between the first and the last dot.
type setting struct{ key, value string }

// settings are what git's config says for one checkout. The later of two with one key counts.
type settings struct {
	person []setting // the machine's and the user's own files, with what those include
	local  []setting // the repository's
	// included are what the repository's files include, whatever that depends on. They are asked only for what is demanded of a commit, and never stated: who
	// may write such a file is not known.
	included []setting
}

// get is the value of a key.
func (s *settings) get(key string) (value string, ok bool) {
	for _, one := range slices.Concat(s.person, s.local) {
		if one.key == key {
			value, ok = one.value, true
		}
	}
	return value, ok
}

// first is the first value of a setting: of several addresses of a remote git fetches from that one.
func (s *settings) first(key string) string {
	for _, one := range slices.Concat(s.person, s.local) {
		if one.key == key && one.value != "" {
			return one.value
		}
	}
	return ""
}

// isTrue reports whether a switch is on, as git reads it.
func (s *settings) isTrue(key string) bool {
	v, ok := s.get(key)
	return ok && truth(v)
}

func truth(v string) bool {
	switch strings.ToLower(v) {
	case "", "false", "no", "off", "0":
		return false
	}
	return true
}

// namedBy are the middle parts of the keys with this beginning and one of these ends: the filters, say, that have a command.
func (s *settings) namedBy(section string, ends ...string) (names []string) {
	for _, one := range slices.Concat(s.person, s.local, s.included) {
		first, last := strings.IndexByte(one.key, '.'), strings.LastIndexByte(one.key, '.')
		if first < last && one.key[:first] == section && slices.Contains(ends, one.key[last+1:]) && !slices.Contains(names, one.key[first+1:last]) {
			names = append(names, one.key[first+1:last])
		}
	}
	return names
}

// stated are the keys that a git of ours is told. Each says how files and objects are read or written, who the user is, or how fast
// something goes; none names a program, a folder or an address.
var stated = map[string]bool{
	"core.repositoryformatversion": true, "core.filemode": true, "core.symlinks": true, "core.ignorecase": true, "core.precomposeunicode": true,
	"core.protecthfs": true, "core.protectntfs": true, "core.autocrlf": true, "core.eol": true, "core.checkroundtripencoding": true,
	"core.bigfilethreshold": true, "core.compression": true, "core.loosecompression": true, "core.checkstat": true, "core.trustctime": true,
	"core.sharedrepository": true, "core.logallrefupdates": true, "core.abbrev": true, "core.longpaths": true, "core.maxtreedepth": true,
	"core.untrackedcache": true, "core.multipackindex": true, "core.commitgraph": true, "core.usereplacerefs": true, "core.preloadindex": true,
	"core.sparsecheckout": true, "core.sparsecheckoutcone": true, "core.packedgitlimit": true, "core.packedgitwindowsize": true, "core.deltabasecachelimit": true,
	"user.name": true, "user.email": true, "author.name": true, "author.email": true, "committer.name": true, "committer.email": true,
	"merge.renames": true, "merge.renamelimit": true, "merge.directoryrenames": true, "merge.conflictstyle": true, "merge.renormalize": true,
	"diff.renames": true, "diff.renamelimit": true, "diff.algorithm": true, "diff.indentheuristic": true,
	"index.version": true, "index.threads": true, "index.skiphash": true, "index.sparse": true, "feature.manyfiles": true,
	"pack.threads": true, "pack.windowmemory": true, "i18n.commitencoding": true, "i18n.logoutputencoding": true,
}

// isStated reports whether a git of ours is told a setting. Extensions say what a repository is: git refuses one that it does not know, and
// is to go on doing so. That objects may be missing and fetched from somewhere is left out, and so is a second file of settings.
func isStated(key string) bool {
	if name, is := strings.CutPrefix(key, "extensions."); is {
		return name != "partialclone" && name != "worktreeconfig"
	}
	return stated[key]
}

// text is the config that stands in for the repository's own.
func (s *settings) text() string {
	var b strings.Builder
	for _, one := range slices.Concat(s.person, s.local) {
		if !isStated(one.key) {
			continue
		}
		section, name, _ := strings.Cut(one.key, ".")
		if strings.ContainsAny(name, ".") || strings.ContainsAny(one.value, "\x00") {
			continue
		}
		fmt.Fprintf(&b, "[%s]\n\t%s = \"%s\"\n", section, name, quoteSetting.Replace(one.value))
	}
	return b.String()
}

var quoteSetting = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)

// silenced are the variables that take the commands from filters and merge drivers, for machines where nothing can stand in for a file. There the
// list of programs that git may execute is what holds; this keeps git from trying.
func (s *settings) silenced() []string {
	var env []string
	say := func(key, value string) {
		n := len(env) / 2
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
	}
	for _, name := range s.namedBy("filter", "clean", "smudge", "process", "required") {
		for _, end := range []string{"clean", "smudge", "process"} {
			say("filter."+name+"."+end, "")
		}
		say("filter."+name+".required", "false")
	}
	for _, name := range s.namedBy("merge", "driver") {
		say("merge."+name+".driver", "false")
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(env)/2))
}

// listed are the settings that name lists of patterns and attributes, and the files of those lists. A list of the person's own may lie
// anywhere; one that the repository names must lie in it.
func (s *settings) listed(at site) (set, lists []string) {
	for _, l := range []struct{ key, usual string }{{"core.excludesfile", "ignore"}, {"core.attributesfile", "attributes"}} {
		path := usualList(l.usual)
		for _, one := range s.person {
			if one.key == l.key {
				path = real(inHome(one.value))
			}
		}
		for _, one := range s.local {
			if one.key != l.key {
				continue
			}
			if named := real(gitfile.Beside(at.top, inHome(one.value))); at.top != "" && (covers(named, at.top) || covers(named, at.common)) {
				path = named
			}
		}
		if path == "" || !isFile(path) {
			path = os.DevNull
		} else {
			lists = append(lists, path)
		}
		set = append(set, l.key+"="+path)
	}
	for _, one := range s.person {
		if one.key == "safe.directory" {
			set = append(set, one.key+"="+one.value)
		}
	}
	return set, lists
}

// usualList is where git looks for a list that no setting names.
func usualList(name string) string {
	if xdg := os.Getenv("XDG_CONFIG_HOME"); xdg != "" {
		return real(filepath.Join(xdg, "git", name))
	}
	if home := os.Getenv("HOME"); home != "" {
		return real(filepath.Join(home, ".config", "git", name))
	}
	return ""
}

// inHome is a path as a setting names it, with the home that a ~ stands for.
func inHome(path string) string {
	path = strings.TrimPrefix(path, ":(optional)") // it need not be there
	name, rest, _ := strings.Cut(path, "/")
	switch {
	case name == "~":
		return filepath.Join(os.Getenv("HOME"), rest)
	case strings.HasPrefix(name, "~"):
		if of, err := account.Lookup(name[1:]); err == nil {
			return filepath.Join(of.HomeDir, rest)
		}
	}
	return path
}

// lenders are the folders of objects that the repository borrows from. Refused for those outside of it that the person has not named: a
// repository of a stranger's could have another's objects read as its own.
func (s *settings) lenders(at site) ([]string, error) {
	lent := lenders(filepath.Join(at.common, "objects"))
	if borrowers.have(at.common) {
		return lent, nil
	}
	for _, path := range lent {
		if covers(path, at.common) || at.top != "" && covers(path, at.root()) {
			continue
		}
		named := slices.ContainsFunc(s.person, func(one setting) bool {
			return one.key == "taskdaemon.alternates" && covers(path, real(inHome(one.value)))
		})
		if !named {
			return nil, td.Errorf(td.Refused, "%s borrows objects from %s, outside of it", at.common, path).
				WithHint("if that is yours: git config --global --add taskdaemon.alternates %s", path)
		}
	}
	return lent, nil
}

// parseSettings reads `git config --null --list`: a key, and behind a line break its value; a key alone is a switch that is on.
func parseSettings(out string) (list []setting) {
	for rec := range strings.SplitSeq(out, "\x00") {
		if rec == "" {
			continue
		}
		key, value, valued := strings.Cut(rec, "\n")
		if !valued {
			value = "true"
		}
		list = append(list, setting{key, value})
	}
	return list
}
