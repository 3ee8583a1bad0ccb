package git

import (
	"encoding/hex"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestSound(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	tree := user(t, dir, "rev-parse", "HEAD^{tree}")
	raw := func(kind, content string) string {
		t.Helper()
		return piped(t, dir, content, "hash-object", "-t", kind, "-w", "--literally", "--stdin")
	}
	const odd = "tree %TREE\nparent %ON\nauthor x\ncommitter P <p@x> 1700000000 +0000\n\nhm\n"
	oddCommit := func(on string) string {
		return raw("commit", strings.NewReplacer("%TREE", tree, "%ON", on).Replace(odd))
	}
	// The person has odd things of their own: a commit, and a .gitmodules in what is there now.
	modules := raw("blob", "[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n")
	user(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+modules+",.gitmodules")
	withModules := user(t, dir, "write-tree")
	begin := user(t, dir, "commit-tree", withModules, "-p", oddCommit(user(t, dir, "rev-parse", "HEAD")), "-m", "theirs")
	user(t, dir, "update-ref", "refs/heads/main", begin)
	user(t, dir, "update-ref", "refs/heads/theirs", oddCommit(begin))
	on := func(tree, parent string) string { return user(t, dir, "commit-tree", tree, "-p", parent, "-m", "work") }

	user(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+raw("blob", "new\n")+",new")
	work := user(t, dir, "write-tree")
	evil := raw("blob", "[submodule \"b\"]\n\tpath = b\n\turl = -u./other\n")
	user(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+evil+",.gitmodules")
	evilTree := user(t, dir, "write-tree")
	id, err := hex.DecodeString(raw("blob", "x\n"))
	if err != nil {
		t.Fatal(err)
	}
	unsorted := raw("tree", "100644 b\x00"+string(id)+"100644 a\x00"+string(id))
	for name, tc := range map[string]struct{ commit, said string }{
		"all is well":                      {on(work, begin), ""},
		"nothing is new":                   {begin, ""},
		"a commit without an address":      {on(tree, oddCommit(on(work, begin))), "missingEmail"},
		"the person's own branch, merged":  {user(t, dir, "commit-tree", work, "-p", begin, "-p", "theirs", "-m", "merge"), ""},
		"a .gitmodules that names options": {on(evilTree, begin), "gitmodulesUrl"},
		"a tree in no order":               {on(unsorted, begin), "treeNotSorted"},
	} {
		err := Sound(t.Context(), dir, tc.commit, "refs/heads/main", "refs/heads/not-there")
		switch {
		case tc.said == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.said != "" && (!td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), tc.said)):
			t.Errorf("%s: %v", name, err)
		}
	}
}
