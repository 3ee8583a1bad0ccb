package daemon

import (
	"testing"
	"time"
)

// Who looks on alone is told almost at once; many are told less often, and none is kept waiting for long.
func TestAudience(t *testing.T) {
	var a audience
	var leave []func()
	for _, c := range []struct {
		size int
		want time.Duration
	}{{0, gatherLeast}, {1, gatherLeast}, {25, gatherLeast}, {200, 400 * time.Millisecond}, {5000, gatherMost}} {
		for len(leave) < c.size {
			leave = append(leave, a.enter())
		}
		if got := a.gather(); got != c.want {
			t.Errorf("with %d it is %s, not %s", c.size, got, c.want)
		}
	}
	for _, l := range leave {
		l()
	}
	if got := a.gather(); got != gatherLeast {
		t.Errorf("with nobody left it is %s", got)
	}
}
