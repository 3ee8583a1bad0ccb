package git

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// FastForward moves a branch, by its short name, of the repository around dir onward to a commit that descends from it. If the branch is
// checked out, files and index go with it; it has to be clean, and no file that git does not know may be in the way, ignored or not. A
// crash leaves it before or after, or, in the files alone, between: the next call ends that. A branch that is there already stays.
//
// before, if set, is called right before anything is changed; its error is returned.
//
// Conflict when it cannot be a fast-forward, NotFound when there is no such branch, Refused when the checkout is not clean or in
// the midst of something, when objects of the commit's history are missing, and when it brings what the person's git would run or obey.
func FastForward(ctx context.Context, dir, branch, to string, before func() error) error {
	root, common, err := mainCheckout(ctx, dir)
	if err != nil {
		return err
	}
	if to, err = commitOf(ctx, root, to); err != nil {
		return err
	}
	ref := "refs/heads/" + branch
	seat, err := seatOf(ctx, root, common, ref)
	if err != nil {
		return err
	}
	if seat != nil {
		switch err := seat.settle(ctx); {
		case td.IsKind(err, td.Conflict): // their own edits are in the way, and no other commit of the branch
			return (&td.Error{Kind: td.Refused, Err: err}).WithHint("%s", td.Words(td.HintOf(err)))
		case err != nil:
			return err
		}
	}
	from, err := RefAt(ctx, root, ref)
	switch {
	case err != nil:
		return err
	case from == "":
		return td.Errorf(td.NotFound, "there is no branch %s", branch)
	case from == to:
		return nil
	}
	switch onward, err := IsAncestor(ctx, root, from, to); {
	case err != nil:
		return err
	case !onward:
		return td.Errorf(td.Conflict, "%s is at %.12s, from which %.12s does not descend", branch, from, to)
	}
	if err := Whole(ctx, root, to, from); td.IsKind(err, td.Conflict) {
		return (&td.Error{Kind: td.Refused, Err: err}).WithHint("git -C %s fsck --connectivity-only %.12s", root, to)
	} else if err != nil {
		return err
	}
	top := root
	if seat != nil {
		top = seat.top
	}
	if err := obeyed(ctx, root, common, top, branch, from, to); err != nil {
		return err
	}
	if seat != nil {
		if err := seat.clean(ctx, from, to); err != nil {
			return err
		}
	}
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	if seat == nil {
		return MoveRef(ctx, root, ref, to, from)
	}
	return seat.advance(ctx, from, to)
}

// obeyed is Refused if what differs between two commits steers the person's git: settings may have changed since the work was merged.
func obeyed(ctx context.Context, root, common, top, branch, from, to string) error {
	all, err := (&place{repo: root, top: root, git: common, common: common}).between(ctx, from, to)
	if err != nil {
		return err
	}
	found, err := steered(ctx, root, common, to, all)
	if err != nil || len(found) == 0 {
		return err
	}
	var names []string
	var words strings.Builder
	for _, d := range found {
		names = append(names, d.Path)
		words.WriteString(" " + td.ShellWord(d.Path))
	}
	return td.Errorf(td.Refused, "your git would run or obey files that come with it, as hooks when you commit or as settings: %s", someOf(names)).
		WithHint("look at them: git -C %s --literal-pathspecs diff %s %.12s --%s; if they may run: %s", root, branch, to, td.Words(words.String()), td.Words(td.MergeLine(top, branch, to[:12])))
}

// seatOf is the checkout that has a branch checked out, nil when there is none. A branch that a checkout is about to come back to, when its rebase
// or bisection ends, is Refused: git would set it to where it was, or to what it made of that. Worktrees of tasks do not count: what git keeps of them the
// tasks write, and none of their gits can move a branch of a person's.
func seatOf(ctx context.Context, root, common, ref string) (*place, error) {
	all, err := listings(ctx, common, root)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, listing.ofTask)
	for _, r := range all {
		if err := r.returnsTo(cmp.Or(r.admin, common), ref); err != nil {
			return nil, err
		}
	}
	for _, r := range all {
		switch {
		case r.branch != ref:
			continue
		case r.gone && r.locked:
			return nil, td.Errorf(td.Refused, "%s is checked out in %s, which is away", r.short(), r.path)
		case r.gone:
			continue
		}
		return &place{repo: root, top: r.path, git: cmp.Or(r.admin, common), common: common, ref: ref}, nil
	}
	return nil, nil
}

