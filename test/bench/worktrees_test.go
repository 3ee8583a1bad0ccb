package bench

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"taskdaemon/internal/git"
)

const (
	worktreeFiles = 5_000
	worktreeTimes = 100
	// worktreeBare is how often git makes one by itself, spread over the same time.
	worktreeBare = 20
)

// codebase is a repository of so many files, most of them small, and the one that a workspace has, too.
func codebase(b *testing.B, files int) string {
	b.Helper()
	dir := b.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range files {
		file := filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d.go", i%17, i%101, i))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			b.Fatal(err)
		}
		line := fmt.Appendf(nil, "// line of file %d\n", i)
		if err := os.WriteFile(file, bytes.Repeat(line, 20+int(r.ExpFloat64()*150)), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, smallFile), []byte(smallText), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}, {"gc", "-q"}} {
		gitAlone(b, dir, args...)
	}
	return dir
}

// gitAlone runs git as a person would.
func gitAlone(b *testing.B, dir string, args ...string) {
	b.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// BenchmarkWorktrees makes worktrees of runs beside those that git makes by itself, and says what disk each takes.
func BenchmarkWorktrees(b *testing.B) {
	trunk, err := git.TrunkOf(b.Context(), codebase(b, worktreeFiles))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var ours, bare sample
		for i := range worktreeTimes {
			handle := fmt.Sprintf("t-%d", i)
			w := git.Worktree{Repo: trunk.Root, Path: filepath.Join(trunk.Root, ".worktrees", handle), Branch: git.BranchName(handle, "bench")}
			begun := time.Now()
			if err := w.Make(b.Context(), trunk.Commit); err != nil {
				b.Fatal(err)
			}
			ours = append(ours, time.Since(begun))
			if i%(worktreeTimes/worktreeBare) > 0 {
				continue
			}
			at := filepath.Join(trunk.Root, ".worktrees", "bare")
			begun = time.Now()
			gitAlone(b, trunk.Root, "worktree", "add", "-q", "-b", fmt.Sprintf("bare-%d", i), at, trunk.Commit)
			bare = append(bare, time.Since(begun))
			gitAlone(b, trunk.Root, "worktree", "remove", "--force", at)
		}
		ratio := ours.at(0.5) / bare.at(0.5)
		report(b, map[string]float64{"/bare": ratio, "p50-ms": ours.at(0.5), "p95-ms": ours.at(0.95)})
		figures.add(fmt.Sprintf("a worktree of %d files, %d of them", worktreeFiles, worktreeTimes), fmt.Sprintf("%.2f × git worktree add", ratio),
			goal("< 1.2", ratio < 1.2), fmt.Sprintf("p50 / p95 %s; bare %s", ours.both(), bare.both()))
		files, kept := diskOf(b, filepath.Join(trunk.Root, ".worktrees")), diskOf(b, filepath.Join(trunk.Root, ".git", "worktrees"))
		source := diskOf(b, trunk.Root) - files - diskOf(b, filepath.Join(trunk.Root, ".git"))
		each := (files + kept) / worktreeTimes
		figures.add("disk of each", fmt.Sprintf("%.2f × the files", float64(each)/float64(source)), "", fmt.Sprintf("%.1f MiB; the files alone %.1f MiB", mib(each), mib(source)))
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// diskOf is how much room all that is below a folder takes.
func diskOf(b *testing.B, dir string) int64 {
	b.Helper()
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += blocks(info)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

// blocks is the room that a file takes on disk.
func blocks(info fs.FileInfo) int64 {
	if st, is := info.Sys().(*syscall.Stat_t); is {
		return st.Blocks * 512
	}
	return info.Size()
}
