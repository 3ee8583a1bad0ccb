package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

var (
	fpSnapshotCommit = failpoint.New("git.snapshot.before_commit")
	fpSnapshotRef    = failpoint.New("git.snapshot.before_ref")
	fpSnapshotDone   = failpoint.New("git.snapshot.after_ref")
)

// snapshotPrefix is where snapshots of workspaces are kept: out of sight of branch lists and pushes.
const snapshotPrefix = "refs/taskdaemon/snapshots/"

// TreeHash is the hash of what the checkout around dir holds: tracked and untracked files, not ignored
// ones. It leaves nothing behind. A repository inside the checkout counts by its HEAD, and not at all
// before its first commit. NotFound when dir is not under git.
func TreeHash(ctx context.Context, dir string) (string, error) {
	w, err := openWork(ctx, dir)
	if err != nil {
		return "", err
	}
	defer w.close()
	if err := w.leaveNothing(); err != nil {
		return "", err
	}
	return w.writeTree(ctx, false)
}

// leaveNothing has objects written to a folder that is removed when the work is closed.
func (w *work) leaveNothing() error {
	objects := filepath.Join(w.temp, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return fmt.Errorf("make object folder: %w", err)
	}
	w.env = append(w.env, "GIT_OBJECT_DIRECTORY="+objects,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+gitfile.QuoteAlternate(filepath.Join(w.common, "objects")))
	return nil
}

// Snapshot records what the checkout around dir holds as the commit refs/taskdaemon/snapshots/<name>. Its
// parents are HEAD and the snapshot before it, so that no earlier one is lost. When nothing has changed
// since the snapshot before, that one is returned.
func Snapshot(ctx context.Context, dir, name, message string) (tree, commit string, err error) {
	w, err := openWork(ctx, dir)
	if err != nil {
		return "", "", err
	}
	defer w.close()
	if tree, err = w.writeTree(ctx, true); err != nil {
		return "", "", err
	}
	ref := snapshotPrefix + name
	head, err := resolve(ctx, w.top, "HEAD^{commit}")
	if err != nil {
		return "", "", err
	}
	last, err := resolve(ctx, w.top, ref+"^{commit}")
	if err != nil {
		return "", "", err
	}
	if last != "" {
		of, err := line(ctx, call{dir: w.top, args: []string{"log", "-1", "--format=%T %P", last}})
		if err != nil {
			return "", "", err
		}
		if of == tree || strings.HasPrefix(of+" ", tree+" "+head+" ") {
			return tree, last, nil
		}
	}
	fpSnapshotCommit.Hit()
	args := []string{"commit-tree", "--no-gpg-sign", tree, "-m", message}
	for _, p := range []string{head, last} {
		if p != "" {
			args = append(args, "-p", p)
		}
	}
	if commit, err = line(ctx, call{dir: w.top, keep: true, args: args}); err != nil {
		return "", "", err
	}
	fpSnapshotRef.Hit()
	old := last
	if old == "" {
		old = strings.Repeat("0", len(commit))
	}
	if _, err = run(ctx, call{dir: w.top, keep: true, args: []string{"update-ref", ref, commit, old}}); err != nil {
		return "", "", err
	}
	fpSnapshotDone.Hit()
	return tree, commit, nil
}

// resolve is the object a name stands for, or empty when there is none.
func resolve(ctx context.Context, dir, name string) (string, error) {
	out, err := line(ctx, call{dir: dir, args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", name}})
	if err != nil && out == "" && td.IsKind(err, td.Internal) {
		return "", nil // with --quiet git says nothing when there is no such object
	}
	return out, err
}

// work is a checkout looked at through an index of our own.
type work struct {
	top    string
	common string // the repository's folder, the same for all linked checkouts
	temp   string
	env    []string
	links  []string // repositories that the index names
}

func openWork(ctx context.Context, dir string) (*work, error) {
	out, err := run(ctx, call{dir: dir, args: []string{
		"rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-path", "index",
	}})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != 3 {
		return nil, td.Errorf(td.Invalid, "read the place of %s: git said %q", dir, out)
	}
	temp, err := scratch()
	if err != nil {
		return nil, err
	}
	w := &work{top: lines[0], common: lines[1], temp: temp}
	index := filepath.Join(temp, "index")
	if w.links, err = indexFor(ctx, call{dir: w.top, set: placeSettings}, index, w.top, w.common, lines[2]); err != nil {
		w.close()
		return nil, err
	}
	w.env = []string{"GIT_INDEX_FILE=" + index}
	return w, nil
}

// indexFor makes an index of our own of what a checkout's index says, and returns the repositories that it names. That of a task's worktree is written by the task, and is not
// believed; any other is a person's.
func indexFor(ctx context.Context, c call, index, top, common, theirs string) (links []string, err error) {
	if own := filepath.Dir(theirs); taskAt(top) != "" && !sameFile(own, common) {
		return freshIndex(ctx, c, index, top, common, own)
	}
	if err := copyIndex(index, theirs); err != nil {
		return nil, err
	}
	c.env = append(append([]string{}, c.env...), "GIT_INDEX_FILE="+index)
	c.args = []string{"ls-files", "-z", "--stage"}
	out, err := run(ctx, c)
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if at, name, ok := strings.Cut(rec, "\t"); ok && strings.HasPrefix(at, modeLink+" ") {
			links = append(links, name)
		}
	}
	return links, err
}

func (w *work) close() { _ = os.RemoveAll(w.temp) }

// copyIndex copies the user's index so that unchanged files need not be read again. The copy keeps the
// time of the original: git trusts a file's recorded state only if it is older than the index.
func copyIndex(to, from string) error {
	folder, err := beneath.Open(real(filepath.Dir(from)))
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	defer func() { _ = folder.Close() }()
	in, st, err := folder.File(filepath.Base(from)) // a link may lead to what whoever put it there cannot read
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy index: %w", err)
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chtimes(to, st.ModTime(), st.ModTime())
	}
	if err != nil {
		return fmt.Errorf("copy index: %w", err)
	}
	return nil
}

