package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

var (
	fpStepsTree   = failpoint.New("git.steps.before_tree")
	fpStepsCommit = failpoint.New("git.steps.before_commit")
	fpStepsRef    = failpoint.New("git.steps.before_ref")
	fpStepsDone   = failpoint.New("git.steps.after_ref")
)

// StepsPrefix is where the trees of tasks' workspaces are kept, a ref for each task.
const StepsPrefix = "refs/taskdaemon/steps/"

// What is put into one snapshot. A folder of data that nobody told git to ignore must not fill the repository of
// the person who works there.
const (
	maxStepFile  = 64 << 20  // bytes; a larger file is left out
	maxStepBytes = 512 << 20 // that are new or changed, in all
	maxStepFiles = 20_000    // that are new or changed
	maxLeftOut   = 100       // too large files that are named
)

// Tree is what a checkout held at one moment.
type Tree struct {
	Hash   string
	Commit string // that holds it
	Base   string // HEAD at that moment; empty before the first commit
	// LeftOut are files that were there and are too large to be in it, the first hundred.
	LeftOut []string
}

// Steps writes down what a checkout holds, again and again: tracked and untracked files, not ignored ones. Each tree
// that differs from the one before becomes a commit of refs/taskdaemon/steps/<name>, whose parents are the one before
// it and HEAD, so that all of them stay and no commit that was made meanwhile is lost.
//
// It has an index of its own that lasts, so that only files that changed are read, and where the kernel tells what changed only those are looked at: see watch. It is for one
// goroutine at a time, and must be closed.
type Steps struct {
	top     string
	common  string
	own     string // the folder of this checkout in the repository
	ref     string
	index   string
	last    Tree
	onto    []string // the parents of its commit
	heads   string   // what HEAD was read from when last was taken
	watch   *watch   // nil: everything is compared
	calm    bool     // the last look at everything found nothing new
	unheard bool     // the checkout cannot be watched
	// behind are files that were taken without the index, which has them as they were; true: they were gone.
	behind map[string]bool
}

// OpenSteps looks at the checkout around dir. The index is kept in the folder indexes, which is for this task alone
// and is made. NotFound when dir is not under git.
func OpenSteps(ctx context.Context, dir, name, indexes string) (*Steps, error) {
	out, err := run(ctx, call{dir: dir, args: []string{
		"rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir", "--git-path", "index",
	}})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != 4 {
		return nil, td.Errorf(td.Invalid, "read the place of %s: git said %q", dir, out)
	}
	s := &Steps{top: lines[0], common: lines[1], own: lines[2], ref: StepsPrefix + name, behind: map[string]bool{}}
	begin := func(index string) error { return copyIndex(index, lines[3]) }
	if taskAt(s.top) != "" && !sameFile(s.own, s.common) { // the task writes that one
		begin = func(index string) error { return seedIndex(ctx, index, s.top, s.common, s.own) }
	}
	if s.index, err = ownIndex(indexes, begin); err != nil {
		return nil, err
	}
	return s, s.read(ctx)
}

// read looks up what was taken last.
func (s *Steps) read(ctx context.Context) error {
	commit, err := resolve(ctx, s.top, s.ref+"^{commit}")
	if err != nil || commit == "" {
		return err
	}
	of, err := line(ctx, call{dir: s.top, args: []string{"log", "-1", "--format=%T %P", commit}})
	words := strings.Fields(of)
	if err != nil || len(words) == 0 {
		return err
	}
	s.last, s.onto = Tree{Hash: words[0], Commit: commit}, words[1:]
	return nil
}

// ownIndex is the index to use from now on: the one of before under a new name, else what begin makes. A git that
// a crash left alive may still write to the old name, and harms nothing there.
func ownIndex(folder string, begin func(index string) error) (string, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", td.Errorf(td.Storage, "make index folder: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", td.Errorf(td.Storage, "read index folder: %w", err)
	}
	var before string // names sort by age
	n := 0
	for _, e := range entries {
		var at int
		if _, err := fmt.Sscanf(e.Name(), indexName, &at); err == nil && e.Name() == fmt.Sprintf(indexName, at) {
			before, n = e.Name(), at
		}
	}
	own := fmt.Sprintf(indexName, n+1)
	if before != "" {
		err = os.Rename(filepath.Join(folder, before), filepath.Join(folder, own))
	} else {
		err = begin(filepath.Join(folder, own))
	}
	if err != nil {
		return "", td.Errorf(td.Storage, "take up index: %w", err)
	}
	for _, e := range entries {
		_ = os.Remove(filepath.Join(folder, e.Name())) // what stays is tried again next time
	}
	return filepath.Join(folder, own), nil
}

const indexName = "index-%09d"

