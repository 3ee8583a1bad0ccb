package gitfile

import (
	"os"
	"path/filepath"
	"strings"
)

// mostLinks is how many links the kernel follows on one path.
const mostLinks = 40

// Literal is a path as a file in a folder names it, with all of its parts: where one of them is a link, the parent that ".." means is that of what the link leads to.
func Literal(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// Beside is a path as a file in a folder names it, in a form without needless parts that leads where the kernel is led: a ".." behind a link is not the folder that the link is in.
func Beside(dir, path string) string {
	literal := Literal(dir, path)
	clean := filepath.Clean(literal)
	if strings.Contains(path, "..") {
		if end := WayOf(literal).End; end != WayOf(clean).End {
			return end
		}
	}
	return clean
}

// LentBy is a path as a list of alternates of a folder of objects names it: there git goes by the text alone.
func LentBy(objects, path string) string { return filepath.Clean(Literal(objects, path)) }

// Way is how the kernel follows an absolute path.
type Way struct {
	Links []string // the links on it, each by its own place
	End   string   // where it leads: no part of it is a link, unless there are too many
	There bool     // there is something
}

// WayOf follows a path. Of one that leads to nothing the rest is taken as it is.
func WayOf(path string) (w Way) {
	at, rest := "/", path
	w.There = true
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		if !w.There {
			at = next
			continue
		}
		info, err := os.Lstat(next)
		if err != nil {
			w.There = false
		} else if info.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(next)
			if w.Links = append(w.Links, next); err != nil || len(w.Links) > mostLinks {
				w.There = false
				at = next
				continue
			}
			if filepath.IsAbs(to) {
				at = "/"
			}
			rest = to + "/" + rest
			continue
		}
		at = next
	}
	w.End = at
	return w
}
