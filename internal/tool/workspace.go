package tool

import (
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

// Workspace is the folder a task may touch. Access goes through an os.Root, so that a symlink changed
// between check and use cannot lead outside.
type Workspace struct {
	dir  string
	root *os.Root
}

// What no file in a workspace needs, but a model may ask for.
const (
	maxPath  = 4096
	maxDepth = 200
)

// OpenWorkspace opens the folder. Blocked-worthy trouble (it is gone, it is a file) is td.Unavailable.
func OpenWorkspace(dir string) (*Workspace, error) {
	// Paths are compared after their symlinks are followed, so the folder's own must be, too.
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return nil, td.Errorf(td.Unavailable, "open workspace %s: %w", dir, err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, td.Errorf(td.Unavailable, "open workspace %s: %w", dir, err)
	}
	return &Workspace{dir: real, root: root}, nil
}

// Close lets go of the folder.
func (w *Workspace) Close() error { return w.root.Close() }

// Dir is the folder's path, absolute and free of symlinks.
func (w *Workspace) Dir() string { return w.dir }

// Root gives access confined to the folder.
func (w *Workspace) Root() *os.Root { return w.root }

// Rel is path, absolute or relative to the workspace, as a clean path relative to the workspace.
// Refused when it lies outside or resolves outside through a symlink.
func (w *Workspace) Rel(path string) (string, error) {
	if path == "" {
		return "", td.Errorf(td.Invalid, "the path is empty")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return "", td.Errorf(td.Invalid, "the path contains a NUL byte")
	}
	if len(path) > maxPath || strings.Count(path, string(filepath.Separator)) > maxDepth {
		return "", td.Errorf(td.Invalid, "the path is too long: at most %d bytes and %d folders deep", maxPath, maxDepth)
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(w.dir, full)
	}
	resolved, err := resolveExisting(filepath.Clean(full), maxLinks)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(w.dir, resolved)
	if err != nil || !filepath.IsLocal(rel) {
		return "", outside(path, w.dir)
	}
	return rel, nil
}

// Reads and Writes are a path, relative to the workspace as Rel gives it, as the policy wants it.
func (w *Workspace) Reads(rel string) []policy.PathUse {
	return []policy.PathUse{{Path: filepath.Join(w.dir, rel), Access: policy.Read}}
}

// Writes is Reads for a file that is changed.
func (w *Workspace) Writes(rel string) []policy.PathUse {
	return []policy.PathUse{{Path: filepath.Join(w.dir, rel), Access: policy.Write}}
}

// Writable is Rel for a file that is to be changed. What lies in .git is refused: a hook, a filter or a
// setting written there would be a command that nobody allowed.
func (w *Workspace) Writable(path string) (string, error) {
	rel, err := w.Rel(path)
	if err != nil {
		return "", err
	}
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if strings.EqualFold(part, ".git") {
			return "", td.Errorf(td.Refused, "%s is inside .git, which only git may change", path)
		}
	}
	return rel, nil
}

func outside(path, dir string) error {
	return td.Errorf(td.Refused, "%s is outside the workspace %s", path, dir)
}

// maxLinks is how many dangling symlinks may lead on to one another.
const maxLinks = 40

// resolveExisting follows the symlinks of the longest part of path that exists.
func resolveExisting(path string, links int) (string, error) {
	rest := ""
	for p := path; ; {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !os.IsNotExist(err) {
			return "", td.Errorf(td.Refused, "resolve %s: %w", path, err)
		}
		// A symlink whose target is missing exists itself: where it points is what would be made.
		if target, lerr := os.Readlink(p); lerr == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(p), target)
			}
			if links == 0 {
				return "", td.Errorf(td.Refused, "resolve %s: too many symlinks", path)
			}
			return resolveExisting(filepath.Join(target, rest), links-1)
		}
		parent := filepath.Dir(p)
		if parent == p {
			return "", td.Errorf(td.Refused, "resolve %s: %w", path, err)
		}
		rest = filepath.Join(filepath.Base(p), rest)
		p = parent
	}
}
