//go:build failpoint

package git

import (
	"strings"
	"testing"

	"taskdaemon/internal/failpoint"
)

// Killed at any point of any stage, and there again, it ends as if nothing had happened.
func TestWorktreeKilledAtEveryPoint(t *testing.T) {
	dir := runScene(t)
	whole := sceneAgain(t, dir)
	runLife(t, whole, func(string) bool { return false })
	want := runResult(t, whole)
	for _, point := range failpoint.Names() {
		if !strings.HasPrefix(point, "git.worktree.") {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			dir := sceneAgain(t, dir)
			if kills := runLife(t, dir, func(stage string) bool { return killAt(t, stage, dir, point, 1) }); kills == 0 {
				t.Error("nothing came by here")
			}
			sameLines(t, runResult(t, dir), want)
		})
	}
}
