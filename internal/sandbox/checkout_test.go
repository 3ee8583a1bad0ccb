package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A verifier works in a checkout in the state folder, which is hidden, and its repository borrows objects. It can
// change the checkout, and nothing of what it is a checkout of.
func TestCheckoutInHiddenFolder(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for _, place := range []string{"/tmp", "/var/tmp"} {
		t.Run(place, func(t *testing.T) {
			y := newYardIn(t, place)
			source, state := y.out+"/source", filepath.Dir(y.s.Dir)
			own, other := state+"/checkouts/one", state+"/checkouts/two"
			for _, dir := range []string{source, other} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			y.put(other+"/file", "of another")
			y.put(state+"/journal.db", "secret")
			y.put(source+"/file", "untouched")
			for _, args := range [][]string{
				{"init", "-q"}, {"add", "file"}, {"-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "-qm", "first"}, {"clone", "-q", "--shared", source, own},
			} {
				cmd := exec.Command("git", args...)
				cmd.Dir = source
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			y.work, y.p.Workspace = own, own
			y.works("git log --format=%s | grep -q first && echo x > new && git add new && " + gitAs + "commit -qm two && test $(pwd) = " + own)
			y.fails("cat " + state + "/journal.db")
			y.fails("cat ../../journal.db")
			y.fails("echo x > " + state + "/journal.db")
			y.fails("cat ../two/file")
			y.fails("echo x > ../two/file")
			y.fails("mkdir ../three")
			y.fails("echo x > " + source + "/file")
			y.fails("echo x > " + source + "/.git/objects/x")
			y.run("echo " + y.priv + " > .git/objects/info/alternates") // which are the command's own
			if got := (Profile{Workspace: own}).gitLenders(); !slices.Equal(got, []string{source + "/.git/objects"}) {
				t.Errorf("it borrows from %q", got)
			}
			y.fails("git -C " + source + " " + strings.TrimPrefix(gitAs, "git ") + " commit --allow-empty -qm x")
			y.p.Files = ReadOnly
			y.works("cat file && git log --format=%s | grep -q two")
			y.fails("echo x > newer")
		})
	}
}

func TestLendersOfLenders(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name, ".git", "objects") }
	lend := func(name, lines string) {
		if err := os.MkdirAll(at(name)+"/info", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name)+"/info/alternates", []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lend("a", at("b")+"\n")
	lend("b", "../../../c/.git/objects\n"+at("a")+"\n")
	want := []string{at("b"), at("c"), at("a")}
	if got := (Profile{Workspace: filepath.Join(dir, "a")}).gitLenders(); !slices.Equal(got, want) {
		t.Errorf("lenders %q, want %q", got, want)
	}
	if got := (Profile{Workspace: filepath.Join(dir, "c")}).gitLenders(); got != nil {
		t.Errorf("lenders of none: %q", got)
	}
}
