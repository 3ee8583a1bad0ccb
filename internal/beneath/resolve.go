package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// mostLinks is how many links whose targets are missing may lead on to one another, as many as the kernel follows.
const mostLinks = 40

// Resolve follows the symbolic links of what exists of a path. Of a link whose target is missing it is the target: that is what would be made.
func Resolve(path string) (string, error) { return resolve(filepath.Clean(path), mostLinks) }

func resolve(path string, links int) (string, error) {
	rest := ""
	for p := path; ; p = filepath.Dir(p) {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if target, lerr := os.Readlink(p); lerr == nil {
			if links == 0 {
				return "", &fs.PathError{Op: "resolve", Path: path, Err: errors.New("too many links")}
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(p), target)
			}
			return resolve(filepath.Join(target, rest), links-1)
		}
		if filepath.Dir(p) == p {
			return "", err
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}
