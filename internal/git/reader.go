package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// reader reads settings, each file again when it has changed. It asks git to read one file at a time, which git sees alone, and follows what a file
// includes itself: so a file counts wherever it lies, and whatever it depends on that it is included.
type reader struct {
	mu    sync.Mutex
	known map[string]*reading
	files map[string]oneFile
}

// reading is what was read for one checkout.
type reading struct {
	settings *settings
	said     []setting // for reachable
	walked   walked
}

// oneFile is what a file says.
type oneFile struct {
	said  []setting
	state string
}

// configs are the settings that this process has read.
var configs = reader{known: map[string]*reading{}, files: map[string]oneFile{}}

// maxReadings bounds how many readings are remembered, and files.
const maxReadings = 4096

// of are the settings for a git that works on a checkout.
func (r *reader) of(ctx context.Context, at site) (*settings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, err := r.once("of", at, func(now *reading) error {
		s := &settings{}
		now.settings = s
		for i, file := range at.files() {
			said, err := now.walked.one(ctx, r, file)
			if err != nil {
				return err
			}
			if i == 0 || s.isTrue("extensions.worktreeconfig") {
				s.local = append(s.local, said...)
				more, err := now.walked.all(ctx, r, included(file, said))
				if err != nil {
					return err
				}
				s.included = append(s.included, more...)
			}
		}
		person, err := r.person(ctx, at)
		if err != nil {
			return err
		}
		s.person = person.settings.person
		now.walked.files, now.walked.state = append(now.walked.files, person.walked.files...), now.walked.state+person.walked.state
		return nil
	})
	if err != nil {
		return nil, err
	}
	return was.settings, nil
}

// told are the settings that variables of this process tell.
func (r *reader) told(ctx context.Context) ([]setting, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.variables(ctx)
}

// files are where the settings of the repository are, and those of this checkout alone.
func (s site) files() []string {
	if s.common == "" {
		return nil
	}
	return []string{filepath.Join(s.common, "config"), filepath.Join(s.git, "config.worktree")}
}

