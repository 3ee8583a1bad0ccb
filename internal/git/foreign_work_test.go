package git

import (
	"slices"
	"testing"
)

// borrowing is a repository with the branches of two tasks, each with a commit of its own.
func borrowing(t *testing.T) (dir string, commit func(branch, file string) string) {
	t.Helper()
	dir = checkout(t)
	commit = func(branch, file string) string {
		user(t, dir, "checkout", "-q", branch)
		write(t, dir+"/"+file, file+"\n")
		user(t, dir, "add", "-A")
		user(t, dir, "commit", "-qm", file)
		return user(t, dir, "rev-parse", "HEAD")
	}
	for _, task := range []string{"t-1", "t-2"} {
		user(t, dir, "branch", BranchName(task, "x"), "main")
		user(t, dir, "update-ref", BegunRefs+task, "main")
		commit(BranchName(task, "x"), task+".txt")
	}
	return dir, commit
}

// sideCommit is a commit on main that no branch has.
func sideCommit(t *testing.T, dir string) string {
	t.Helper()
	user(t, dir, "checkout", "-q", "--detach", "main")
	write(t, dir+"/side.txt", "side\n")
	user(t, dir, "add", "-A")
	user(t, dir, "commit", "-qm", "side")
	return user(t, dir, "rev-parse", "HEAD")
}

func TestBorrowed(t *testing.T) {
	t.Parallel()
	one, two := BranchName("t-1", "x"), BranchName("t-2", "x")
	for name, tc := range map[string]struct {
		do           func(t *testing.T, dir string)
		first, other string // whose commits t-1 has, and whose t-2
	}{
		"nothing":       {do: func(*testing.T, string) {}},
		"merged":        {func(t *testing.T, dir string) { user(t, dir, "merge", "-q", "-s", "ours", "-m", "m", two) }, "t-2", ""},
		"begun anew on": {func(t *testing.T, dir string) { user(t, dir, "reset", "-q", "--hard", two) }, "t-2", "t-1"},
		"picked":        {do: func(t *testing.T, dir string) { user(t, dir, "cherry-pick", two) }},
		"a fork": {do: func(t *testing.T, dir string) {
			user(t, dir, "reset", "-q", "--hard", two)
			user(t, dir, "update-ref", BegunRefs+"t-1", two)
		}},
		"what is merged": {do: func(t *testing.T, dir string) {
			user(t, dir, "branch", "-f", "main", two)
			user(t, dir, "merge", "-q", "-m", "m", two)
		}},
		"what the other merged": {func(t *testing.T, dir string) {
			side := sideCommit(t, dir)
			user(t, dir, "checkout", "-q", two)
			user(t, dir, "merge", "-q", "-m", "join", side)
			user(t, dir, "checkout", "-q", one)
			user(t, dir, "merge", "-q", "-s", "ours", "-m", "tidy", side)
		}, "t-2", ""},
		"begun anew on what the other merged, and removed": {func(t *testing.T, dir string) {
			side := sideCommit(t, dir)
			user(t, dir, "checkout", "-q", two)
			user(t, dir, "merge", "-q", "-m", "join", side)
			user(t, dir, "checkout", "-q", one)
			user(t, dir, "reset", "-q", "--hard", side)
			user(t, dir, "rm", "-q", "side.txt")
			user(t, dir, "commit", "-qm", "tidy")
		}, "t-2", "t-1"},
		"what the other merged, with its content": {func(t *testing.T, dir string) {
			side := sideCommit(t, dir)
			for _, branch := range []string{two, one} {
				user(t, dir, "checkout", "-q", branch)
				user(t, dir, "merge", "-q", "-m", "join", side)
			}
		}, "", ""},
		"a person's branch that both merged": {do: func(t *testing.T, dir string) {
			side := sideCommit(t, dir)
			user(t, dir, "branch", "theirs", side)
			for _, branch := range []string{two, one} {
				user(t, dir, "checkout", "-q", branch)
				user(t, dir, "merge", "-q", "-m", "join", side)
			}
		}},
		"merged by the other": {func(t *testing.T, dir string) {
			user(t, dir, "checkout", "-q", two)
			user(t, dir, "merge", "-q", "-m", "join", one)
			user(t, dir, "checkout", "-q", one)
		}, "", "t-1"},
		"a branch of no object": {func(t *testing.T, dir string) {
			write(t, dir+"/.git/"+runRefs+"t-3/x", "1234567890123456789012345678901234567890\n")
			user(t, dir, "merge", "-q", "-m", "m", two)
		}, "t-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, commit := borrowing(t)
			user(t, dir, "checkout", "-q", one)
			tc.do(t, dir)
			commit(one, "more.txt")
			for task, want := range map[string]string{"t-1": tc.first, "t-2": tc.other} {
				at := user(t, dir, "rev-parse", BranchName(task, "x"))
				if id, of, err := Borrowed(t.Context(), dir, at, task, "refs/heads/main", "refs/heads/none"); err != nil || of != want || (id == "") != (want == "") {
					t.Errorf("%s has %q of %q, %v, want %q", task, id, of, err, want)
				}
			}
		})
	}
}

