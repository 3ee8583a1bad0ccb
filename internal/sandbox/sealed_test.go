package sandbox

import (
	"slices"
	"testing"
)

func TestSealedIn(t *testing.T) {
	t.Parallel()
	place := &Profile{Workspace: "/shop", Hooks: []string{"/shop/.husky/_"}, Settings: []string{"/shop/.gitconfig"}}
	own := &Profile{Workspace: "/shop/.worktrees/t-1", Hooks: []string{"/shop/.worktrees/t-1/.husky/_"}}
	for name, tc := range map[string]struct {
		p    *Profile
		out  string
		want []string
	}{
		"nothing sealed":    {nil, ".husky/_/h: Read-only file system\n", nil},
		"a shell":           {place, "sh: 1: cannot create .husky/_/pre-commit: Read-only file system\n", []string{"/shop/.husky/_"}},
		"node":              {place, "Error: EROFS: read-only file system, open '.husky/_/h'\n", []string{"/shop/.husky/_"}},
		"moved":             {place, "mv: cannot move '.husky/_' to 'x': Device or resource busy", []string{"/shop/.husky/_"}},
		"by its whole path": {place, "x: /shop/.husky/_/h: Permission denied", []string{"/shop/.husky/_"}},
		"settings":          {place, "sh: 1: cannot create .gitconfig: Read-only file system\n", []string{"/shop/.gitconfig"}},
		"a worktree":        {own, "sh: 1: cannot create .husky/_/h: Read-only file system\n", []string{"/shop/.husky/_"}},
		"something else":    {place, "touch: /usr/x: Read-only file system\nls .husky/_\n", nil},
		"no failure":        {place, "wrote .husky/_/h\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.p.sealedIn([]byte("first\n"), []byte(tc.out)); !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
