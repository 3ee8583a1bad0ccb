package sandbox

import (
	"os"
	"strings"
	"testing"
)

// TestBaseIsRenewed checks that the commands of a shim, which share their mounts, see what was replaced, made or removed between them.
func TestBaseIsRenewed(t *testing.T) {
	y := newYardIn(t, "/var/tmp")
	y.s.Warm = 1
	t.Setenv("HOME", y.home)
	seen, later := y.home+"/seen", y.home+"/later"
	y.p.See = append(y.p.See, seen, later)
	y.p.Cache, y.p.Blank = Caches(os.Getenv), Blanks(os.Getenv)
	y.put(seen, "one")
	task := y.command("true").Task
	run := func(script string) string {
		t.Helper()
		cmd := y.command(script + "; cat /proc/$PPID/stat | cut -d' ' -f1 > shim")
		cmd.Task = task
		res := wait(t, start(t, y.s, "cmd", cmd))
		if err := y.s.Remove("cmd"); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(res.Head))
	}
	if got := run("cat " + seen + "; ls " + later + " 2>/dev/null"); got != "one" {
		t.Errorf("at first: %q", got)
	}
	first, err := os.ReadFile(y.work + "/shim")
	if err != nil {
		t.Fatal(err)
	}
	y.put(seen+".new", "two")
	if err := os.Rename(seen+".new", seen); err != nil {
		t.Fatal(err)
	}
	y.put(later, "three")
	y.put(y.home+"/.gitconfig", "[user]\nname = Ann\n")
	if got := run("cat " + seen + "; echo; cat " + later + "; echo; git config user.name"); got != "two\nthree\nAnn" {
		t.Errorf("after the change: %q", got)
	}
	if err := os.Remove(later); err != nil {
		t.Fatal(err)
	}
	if got := run("cat " + later + " 2>/dev/null; echo gone"); got != "gone" {
		t.Errorf("after the removal: %q", got)
	}
	if last, err := os.ReadFile(y.work + "/shim"); err != nil || string(last) != string(first) {
		t.Errorf("another shim served: %q and %q, %v", first, last, err)
	}
}