// Take writes down what the checkout holds. When that is what it held the last time, it is the same Tree. unseen says that something may have written since then that a watch does
// not hear of: then everything is compared.
func (s *Steps) Take(ctx context.Context, message string, unseen bool) (Tree, error) {
	env := s.env()
	heard, all := s.heard(ctx)
	heads := s.headsNow()
	same := s.heads != "" && heads == s.heads
	if all && !unseen && same {
		if len(heard) == 0 {
			return s.last, nil
		}
		tree, err := s.takePlain(ctx, heard, message)
		if !errors.Is(err, errNotPlain) {
			if err != nil {
				s.Close() // what was heard is in no tree
			}
			return tree, err
		}
	}
	changed, err := s.look(ctx, env, heard, all && !unseen)
	if err != nil {
		s.Close() // what was heard is not in the index
		return Tree{}, err
	}
	if !changed && same {
		return s.last, nil
	}
	s.heads = "" // until the tree is written what the index holds is in none
	fpStepsTree.Hit()
	tree, err := line(ctx, call{dir: s.top, keep: true, bulk: true, env: env, args: []string{"write-tree"}})
	if err != nil {
		return Tree{}, err
	}
	head := s.last.Base
	if head == "" || s.headNow() != head {
		if head, err = line(ctx, call{dir: s.top, args: []string{"rev-parse", "-q", "--revs-only", "HEAD^{commit}"}}); err != nil {
			return Tree{}, err
		}
	}
	next := Tree{Hash: tree, Base: head, Commit: s.last.Commit, LeftOut: s.last.LeftOut}
	if tree != s.last.Hash || head != "" && !slices.Contains(s.onto, head) {
		if next.Commit, err = s.commit(ctx, tree, head, message); err != nil {
			return Tree{}, err
		}
	}
	s.last, s.heads = next, heads
	return next, nil
}

// env are the variables for a git that works on our index.
func (s *Steps) env() []string { return []string{"GIT_INDEX_FILE=" + s.index} }

// look brings the index up to what the checkout holds, and reports whether that is something else than was taken last. With all, heard is all that may have changed.
func (s *Steps) look(ctx context.Context, env, heard []string, all bool) (changed bool, err error) {
	// One that was gone and has come again is new: it counts unless it is ignored.
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(s.behind)), func(name string) bool { return !s.behind[name] })
	if len(gone) > 0 {
		if err := s.drop(ctx, env, gone); err != nil {
			return false, err
		}
	}
	if all {
		changed, err = s.lookAt(ctx, env, heard)
	} else {
		if s.watch != nil || s.calm && !s.unheard {
			s.attend(ctx) // while much changes, folders come and go, and watching them costs more than it saves
		}
		changed, s.last.LeftOut, err = s.update(ctx, env, "--others", "--modified", "--deleted")
		s.calm = !changed
	}
	if changed && s.watch != nil {
		s.watch.plain.forget()
	}
	if err == nil && len(s.behind) > 0 {
		changed = true
		clear(s.behind)
	}
	return changed, err
}

// lookAt is look for files that are known to be all that may have changed.
func (s *Steps) lookAt(ctx context.Context, env, names []string) (changed bool, err error) {
	names = append(slices.Clone(names), slices.Collect(maps.Keys(s.behind))...)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return false, nil
	}
	what := []string{"--cached", "--others", "--"}
	for _, name := range names {
		what = append(what, ":(top,literal)"+name)
	}
	changed, leftOut, err := s.update(ctx, env, what...)
	others := slices.DeleteFunc(s.last.LeftOut, func(n string) bool { return slices.Contains(names, n) })
	s.last.LeftOut = append(others, leftOut[:min(len(leftOut), maxLeftOut-len(others))]...)
	return changed, err
}

// update brings the index up to those files that git lists, and reports whether that changed it, and what is too large for it.
func (s *Steps) update(ctx context.Context, env []string, list ...string) (changed bool, leftOut []string, err error) {
	set := []string{"core.safecrlf=false"}
	out, err := run(ctx, call{dir: s.top, set: set, env: env, args: append([]string{"ls-files", "-z", "--exclude-standard"}, list...)})
	if err != nil {
		return false, nil, err
	}
	names, beyond, leftOut, inner, err := s.worth(out)
	if err == nil && len(beyond) > 0 {
		err = s.drop(ctx, env, beyond)
	}
	for try := 0; err == nil && len(names) > 0; try++ {
		_, err = run(ctx, call{
			dir: s.top, keep: true, bulk: true, set: set, env: env, stdin: strings.NewReader(strings.Join(names, "\x00") + "\x00"),
			args: []string{"update-index", "-z", "--add", "--remove", "--replace", "--ignore-skip-worktree-entries", "--stdin"},
		})
		if err == nil {
			return true, leftOut, nil
		}
		// git stops at the first repository without a commit. All go together, and all repositories where files do not tell which they are: there may be thousands.
		m := bornNot.FindStringSubmatch(err.Error())
		if m == nil || try == 2 {
			return false, nil, err
		}
		names = slices.DeleteFunc(names, func(n string) bool {
			return n == m[1] || inner[n] && (try == 1 || withoutCommit(filepath.Join(s.top, n)))
		})
		err = nil
	}
	return len(beyond) > 0, leftOut, err
}

