package sandbox

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// Not every repository of a workspace can be sealed: there may be hundreds. Of the others it is noted before a command what they have that names programs or leads
// git elsewhere. When the command has ended, that is put back.

// guard is what is noted of a repository.
type guard struct {
	Dot original            `json:"dot"` // its .git
	Git string              `json:"git"` // its folder of git, from the workspace; empty: it is elsewhere, or none
	ID  string              `json:"id"`  // which folder that is, whatever its name
	Had map[string]original `json:"had"` // what is in there, by its path
	// Over are folders in there that have more than is noted.
	Over []string `json:"over,omitempty"`
}

// original is a file or a link as it was.
type original struct {
	Mode fs.FileMode `json:"mode"`
	Link string      `json:"link,omitempty"`
	Size int64       `json:"size,omitempty"`
	Sum  []byte      `json:"sum,omitempty"` // of its content
	ID   string      `json:"id,omitempty"`  // in place of a sum, where there is too much to read: which file it is, and when it was changed last
	Text []byte      `json:"text,omitzero"` // its content; nil: there is too much of it
}

func (o original) same(other original) bool {
	return o.Mode == other.Mode && o.Link == other.Link && o.Size == other.Size && o.ID == other.ID && bytes.Equal(o.Sum, other.Sum)
}

// Bounds of what is noted: of one file, of all of a repository, of all repositories, and how many files of one, and of one of its folders.
const (
	mostKept    = 256 << 10
	mostKeptAll = 1 << 20
	mostKeptOf  = 32 << 20
	mostGuarded = 2000
	mostSummed  = 64 << 20 // of what is read of a repository and not kept
)

// guard notes what the repository in a folder has. It returns which others its index names; is says that there is a repository.
func (b *before) guard(p Profile, top *beneath.Folder, dir string, e *effort) (g guard, links []string, is bool) {
	around, err := folderAt(top, dir)
	if err != nil {
		return g, nil, false
	}
	defer around.Close()
	a := arms{had: map[string]original{}}
	if b.size > mostKeptOf {
		a.size = mostKeptAll
	}
	g.Dot, is = a.look(around, ".git", ".git")
	git, err := p.gitOf(top, around, b.Sealed)
	if err != nil {
		return g, nil, is
	}
	defer git.Close()
	a.add(git, "")
	b.size += a.size
	g.Git, g.ID, g.Had, g.Over = from(top, git.Name()), idOf(git), a.had, a.over
	return g, asGitDir(git).links(e), true
}

// folderAt opens a folder by its path, if it lies below top.
func folderAt(top *beneath.Folder, dir string) (*beneath.Folder, error) {
	return top.Folder(from(top, dir))
}

// from is a path as seen from a folder.
func from(top *beneath.Folder, path string) string {
	rel, err := filepath.Rel(top.Name(), path)
	if err != nil {
		return ".." // which is not below it
	}
	return rel
}

// errElsewhere says that a folder of git is none that is guarded: it is not of the workspace, or it is sealed.
var errElsewhere = errors.New("is not of the workspace")

// gitOf opens the folder of git of a checkout, if it lies in the workspace and is not sealed.
func (p Profile) gitOf(top, around *beneath.Folder, sealed []string) (*beneath.Folder, error) {
	git, err := around.Folder(".git")
	if err == nil || errors.Is(err, fs.ErrNotExist) && !bareIn(around) {
		return git, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return around.Folder(".")
	}
	raw, _, err := around.Read(".git", gitFile)
	if err != nil {
		return nil, err
	}
	at := resolved(gitfile.Literal(around.Name(), gitfile.ParseGitdir(string(raw))))
	if at == "" || !covered(at, []string{p.Workspace}) || covered(at, sealed) {
		return nil, errElsewhere
	}
	return folderAt(top, at)
}

