package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
)

// queued is how many branches wait to be merged.
const queued = 50

// BenchmarkQueue merges the branches of tasks into an integration branch, one after the other, by turns with git that merges the
// same branches in a checkout; and then in batches.
func BenchmarkQueue(b *testing.B) {
	for b.Loop() {
		dir := codebase(b, worktreeFiles)
		var works []merge.Work
		for i := range queued {
			branch := fmt.Sprintf("work-%d", i)
			gitAlone(b, dir, "switch", "-q", "-c", branch, "main")
			if err := os.WriteFile(filepath.Join(dir, branch), []byte(branch), 0o600); err != nil {
				b.Fatal(err)
			}
			gitAlone(b, dir, "add", branch)
			gitAlone(b, dir, "commit", "-q", "-m", branch)
			commit, err := git.RefAt(b.Context(), dir, "refs/heads/"+branch)
			if err != nil {
				b.Fatal(err)
			}
			works = append(works, merge.Work{Task: td.TaskID(branch), Handle: branch, Title: branch, Commit: commit})
		}
		gitAlone(b, dir, "switch", "-q", "-c", "bare", "main")
		var single, bare time.Duration
		for _, w := range works {
			took, _ := mergeAll(b, dir, "taskdaemon/into/main", []merge.Work{w}, false)
			single += took
			begun := time.Now()
			gitAlone(b, dir, "merge", "-q", "--no-edit", w.Commit)
			bare += time.Since(begun)
		}
		batched, batches := mergeAll(b, dir, "taskdaemon/into/batch", works, true)
		if batches >= queued {
			b.Fatalf("%d merges in batches", batches)
		}
		ratio, each := single.Seconds()/bare.Seconds(), func(d time.Duration) float64 { return d.Seconds() * 1000 / queued }
		report(b, map[string]float64{"/bare": ratio, "single-ms": each(single), "batch-ms": each(batched), "bare-ms": each(bare)})
		figures.add(fmt.Sprintf("merge queue of %d branches, one by one", queued), fmt.Sprintf("%.2f × git merge", ratio), goal("≤ 0.8", ratio <= 0.8),
			fmt.Sprintf("%.1f ms a branch; in %d batches %.1f; git merge in a checkout %.1f", each(single), batches, each(batched), each(bare)))
	}
}

// mergeAll merges all works, with those that wait if they may go along, and says how often the branch was moved.
func mergeAll(b *testing.B, dir, into string, works []merge.Work, along bool) (took time.Duration, moves int) {
	b.Helper()
	trees := &worktree.Trees{Git: worktree.Program{}, Log: slog.New(slog.DiscardHandler), Using: sandbox.Using}
	pass := func(context.Context, string, []merge.Work) (string, error) { return "", nil }
	begun := time.Now()
	for left := slices.Clone(works); len(left) > 0; moves++ {
		var beside []merge.Work
		if along {
			beside = left[1:]
		}
		w := td.Worktree{Repo: dir, Branch: left[0].Handle, Into: into, Trunk: "main"}
		res, err := trees.Merge(b.Context(), w, left[0], beside, pass)
		if err != nil || len(res.Conflicts) > 0 {
			b.Fatalf("merge %s: %v, %v", left[0].Handle, res.Conflicts, err)
		}
		left = slices.DeleteFunc(left[1:], func(w merge.Work) bool { return slices.Contains(res.Beside, w.Task) })
	}
	return time.Since(begun), moves
}
