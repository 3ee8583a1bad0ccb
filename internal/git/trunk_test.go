package git

import (
	"maps"
	"slices"
	"testing"
)

// TestIntoBranchesAreApart checks that no two integration branches are in each other's way, and that it can be told which trunk one is for.
func TestIntoBranchesAreApart(t *testing.T) {
	seen := map[string]string{}
	for _, trunk := range []string{"main", "release", "release/1.0", "boat@main", "100%", "a%2Fb", "ümlaut"} {
		for _, feature := range []string{"", "boat", "release"} {
			name := IntoBranch(trunk, feature)
			if other, taken := seen[name]; taken {
				t.Errorf("%s is for %s and %s", name, other, trunk+" "+feature)
			}
			seen[name] = trunk + " " + feature
			if feature != "" && TrunkOfInto(name, feature) != trunk {
				t.Errorf("%s is for %q", name, TrunkOfInto(name, feature))
			}
			if got := TrunkOfInto(name, "other"); got != "" {
				t.Errorf("%s is another feature's, for %q", name, got)
			}
		}
	}
	root := t.TempDir()
	user(t, root, "init", "-q", "-b", "main")
	user(t, root, "commit", "-q", "--allow-empty", "-m", "x")
	for name := range seen { // git takes them all, beside each other
		user(t, root, "branch", name)
	}
	of, err := TrunksOf(t.Context(), root, "boat")
	if got := slices.Sorted(maps.Keys(of)); err != nil || !slices.Equal(got, []string{"100%", "a%2Fb", "boat@main", "main", "release", "release/1.0", "ümlaut"}) {
		t.Errorf("%v, %v", got, err)
	}
}