// drop takes files from the index that are not in the checkout, whatever stands in their place.
func (s *Steps) drop(ctx context.Context, env, names []string) error {
	_, err := run(ctx, call{
		dir: s.top, keep: true, bulk: true, env: env, stdin: strings.NewReader(strings.Join(names, "\x00") + "\x00"),
		args: []string{"update-index", "-z", "--force-remove", "--stdin"},
	})
	return err
}

// bornNot matches the complaint of update-index about a repository that has no commit yet.
var bornNot = regexp.MustCompile(`error: (.*?): is a directory - add`)

// worth are the files of a list of git's that are put into a snapshot; leftOut are too large for it; inner says which are repositories inside the checkout. Those beyond a link are none of the checkout's: a
// folder of theirs became one.
func (s *Steps) worth(list []byte) (names, beyond, leftOut []string, inner map[string]bool, err error) {
	var size int64
	links := map[string]bool{".": false}
	inner = map[string]bool{}
	for name := range bytes.SplitSeq(list, []byte{0}) {
		n, repository := strings.CutSuffix(string(name), "/")
		if n == "" || len(names) > 0 && names[len(names)-1] == n {
			continue
		}
		if s.beyondLink(path.Dir(n), links) {
			beyond = append(beyond, n)
			continue
		}
		info, err := os.Lstat(filepath.Join(s.top, n))
		if err != nil && !gone(err) {
			return nil, nil, nil, nil, td.Errorf(td.Storage, "look at %s: %w", n, err)
		}
		if err == nil && info.Mode().IsRegular() {
			if info.Size() > maxStepFile {
				if len(leftOut) < maxLeftOut && !slices.Contains(leftOut, n) {
					leftOut = append(leftOut, n)
				}
				continue
			}
			size += info.Size()
		}
		if repository {
			inner[n] = true
		}
		names = append(names, n)
	}
	slices.Reverse(names) // what is new may stand in the place of what is gone, which must go first
	if len(names) > maxStepFiles || size > maxStepBytes {
		return nil, nil, nil, nil, td.Errorf(td.Refused, "%d files with %d MiB are new or changed: that is too much for a snapshot", len(names), size>>20).
			WithHint("let git ignore what is made, in .gitignore")
	}
	return names, beyond, leftOut, inner, nil
}

// beyondLink reports whether a folder of the checkout is reached through a symbolic link. What is found is kept in links.
func (s *Steps) beyondLink(dir string, links map[string]bool) bool {
	is, known := links[dir]
	if !known {
		info, err := os.Lstat(filepath.Join(s.top, dir))
		is = s.beyondLink(path.Dir(dir), links) || err == nil && info.Mode()&fs.ModeSymlink != 0
		links[dir] = is
	}
	return is
}

// commit puts a tree on top of the ones before.
func (s *Steps) commit(ctx context.Context, tree, head, message string) (string, error) {
	fpStepsCommit.Hit()
	args := []string{"commit-tree", "--no-gpg-sign", tree, "-m", message}
	onto := s.parents(head)
	for _, p := range onto {
		args = append(args, "-p", p)
	}
	commit, err := line(ctx, call{dir: s.top, keep: true, bulk: true, args: args})
	if err != nil {
		return "", err
	}
	return commit, s.advance(ctx, commit, onto)
}

// parents are those of the next commit.
func (s *Steps) parents(head string) (onto []string) {
	for _, p := range []string{s.last.Commit, head} {
		if p != "" && !slices.Contains(onto, p) {
			onto = append(onto, p)
		}
	}
	return onto
}

// advance has the ref follow to a commit on top of the last one.
func (s *Steps) advance(ctx context.Context, commit string, onto []string) error {
	fpStepsRef.Hit()
	old := s.last.Commit
	if old == "" {
		old = strings.Repeat("0", len(commit))
	}
	if _, err := run(ctx, call{dir: s.top, keep: true, bulk: true, args: []string{"update-ref", s.ref, commit, old}}); err != nil {
		return errors.Join(err, s.read(ctx)) // who else moved it? The next look is on top of that.
	}
	fpStepsDone.Hit()
	s.onto = onto
	return nil
}

// headNow is the commit that HEAD stands for, if that can be read without git; it may be none that the repository has.
func (s *Steps) headNow() string {
	head := plainText(filepath.Join(s.own, "HEAD"))
	if ref, symbolic := strings.CutPrefix(head, "ref: "); symbolic && filepath.IsLocal(ref) {
		head = plainText(filepath.Join(s.common, ref))
	}
	if !isHash(head) {
		return ""
	}
	return head
}

// headsNow is what says whether HEAD moved, read without git: the branch, and where it is. A branch that is kept
// elsewhere moves unseen until the files change, too.
func (s *Steps) headsNow() string {
	head := gitfile.Text(filepath.Join(s.own, "HEAD"))
	at := ""
	if ref := strings.TrimSpace(strings.TrimPrefix(head, "ref: ")); filepath.IsLocal(ref) {
		at = gitfile.Text(filepath.Join(s.common, ref))
	}
	return head + at + gitfile.Text(filepath.Join(s.common, "reftable", "tables.list"))
}
