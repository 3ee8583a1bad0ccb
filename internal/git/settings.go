package git

import (
	"cmp"
	"context"
	"fmt"
	"os"
	account "os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

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
	files    []string // that all of them were read from, or would have been
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

func inHome(path string) string {
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

// reader reads settings, each file again when it has changed.
type reader struct {
	mu    sync.Mutex
	known map[string]*reading
}

type reading struct {
	settings *settings
	files    []string // that it was read from, or would have been
	state    string   // of those
}

// configs are the settings that this process has read.
var configs = reader{known: map[string]*reading{}}

// maxReadings bounds how many repositories' settings are remembered.
const maxReadings = 256

// of are the settings for a git that works on a checkout.
func (r *reader) of(ctx context.Context, at site) (*settings, error) {
	home, xdg := os.Getenv("HOME"), os.Getenv("XDG_CONFIG_HOME")
	key := strings.Join([]string{at.common, at.git, home, xdg}, "\x00")
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.known[key]
	if was != nil && stateOf(was.files) == was.state {
		return was.settings, nil
	}
	files := []string{filepath.Join(at.common, "config"), filepath.Join(at.git, "config.worktree")}
	before := stateOf(files)
	s := &settings{}
	var err error
	if s.local, err = fileSettings(ctx, files[0]); err != nil {
		return nil, err
	}
	if s.isTrue("extensions.worktreeconfig") {
		own, err := fileSettings(ctx, files[1])
		if err != nil {
			return nil, err
		}
		s.local = append(s.local, own...)
	}
	more, err := s.include(ctx, files[0], s.local)
	if err != nil {
		return nil, err
	}
	files = append(files, more...)
	person, err := r.person(ctx, at, home, xdg)
	if err != nil {
		return nil, err
	}
	s.person, files = person.settings.person, append(files, person.files...)
	if len(r.known) >= maxReadings {
		clear(r.known)
	}
	s.files = files
	now := &reading{settings: s, files: files, state: stateOf(files)}
	if strings.HasPrefix(now.state, before) { // nobody wrote meanwhile
		r.known[key] = now
	}
	return s, nil
}

// mostIncluded is how many files the settings of a repository may include.
const mostIncluded = 50

// includes reports whether a setting names a file with others.
func includes(key string) bool {
	return key == "include.path" || strings.HasPrefix(key, "includeif.") && strings.HasSuffix(key, ".path")
}

// include reads what settings of a file include, and what that does, and returns the files.
func (s *settings) include(ctx context.Context, file string, from []setting) (files []string, err error) {
	type place struct {
		file string
		said []setting
	}
	for todo := []place{{file, from}}; len(todo) > 0; todo = todo[1:] {
		for _, one := range todo[0].said {
			if !includes(one.key) {
				continue
			}
			path := gitfile.Beside(filepath.Dir(todo[0].file), inHome(one.value))
			if slices.Contains(files, path) {
				continue
			}
			if files = append(files, path); len(files) > mostIncluded {
				return nil, td.Errorf(td.Refused, "the settings of the repository include more than %d files", mostIncluded).WithHint("git config --file %s --list", file)
			}
			if f, err := gitfile.Open(path); err != nil {
				continue // git passes over one that is not there
			} else if err := f.Close(); err != nil {
				return nil, err
			}
			said, err := fileSettings(ctx, path)
			if err != nil {
				return nil, err
			}
			s.included = append(s.included, said...)
			todo = append(todo, place{path, said})
		}
	}
	return files, nil
}

// person are the person's settings for a checkout. They are the same for all, unless some file is included for certain repositories only.
func (r *reader) person(ctx context.Context, at site, home, xdg string) (*reading, error) {
	key := "person\x00" + home + "\x00" + xdg
	if was := r.known[key]; was != nil && stateOf(was.files) == was.state {
		return was, nil
	}
	now := &reading{settings: &settings{}}
	if home != "" {
		now.files = append(now.files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config", "git", "config"))
	}
	if xdg != "" {
		now.files = append(now.files, filepath.Join(xdg, "git", "config"))
	}
	now.files = append(now.files, "/etc/gitconfig")
	scopes := [][]string{{"--system"}}
	// Of the person's two files git lists one, though it reads both.
	if second := filepath.Join(cmp.Or(xdg, filepath.Join(home, ".config")), "git", "config"); home != "" && isFile(filepath.Join(home, ".gitconfig")) {
		if _, err := os.Stat(second); err == nil {
			scopes = append(scopes, []string{"--file", second})
		}
	}
	for _, scope := range append(scopes, []string{"--global"}) {
		list, from, err := personSettings(ctx, scope, at, home, xdg)
		if err != nil {
			return nil, err
		}
		now.settings.person = append(now.settings.person, list...)
		now.files = append(now.files, from...)
	}
	now.state = stateOf(now.files)
	conditional := slices.ContainsFunc(now.settings.person, func(one setting) bool { return strings.HasPrefix(one.key, "includeif.") })
	if !conditional {
		r.known[key] = now
	}
	return now, nil
}

// stateOf tells whether files have changed.
func stateOf(files []string) string {
	var b strings.Builder
	for _, f := range files {
		var st unix.Stat_t
		if unix.Stat(f, &st) == nil {
			fmt.Fprintf(&b, "%d.%d.%d.%d.%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// fileSettings reads one file of settings and nothing that it includes.
func fileSettings(ctx context.Context, file string) ([]setting, error) {
	if _, err := os.Lstat(file); err != nil {
		return nil, nil
	}
	out, err := runIn(ctx, call{dir: "/", own: true, args: []string{"config", "--file", real(file), "--no-includes", "--null", "--list"}}, site{read: []string{real(file)}})
	if td.IsKind(err, td.Interrupted) || td.IsKind(err, td.Unavailable) {
		return nil, err
	}
	if err != nil {
		return nil, td.Errorf(td.Corrupt, "read the settings of the repository: %w", err).WithHint("git config --file %s --list says where they are wrong", file)
	}
	return parseSettings(string(out)), nil
}

// personSettings reads the machine's or the user's settings, by the flags of git config that name them, with what they include, some of it for
// certain repositories only, and says from which files they came.
func personSettings(ctx context.Context, scope []string, at site, home, xdg string) (list []setting, from []string, err error) {
	c := call{dir: "/", args: slices.Concat([]string{"config"}, scope, []string{"--includes", "--null", "--show-origin", "--list"})}
	see := site{read: []string{"/etc", at.common}}
	if home != "" {
		c.env = append(c.env, "HOME="+home)
		see.read = append(see.read, real(home))
	}
	if xdg != "" {
		c.env = append(c.env, "XDG_CONFIG_HOME="+xdg)
		see.read = append(see.read, real(xdg))
	}
	if at.git != "" { // a file may be included for some repositories only; where its files are does not matter
		c.env = append(c.env, "GIT_DIR="+at.git, "GIT_WORK_TREE="+at.git)
	}
	c.person = true
	out, err := runIn(ctx, c, see)
	if err != nil && exitCode(err) != 1 {
		if strings.Contains(err.Error(), "unable to read config file") || strings.Contains(err.Error(), "$HOME not set") {
			return nil, nil, nil // there is none
		}
		return nil, nil, err
	}
	rest := string(out)
	var plain strings.Builder
	for rest != "" {
		var origin, one string
		origin, rest, _ = strings.Cut(rest, "\x00")
		one, rest, _ = strings.Cut(rest, "\x00")
		plain.WriteString(one + "\x00")
		file, is := strings.CutPrefix(origin, "file:")
		if !is {
			continue
		}
		files := []string{file}
		for _, said := range parseSettings(one) {
			if includes(said.key) { // git lists nothing of one that is not there, or is not meant for this repository
				files = append(files, gitfile.Beside(filepath.Dir(file), inHome(said.value)))
			}
		}
		for _, file := range files {
			if !slices.Contains(from, file) {
				from = append(from, file)
			}
		}
	}
	return parseSettings(plain.String()), from, nil
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
