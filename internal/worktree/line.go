package worktree

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// line is a repository with the two branches that a task's work goes to.
type line struct {
	git Git
	w   td.Worktree
}

func (t *Trees) line(w td.Worktree) line { return line{t.Git, w} }

// Heads is where the integration branch and the trunk are.
func (l line) Heads(ctx context.Context) (into, trunk string, err error) {
	if into, err = l.git.RefAt(ctx, l.w.Repo, "refs/heads/"+l.w.Into); err != nil {
		return "", "", err
	}
	trunk, err = l.git.RefAt(ctx, l.w.Repo, "refs/heads/"+l.w.Trunk)
	return into, trunk, err
}

// Contains reports whether old is young, or comes before it.
func (l line) Contains(ctx context.Context, young, old string) (bool, error) {
	return l.git.IsAncestor(ctx, l.w.Repo, old, young)
}

// Tree is what a commit holds.
func (l line) Tree(ctx context.Context, commit string) (string, error) {
	return l.git.TreeOf(ctx, l.w.Repo, commit)
}

// Join merges two commits into a new one, or names the files that conflict.
func (l line) Join(ctx context.Context, ours, theirs, message string) (string, []string, error) {
	m, err := l.git.MergeTree(ctx, l.w.Repo, ours, theirs)
	if err != nil || len(m.Conflicts) > 0 {
		return "", m.Conflicts, err
	}
	commit, err := l.git.CommitTree(ctx, l.w.Repo, m.Tree, message, ours, theirs)
	return commit, nil, err
}

// Replay makes commits anew on top of another one.
func (l line) Replay(ctx context.Context, head, onto, without string) (string, []string, error) {
	return l.git.Replay(ctx, l.w.Repo, head, onto, without)
}

// Reserved names what differs between two commits and does not come with the work of a task: files with rules of the project, in whatever folder, since a task is
// bound by those of the one that it was added in; what the person's git runs or obeys by its settings; folders that git takes for repositories, and commits of others; files that the trunk's checkout cannot take now, which would keep everybody's work from it;
// what a deny rule keeps from being changed; and the removal of files that the validator still saw.
func (l line) Reserved(ctx context.Context, from, to string, of merge.Work) ([]merge.Reserved, error) {
	n, err := l.git.Differing(ctx, l.w.Repo, from, to, config.ProjectFile)
	if err != nil {
		return nil, err
	}
	var reserved []merge.Reserved
	for why, some := range map[merge.Bar][]git.Difference{merge.Rules: n.Files, merge.Repository: n.Repositories, merge.Steering: n.Steering, merge.Link: n.Links} {
		for _, d := range some {
			reserved = append(reserved, merge.Reserved{Path: d.Path, New: d.Added, Why: why})
		}
	}
	if of.Refuses != nil {
		for _, d := range n.Every() {
			if rule := of.Refuses(d.Path); rule != "" {
				reserved = append(reserved, merge.Reserved{Path: d.Path, New: d.Added, Why: merge.Denied, Rule: rule})
			}
		}
	}
	slices.SortStableFunc(reserved, func(a, b merge.Reserved) int { return cmp.Compare(a.Why, b.Why) })
	closed, err := l.git.UntakableOf(ctx, l.w.Repo, l.w.Trunk, from, n)
	for _, at := range closed.Folders {
		reserved = append(reserved, merge.Reserved{Path: at, New: true, Why: merge.Closed})
	}
	for _, at := range closed.Files {
		reserved = append(reserved, merge.Reserved{Path: at, At: filepath.Join(closed.Top, filepath.FromSlash(at)), New: true, Why: merge.InTheWay})
	}
	if of.Check != "" && err == nil {
		for _, at := range left(filepath.Join(l.w.Repo, td.WorktreeFolder, of.Handle), n.Removed) {
			reserved = append(reserved, merge.Reserved{Path: at, Why: merge.Left})
		}
	}
	return reserved, err
}

// left are those of some files that lie in a worktree.
func left(top string, names []string) (found []string) {
	folder, err := beneath.Open(top)
	if err != nil {
		return nil // it is gone
	}
	defer func() { _ = folder.Close() }()
	for _, name := range names {
		if info, err := folder.Lstat(name); err == nil && !info.IsDir() {
			found = append(found, name)
		}
	}
	return found
}

// Withdrawn reports whether a work was withdrawn.
func (l line) Withdrawn(ctx context.Context, w merge.Work) (bool, error) {
	at, err := l.git.RefAt(ctx, l.w.Repo, withdrawnRef(w.Handle, w.Commit))
	return at != "", err
}

// Move sets the integration branch, unless one of the works was withdrawn.
func (l line) Move(ctx context.Context, to, from string, works []merge.Work) error {
	var withdrawn []string
	for _, w := range works {
		withdrawn = append(withdrawn, withdrawnRef(w.Handle, w.Commit))
	}
	return l.git.MoveRefUnless(ctx, l.w.Repo, "refs/heads/"+l.w.Into, to, from, withdrawn...)
}

// withdrawnRef is there if a task does not want a commit of its own merged any more.
func withdrawnRef(handle, commit string) string { return git.WithdrawnRefs + handle + "/" + commit }
