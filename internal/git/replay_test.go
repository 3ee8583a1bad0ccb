package git

import (
	"os"
	"strings"
	"testing"
)

// What is replayed has the branch's own commits alone, with its merges, and nothing that was taken from the trunk.
func TestReplay(t *testing.T) {
	t.Parallel()
	w, _ := sketch(t)
	dir := w.Repo
	do := func(args ...string) string { t.Helper(); return user(t, dir, args...) }
	add := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		do("add", name)
		do("commit", "-qm", name)
	}
	add("taken", "1")
	had := do("rev-parse", "HEAD")
	do("checkout", "-q", "-b", "into")
	add("a", "1")
	do("checkout", "-q", "-b", "b", had)
	add("b", "1")
	do("checkout", "-q", "into")
	do("merge", "-q", "--no-ff", "-m", "merge b", "b")
	do("checkout", "-q", "main")
	do("reset", "-q", "--hard", "HEAD~1")
	add("new", "1")
	onto := do("rev-parse", "HEAD")
	to, conflicts, err := Replay(t.Context(), dir, "into", onto, had)
	if err != nil || len(conflicts) > 0 {
		t.Fatal(conflicts, err)
	}
	names := do("log", "--format=%s", onto+".."+to)
	for _, want := range []string{"a", "b", "merge b"} {
		if !strings.Contains("\n"+names+"\n", "\n"+want+"\n") {
			t.Errorf("%q is not among %q", want, names)
		}
	}
	files := strings.Fields(do("ls-tree", "--name-only", to))
	if got := strings.Join(files, " "); strings.Contains(got, "taken") || !strings.Contains(got, "a b new") && !strings.Contains(got, "a") {
		t.Errorf("it has %s", got)
	}
	if n := len(strings.Fields(do("log", "-1", "--format=%P", to))); n != 2 {
		t.Errorf("the merge has %d parents", n)
	}

	// Trunk commits that were merged in meanwhile, and taken away as well, stay away.
	do("checkout", "-q", "-b", "old", had)
	add("taken2", "1")
	later := do("rev-parse", "HEAD")
	do("checkout", "-q", "into")
	do("merge", "-q", "--no-ff", "-m", "Merge the trunk", later)
	add("c", "1")
	if to, conflicts, err = Replay(t.Context(), dir, "into", onto, later); err != nil || len(conflicts) > 0 {
		t.Fatal(conflicts, err)
	}
	got := " " + strings.Join(strings.Fields(do("ls-tree", "--name-only", to)), " ") + " "
	if strings.Contains(got, "taken") {
		t.Errorf("it has %s", got)
	}
	for _, want := range []string{" a ", " b ", " c ", " new "} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not among %s", want, got)
		}
	}

	// A conflict names its files.
	do("checkout", "-q", "main")
	add("c", "other")
	if _, conflicts, err = Replay(t.Context(), dir, "into", "main", later); err != nil || len(conflicts) != 1 || conflicts[0] != "c" {
		t.Errorf("%v, %v", conflicts, err)
	}
}
