package tool

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

// Workspace is the folder a task may touch. It is held open from when the task starts until it stops.
//
// A path goes through it twice. Rel resolves it, symbolic links included, so that the rules judge what it leads to. What was
// judged is then opened without following any link (package beneath): where a command in the background has put one
// meanwhile, the call fails with td.Conflict and the model may try again, which is judged anew.
type Workspace struct {
	dir  string
	root *beneath.Folder
}

// What no file in a workspace needs, but a model may ask for.
const (
	maxPath  = 4096
	maxDepth = 200
)

// OpenWorkspace opens the folder by the path that was resolved when the task was made. td.Unavailable if it is gone, is a
// file, or is reached through a symbolic link by now: whoever put that there was not asked where the task may work.
func OpenWorkspace(dir string) (*Workspace, error) {
	root, err := beneath.Open(dir)
	if errors.Is(err, beneath.ErrLink) {
		return nil, td.Errorf(td.Unavailable, "open workspace %s: /%s is a symbolic link now", dir, linkIn(err)).
			WithHint("put the folder back, or add the task again where the folder is now")
	}
	if err != nil {
		return nil, td.Errorf(td.Unavailable, "open workspace %s: %w", dir, errors.Unwrap(err))
	}
	return &Workspace{dir: filepath.Clean(dir), root: root}, nil
}

// Close lets go of the folder.
func (w *Workspace) Close() error { return w.root.Close() }

// Dir is the folder's path, absolute and free of symlinks.
func (w *Workspace) Dir() string { return w.dir }

