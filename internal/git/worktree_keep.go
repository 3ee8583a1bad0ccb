package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

var (
	fpKeepRef  = failpoint.New("git.worktree.before_kept")
	fpKeepDone = failpoint.New("git.worktree.kept")
)

// Keep records everything in the worktree that is not ignored as the commit that ref, by its full name, stands for then, and
// what is staged, in conflict or in the midst of a merge with it, so that Restore can bring all of that back. Its first parent is the
// branch's commit; what the ref stood for before stays among its parents. Files are kept as git would commit them.
func (w Worktree) Keep(ctx context.Context, ref string) (commit string, err error) {
	if !Retained(ref) {
		return "", td.Errorf(td.Invalid, "keep %s: %q is no ref that is retained", w.Branch, ref)
	}
	p, err := w.open(ctx)
	if err != nil {
		return "", err
	}
	if err := p.busy(td.Conflict, "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer"); err != nil {
		return "", err
	}
	head, err := p.tip(ctx)
	if err != nil {
		return "", err
	}
	now, err := p.content(ctx, head)
	if err != nil {
		return "", err
	}
	last, err := p.at(ctx, ref)
	if err != nil {
		return "", err
	}
	if last != "" {
		switch same, err := p.keeps(ctx, last, head, now); {
		case err != nil:
			return "", err
		case same:
			return last, nil
		}
	}
	staged, err := CommitTree(ctx, w.Repo, now.image, "What is staged on "+w.Branch+"\n", slices.Concat([]string{head}, now.heads)...)
	if err != nil {
		return "", err
	}
	parents := []string{head, staged}
	if last != "" {
		parents = append(parents, last)
	}
	if commit, err = CommitTree(ctx, w.Repo, now.tree, "What the worktree of "+w.Branch+" held\n", parents...); err != nil {
		return "", err
	}
	fpKeepRef.Hit()
	if err := MoveRef(ctx, w.Repo, ref, commit, last); err != nil {
		return "", err
	}
	fpKeepDone.Hit()
	return commit, nil
}

// passing are the refs of taskdaemon's own that are moved on or let go, snapshots after some time, the rest at any moment; or from which
// nothing is brought back.
var passing = []string{runRefs, keptBefore, movingFrom, movingTo, graphNext, StepsPrefix, snapshotPrefix, SeenRefs, SharedRefs, BegunRefs, WithdrawnRefs}

// Retained reports whether what a ref stands for may be relied on.
func Retained(ref string) bool {
	for _, not := range passing {
		if strings.HasPrefix(ref, not) {
			return false
		}
	}
	for _, in := range []string{"refs/heads/", "refs/tags/", "refs/taskdaemon/"} {
		if strings.HasPrefix(ref, in) && len(ref) > len(in) {
			return true
		}
	}
	return false
}

// mostState is how long a file may be in which git remembers what is in progress; a message of a merge is one.
const mostState = 16 << 20

// content is all that a worktree holds.
type content struct {
	tree  string   // its files
	image string   // its index, as a tree: folders 0 to 3 for the stages of files, and the files of state
	heads []string // commits that the state names
	state bool     // something is in progress
}

// content records what the checkout holds, without a change to it.
func (p *place) content(ctx context.Context, head string) (content, error) {
	temp, err := scratch()
	if err != nil {
		return content{}, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	var c content
	if c.tree, err = p.stage(ctx, filepath.Join(temp, "files"), head); err != nil {
		return content{}, err
	}
	out, err := p.run(ctx, "ls-files", "--stage", "-z")
	if err != nil {
		return content{}, err
	}
	list, ok := imageList(string(out))
	if !ok {
		return content{}, td.Errorf(td.Internal, "read index: git said %.100q", out)
	}
	for _, name := range stateFiles {
		raw, err := gitfile.Read(filepath.Join(p.git, name), mostState)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return content{}, td.Errorf(td.Storage, "read state: %w", err)
		}
		blob, err := p.fed(ctx, string(raw), "hash-object", "-w", "--stdin")
		if err != nil {
			return content{}, err
		}
		c.state = true
		list += modePlain + " " + blob + " 0\tstate/" + name + "\x00"
		if strings.HasSuffix(name, "_HEAD") {
			c.heads = append(c.heads, strings.Fields(string(raw))...)
		}
	}
	q := p.with("GIT_INDEX_FILE=" + filepath.Join(temp, "image"))
	if _, err := q.fed(ctx, list, "update-index", "-z", "--index-info"); err != nil {
		return content{}, err
	}
	c.image, err = q.line(ctx, "write-tree")
	return c, err
}