// returnsTo is Refused if the checkout is in the midst of something at whose end git sets the branch, or checks it out. own is the checkout's folder of git.
func (r listing) returnsTo(own, ref string) error {
	for _, u := range []struct{ file, what, hint string }{
		{"rebase-merge/head-name", "a rebase of %s", rebaseHint},
		{"rebase-apply/head-name", "a rebase of %s", rebaseHint},
		{"rebase-merge/update-refs", "a rebase that moves %s, too", rebaseHint},
		{"BISECT_START", "a bisection of %s", "git -C %s bisect reset"},
	} {
		for line := range strings.Lines(gitfile.Text(filepath.Join(own, u.file))) {
			if line = strings.TrimSpace(line); line == ref || line == shortRef(ref) {
				return td.Errorf(td.Refused, "%s is in the midst of "+u.what, r.path, shortRef(ref)).WithHint("%s", adviceAt(r.path, u.hint, r.path))
			}
		}
	}
	return nil
}

// clean fails unless the files of the checkout can go from one commit to the other without a loss.
func (p *place) clean(ctx context.Context, from, to string) error {
	if err := p.busy(td.Refused); err != nil {
		return err
	}
	if err := p.atRest(ctx); err != nil {
		return err
	}
	switch said, err := configs.of(ctx, siteOf(p.call(false))); {
	case err != nil:
		return err
	case said.isTrue("core.sparsecheckout"):
		return td.Errorf(td.Refused, "%s is a sparse checkout", p.top)
	}
	changed, err := p.changes(ctx, false)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return td.Errorf(td.Refused, "%s has uncommitted changes: %s", p.top, someOf(changed)).
			WithHint("%s", p.advice("git -C %s commit, or stash", p.top))
	}
	return p.free(ctx, from, to)
}

// restWait is how long a git of the person's own may have the index: most have it for an instant, one that waits for an editor much longer.
const restWait = 2 * time.Second

