// Package merge brings the work of tasks into the integration branch (K-4).
//
// Nobody has that branch checked out. It takes in the trunk first, so that the trunk can follow it by a fast-forward;
// then the work of one task, and in the same breath that of others that wait, as much of it as passes the checks.
// Everything is tried on objects alone (git merge-tree); the one thing that changes is the branch, by one
// compare-and-set. So a crash leaves it before or after, never between, and whoever asks again finds the work in.
package merge

import (
	"context"
	"fmt"
	"slices"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpBeforeMove = failpoint.New("merge.branch.before_move")
	fpMoved      = failpoint.New("merge.branch.moved")
)

// Repo is what merging needs of a repository. git.Line is one; tests have others.
type Repo interface {
	// Heads is where the integration branch and the trunk are; empty where there is none.
	Heads(ctx context.Context) (into, trunk string, err error)
	// Contains reports whether commit is, or comes before, the other one.
	Contains(ctx context.Context, young, old string) (bool, error)
	// Tree is what a commit holds.
	Tree(ctx context.Context, commit string) (string, error)
	// Join merges two commits into a new one, or names the files that conflict. No branch moves.
	Join(ctx context.Context, ours, theirs, message string) (commit string, conflicts []string, err error)
	// Reserved names what differs between two commits and does not come with the work of a task.
	Reserved(ctx context.Context, from, to string, of Work) ([]Reserved, error)
	// Withdrawn reports whether the task does not want the work merged any more.
	Withdrawn(ctx context.Context, w Work) (bool, error)
	// Move sets the integration branch, if it still is at from and none of the works was withdrawn; Conflict if not. Whoever withdraws
	// one comes wholly before that, or wholly after it.
	Move(ctx context.Context, to, from string, works []Work) error
}

// Work is what a task wants merged.
type Work struct {
	Task   td.TaskID
	Handle string
	Title  string
	Commit string // the newest of its branch
	Check  string // its validator, or empty
	// Refuses is the rule that keeps a file from being changed by the task, or empty. Nil: there are none.
	Refuses func(file string) (rule string)
}

// Reserved is what does not come with the work of a task.
type Reserved struct {
	Path string
	At   string // with InTheWay, where it lies
	Rule string // with Denied, which one
	New  bool   // what the work is merged into has none there
	Why  Bar
}

// Bar is why.
type Bar int

const (
	Rules      Bar = iota // a file with rules of the project, which say what agents may do
	Repository            // a folder that git takes for a repository, whose settings name programs that run for whoever asks git anything there
	Steering              // a file that the person's git runs or obeys, by settings that it reads
	Link                  // a commit of another repository: a worktree would lack its files
	Closed                // a folder that the trunk's checkout takes no files into, so that nothing would be landed any more
	InTheWay              // a file of the person's that git does not know, where the work has one, or has one below it
	Denied                // a file that a deny rule keeps from being changed
	Left                  // a file that the work removes and that still lay in its worktree, where the validator saw it
)

// Check reports whether a tree passes the validators of the works in it, and what was said if not.
type Check func(ctx context.Context, commit string, of []Work) (said string, err error)

// Result is what came of a merge.
type Result struct {
	td.Merged
	Conflicts []string   // files; then nothing was merged
	With      string     // what they conflict with, in words
	Trunk     bool       // the trunk has something of that, which the integration branch has not
	Failed    string     // what the check said; then nothing was merged
	Reserved  []Reserved // then nothing was merged
	// Stale is where the trunk is, if the work stands on what was taken from it: it has to be brought there first.
	Stale string
}

// mostTries bounds how often a merge is begun anew because the branch moved under it, or a task was cancelled that was to be taken along: who
// merges has leased the branch, so only a person's hand can do either.
const mostTries = 5

// mostBeside bounds a batch.
const mostBeside = 32

// Merge merges own, and as many of beside as go with it.
func Merge(ctx context.Context, repo Repo, into string, own Work, beside []Work, check Check) (Result, error) {
	for try := 0; ; try++ {
		res, err := once(ctx, repo, own, beside, check)
		if td.IsKind(err, td.Conflict) && try < mostTries {
			continue
		}
		res.Into = into
		return res, err
	}
}