// idOf is a folder as the kernel knows it.
func idOf(folder *beneath.Folder) string {
	var st unix.Stat_t
	if unix.Fstat(int(folder.Fd()), &st) != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// bareIn is isGitFolder for a folder that is held.
func bareIn(folder *beneath.Folder) bool {
	has := func(name string) bool { _, err := folder.Lstat(name); return err == nil }
	return gitfile.Resembles(has)
}

// arms are what a folder of git has that names programs, or leads git elsewhere.
type arms struct {
	had   map[string]original
	over  []string // folders that have more than is noted: nothing of them is
	size  int
	read  int64
	after bool                // a command has ended: what it locked is unlocked
	was   map[string]original // what was noted before it
}

// leadsInGit are the files of a folder of git that do, beside its hooks.
var leadsInGit = append(slices.Clone(gitLeads), "config", "objects/info/alternates", "objects/info/http-alternates")

// add notes what a folder of git has. It is false if that is more than is noted.
func (a *arms) add(git *beneath.Folder, at string) bool {
	if a.after {
		unlockIn(git)
	}
	for _, name := range leadsInGit {
		if !a.note(git, at, name) {
			return false
		}
	}
	for _, name := range []string{"hooks", "info"} {
		if !a.note(git, at, name) { // if it is a link
			return false
		}
		a.below(git, at, name, func(name string, d fs.DirEntry) error {
			if d.IsDir() || d.Type().IsRegular() && strings.HasSuffix(name, ".sample") || a.note(git, at, name) {
				return nil
			}
			return errTooMany
		})
	}
	a.below(git, at, "worktrees", func(name string, d fs.DirEntry) error {
		if !d.IsDir() || name == "worktrees" {
			return nil
		}
		if !a.note(git, at, path.Join(name, "commondir")) || !a.note(git, at, path.Join(name, worktreeSettings)) {
			return errTooMany
		}
		return fs.SkipDir
	})
	a.below(git, at, "modules", func(name string, d fs.DirEntry) error {
		if !d.IsDir() {
			return nil
		}
		if _, err := git.Lstat(path.Join(name, "HEAD")); err != nil {
			return nil //nolint:nilerr // the name of a submodule may have slashes in it
		}
		one, err := git.Folder(name)
		if err != nil {
			return err
		}
		defer one.Close()
		if !a.add(one, path.Join(at, name)) {
			return errTooMany
		}
		return fs.SkipDir
	})
	return true
}

// errTooMany says that a folder has more than is noted.
var errTooMany = errors.New("has too many files")

// below visits what is below a folder. If that is too much, or cannot be read, nothing of it stays noted: who fills a folder with files would hide the last of them.
func (a *arms) below(git *beneath.Folder, at, folder string, visit func(name string, d fs.DirEntry) error) {
	looked := 0
	err := git.Walk(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if looked++; looked > mostGuarded {
			return errTooMany
		}
		if a.after && d.IsDir() {
			if one, err := git.Unlocked(name); err == nil {
				_ = one.Close()
			}
		}
		return visit(name, d)
	})
	if err == nil || errors.Is(err, fs.ErrNotExist) && looked == 0 {
		return
	}
	folder = path.Join(at, folder)
	a.over = append(a.over, folder)
	maps.DeleteFunc(a.had, func(name string, o original) bool {
		if !isBelow(name, folder) {
			return false
		}
		a.size -= len(o.Text)
		return true
	})
}

// isBelow reports whether a path leads into a folder.
func isBelow(name, folder string) bool { return strings.HasPrefix(name, folder+"/") }

// note notes a file or a link of a folder, by its path from the outermost one. It is false if there are too many.
func (a *arms) note(git *beneath.Folder, at, name string) bool {
	o, is := a.look(git, name, path.Join(at, name))
	if !is || o.Mode.IsDir() {
		return true
	}
	if len(a.had) >= mostGuarded {
		return false
	}
	a.had[path.Join(at, name)] = o
	return true
}

func (a *arms) look(git *beneath.Folder, name, as string) (o original, is bool) {
	info, err := git.Lstat(name)
	if err != nil {
		return o, false
	}
	o.Mode = info.Mode()
	switch {
	case o.Mode&fs.ModeSymlink != 0:
		if parent, err := git.Folder(path.Dir(name)); err == nil {
			o.Link, _ = parent.Readlink(path.Base(name))
			_ = parent.Close()
		}
	case o.Mode.IsRegular():
		o.Size = info.Size()
		a.sum(git, name, as, &o)
	}
	return o, true
}

