package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpAdvanceMeant  = failpoint.New("git.worktree.meant_to_advance")
	fpAdvanceFiles  = failpoint.New("git.worktree.advanced_files")
	fpAdvanceBranch = failpoint.New("git.worktree.advanced_branch")
	fpAdvanceMoved  = failpoint.New("git.worktree.advanced")
)

// The files of a checkout cannot all change at one instant. So two refs say first from which commit to which the checkout goes;
// then git changes the files, then the index, and when those are on disk the branch moves and the refs go. Whoever
// comes after a crash finds the refs and knows that files that are neither as before nor as after may be half-written ones.
//
// The branch is held all the while: what a person commits in between would have our index, and be theirs.
const (
	movingFrom = "refs/taskdaemon/moving-from/"
	movingTo   = "refs/taskdaemon/moving-to/"
)

// advance brings files, index and branch of a clean checkout from one commit to another.
func (p *place) advance(ctx context.Context, from, to string) error {
	name := shortRef(p.ref)
	zero := strings.Repeat("0", len(to))
	if err := p.transact(ctx, "update "+movingFrom+name+" "+from+" "+zero, "update "+movingTo+name+" "+to+" "+zero); err != nil {
		return err
	}
	fpAdvanceMeant.Hit()
	held, err := p.claim(ctx, from, to)
	if err != nil {
		return errors.Join(err, p.forgo(ctx, from, to))
	}
	defer held.release()
	if err := p.refresh(ctx); err != nil {
		return errors.Join(err, p.forgo(ctx, from, to))
	}
	if err := p.readTree(ctx, from, to); err != nil {
		switch said := err.Error(); { // it checks before it begins
		case strings.Contains(said, "would be overwritten"), strings.Contains(said, "would lose untracked"), strings.Contains(said, "not uptodate"):
			return errors.Join(td.Errorf(td.Refused, "uncommitted changes in %s would be overwritten by this work; commit or stash them (git said: %w)", p.top, err), p.forgo(ctx, from, to))
		case td.IsKind(err, td.Locked):
			return errors.Join(err, p.forgo(ctx, from, to))
		}
		return err
	}
	fpAdvanceFiles.Hit()
	if err := p.syncBetween(ctx, from, to); err != nil {
		return err
	}
	if err := held.move(); err != nil {
		return err
	}
	fpAdvanceBranch.Hit()
	_ = p.forgo(ctx, from, to) // the branch has moved: if they stay, the next one removes them
	fpAdvanceMoved.Hit()
	return nil
}

// syncBetween sees to it that the files that differ between two commits are on disk.
func (p *place) syncBetween(ctx context.Context, from, to string) error {
	differ, err := p.between(ctx, from, to)
	if err != nil {
		return err
	}
	var names []string
	for _, d := range differ {
		names = append(names, d.path)
	}
	return p.syncFiles(names)
}

// arrive moves the branch of a checkout that a crash has cut off, once the files are on disk.
func (p *place) arrive(ctx context.Context, from, to string) error {
	if err := p.syncBetween(ctx, from, to); err != nil {
		return err
	}
	name := shortRef(p.ref)
	err := p.transact(ctx, "update "+p.ref+" "+to+" "+from, "delete "+movingFrom+name+" "+from, "delete "+movingTo+name+" "+to)
	if td.IsKind(err, td.Conflict) { // a person has committed meanwhile
		if rerr := p.retreat(ctx, from, to); rerr != nil {
			return errors.Join(rerr, err)
		}
	}
	return err
}

// retreat brings files and index, which are at a commit that the branch did not come to, to where somebody else has moved the branch. What is theirs in files that differ is not touched.
func (p *place) retreat(ctx context.Context, from, to string) error {
	now, err := p.at(ctx, p.ref)
	if err != nil {
		return err
	}
	if now != "" && now != from {
		if err := p.refresh(ctx); err != nil {
			return err
		}
		if err := p.readTree(ctx, to, now); err != nil {
			return err
		}
	}
	name := shortRef(p.ref)
	return p.transact(ctx, "delete "+movingFrom+name, "delete "+movingTo+name)
}

// forgo gives up going from one commit to the other.
func (p *place) forgo(ctx context.Context, from, to string) error {
	name := shortRef(p.ref)
	return p.transact(ctx, "delete "+movingFrom+name+" "+from, "delete "+movingTo+name+" "+to)
}