// unborn matches git's complaint about a repository inside the checkout that has no commit yet.
var unborn = regexp.MustCompile(`error: '(.*?)/?' does not have a commit checked out`)

// writeTree adds everything to our index and writes it as a tree.
func (w *work) writeTree(ctx context.Context, keep bool) (string, error) {
	set := slices.Clone(placeSettings)
	if !keep {
		set = append(set, "core.compression=0", "core.fsync=none")
	}
	if err := fits(ctx, call{dir: w.top, env: w.env}); err != nil {
		return "", err
	}
	var skip []string
	for try := 0; ; try++ {
		err := addAll(ctx, call{dir: w.top, keep: keep, set: set, env: w.env}, w.links, skip)
		if err == nil {
			break
		}
		// As for a snapshot, all go together.
		m := unborn.FindStringSubmatch(err.Error())
		if m == nil || try == 2 {
			return "", err
		}
		if skip, err = w.inner(ctx, try == 0); err != nil {
			return "", err
		}
		skip = append(skip, m[1])
	}
	return line(ctx, call{dir: w.top, keep: keep, set: set, env: w.env, args: []string{"write-tree"}})
}

// What git writes of a checkout, in a scratch folder beside the index or the repository: at most so many bytes, and not the last ones of the disk.
const (
	maxTreeBytes = 4 << 30
	spareShare   = 10 // of what is free, one in so many
)

// fits refuses a checkout whose new and changed files would not fit. They count by how long they are: holes take no room on the disk, so that no limit of a command's keeps it from
// making them, but git writes them out.
func fits(ctx context.Context, c call) error {
	c.args = []string{"ls-files", "-z", "--others", "--modified", "--exclude-standard"}
	list, err := run(ctx, c)
	if err != nil {
		return err
	}
	room := int64(maxTreeBytes)
	var disk unix.Statfs_t
	if unix.Statfs(filepath.Dir(variable(c.env, "GIT_INDEX_FILE")), &disk) == nil {
		room = min(room, int64(disk.Bavail)*disk.Bsize*(spareShare-1)/spareShare)
	}
	var size int64
	for name := range strings.SplitSeq(string(list), "\x00") {
		if info, err := os.Lstat(filepath.Join(c.dir, name)); name != "" && err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	if size > 0 && size > room {
		return td.Errorf(td.Refused, "%d MiB of files are new or changed in %s, and %d MiB can be taken down", size>>20, c.dir, max(room, 0)>>20).
			WithHint("let git ignore what is made, in .gitignore, or remove it")
	}
	return nil
}

// addAll adds all files of a checkout to an index, but for those at some paths. Into repositories that the index names, links, git would look by itself, and apply their
// filters to their files; of those only the commit is noted.
func addAll(ctx context.Context, c call, links, skip []string) error {
	links = slices.DeleteFunc(slices.Clone(links), func(name string) bool { return slices.Contains(skip, name) })
	paths := []string{"."}
	for _, name := range slices.Concat(skip, links) {
		paths = append(paths, ":(exclude,literal)"+name)
	}
	c.args, c.stdin = []string{"add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul"}, strings.NewReader(strings.Join(paths, "\x00")+"\x00")
	if _, err := run(ctx, c); err != nil || len(links) == 0 {
		return err
	}
	c.args, c.stdin = []string{"update-index", "-z", "--add", "--remove", "--replace", "--stdin"}, strings.NewReader(strings.Join(links, "\x00")+"\x00")
	_, err := run(ctx, c)
	return err
}

// inner are the repositories inside the checkout that its index does not know; those that have no commit, or all.
func (w *work) inner(ctx context.Context, unborn bool) (names []string, err error) {
	out, err := run(ctx, call{dir: w.top, env: w.env, args: []string{"ls-files", "-z", "--others", "--exclude-standard"}})
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name, is := strings.CutSuffix(name, "/"); is && (!unborn || withoutCommit(filepath.Join(w.top, name))) {
			names = append(names, name)
		}
	}
	return names, nil
}