// sum notes the content of a file. One with too much to read is known by its number and its time of change, which nobody can set. After a command only those are read that
// may be the same as before: how long it takes is not the command's doing.
func (a *arms) sum(git *beneath.Folder, name, as string, o *original) {
	was, known := a.was[as]
	changed := a.after && (!known || was.Size != o.Size)
	if changed && path.Base(name) != "config" {
		return
	}
	f, info, err := git.File(name)
	if err != nil {
		return
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, mostKept+1))
	if err == nil && len(head) <= mostKept {
		if a.size+len(head) <= mostKeptAll {
			o.Text = append([]byte{}, head...)
			a.size += len(head)
		}
		sum := sha256.Sum256(head)
		o.Sum = sum[:]
		return
	}
	switch {
	case changed:
	case a.after && was.ID != "" || !a.after && a.read+o.Size > mostSummed || err != nil:
		st, _ := info.Sys().(*syscall.Stat_t)
		o.ID = fmt.Sprintf("%d:%d:%d", st.Dev, st.Ino, st.Ctim.Nano())
	default:
		a.read += o.Size
		sum := sha256.New()
		_, _ = sum.Write(head)
		_, _ = io.Copy(sum, io.LimitReader(f, o.Size)) // it may grow while it is read
		o.Sum = sum.Sum(nil)
	}
}

// restore puts back what a command changed of a guarded repository, and says what.
func (g guard) restore(top, around *beneath.Folder, since int64) (taken []string) {
	now := arms{had: map[string]original{}, after: true, was: map[string]original{".git": g.Dot}}
	if dot, is := now.look(around, ".git", ".git"); is && g.Dot.Mode != 0 && !dot.same(g.Dot) && !(dot.Mode.IsDir() && g.Dot.Mode.IsDir()) {
		taken = append(taken, g.Dot.put(around, ".git", since)...)
	}
	if g.Git == "" {
		return taken
	}
	return append(taken, g.restoreIn(top, since)...)
}

// restoreIn is restore for the folder of git. What has more than is noted now, and had not, goes as a whole: nobody knows what is in it.
func (g guard) restoreIn(top *beneath.Folder, since int64) (taken []string) {
	git, err := top.Unlocked(g.Git)
	if err != nil {
		return taken
	}
	defer git.Close()
	now := arms{had: map[string]original{}, after: true, was: g.Had}
	now.add(git, "")
	for _, folder := range now.over {
		if !slices.Contains(g.Over, folder) {
			taken = append(taken, keepFolder(git, folder, since)...)
		}
	}
	names := slices.Sorted(maps.Keys(now.had))
	for name := range g.Had {
		if _, is := now.had[name]; !is {
			names = append(names, name)
		}
	}
	for _, name := range names {
		is, was := now.had[name], g.Had[name]
		if is.same(was) || path.Base(name) == "config" && nothingMore(is, was) || path.Base(name) == "commondir" && ownRecord(git, name) ||
			slices.ContainsFunc(g.Over, func(folder string) bool { return isBelow(name, folder) }) {
			continue
		}
		parent, moved, err := folderOf(git, path.Dir(name), was.Mode != 0, since)
		if taken = append(taken, moved...); err != nil {
			continue // it went with its repository
		}
		if was.Text == nil && path.Base(name) == "config" && is.Mode.IsRegular() {
			taken = append(taken, disarmSettings(parent)...)
		} else {
			taken = append(taken, was.put(parent, path.Base(name), since)...)
		}
		_ = parent.Close()
	}
	return taken
}