// transact changes refs, all or none.
func (p *place) transact(ctx context.Context, commands ...string) error {
	_, err := p.fed(ctx, orders(commands...), "update-ref", "-m", "taskdaemon", "--stdin")
	return err
}

// refresh lets the index know files that were touched but have not changed.
func (p *place) refresh(ctx context.Context) error {
	_, err := p.run(ctx, "update-index", "-q", "--refresh")
	if exitCode(err) == 1 && td.IsKind(err, td.Internal) {
		return nil // some have changed
	}
	if _, lerr := os.Lstat(p.indexLock()); err != nil && lerr == nil { // of which git says nothing
		return p.indexLocked()
	}
	return err
}

// settle ends a move of the checkout that a crash has cut off: it is as before, or as after if it had come that far. Conflict when
// files have since become something else.
func (p *place) settle(ctx context.Context) error {
	from, err := p.at(ctx, movingFrom+shortRef(p.ref))
	if err != nil || from == "" {
		return err
	}
	p.sweep()
	to, err := p.at(ctx, movingTo+shortRef(p.ref))
	if err != nil {
		return err
	}
	if is, err := p.at(ctx, p.ref); err != nil {
		return err
	} else if is != from || to == "" {
		// Somebody has moved the branch since: what the files are is theirs to say, unless they are just what we made of them.
		if arrived, err := p.indexIs(ctx, cmp.Or(to, from)); err != nil {
			return err
		} else if arrived && to != "" && is != "" {
			return p.retreat(ctx, from, to)
		}
		return p.transact(ctx, "delete "+movingFrom+shortRef(p.ref), "delete "+movingTo+shortRef(p.ref))
	}
	arrived, err := p.indexIs(ctx, to)
	if err != nil {
		return err
	}
	target := from
	if arrived {
		target = to
	}
	if err := p.mend(ctx, from, to, target); err != nil {
		return err
	}
	if arrived {
		return p.arrive(ctx, from, to)
	}
	return p.forgo(ctx, from, to)
}

// indexIs reports whether the index holds exactly what a commit does.
func (p *place) indexIs(ctx context.Context, commit string) (bool, error) {
	_, err := p.run(ctx, "diff-index", "--cached", "--quiet", notInside, commit, "--")
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// mend gives every file that differs between two commits the content it has in one of them, target, which the index is at. A file that
// is as in neither, and no beginning of one, is somebody's work.
func (p *place) mend(ctx context.Context, from, to, target string) error {
	if err := p.refresh(ctx); err != nil {
		return err
	}
	differ, err := p.between(ctx, from, to)
	if err != nil {
		return err
	}
	var theirs, write, remove []string
	for _, d := range differ {
		want := d.was
		if target == to {
			want = d.is
		}
		state, err := p.compare(ctx, d, want)
		switch {
		case err != nil:
			return err
		case state == fileTheirs:
			theirs = append(theirs, d.path)
		case state == fileWanted:
		case want == none:
			remove = append(remove, d.path)
		default:
			write = append(write, d.path)
		}
	}
	if len(theirs) > 0 {
		return td.Errorf(td.Conflict, "an update of %s to %.12s was interrupted, and these files were edited since: %s", p.top, to, someOf(theirs)).
			WithHint("%s", p.advice("%s", td.Words(movedAway(p.top, theirs))))
	}
	root, err := os.OpenRoot(p.top)
	if err != nil {
		return td.Errorf(td.Storage, "mend checkout: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, name := range remove {
		if err := removeFile(root, name); err != nil {
			return td.Errorf(td.Storage, "mend checkout: %w", err)
		}
	}
	if len(write) == 0 {
		return nil
	}
	return p.checkOut(ctx, write)
}

// movedAway is what to type to keep some files of a checkout under other names, at its top: in a folder that is to come they would be in the way.
func movedAway(top string, names []string) string {
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = td.Typed("mv %s %s", filepath.Join(top, name), filepath.Join(top, strings.ReplaceAll(name, "/", "-")+".mine"))
	}
	return strings.Join(lines, " && ")
}

// readTree brings the files and the index of the checkout from one commit to another.
func (p *place) readTree(ctx context.Context, from, to string) error {
	return p.apart(func(q *place) error {
		_, err := q.run(ctx, "read-tree", "-m", "-u", "--no-recurse-submodules", from, to)
		return err
	})
}

// checkOut gives files the content that they have in the index.
func (p *place) checkOut(ctx context.Context, names []string) error {
	return p.apart(func(q *place) error {
		_, err := q.fed(ctx, strings.Join(names, "\x00")+"\x00", "checkout-index", "--force", "--quiet", "-u", "-z", "--stdin")
		return err
	})
}

// removeFile removes a file and the folders that are empty without it.
func removeFile(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !gone(err) {
		return err
	}
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if root.Remove(dir) != nil {
			return nil
		}
	}
	return nil
}