// atRest fails if somebody is about to change the checkout's index.
func (p *place) atRest(ctx context.Context) error {
	lock := filepath.Join(p.git, "index.lock")
	for until := time.Now().Add(restWait); ; {
		switch _, err := os.Lstat(lock); {
		case gone(err):
			return nil
		case err != nil:
			return td.Errorf(td.Storage, "look at checkout: %w", err)
		case time.Now().After(until):
			return td.Errorf(td.Refused, "another git is at work in %s", p.top).WithHint("when it has ended; if there is none: rm %s", lock)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// free fails when files that git does not know are where it is to write others.
func (p *place) free(ctx context.Context, from, to string) error {
	differ, err := p.between(ctx, from, to)
	if err != nil {
		return err
	}
	inTheWay, err := p.inTheWay(differ)
	if err != nil {
		return err
	}
	if len(inTheWay) > 0 {
		return td.Errorf(td.Refused, "untracked files in %s would be overwritten by this work: %s", p.top, someOf(inTheWay)).
			WithHint("move them away, or commit them")
	}
	foreign, err := p.foreign(ctx, from, differ)
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		return td.Errorf(td.Refused, "files would come into folders of %s that git knows nothing of: %s", p.top, someOf(foreign)).
			WithHint("%s", p.advice("look at what comes with: git -C %s diff --stat HEAD %.12s; if it is meant to, move those folders away", p.top, to))
	}
	return nil
}

// foreign are the folders of the checkout that files would come into though they hold nothing that git knows, but something else: repositories, environments and caches of a
// person's, worktrees of tasks. What comes there would be run, or be taken, as a part of those.
func (p *place) foreign(ctx context.Context, from string, differ []difference) ([]string, error) {
	known := map[string]bool{} // folders that hold something that git knows
	for _, d := range differ {
		for at := path.Dir(d.path); d.was != none && !known[at]; at = path.Dir(at) {
			known[at] = true
		}
	}
	there := map[string]bool{} // others that files come into, and whether they are in the checkout
	for _, d := range differ {
		if d.is == none {
			continue
		}
		if top := closedTop(d.path); top != "" {
			return []string{top}, nil
		}
		for i, c := range d.path {
			if c != '/' {
				continue
			}
			at := d.path[:i]
			if known[at] {
				continue
			}
			if _, looked := there[at]; !looked {
				info, err := os.Lstat(filepath.Join(p.top, filepath.FromSlash(at)))
				if err != nil && !gone(err) {
					return nil, td.Errorf(td.Storage, "look at checkout: %w", err)
				}
				there[at] = err == nil && info.IsDir()
			}
			if !there[at] {
				break
			}
		}
	}
	maps.DeleteFunc(there, func(_ string, is bool) bool { return !is })
	if len(there) == 0 {
		return nil, nil
	}
	folders := slices.Sorted(maps.Keys(there))
	var ask strings.Builder
	for _, at := range folders {
		ask.WriteString(from + ":" + strings.ReplaceAll(at, "\n", "//") + "\n") // of a name with a line break nobody can ask: no folder is named like this
	}
	out, err := p.fed(ctx, ask.String(), "cat-file", "--batch-check=%(objecttype)")
	if err != nil {
		return nil, err
	}
	said := strings.Split(out, "\n")
	if len(said) != len(folders) {
		return nil, td.Errorf(td.Internal, "look for %d folders in %.12s: git said %.100q", len(folders), from, out)
	}
	for i, at := range folders {
		if said[i] == "tree" {
			delete(there, at)
		}
	}
	var found []string
	for _, at := range slices.Sorted(maps.Keys(there)) {
		switch holds, err := holdsFiles(filepath.Join(p.top, filepath.FromSlash(at))); {
		case err != nil:
			return nil, td.Errorf(td.Storage, "look at checkout: %w", err)
		case holds && !slices.ContainsFunc(found, func(outer string) bool { return covers(at, outer) }):
			found = append(found, at)
		}
	}
	return found, nil
}

// closedTop is the folder of taskdaemon's that a path is in, or empty: what is there is no work of a task.
func closedTop(name string) string {
	if top, _, _ := strings.Cut(name, "/"); top == graphFolder || top == worktreesFolder {
		return top
	}
	return ""
}

// holdsFiles reports whether there is anything but folders in a folder.
func holdsFiles(dir string) (bool, error) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			err = fs.ErrExist
		}
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	return false, err
}

// inTheWay are the files that git does not know, be they ignored or not, where it is to write others.
func (p *place) inTheWay(differ []difference) ([]string, error) {
	going := map[string]bool{} // what git knows and will remove
	for _, d := range differ {
		going[d.path] = d.was != none
	}
	var found []string
	for _, d := range differ {
		if d.was != none {
			continue
		}
		for i, c := range d.path + "/" {
			if c != '/' {
				continue
			}
			at := d.path[:i]
			info, err := os.Lstat(filepath.Join(p.top, filepath.FromSlash(at)))
			if gone(err) {
				break
			}
			if err != nil {
				return nil, td.Errorf(td.Storage, "look at checkout: %w", err)
			}
			if !info.IsDir() {
				if !going[at] {
					found = append(found, at)
				}
				break
			}
			if at != d.path {
				continue
			}
			err = filepath.WalkDir(filepath.Join(p.top, filepath.FromSlash(at)), func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				name, err := filepath.Rel(p.top, path)
				if err == nil && !going[filepath.ToSlash(name)] {
					found = append(found, filepath.ToSlash(name))
				}
				return err
			})
			if err != nil {
				return nil, td.Errorf(td.Storage, "look at checkout: %w", err)
			}
		}
	}
	return found, nil
}