// Intact fails if the path of the workspace leads to another folder than the one that is held: commands are started by it.
func (w *Workspace) Intact() error {
	now, err := OpenWorkspace(w.dir)
	if err != nil {
		return err
	}
	defer now.Close()
	if !now.root.Same(w.root) {
		return td.Errorf(td.Unavailable, "%s is another folder than when the task started", w.dir).
			WithHint("put the folder back, then resume the task")
	}
	return nil
}

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
	resolved, err := beneath.Resolve(full)
	if err != nil {
		return "", td.Errorf(td.Refused, "resolve %s: %w", path, err)
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

// Open opens a regular file of the workspace to be read; rel is what Rel gave.
func (w *Workspace) Open(rel string) (*os.File, fs.FileInfo, error) {
	f, info, err := w.root.File(rel)
	switch {
	case err == nil:
		return f, info, nil
	case errors.Is(err, beneath.ErrNotRegular):
		if at, lerr := w.root.Lstat(rel); lerr == nil && at.IsDir() {
			return nil, nil, td.Errorf(td.Invalid, "%s is a folder; use Glob to list what is in it", rel)
		}
		return nil, nil, td.Errorf(td.Invalid, "%s is not a regular file", rel)
	}
	return nil, nil, Failed("open", rel, err)
}

// Folder opens a folder of the workspace and holds it.
func (w *Workspace) Folder(rel string) (*beneath.Folder, error) {
	dir, err := w.root.Folder(rel)
	if err != nil {
		return nil, Failed("open", rel, err)
	}
	return dir, nil
}

// Lstat says what a path is, without following a link at its end.
func (w *Workspace) Lstat(rel string) (fs.FileInfo, error) {
	info, err := w.root.Lstat(rel)
	if err != nil {
		return nil, Failed("look at", rel, err)
	}
	return info, nil
}

// Walk visits what is below a path as beneath.Folder.Walk does.
func (w *Workspace) Walk(rel string, visit fs.WalkDirFunc) error { return w.root.Walk(rel, visit) }

// Parent opens the folder that a file is in, to change something there, and makes it if that is wanted. Refused if that
// folder is, or lies in, what git takes for its own, or would take for it with the file: by what it holds, since a name can be
// changed after it was judged.
func (w *Workspace) Parent(rel string, create bool) (*beneath.Folder, error) {
	if create {
		if err := w.makeParent(rel); err != nil {
			return nil, err
		}
	}
	dir, err := w.root.Folder(path.Dir(rel))
	if err != nil {
		return nil, Failed("open", path.Dir(rel), err)
	}
	if err := w.keepGit(dir, path.Base(rel), rel); err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// completing is held by who makes one of the names by which git knows a repository: of two that are made at once, neither would see the other.
var completing sync.Mutex

// Alone waits until nobody else makes a name that may complete a repository, if a path has one, until release is called.
func (w *Workspace) Alone(rel string) (release func()) {
	for part := range strings.SplitSeq(rel, "/") {
		if slices.ContainsFunc(gitNames, func(name string) bool { return strings.EqualFold(part, name) }) {
			completing.Lock()
			return completing.Unlock
		}
	}
	return func() {}
}

// gitNames are those that isGit looks for.
var gitNames = []string{"HEAD", "objects", "commondir"}

// makeParent makes the folder that a file is in.
func (w *Workspace) makeParent(rel string) error {
	there, missing, err := w.nearest(rel)
	if err != nil {
		return err
	}
	err = w.keepGit(there, missing, rel)
	_ = there.Close()
	if err != nil {
		return err
	}
	dir, err := w.root.Make(path.Dir(rel))
	switch {
	case errors.Is(err, beneath.ErrLink):
		return Failed("open", path.Dir(rel), err)
	case err != nil:
		return td.Errorf(td.Storage, "make folder %s: %w", path.Dir(rel), err)
	}
	return dir.Close()
}

// nearest opens the innermost folder on the way to a file that there is. Missing is what would be made in it.
func (w *Workspace) nearest(rel string) (dir *beneath.Folder, missing string, err error) {
	for {
		missing, rel = path.Base(rel), path.Dir(rel)
		dir, err = w.root.Folder(rel)
		switch {
		case err == nil:
			return dir, missing, nil
		case rel == "." || !errors.Is(err, fs.ErrNotExist):
			return nil, "", Failed("open", rel, err)
		}
	}
}

// keepGit refuses to make a name in a folder that is, or lies in, what git takes for its own, or would take for it then.
func (w *Workspace) keepGit(dir *beneath.Folder, name, rel string) error {
	err := dir.Climb(w.root, func(at *beneath.Folder) error {
		if isGit(at, name) {
			return td.Errorf(td.Refused, "%s is, or would be, inside a folder of git's own, which only git may change", rel)
		}
		name = "" // what is above has no new one
		return nil
	})
	if _, decided := errors.AsType[*td.Error](err); err != nil && !decided {
		err = td.Errorf(td.Conflict, "the path changed while the call was being checked: %w", err)
	}
	return err
}

// isGit reports whether a folder resembles the inside of a repository, as rulebook.LookAtGit does, or would with one more name in it.
func isGit(dir *beneath.Folder, more string) bool {
	has := func(name string) bool {
		if strings.EqualFold(name, more) {
			return true // some file systems do not tell them apart
		}
		_, err := dir.Lstat(name)
		return err == nil
	}
	return gitfile.ResemblesNearly(has)
}

// Failed is what a tool says of an error of package beneath.
func Failed(verb, rel string, err error) error {
	switch {
	case errors.Is(err, beneath.ErrLink):
		return td.Errorf(td.Conflict, "the path changed while the call was being checked: %s is now a symbolic link", linkIn(err))
	case errors.Is(err, fs.ErrNotExist):
		return &td.Error{Kind: td.NotFound, Err: missing{rel}}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return td.Errorf(td.Refused, "%s %s: %w", verb, rel, err)
}

// missing is the error of a path that is not there.
type missing struct{ path string }

func (m missing) Error() string        { return m.path + " does not exist" }
func (m missing) Is(target error) bool { return target == fs.ErrNotExist }

// linkIn is the part of a path that is a symbolic link.
func linkIn(err error) string {
	e, _ := errors.AsType[*fs.PathError](err)
	return e.Path
}

func outside(path, dir string) error {
	return td.Errorf(td.Refused, "%s is outside the workspace %s", path, dir)
}