// folderOf opens the folder in a folder of git that something lies in. With again set that was there before: if its hooks or the like are gone, or something else has their name, while the
// repository is still there, the folder is made again. It says what was moved aside for it.
func folderOf(git *beneath.Folder, dir string, again bool, since int64) (folder *beneath.Folder, moved []string, err error) {
	folder, err = git.Unlocked(dir)
	if err == nil || !again {
		return folder, nil, err
	}
	parts := strings.Split(dir, "/")
	for i, part := range slices.Backward(parts) {
		if part != "hooks" && part != "info" && part != "objects" {
			continue
		}
		if folder, err = git.Unlocked(path.Join(".", path.Join(parts[:i]...))); err != nil {
			continue
		}
		if _, err = folder.Lstat("HEAD"); err == nil {
			return remake(folder, parts[i:], since)
		}
		_ = folder.Close()
	}
	return nil, nil, err
}

// remake makes folders one below the other, after putting aside what is none. It lets go of the folder that it begins with.
func remake(folder *beneath.Folder, names []string, since int64) (made *beneath.Folder, moved []string, err error) {
	for _, name := range names {
		if info, err := folder.Lstat(name); err == nil && !info.IsDir() {
			moved = append(moved, original{}.put(folder, name, since)...)
		}
		_ = folder.Unlock()
		_ = unix.Mkdirat(int(folder.Fd()), name, 0o755)
		next, err := folder.Unlocked(name)
		_ = folder.Close()
		if err != nil {
			return nil, moved, err
		}
		folder = next
	}
	return folder, moved, nil
}

// keepFolder puts a folder of git aside, by its path.
func keepFolder(git *beneath.Folder, folder string, since int64) []string {
	parent, err := git.Unlocked(path.Dir(folder))
	if err != nil {
		return nil
	}
	defer parent.Close()
	return original{}.put(parent, path.Base(folder), since)
}

// unlockIn unlocks the folders in which hooks and the like are.
func unlockIn(git *beneath.Folder) {
	for _, name := range []string{"hooks", "info", "objects/info", "modules", "worktrees"} {
		if folder, err := git.Unlocked(name); err == nil {
			_ = folder.Close()
		}
	}
}

// nothingMore reports whether settings have none that name programs but those that there were.
func nothingMore(is, was original) bool {
	if is.Text == nil || was.Text == nil {
		return false
	}
	before, _ := parseGitSettings(string(was.Text))
	return onlyPlain(string(is.Text), before)
}

// put makes a name in a folder what it was. What has it now is kept beside it: the person may have made it while the command ran. It stays there if what was cannot be put
// back, for it may run programs.
func (o original) put(folder *beneath.Folder, name string, since int64) []string {
	at := filepath.Join(folder.Name(), name)
	as, err := keep(folder, name, since)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []string{failed("move "+at+" aside", err)}
	}
	switch err = nil; {
	case o.Link != "":
		err = folder.Symlink(o.Link, name)
	case o.Text != nil:
		err = folder.Replace(name, unknownName(), o.Text, o.Mode.Perm())
	}
	told := []string{at}
	if as != "" {
		told = []string{at + " (kept as " + as + ")"}
	}
	if err != nil {
		told = append(told, failed("restore "+at, err))
	}
	return told
}

// keep gives something in a folder a name that git does not know, and says which.
func keep(folder *beneath.Folder, name string, since int64) (as string, err error) {
	_ = folder.Unlock()
	as = name + keptAs(since)
	err = unix.Renameat2(int(folder.Fd()), name, int(folder.Fd()), as, unix.RENAME_NOREPLACE)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the command took it first, or it is too long
		as = keptAs(since)[1:] + "-" + rand.Text()
		err = unix.Renameat2(int(folder.Fd()), name, int(folder.Fd()), as, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return "", err
	}
	return as, nil
}

// ownRecord reports whether the commondir of a worktree's record leads to the repository that the record lies in.
func ownRecord(git *beneath.Folder, name string) bool {
	raw, _, err := git.Read(name, gitFile)
	return err == nil && path.Base(path.Dir(path.Dir(name))) == "worktrees" && path.Clean(strings.TrimRight(string(raw), "\r\n")) == "../.."
}

// ownIn is ownRecord for the record itself.
func ownIn(record *beneath.Folder) bool {
	raw, _, err := record.Read("commondir", gitFile)
	return err == nil && filepath.Base(filepath.Dir(record.Name())) == "worktrees" && path.Clean(strings.TrimRight(string(raw), "\r\n")) == "../.."
}