func once(ctx context.Context, repo Repo, own Work, beside []Work, check Check) (Result, error) {
	from, trunk, err := repo.Heads(ctx)
	if err != nil {
		return Result{}, err
	}
	// Work that a branch has is in, whatever became of the other one since: a merge of both would be a commit of neither, with a tree that nobody checked.
	for _, head := range []string{from, trunk} {
		if head == "" {
			continue
		}
		if in, err := repo.Contains(ctx, head, own.Commit); err != nil {
			return Result{}, err
		} else if in {
			return at(ctx, repo, head)
		}
	}
	base, res, err := absorb(ctx, repo, from, trunk, own)
	if err != nil || len(res.Conflicts) > 0 {
		return res, err
	}
	chain, res, err := link(ctx, repo, base, trunk, own, beside)
	if err != nil || len(chain) == 0 {
		res.Trunk = base != from
		return res, err
	}
	for n := len(chain); ; n /= 2 {
		said, err := passes(ctx, chain[:n], check)
		if err != nil {
			return Result{}, err
		}
		if said == "" {
			var taken []Work
			for _, l := range chain[1:n] {
				taken = append(taken, l.work)
			}
			return move(ctx, repo, chain[n-1].commit, from, taken)
		}
		if n == 1 {
			return Result{Failed: said}, nil
		}
	}
}

// absorb brings the trunk into the integration branch, where it is not in it. Work that has both in it brings them together
// itself: how it did so is not to be found out again.
func absorb(ctx context.Context, repo Repo, into, trunk string, own Work) (string, Result, error) {
	switch {
	case into == "" && trunk == "":
		return "", Result{}, td.Errorf(td.NotFound, "there is neither an integration branch nor a trunk to begin one with")
	case into == "":
		return trunk, Result{}, nil
	case trunk == "":
		return into, Result{}, nil
	}
	if in, err := repo.Contains(ctx, into, trunk); err != nil || in {
		return into, Result{}, err
	}
	if in, err := repo.Contains(ctx, own.Commit, trunk); err != nil {
		return "", Result{}, err
	} else if in {
		if in, err := repo.Contains(ctx, own.Commit, into); err != nil || in {
			return into, Result{}, err
		}
	}
	if behind, err := repo.Contains(ctx, trunk, into); err != nil || behind {
		return trunk, Result{}, err
	}
	commit, conflicts, err := repo.Join(ctx, into, trunk, "Merge the trunk")
	if len(conflicts) > 0 {
		return "", Result{Conflicts: conflicts, With: "the trunk: the integration branch itself conflicts with it", Trunk: true}, nil
	}
	return commit, Result{}, err
}

// CatchUp brings the trunk into the integration branch, so that the trunk can follow: it went on after the work was merged. The checks of works, which are on the
// branch, have to pass with what is new.
func CatchUp(ctx context.Context, repo Repo, works []Work, check Check) (Result, error) {
	for try := 0; ; try++ {
		res, err := catchUp(ctx, repo, works, check)
		if !td.IsKind(err, td.Conflict) || try >= mostTries {
			return res, err
		}
	}
}

func catchUp(ctx context.Context, repo Repo, works []Work, check Check) (Result, error) {
	from, trunk, err := repo.Heads(ctx)
	if err != nil {
		return Result{}, err
	}
	if in, err := repo.Contains(ctx, from, trunk); err != nil || in {
		return Result{}, err
	}
	to, conflicts, err := repo.Join(ctx, from, trunk, "Merge the trunk")
	if err != nil || len(conflicts) > 0 {
		return Result{Conflicts: conflicts, With: "the trunk", Trunk: true}, err
	}
	return moveChecked(ctx, repo, to, from, works, check)
}

// Replayer is a repository in which commits can be made anew.
type Replayer interface {
	Repo
	// Replay makes the commits that head has, and neither onto nor without, anew on top of onto, or names the files that conflict. No branch moves.
	Replay(ctx context.Context, head, onto, without string) (commit string, conflicts []string, err error)
}

// Replant brings what the integration branch has beyond had, where it and the trunk were last the same, onto a trunk that was rewritten and lacks had: the work of tasks,
// and nothing that a person took away. The checks of works have to pass there. Conflict if the branch moved meanwhile.
func Replant(ctx context.Context, repo Replayer, had string, works []Work, check Check) (Result, error) {
	from, trunk, err := repo.Heads(ctx)
	if err != nil {
		return Result{}, err
	}
	to, conflicts, err := repo.Replay(ctx, from, trunk, had)
	if err != nil || len(conflicts) > 0 {
		return Result{Conflicts: conflicts, With: "the trunk", Trunk: true}, err
	}
	return moveChecked(ctx, repo, to, from, works, check)
}

// moveChecked moves the branch to a commit that nobody has seen yet, if it passes the checks of works.
func moveChecked(ctx context.Context, repo Repo, to, from string, works []Work, check Check) (Result, error) {
	var chain []joined
	for _, w := range works {
		chain = append(chain, joined{w, to})
	}
	said, err := passes(ctx, chain, check)
	if err != nil || said != "" {
		return Result{Failed: said}, err
	}
	return move(ctx, repo, to, from, nil)
}

