package git

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// What a lineage knows is what git says of each pair, in histories of all shapes.
func TestLineageSaysWhatGitDoes(t *testing.T) {
	dir := checkout(t)
	tree := user(t, dir, "rev-parse", "HEAD^{tree}")
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 6 {
		var all []string
		has := map[string]map[string]bool{}
		for i := range 14 {
			args := []string{"commit-tree", tree, "-m", fmt.Sprintf("%d.%d", round, i)}
			self := map[string]bool{}
			for range r.IntN(3) {
				if i > 0 {
					p := all[max(0, i-1-r.IntN(5))]
					if slices.Contains(args, p) {
						continue
					}
					args = append(args, "-p", p)
					for old := range has[p] {
						self[old] = true
					}
				}
			}
			id := user(t, dir, args...)
			self[id] = true
			all, has[id] = append(all, id), self
		}
		for range 3 {
			base := all[r.IntN(len(all))]
			asked := []string{all[r.IntN(len(all))], all[r.IntN(len(all))], all[len(all)-1], base}
			l, err := LineageOf(t.Context(), dir, base, asked...)
			if err != nil {
				t.Fatal(err)
			}
			l.Add("made", asked[0], asked[1])
			has["made"] = map[string]bool{"made": true}
			for _, p := range asked[:2] {
				for old := range has[p] {
					has["made"][old] = true
				}
			}
			knows := 0
			for _, young := range append(slices.Clone(all), "made") {
				for _, old := range append(slices.Clone(all), "made") {
					is, known := l.Contains(young, old)
					if known && is != has[young][old] {
						t.Errorf("with base %.7s and %.7s: %.7s has %.7s: %v", base, asked, young, old, is)
					}
					if known {
						knows++
					}
				}
			}
			for _, young := range asked {
				if _, known := l.Contains(young, base); !known || knows == 0 {
					t.Errorf("it is not known whether %.7s has the base", young)
				}
			}
		}
	}
}

func TestLineageOfNothing(t *testing.T) {
	var none Lineage
	none.Add("a", "b")
	if is, known := none.Contains("a", "b"); is || known {
		t.Error("an empty lineage knows something")
	}
	if _, err := LineageOf(t.Context(), checkout(t), strings.Repeat("1", 40), "HEAD"); err == nil {
		t.Error("a base that is not there has a lineage")
	}
}

// A branch that a checkout is on is not moved, in whatever way its HEAD says so; where none is, git is not asked.
func TestWhoIsOnABranch(t *testing.T) {
	const ref = "refs/heads/taskdaemon/into/main"
	for _, c := range []struct {
		what string
		do   func(t *testing.T, dir string)
		may  bool
	}{
		{"nobody", func(*testing.T, string) {}, false},
		{"detached", func(t *testing.T, dir string) { user(t, dir, "checkout", "-q", "--detach") }, false},
		{"packed", func(t *testing.T, dir string) { user(t, dir, "pack-refs", "--all") }, false},
		{"elsewhere", func(t *testing.T, dir string) { user(t, dir, "worktree", "add", "-q", t.TempDir()+"/w", "-b", "other") }, false},
		{"the main checkout", func(t *testing.T, dir string) { user(t, dir, "checkout", "-q", "taskdaemon/into/main") }, true},
		{"a linked one", func(t *testing.T, dir string) {
			user(t, dir, "worktree", "add", "-q", t.TempDir()+"/w", "taskdaemon/into/main")
		}, true},
		{"by another name", func(t *testing.T, dir string) {
			user(t, dir, "symbolic-ref", "refs/heads/alias", ref)
			user(t, dir, "symbolic-ref", "HEAD", "refs/heads/alias")
		}, true},
		{"by a link", func(t *testing.T, dir string) {
			user(t, dir, "-c", "core.preferSymlinkRefs=true", "symbolic-ref", "HEAD", ref)
		}, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := checkout(t)
			user(t, dir, "branch", "taskdaemon/into/main")
			c.do(t, dir)
			if got := mayBeCheckedOut(dir, ref); got != c.may {
				t.Errorf("it may be checked out: %v", got)
			}
			tip := user(t, dir, "rev-parse", ref)
			next := user(t, dir, "commit-tree", tip+"^{tree}", "-p", tip, "-m", "next")
			if err := MoveRefUnless(t.Context(), dir, ref, next, tip); (err != nil) != c.may {
				t.Errorf("it was moved: %v", err)
			}
		})
	}
}
