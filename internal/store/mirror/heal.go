package mirror

import (
	"context"
	"errors"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

var fpAside = failpoint.New("mirror.heal.before_aside")

// failed gives a batch up and, when it was not the disk's or a lock's fault, looks for the branch whose
// fault it was, so that one bad branch does not hold up all others.
func (m *Mirror) failed(ctx context.Context, b *batch, err error) error {
	b.abort()
	clear(m.states)
	if !branchFault(err) {
		return err
	}
	for _, s := range b.touched {
		if herr := m.heal(ctx, b.repo, s.Task); herr != nil {
			return errors.Join(err, herr)
		}
	}
	return err
}

// branchFault reports whether err may lie in one branch rather than in the disk, a lock or the journal.
func branchFault(err error) bool {
	switch td.KindOf(err) {
	case td.Internal, td.Corrupt, td.Conflict:
		return true
	}
	return false
}

// heal writes one task alone. A branch that cannot be added to is put aside and made anew from the
// journal; a task that cannot even be written then is left out until the next start.
func (m *Mirror) heal(ctx context.Context, repo *git.Repo, task td.TaskID) error {
	branch, err := m.sync(ctx, repo, task, false)
	if err == nil || branch == "" || !branchFault(err) {
		return err
	}
	switch indexed, err := repo.Reindex(ctx); { // what is on the branch may be whole, and only not be found
	case err != nil:
		return err
	case indexed > 0:
		m.o.Log.Warn("indexes of packs were damaged and are made again", "packs", indexed)
		if _, err = m.sync(ctx, repo, task, false); err == nil || !branchFault(err) {
			return err
		}
	}
	tip, err := repo.Tip(ctx, branch)
	if err != nil {
		return err
	}
	if err := m.aside(ctx, repo, branch, tip); err != nil {
		return err
	}
	if _, err = m.sync(ctx, repo, task, false); err != nil {
		m.o.Log.Error("a conversation cannot be mirrored", "task", task, "error", err)
		m.skip[task] = true
	}
	return nil
}

// sync writes one task's events up to the journal's present end, and returns its branch. A turn that goes on is written
// as far as it has come if it is to be cut.
func (m *Mirror) sync(ctx context.Context, repo *git.Repo, task td.TaskID, cut bool) (string, error) {
	b := &batch{m: m, repo: repo}
	s, err := b.state(ctx, task, nil)
	if err != nil {
		b.abort()
		return "", err
	}
	err = b.read(ctx, s, ^uint64(0))
	if err == nil && cut && s.turn != nil {
		var c git.Commit
		if c, err = s.cut(); err == nil {
			err = b.commit(ctx, s, c)
		}
	}
	if err == nil {
		err = b.end()
	}
	if err != nil {
		b.abort()
		delete(m.states, task)
	}
	return s.branch(), err
}

// aside keeps a branch under another name, so that nothing that can be read is ever dropped.
func (m *Mirror) aside(ctx context.Context, repo *git.Repo, branch, tip string) error {
	to := "refs/taskdaemon/aside/" + branch[len(BranchPrefix):] + "-" + tip[:min(12, len(tip))]
	m.o.Log.Warn("a branch is not as it was written; kept under another name", "branch", branch, "kept", to)
	fpAside.Hit()
	return repo.Rename(ctx, branch, to)
}

// Repair mends a repository that does not hold together. If it was the indexes of its packs alone, they are made again of those. Else it is made anew: with every
// conversation that can be read whole, and with what the journal has of the others. Then the old one is kept at aside, and lost are the branches that are whole
// nowhere else.
func (m *Mirror) Repair(ctx context.Context) (aside string, lost []string, err error) {
	repo, err := m.open(ctx)
	if err != nil {
		return "", nil, err
	}
	if err := m.take(ctx); err != nil {
		return "", nil, err
	}
	defer m.give()
	m.mirrored.Store(0) // what is lost has to be written again before retention may go on
	indexed, err := repo.Reindex(ctx)
	if err == nil && (indexed == 0 || repo.Fsck(ctx) != nil) {
		aside, lost, err = repo.Salvage(ctx, lostFile)
	}
	if err != nil {
		return aside, nil, err
	}
	clear(m.states)
	clear(m.skip)
	m.Restart()
	return aside, lost, nil
}

// Restart says that the repository is another one: it is followed from its own cursor, and nothing counts as mirrored before
// that was read.
func (m *Mirror) Restart() {
	m.mirrored.Store(0)
	select {
	case m.anew <- struct{}{}:
	default:
	}
}