// joined is a work and where the branch would be with it.
type joined struct {
	work   Work
	commit string
}

// link puts the works one after the other on top of base. One of beside that conflicts or changes rules is left out: its own turn comes.
// So is one whose task was cancelled meanwhile.
func link(ctx context.Context, repo Repo, base, trunk string, own Work, beside []Work) ([]joined, Result, error) {
	var chain []joined
	tip := base
	for i, w := range slices.Concat([]Work{own}, beside[:min(len(beside), mostBeside)]) {
		if i > 0 {
			if in, err := repo.Contains(ctx, tip, w.Commit); err != nil {
				return nil, Result{}, err
			} else if in {
				continue
			}
			if gone, err := repo.Withdrawn(ctx, w); err != nil {
				return nil, Result{}, err
			} else if gone {
				continue
			}
		}
		next, res, err := put(ctx, repo, tip, trunk, w)
		switch {
		case err != nil:
			return nil, Result{}, err
		case next == "" && i == 0:
			return nil, res, nil
		case next == "":
			continue
		}
		tip = next
		chain = append(chain, joined{w, tip})
	}
	return chain, Result{}, nil
}

// put is where the branch would be with one more work, or what keeps it from being merged.
func put(ctx context.Context, repo Repo, tip, trunk string, w Work) (next string, res Result, err error) {
	ahead, err := repo.Contains(ctx, w.Commit, tip)
	if err != nil {
		return "", Result{}, err
	}
	next = w.Commit
	if !ahead {
		var conflicts []string
		next, conflicts, err = repo.Join(ctx, tip, w.Commit, message(w))
		if err != nil || len(conflicts) > 0 {
			return "", Result{Conflicts: conflicts, With: "what was merged meanwhile"}, err
		}
	}
	reserved, err := changedReserved(ctx, repo, tip, trunk, next, w)
	if err != nil || len(reserved) > 0 {
		return "", Result{Reserved: reserved}, err
	}
	return next, Result{}, nil
}

// changedReserved is what does not come with the work of a task and is neither as the branch nor as the trunk has it: the work of an agent brings no other
// content there than a person's branch has. Trees are compared: an index can hide what a commit holds.
func changedReserved(ctx context.Context, repo Repo, tip, trunk, next string, w Work) ([]Reserved, error) {
	against := tip
	if trunk != "" {
		// A trunk that is not in the branch yet may have newer rules than the branch.
		if in, err := repo.Contains(ctx, tip, trunk); err != nil {
			return nil, err
		} else if !in {
			against = trunk
		}
	}
	changed, err := repo.Reserved(ctx, against, next, w)
	if err != nil || len(changed) == 0 || trunk == "" || against == trunk {
		return changed, err
	}
	unlike, err := repo.Reserved(ctx, trunk, next, w)
	return slices.DeleteFunc(changed, func(r Reserved) bool {
		return !slices.ContainsFunc(unlike, func(u Reserved) bool { return u.Path == r.Path })
	}), err
}

func message(w Work) string {
	return fmt.Sprintf("Merge %s: %s\n\n%s: %s\n", w.Handle, w.Title, Trailer, w.Handle)
}

// Trailer names the task in the message of a commit.
const Trailer = "Taskdaemon-Task"

// passes says what is wrong with the tree at the end of the chain.
func passes(ctx context.Context, chain []joined, check Check) (string, error) {
	if len(chain) == 0 {
		return "", nil
	}
	var works []Work
	for _, l := range chain {
		if l.work.Check != "" && !slices.ContainsFunc(works, func(w Work) bool { return w.Check == l.work.Check }) {
			works = append(works, l.work)
		}
	}
	if len(works) == 0 {
		return "", nil
	}
	return check(ctx, chain[len(chain)-1].commit, works)
}

// move moves the branch, with the work of others that was taken along.
func move(ctx context.Context, repo Repo, to, from string, taken []Work) (Result, error) {
	fpBeforeMove.Hit()
	if err := repo.Move(ctx, to, from, taken); err != nil {
		return Result{}, err
	}
	fpMoved.Hit()
	res, err := at(ctx, repo, to)
	for _, w := range taken {
		res.Beside = append(res.Beside, w.Task)
	}
	return res, err
}

func at(ctx context.Context, repo Repo, commit string) (Result, error) {
	tree, err := repo.Tree(ctx, commit)
	return Result{Merged: td.Merged{Commit: commit, Tree: tree}}, err
}