// imageList turns what `git ls-files --stage -z` lists into files of one tree, in a folder for each stage.
func imageList(out string) (string, bool) {
	var b strings.Builder
	for rec := range strings.SplitSeq(out, "\x00") {
		if rec == "" {
			continue
		}
		head, name, ok := strings.Cut(rec, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 3 || name == "" {
			return "", false
		}
		b.WriteString(f[0] + " " + f[1] + " 0\t" + f[2] + "/" + name + "\x00")
	}
	return b.String(), true
}

// imageOf is the other way round: of what `git ls-tree -r -z` lists, the entries of the index, and the files of state by name.
func imageOf(out string) (list string, state map[string]string, ok bool) {
	state = map[string]string{}
	var b strings.Builder
	for rec := range strings.SplitSeq(out, "\x00") {
		if rec == "" {
			continue
		}
		head, name, _ := strings.Cut(rec, "\t")
		f := strings.Fields(head)
		stage, name, cut := strings.Cut(name, "/")
		switch {
		case !cut || len(f) != 3:
			return "", nil, false
		case stage == "state" && slices.Contains(stateFiles, name):
			state[name] = f[2]
		case len(stage) == 1 && stage >= "0" && stage <= "3":
			b.WriteString(f[0] + " " + f[2] + " " + stage + "\t" + name + "\x00")
		default:
			return "", nil, false
		}
	}
	return b.String(), state, true
}

// keeps reports whether a commit that Keep made of a branch at head holds just that.
func (p *place) keeps(ctx context.Context, commit, head string, now content) (bool, error) {
	out, err := p.line(ctx, "log", "-1", "--no-color", "--format=%T %P", commit)
	if err != nil {
		return false, err
	}
	f := strings.Fields(out)
	if len(f) < 3 || f[0] != now.tree || f[1] != head {
		return false, nil
	}
	image, err := treeOf(ctx, p.repo, f[2])
	return image == now.image, err
}

// Restore brings a worktree back that Keep recorded: its branch, its files, what was staged and what was in progress. One
// that is there is left as it is. NotFound when there is no such ref; Conflict when something else stands in its place, or its branch has
// gone on since.
func (w Worktree) Restore(ctx context.Context, ref string) error {
	common, err := w.common()
	if err != nil {
		return err
	}
	switch cond, _, err := w.look(ctx, common); {
	case err != nil:
		return err
	case cond == Good:
		return nil
	case cond == Foreign:
		return w.foreign()
	}
	out, err := run(ctx, call{dir: w.Repo, args: []string{"log", "-1", "--no-color", "--format=%H %P", ref, "--"}})
	if err != nil {
		return &td.Error{Kind: td.NotFound, Err: err}
	}
	f := strings.Fields(string(out))
	if len(f) < 3 {
		return td.Errorf(td.Invalid, "%s holds no worktree", ref)
	}
	kept, head, staged := f[0], f[1], f[2]
	switch is, err := RefAt(ctx, w.Repo, w.ref()); {
	case err != nil:
		return err
	case is != "" && is != head:
		return td.Errorf(td.Conflict, "the branch %s is at %.12s and not at %.12s, where it was when its worktree was kept", w.Branch, is, head)
	}
	return w.build(ctx, common, head, func(ctx context.Context, p *place) error { return p.unpack(ctx, kept, staged) })
}

// unpack gives an empty checkout what Keep recorded.
func (p *place) unpack(ctx context.Context, kept, staged string) error {
	if _, err := p.run(ctx, "read-tree", "--reset", "-u", "--no-recurse-submodules", kept); err != nil {
		return err
	}
	out, err := p.run(ctx, "ls-tree", "-r", "-z", "--full-tree", staged)
	if err != nil {
		return err
	}
	list, state, ok := imageOf(string(out))
	if !ok {
		return td.Errorf(td.Invalid, "%.12s holds no worktree", kept)
	}
	index, err := p.ownIndex()
	if err != nil {
		return err
	}
	q := p.with("GIT_INDEX_FILE=" + index)
	if _, err := q.fed(ctx, list, "update-index", "-z", "--index-info"); err != nil {
		return err
	}
	if err := q.refresh(ctx); err != nil {
		return err
	}
	if err := p.placeIndex(index); err != nil {
		return err
	}
	for name, blob := range state {
		content, err := p.run(ctx, "cat-file", "blob", blob)
		if err != nil {
			return err
		}
		file := filepath.Join(p.git, name)
		err = os.MkdirAll(filepath.Dir(file), 0o777)
		if err == nil {
			err = os.WriteFile(file, content, 0o666)
		}
		if err != nil {
			return td.Errorf(td.Storage, "restore state: %w", err)
		}
	}
	for _, path := range []string{p.top, p.git} { // they may be on two disks
		if err := syncDisk(path); err != nil {
			return td.Errorf(td.Storage, "restore worktree: %w", err)
		}
	}
	return nil
}
