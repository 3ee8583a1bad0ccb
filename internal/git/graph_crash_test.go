//go:build failpoint

package git

import (
	"fmt"
	"strings"
	"testing"

	"taskdaemon/internal/failpoint"
)

// killAt runs a stage in a process that dies at the n-th hit of a point, and reports whether it did.
func killAt(t *testing.T, stage, dir, point string, n int) bool {
	t.Helper()
	return inChild(t, stage, dir, fmt.Sprintf("TASKDAEMON_FAILPOINT=%s:%d", point, n))
}

// Killed at any point of any stage, and there again, it ends as if nothing had happened.
func TestGraphKilledAtEveryPoint(t *testing.T) {
	bare, dir := scene(t)
	_, whole := again(t, bare, dir)
	live(t, whole, func(string) bool { return false })
	want := settled(t, whole)
	for _, point := range failpoint.Names() {
		if !strings.HasPrefix(point, "git.graph.") {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killed := 0
			for _, n := range []int{1, 3, 6} {
				bare, dir := again(t, bare, dir)
				k := live(t, dir, func(stage string) bool { return killAt(t, stage, dir, point, n) })
				killed += k
				if k == 0 {
					break
				}
				audit(t, fmt.Sprintf("hit %d", n), bare, dir, want)
			}
			if killed == 0 {
				t.Error("nothing came by here")
			}
			t.Logf("%d kills", killed)
		})
	}
}