func TestEmptied(t *testing.T) {
	t.Parallel()
	one := BranchName("t-1", "x")
	ours := []string{"merge", "-q", "-s", "ours", "-m", "tidy"}
	for name, tc := range map[string]struct {
		do   func(t *testing.T, dir, theirs string)
		of   string
		lost []string
	}{
		"nothing":          {do: func(*testing.T, string, string) {}},
		"with its content": {do: func(t *testing.T, dir, _ string) { user(t, dir, "merge", "-q", "-m", "join", "theirs") }},
		"begun anew on":    {do: func(t *testing.T, dir, theirs string) { user(t, dir, "reset", "-q", "--hard", theirs) }},
		"picked":           {do: func(t *testing.T, dir, theirs string) { user(t, dir, "cherry-pick", theirs) }},
		"a branch":         {func(t *testing.T, dir, _ string) { user(t, dir, append(ours, "theirs")...) }, "theirs", []string{"next.txt", "side.txt"}},
		"a part of it":     {func(t *testing.T, dir, _ string) { user(t, dir, append(ours, "theirs~1")...) }, "theirs", []string{"side.txt"}},
		"a part of it, then the rest": {func(t *testing.T, dir, _ string) {
			user(t, dir, append(ours, "theirs~1")...)
			user(t, dir, "merge", "-q", "-m", "join", "theirs")
		}, "theirs", []string{"side.txt"}},
		"removed afterwards": {func(t *testing.T, dir, _ string) {
			user(t, dir, "merge", "-q", "-m", "join", "theirs")
			user(t, dir, "rm", "-q", "side.txt")
			user(t, dir, "commit", "-qm", "tidy")
		}, "theirs", []string{"side.txt"}},
		"a branch of a remote": {func(t *testing.T, dir, theirs string) {
			user(t, dir, "update-ref", "refs/remotes/origin/x", theirs)
			user(t, dir, "branch", "-D", "theirs")
			user(t, dir, append(ours, theirs)...)
		}, "origin/x", []string{"next.txt", "side.txt"}},
		"of another beginning": {func(t *testing.T, dir, _ string) {
			root := user(t, dir, "commit-tree", "-m", "root", "theirs^{tree}")
			user(t, dir, "branch", "-f", "theirs", root)
			user(t, dir, append(ours, "--allow-unrelated-histories", root)...)
		}, "theirs", []string{"next.txt", "side.txt"}},
		"with blanks in its place": {func(t *testing.T, dir, _ string) {
			user(t, dir, append(ours, "theirs")...)
			write(t, dir+"/side.txt", "")
			write(t, dir+"/next.txt", " \n\n")
		}, "theirs", []string{"next.txt", "side.txt"}},
		"with other lines in its place": {func(t *testing.T, dir, _ string) {
			user(t, dir, append(ours, "theirs")...)
			write(t, dir+"/side.txt", "x\n")
			write(t, dir+"/next.txt/y", "next.txt\n")
		}, "theirs", []string{"next.txt", "side.txt"}},
		"one file resolved otherwise": {do: func(t *testing.T, dir, _ string) {
			user(t, dir, "merge", "-q", "-m", "join", "theirs")
			write(t, dir+"/side.txt", "x\n")
		}},
		"edited": {do: func(t *testing.T, dir, _ string) {
			user(t, dir, "merge", "-q", "-m", "join", "theirs")
			write(t, dir+"/side.txt", "side\nx\n")
			write(t, dir+"/next.txt", "\n  next.txt\n")
		}},
		"what is merged": {do: func(t *testing.T, dir, _ string) {
			user(t, dir, "branch", "-f", "main", "theirs")
			user(t, dir, append(ours, "theirs")...)
		}},
		"a branch of no object": {func(t *testing.T, dir, _ string) {
			user(t, dir, append(ours, "theirs")...)
			write(t, dir+"/.git/refs/heads/zz", "1234567890123456789012345678901234567890\n")
		}, "theirs", []string{"next.txt", "side.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, commit := borrowing(t)
			user(t, dir, "branch", "theirs", sideCommit(t, dir))
			theirs := commit("theirs", "next.txt")
			user(t, dir, "checkout", "-q", one)
			tc.do(t, dir, theirs)
			at := commit(one, "more.txt")
			id, of, lost, err := Emptied(t.Context(), dir, at, "t-1", "refs/heads/main", "refs/heads/none")
			if err != nil || of != tc.of || (id == "") != (tc.of == "") || !slices.Equal(lost, tc.lost) {
				t.Errorf("%q of %q without %q, %v, want %q without %q", id, of, lost, err, tc.of, tc.lost)
			}
		})
	}
}

