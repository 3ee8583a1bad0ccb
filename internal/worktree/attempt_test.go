package worktree

import (
	"context"
	"strings"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// hindered is a repository whose trunk lacks the work of t-1, because a file that it adds is in the checkout already.
func hindered(t *testing.T) (*Trees, td.Worktree, td.Unlanded) {
	t.Helper()
	trees, w := project(t, config.Worktree{Trunk: config.TrunkAuto})
	w, work := done(t, trees, w, "t-1")
	merged(t, trees, w, work)
	write(t, w.Repo+"/t-1", "mine\n")
	if in, err := trees.Follow(t.Context(), w, work, nil); err != nil || in.Reason == "" {
		t.Fatalf("a dirty checkout: %+v, %v", in, err)
	}
	return trees, w, lacks(t, trees, w)
}

// lacks is the work that the one trunk lacks.
func lacks(t *testing.T, trees *Trees, w td.Worktree) td.Unlanded {
	t.Helper()
	all, err := trees.Unlanded(t.Context(), w.Repo)
	if err != nil || len(all) != 1 {
		t.Fatalf("main lacks %+v, %v", all, err)
	}
	return all[0]
}

// fullDisk is git that can move no ref and no branch.
type fullDisk struct {
	Program
	broken context.CancelFunc // who tries is broken off
}

var errDisk = td.Errorf(td.Storage, "no space left on device").WithHint("make room")

func (f fullDisk) FastForward(context.Context, string, string, string, func() error) error {
	if f.broken != nil {
		f.broken()
	}
	return errDisk
}

func (f fullDisk) MoveRef(context.Context, string, string, string, string) error { return errDisk }

// A trunk that could not be updated because git failed says so, to whoever asks before the next attempt.
func TestFailureIsAnObstacle(t *testing.T) {
	for name, try := range map[string]func(*Trees, td.Worktree, td.Unlanded) error{
		"landing": func(trees *Trees, _ td.Worktree, u td.Unlanded) error {
			_, err := trees.Land(t.Context(), u, nil, nil, nil)
			return err
		},
		"a task": func(trees *Trees, w td.Worktree, _ td.Unlanded) error {
			_, err := trees.Follow(t.Context(), w, merge.Work{Handle: "t-2"}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			trees, w, u := hindered(t)
			trees.Git = fullDisk{}
			if err := try(trees, w, u); !td.IsKind(err, td.Storage) {
				t.Fatalf("on a full disk: %v", err)
			}
			if u = lacks(t, trees, w); !strings.Contains(u.Reason, "no space left") || u.Hint != "make room" {
				t.Errorf("in the way: %+v", u.Obstacle)
			}
		})
	}
}

// An attempt that was broken off does not hide what was in the way at the one before.
func TestBrokenOffAttempt(t *testing.T) {
	trees, w, u := hindered(t)
	ctx, cancel := context.WithCancel(t.Context())
	trees.Git = fullDisk{broken: cancel}
	if _, err := trees.Land(ctx, u, nil, nil, nil); err == nil {
		t.Fatal("it landed")
	}
	if now := lacks(t, trees, w); now.Obstacle != u.Obstacle {
		t.Errorf("in the way: %+v, before: %+v", now.Obstacle, u.Obstacle)
	}
}

// overtaken is git where somebody does something once, after an attempt has read where the branches are.
type overtaken struct {
	Program
	meanwhile *func()
}

func (o overtaken) LineageOf(ctx context.Context, repo, base string, commits ...string) (*git.Lineage, error) {
	if do := *o.meanwhile; do != nil {
		*o.meanwhile = nil
		do()
	}
	return o.Program.LineageOf(ctx, repo, base, commits...)
}

// The daemon finds a trunk up to date. Meanwhile a task merges its work and cannot update the trunk with it. What was in its way is not forgotten.
func TestLaterAttemptCounts(t *testing.T) {
	trees, w := project(t, config.Worktree{Trunk: config.TrunkAuto})
	w, work := done(t, trees, w, "t-1")
	runGit(t, w.Repo, "branch", w.Into, "main")
	var in td.Obstacle
	meanwhile := func() {
		merged(t, trees, w, work)
		write(t, w.Repo+"/t-1", "mine\n")
		var err error
		if in, err = trees.Follow(t.Context(), w, work, nil); err != nil || in.Reason == "" {
			t.Errorf("a dirty checkout: %+v, %v", in, err)
		}
	}
	trees.Git = overtaken{meanwhile: &meanwhile}
	u := td.Unlanded{Repo: w.Repo, Trunk: w.Trunk, Into: w.Into, Commit: runGit(t, w.Repo, "rev-parse", "main"), Tasks: []string{"t-0"}}
	if in, err := trees.Land(t.Context(), u, nil, nil, nil); err != nil || in.Reason != "" {
		t.Fatalf("nothing to land: %+v, %v", in, err)
	}
	if now := lacks(t, trees, w); now.Obstacle != in || len(trees.Hindered()) != 1 {
		t.Errorf("in the way: %+v, at the last attempt: %+v", now.Obstacle, in)
	}
}

// What a trunk lacks is told on a full disk, too, where the record of work that has landed cannot be removed.
func TestLackingOnAFullDisk(t *testing.T) {
	trees, w, _ := hindered(t)
	runGit(t, w.Repo, "update-ref", unlandedRef(w.Into, "t-0"), "main")
	trees.Git = fullDisk{}
	if u := lacks(t, trees, w); len(u.Tasks) != 1 || u.Tasks[0] != "t-1" {
		t.Errorf("main lacks the work of %v", u.Tasks)
	}
}
