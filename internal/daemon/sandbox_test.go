package daemon

import (
	"path/filepath"
	"slices"
	"testing"

	"taskdaemon/internal/config"
)

// What commands may do depends on whose folder they work in, and not on what they could write into it.
func TestProfileOfWorktree(t *testing.T) {
	o := Options{StateDir: t.TempDir(), Getenv: func(string) string { return "" }}
	o.Config.Sandbox = config.Sandbox{Profile: "workspace-write", Network: "full"}
	profile := profiles(o)
	for dir, own := range map[string]bool{
		"/src/proj": false, "/src/proj/.worktrees": false, "/src/proj/.worktrees/feature": false, "/src/proj/.worktrees/t-n4hh12px": true,
		"/src/proj/.worktrees/t-n4hh12px/sub": false, // of .git nothing can be written there
	} {
		p := profile(dir)
		if got := slices.Equal(p.Refs, []string{"refs/heads/taskdaemon/run"}); got != own || !own && p.Refs != nil {
			t.Errorf("%s: references %q", dir, p.Refs)
		}
		if !slices.Contains(p.Seal, filepath.Join(dir, ".worktrees")) {
			t.Errorf("%s: worktrees of others can be changed: %q", dir, p.Seal)
		}
	}
}
