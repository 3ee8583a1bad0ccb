package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/td"
)

// TestLockRows: below each resource stand those who wait for it, and a free one that is waited for is shown.
func TestLockRows(t *testing.T) {
	now := time.Unix(1e9, 0)
	build := td.Want{Resource: "build", Shared: true, Capacity: 2}
	got := lockRows(td.Locks{
		Held: []td.Lease{
			{Want: build, Handle: "t-a", Title: "one\x1b[2J", Name: "Bash", Since: now.Add(-time.Minute), Fence: 7},
			{Want: build, Handle: "t-b", Title: "two", Name: "Bash", Job: "j1", Since: now, Fence: 9},
		},
		Waiters: []td.Waiter{
			{Handle: "t-c", Title: "three", Place: td.Place{Wants: []td.Want{build, {Resource: "port"}}, Since: now.Add(time.Hour)}},
		},
	}, now)
	want := [][]string{
		{"resource", "mode", "task", "call", "since", "fence", "title"},
		{"build", "1 of 2", "t-a", "Bash", "1m", "7", plainLine("one\x1b[2J", 60)},
		{"build", "1 of 2", "t-b", "Bash, job j1", "0s", "9", "two"},
		{"  waits", "1 of 2", "t-c", "", "0s", "", "three"},
		{"port", "free", "", "", "", "", ""},
		{"  waits", "exclusive", "t-c", "", "0s", "", "three"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