// difference is a file that two commits do not have alike.
type difference struct {
	path    string
	was, is entry
}

// between lists the files that differ between two commits.
func (p *place) between(ctx context.Context, from, to string) ([]difference, error) {
	out, err := p.run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", from, to)
	if err != nil {
		return nil, err
	}
	all, ok := parseRaw(string(out))
	if !ok {
		return nil, td.Errorf(td.Internal, "compare %.12s and %.12s: git said %.100q", from, to, out)
	}
	return all, nil
}

// parseRaw reads `git diff-tree -r -z --raw --no-renames` and its likes.
func parseRaw(out string) ([]difference, bool) {
	var all []difference
	for out != "" {
		var head, name string
		var ok bool
		if head, out, ok = strings.Cut(out, "\x00"); !ok {
			return nil, false
		}
		if name, out, ok = strings.Cut(out, "\x00"); !ok {
			return nil, false
		}
		f := strings.Fields(strings.TrimPrefix(head, ":"))
		if len(f) != 5 {
			return nil, false
		}
		d := difference{path: name}
		if f[0] != "000000" {
			d.was = entry{mode: f[0], id: f[2]}
		}
		if f[1] != "000000" {
			d.is = entry{mode: f[1], id: f[3]}
		}
		all = append(all, d)
	}
	return all, true
}

// What a file is that ought to have come from one commit to another.
type fileState int

const (
	fileTheirs fileState = iota // somebody's work
	fileWanted                  // as it should be
	fileOurs                    // half-way: git may write it anew
)

// compare looks at a file that a move of the checkout may have left half-way.
func (p *place) compare(ctx context.Context, d difference, want entry) (fileState, error) {
	file := filepath.Join(p.top, filepath.FromSlash(d.path))
	info, err := os.Lstat(file)
	switch {
	case gone(err) || err == nil && info.IsDir():
		if want == none {
			return fileWanted, nil
		}
		return fileOurs, nil
	case err != nil:
		return fileTheirs, td.Errorf(td.Storage, "look at checkout: %w", err)
	}
	var content []byte
	if info.Mode()&fs.ModeSymlink != 0 {
		link, lerr := os.Readlink(file)
		content, err = []byte(link), lerr
	} else if info.Mode().IsRegular() {
		content, err = os.ReadFile(file)
	} else {
		return fileTheirs, nil
	}
	if err != nil {
		return fileTheirs, td.Errorf(td.Storage, "look at checkout: %w", err)
	}
	state := fileTheirs
	for _, e := range []entry{d.was, d.is} {
		if e == none || e.mode == modeLink {
			continue
		}
		version, err := p.version(ctx, d.path, e)
		if err != nil {
			return fileTheirs, err
		}
		sameKind := (e.mode == modeSymlink) == (info.Mode()&fs.ModeSymlink != 0)
		switch {
		case sameKind && e == want && bytes.Equal(content, version) && (e.mode != modeProgram && e.mode != modePlain || modeOf(info) == e.mode):
			return fileWanted, nil
		case sameKind && bytes.HasPrefix(version, content): // git makes a file anew and then writes it
			state = fileOurs
		}
	}
	return state, nil
}

// version is what git would write into a file.
func (p *place) version(ctx context.Context, name string, e entry) ([]byte, error) {
	if e.mode == modeSymlink {
		return p.run(ctx, "cat-file", "blob", e.id)
	}
	return p.run(ctx, "cat-file", "--filters", "--path="+name, e.id)
}