// reachable are all settings that a git of the person's reads in a checkout, or may read: of every file that any other includes, whatever that depends on, and of this process's environment. They are
// in no order that counts. Files are where they were read from, or would have been. What cannot be read is an error, never fewer settings.
func (r *reader) reachable(ctx context.Context, at site) (said []setting, files []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, err := r.once("reachable", at, func(now *reading) error {
		told, err := r.variables(ctx)
		if err != nil {
			return err
		}
		starts := slices.Concat(personsFiles(r.system(ctx), at), included("", told), at.files())
		read, err := now.walked.all(ctx, r, starts)
		now.said = append(told, read...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return was.said, was.walked.files, nil
}

// once makes a reading for a checkout, unless the last one still holds.
func (r *reader) once(what string, at site, read func(now *reading) error) (*reading, error) {
	if was := r.still(what, at); was != nil {
		return was, nil
	}
	now := &reading{}
	if err := read(now); err != nil {
		return nil, err
	}
	r.keep(what, at, now)
	return now, nil
}

// still is a reading that holds; nil: there is none.
func (r *reader) still(what string, at site) *reading {
	if was := r.known[keyOf(what, at)]; was != nil && stateOf(was.walked.files) == was.walked.state {
		return was
	}
	return nil
}

func (r *reader) keep(what string, at site, now *reading) {
	if len(r.known) >= maxReadings {
		clear(r.known)
	}
	r.known[keyOf(what, at)] = now
}

func keyOf(what string, at site) string {
	return strings.Join(append([]string{what, at.common, at.git, at.top}, settingVariables()...), "\x00")
}

// mostFiles is how many files of settings are read for one checkout.
const mostFiles = 1000

// walked are files of settings that were read, and what state each had before.
type walked struct {
	files []string
	state string
}

// all reads files, and what these include.
func (w *walked) all(ctx context.Context, r *reader, starts []string) (said []setting, err error) {
	for todo := slices.Clone(starts); len(todo) > 0; todo = todo[1:] {
		if slices.Contains(w.files, todo[0]) {
			continue
		}
		one, err := w.one(ctx, r, todo[0])
		if err != nil {
			return nil, err
		}
		said, todo = append(said, one...), append(todo, included(todo[0], one)...)
	}
	return said, nil
}

// one reads a file alone. That there is none is no error.
func (w *walked) one(ctx context.Context, r *reader, file string) ([]setting, error) {
	if len(w.files) >= mostFiles {
		return nil, td.Errorf(td.Refused, "settings of git include more than %d files, the last of them %s", mostFiles, file).
			WithHint("git config --show-origin --includes --get-all include.path lists what includes them: remove some")
	}
	state := stateOf([]string{file})
	w.files, w.state = append(w.files, file), w.state+state
	if was, is := r.files[file]; is && was.state == state {
		return was.said, nil
	}
	if there, err := legible(file); err != nil || !there {
		return nil, err
	}
	said, err := fileSettings(ctx, file)
	if err != nil {
		return nil, err
	}
	if len(r.files) >= maxReadings {
		clear(r.files)
	}
	r.files[file] = oneFile{said, state}
	return said, nil
}

// legible reports whether there is a file that git would read. One that is there and that we may not read is an error: a git of another time or user might.
func legible(file string) (there bool, err error) {
	var st unix.Stat_t
	if unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == nullDevice {
		return false, nil
	}
	f, err := gitfile.Open(file)
	switch {
	case err == nil:
		return true, f.Close()
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return false, nil // git passes over it
	}
	return false, td.Errorf(td.Refused, "git may obey what %s says, and it cannot be read: %w", file, err).
		WithHint("ls -lL %s shows what it is: make it a file that you can read, or remove it and the include.path that names it", file)
}

// nullDevice is the number of /dev/null.
var nullDevice = unix.Mkdev(1, 3)

// includes reports whether a setting names a file with others.
func includes(key string) bool {
	return key == "include.path" || strings.HasPrefix(key, "includeif.") && strings.HasSuffix(key, ".path")
}

// included are the files that settings of a file include, whatever that depends on. Those of a variable have to be named by their whole path.
func included(file string, said []setting) (files []string) {
	for _, one := range said {
		if path := inHome(one.value); includes(one.key) && path != "" && (file != "" || filepath.IsAbs(path)) {
			files = append(files, gitfile.Beside(filepath.Dir(file), path))
		}
	}
	return files
}

// stateOf tells whether files have changed.
func stateOf(files []string) string {
	var b strings.Builder
	for _, f := range files {
		var st unix.Stat_t
		if err := unix.Stat(f, &st); err == nil {
			fmt.Fprintf(&b, "%d.%d.%d.%d.%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		} else if !errors.Is(err, unix.ENOENT) {
			b.WriteString(err.Error())
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
		return nil, td.Errorf(td.Corrupt, "read the git settings in %s: %w", file, err).WithHint("git config --file %s --list says where they are wrong", file)
	}
	return parseSettings(string(out)), nil
}

// settingVariables are the variables of this process that say where settings are, or are some themselves.
func settingVariables() (env []string) {
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); value != "" && (strings.HasPrefix(name, "GIT_CONFIG") || name == "HOME" || name == "XDG_CONFIG_HOME") {
			env = append(env, kv)
		}
	}
	return env
}

// variables are the settings that are told by variables alone (GIT_CONFIG_COUNT, GIT_CONFIG_PARAMETERS), among some of ours.
func (r *reader) variables(ctx context.Context) ([]setting, error) {
	env := slices.DeleteFunc(settingVariables(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.ContainsFunc([]string{"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_PARAMETERS"}, func(begin string) bool { return strings.HasPrefix(name, begin) })
	})
	if os.Getenv("GIT_CONFIG_COUNT") == "" && os.Getenv("GIT_CONFIG_PARAMETERS") == "" {
		return nil, nil
	}
	key := "\x00" + strings.Join(env, "\x00")
	if was, is := r.files[key]; is {
		return was.said, nil
	}
	out, err := runIn(ctx, call{dir: "/", own: true, env: env, args: []string{"config", "--no-includes", "--null", "--list"}}, site{})
	if err != nil {
		return nil, td.Errorf(td.Refused, "read the git settings in GIT_CONFIG_COUNT and GIT_CONFIG_PARAMETERS: %w", err).
			WithHint("unset them, then taskdaemon daemon restart")
	}
	said := parseSettings(string(out))
	r.files[key] = oneFile{said: said}
	return said, nil
}

// systemFile is where git looks for the settings of the machine, if nothing else is known.
const systemFile = "/etc/gitconfig"

// system is where this git looks for the settings of the machine: that depends on how it was built. One that sees no file says which it misses.
func (r *reader) system(ctx context.Context) string {
	prog, err := findProgram(ctx)
	if err != nil {
		return systemFile
	}
	key := "\x00" + prog.path
	if was, is := r.files[key]; is {
		return was.state
	}
	_, err = runIn(ctx, call{dir: "/", own: true, args: []string{"config", "--system", "--list"}}, site{})
	file := systemFile
	if err != nil {
		if _, rest, is := strings.Cut(err.Error(), "unable to read config file '"); is {
			if named, _, is := strings.Cut(rest, "'"); is && filepath.IsAbs(named) {
				file = named
			}
		}
	}
	r.files[key] = oneFile{state: file}
	return file
}

// personsFiles are where a git of the person's looks for settings of the machine and its own, whichever variables it has of those that this process has.
func personsFiles(system string, at site) []string {
	files := []string{systemFile, system}
	for _, name := range []string{"GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"} {
		if file := os.Getenv(name); file != "" {
			files = append(files, gitfile.Beside(cmp.Or(at.top, at.git, "/"), file))
		}
	}
	if home := os.Getenv("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config", "git", "config"))
	}
	if xdg := os.Getenv("XDG_CONFIG_HOME"); xdg != "" {
		files = append(files, filepath.Join(xdg, "git", "config"))
	}
	return files
}

// person are the person's settings that hold for a checkout. They are the same for all, unless some file is included for certain repositories only.
func (r *reader) person(ctx context.Context, at site) (*reading, error) {
	for _, of := range []site{{}, at} {
		if was := r.still("person", of); was != nil {
			return was, nil
		}
	}
	now := &reading{settings: &settings{}}
	all, err := now.walked.all(ctx, r, personsFiles(r.system(ctx), at))
	if err != nil {
		return nil, err
	}
	scopes := [][]string{{"--system"}}
	// Of the person's two files git lists one, though it reads both.
	home := os.Getenv("HOME")
	second := filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "git", "config")
	if home != "" && os.Getenv("GIT_CONFIG_GLOBAL") == "" && isFile(filepath.Join(home, ".gitconfig")) {
		if _, err := os.Stat(second); err == nil {
			scopes = append(scopes, []string{"--file", second})
		}
	}
	for _, scope := range append(scopes, []string{"--global"}) {
		list, err := personSettings(ctx, scope, at, now.walked.files)
		if err != nil {
			return nil, err
		}
		now.settings.person = append(now.settings.person, list...)
	}
	if !slices.ContainsFunc(all, func(one setting) bool { return strings.HasPrefix(one.key, "includeif.") }) {
		at = site{}
	} else { // it may depend on the branch
		head := filepath.Join(at.git, "HEAD")
		now.walked.files, now.walked.state = append(now.walked.files, head), now.walked.state+stateOf([]string{head})
	}
	r.keep("person", at, now)
	return now, nil
}

// personSettings reads the machine's or the user's settings, by the flags of git config that name them, with what they include, some of it for
// certain repositories only. Files are all that it may need.
func personSettings(ctx context.Context, scope []string, at site, files []string) ([]setting, error) {
	c := call{dir: "/", person: true, args: slices.Concat([]string{"config"}, scope, []string{"--includes", "--null", "--list"})}
	see := site{read: []string{at.common}, ways: files}
	for _, file := range files {
		if way := gitfile.WayOf(file); way.There {
			see.read = append(see.read, way.End)
		}
	}
	for _, kv := range settingVariables() {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains([]string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}, name) {
			c.env = append(c.env, kv)
		}
	}
	if at.git != "" { // a file may be included for some repositories only; where its files are does not matter
		c.env = append(c.env, "GIT_DIR="+at.git, "GIT_WORK_TREE="+at.git)
	}
	out, err := runIn(ctx, c, see)
	if err != nil && exitCode(err) != 1 {
		if strings.Contains(err.Error(), "unable to read config file") || strings.Contains(err.Error(), "$HOME not set") {
			return nil, nil // there is none: those that there are have been read before
		}
		return nil, err
	}
	return parseSettings(string(out)), nil
}
