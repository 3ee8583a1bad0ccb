package worktree

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// records is a journal in memory.
type records struct {
	removals []Removal
	ended    []error
	fails    error
}

func (r *records) Removing(_ context.Context, what Removal) (td.StepKey, error) {
	if r.fails != nil {
		return "", r.fails
	}
	r.removals = append(r.removals, what)
	return "k", nil
}

func (r *records) Removed(_ context.Context, _ td.StepKey, err error) error {
	r.ended = append(r.ended, err)
	return nil
}

func free(context.Context) error { return nil }

// TestRemovalsAreRecorded: nothing goes that is not on record with its proof, and one that cannot be recorded stays.
func TestRemovalsAreRecorded(t *testing.T) {
	trees, w := project(t, config.Worktree{})
	ctx := t.Context()
	if err := trees.Make(ctx, w); err != nil {
		t.Fatal(err)
	}
	write(t, w.Path+"/new.txt", "merged nowhere\n")
	head := runGit(t, w.Path, "rev-parse", "HEAD")
	book := trees.Journal.(*records)
	book.fails = errors.New("the disk is full")
	if _, err := trees.Clear(ctx, w, false, free); !errors.Is(err, book.fails) {
		t.Fatalf("without a record: %v", err)
	}
	if _, err := os.Lstat(w.Path + "/new.txt"); err != nil || len(book.ended) > 0 {
		t.Fatalf("without a record: %v, %v", err, book.ended)
	}
	book.fails = nil
	kept, err := trees.Clear(ctx, w, false, free)
	if err != nil {
		t.Fatal(err)
	}
	want := Removal{Repo: w.Repo, Path: w.Path, Branch: w.Branch, Head: head, Proof: runGit(t, w.Repo, "rev-parse", kept), Kept: kept}
	if len(book.removals) != 1 || book.removals[0] != want || len(book.ended) != 1 || book.ended[0] != nil {
		t.Errorf("%+v %v, want %+v", book.removals, book.ended, want)
	}
	if _, err := trees.Clear(ctx, w, false, free); err != nil || len(book.removals) != 1 {
		t.Errorf("nothing is there any more: %v, %+v", err, book.removals)
	}
	if err := trees.Make(ctx, w); err != nil { // its task goes on
		t.Fatal(err)
	}
	if said, err := os.ReadFile(w.Path + "/new.txt"); string(said) != "merged nowhere\n" {
		t.Errorf("what was kept is not back: %q, %v", said, err)
	}
}

// TestSettle: a removal that was cut off is brought to its end, unless it had not begun or the branch went on.
func TestSettle(t *testing.T) {
	trees, w := project(t, config.Worktree{})
	ctx := t.Context()
	if err := trees.Make(ctx, w); err != nil {
		t.Fatal(err)
	}
	head := runGit(t, w.Path, "rev-parse", "HEAD")
	r := Removal{Repo: w.Repo, Path: w.Path, Branch: w.Branch, Head: head, Proof: head}
	if gone, err := trees.Settle(ctx, r); gone || err != nil {
		t.Fatalf("not begun: %v, %v", gone, err)
	}
	if err := os.RemoveAll(w.Path); err != nil {
		t.Fatal(err)
	}
	other := r
	other.Head = strings.Repeat("0", 40)
	if gone, err := trees.Settle(ctx, other); gone || err != nil {
		t.Fatalf("the branch went on: %v, %v", gone, err)
	}
	if gone, err := trees.Settle(ctx, Removal{Repo: w.Repo, Branch: w.Branch, Head: head, Proof: head}); gone || err != nil {
		t.Fatalf("a branch alone, not begun: %v, %v", gone, err)
	}
	for range 2 { // the second time it finds it done
		if gone, err := trees.Settle(ctx, r); !gone || err != nil {
			t.Fatalf("cut off: %v, %v", gone, err)
		}
	}
	if branches := runGit(t, w.Repo, "branch", "--list", w.Branch); branches != "" {
		t.Errorf("left: %s", branches)
	}
}

// TestKeptOnce: what was kept is brought back once. A worktree that went on from it, was merged and removed, and is made again, begins
// with what is merged; and one that is removed again is kept as it is then, whatever a crash has left of the time before.
func TestKeptOnce(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		trees, w := project(t, config.Worktree{Trunk: config.TrunkAuto})
		ctx := t.Context()
		clear := func() {
			t.Helper()
			if _, err := trees.Clear(ctx, w, false, free); err != nil {
				t.Fatal(err)
			}
		}
		remake := func(want string) {
			t.Helper()
			was := runGit(t, w.Repo, "for-each-ref", "--format=%(objectname)", keptRef(w))
			if err := trees.Make(ctx, w); err != nil {
				t.Fatal(err)
			}
			if crashed && was != "" {
				runGit(t, w.Repo, "update-ref", keptRef(w), was)
			}
			if said, err := os.ReadFile(w.Path + "/new.txt"); string(said) != want {
				t.Fatalf("crashed %v: it begins with %q, %v; want %q", crashed, said, err, want)
			}
		}
		remake("")
		write(t, w.Path+"/new.txt", "first\n")
		clear()
		remake("first\n")
		write(t, w.Path+"/new.txt", "first\nsecond\n")
		head, err := trees.Commit(ctx, w, "do it\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trees.Merge(ctx, w, merge.Work{Handle: "t-1", Title: "do it", Commit: head}, nil, nil); err != nil {
			t.Fatal(err)
		}
		clear()
		remake("first\nsecond\n")
		if at := runGit(t, w.Path, "rev-parse", "HEAD"); at != head {
			t.Errorf("crashed %v: it begins at %s, not with what is merged", crashed, at)
		}
		write(t, w.Path+"/new.txt", "third\n")
		clear()
		remake("third\n")
		if aside := runGit(t, w.Repo, "for-each-ref", "refs/taskdaemon/kept-before/"); strings.Count(aside, "\n") < 1 {
			t.Errorf("crashed %v: set aside is only %q", crashed, aside)
		}
	}
}
