package rulebook

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxMatches bounds what a glob of a command may stand for: what has more is asked about.
const maxMatches = 5000

// Glob are the paths that an absolute pattern matches now, in which a backslash takes a character as it is, with links not followed to their end. A name that
// begins with a dot counts as well: whether the shell leaves it out depends on its options. It is false where there are
// too many, or where a folder cannot be read.
func Glob(pattern string) ([]string, bool) {
	found := []string{"/"}
	for _, part := range strings.Split(strings.Trim(filepath.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			names, ok := matching(dir, part)
			if !ok || len(next)+len(names) > maxMatches {
				return nil, false
			}
			next = append(next, names...)
		}
		found = next
	}
	return found, true
}

// matching are the paths in a folder whose name matches a part of a pattern.
func matching(dir, part string) ([]string, bool) {
	if !strings.ContainsAny(part, `*?[\\{`) {
		path := filepath.Join(dir, part)
		if _, err := os.Lstat(path); err != nil {
			return nil, true
		}
		return []string{path}, true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		info, serr := os.Stat(dir)
		return nil, os.IsNotExist(err) || serr == nil && !info.IsDir()
	}
	var out []string
	for _, e := range entries {
		if e.Type()&fs.ModeDir == 0 && len(out) > maxMatches {
			return nil, false
		}
		if ok, err := doublestar.Match(part, e.Name()); err == nil && ok {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, true
}