func TestUndone(t *testing.T) {
	t.Parallel()
	dir, commit := borrowing(t)
	one, two := BranchName("t-1", "x"), BranchName("t-2", "x")
	head := commit(two, "main.go")
	user(t, dir, "checkout", "-q", one)
	user(t, dir, "merge", "-q", "-s", "ours", "-m", "m", two)
	if lost, err := Undone(t.Context(), dir, "main", head, one); err != nil || !slices.Equal(lost, []string{"main.go", "t-2.txt"}) {
		t.Errorf("%v, %v", lost, err)
	}
	user(t, dir, "reset", "-q", "--hard", "HEAD^")
	user(t, dir, "merge", "-q", "-m", "m", two)
	write(t, dir+"/main.go", "later\n")
	user(t, dir, "commit", "-qam", "later")
	if lost, err := Undone(t.Context(), dir, "main", head, one); err != nil || len(lost) > 0 {
		t.Errorf("%v, %v", lost, err)
	}
}

// What became of a change in one file, by what it was, what the change made of it, and what it is.
func TestCompareFile(t *testing.T) {
	t.Parallel()
	texts := map[string][]byte{}
	file := func(text string) entry {
		if text == "-" {
			return none
		}
		texts[text] = []byte(text)
		return entry{mode: "100644", id: text}
	}
	for _, tc := range []struct {
		was, is, now string
		want         fileFate
	}{
		{"a\n", "person\n", "a\n", fileUndone},
		{"a\n", "person\n", "a \n", fileUndone},
		{"a\n", "person\n", "\n\ta\n\n", fileUndone},
		{"a\n", "person\n", "-", fileReplaced},
		{"a\n", "person\n", "b\n", fileReplaced}, // a conflict, resolved to another side
		{"a\n", "person\n", "a\nb\n", fileReplaced},
		{"a\n", "person\n", "person\nb\n", fileKept},
		{"a\n", "a\nb {\n}\nc {\n}\n", "a\nc  {\n}\n", fileKept}, // a hunk dropped of many
		{"a\n", "a\nb {\n}\n", "a\n}\n", fileReplaced},           // a bracket is nobody's
		{"a\n", "a\n}\n", "a\n\n}\n", fileKept},                  // but if there is nothing else
		{"-", "new\n", "", fileUndone},
		{"-", "new\n", " \n", fileUndone},
		{"-", "new\n", "x\n", fileReplaced},
		{"-", "new\n", "x\nnew\n", fileKept},
		{"-", "", "x\n", fileKept},
		{"a\nb\n", "a\n", "a\nb\n\n", fileUndone},
		{"a\nb\n", "a\n", "a\nc\n", fileKept},
		{"a\nb\n", "a\n", "a\nb\nc\n", fileReplaced},
		{"a\n", "-", "a\n\n", fileUndone},
		{"a\n", "-", "a\nb\n", fileReplaced},
		{"a\nb\n", "a\n  b\n", "a\n\tb\n", fileKept}, // blanks alone
	} {
		if got := compareFile(file(tc.was), file(tc.is), file(tc.now), texts); got != tc.want {
			t.Errorf("%q to %q, now %q: %d, want %d", tc.was, tc.is, tc.now, got, tc.want)
		}
	}
	old, run, link := file("a\n"), entry{"100755", "a\n"}, entry{"120000", "a\n"}
	for name, tc := range map[string]struct {
		was, is, now entry
		want         fileFate
	}{
		"a mode, set back":              {old, run, old, fileUndone},
		"a mode, set back and edited":   {old, run, file("b\n"), fileUndone},
		"a mode, and edited":            {old, run, entry{"100755", "b\n"}, fileKept},
		"another mode for content":      {old, file("person\n"), run, fileUndone},
		"a link for a file":             {old, file("person\n"), link, fileReplaced},
		"a link of the person's":        {old, entry{"120000", "z"}, file("b\n"), fileReplaced},
		"a link of the person's undone": {old, entry{"120000", "z"}, old, fileUndone},
		"too large to compare":          {old, entry{"100644", "large"}, file("b\n"), fileKept},
		"made too large to compare":     {old, file("person\n"), entry{"100644", "large"}, fileReplaced},
	} {
		if got := compareFile(tc.was, tc.is, tc.now, texts); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
