package sandbox

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/beneath"
)

// TestBadLinks checks that of what a command added that is found which names others wrongly, and whatever names that.
func TestBadLinks(t *testing.T) {
	dir := t.TempDir()
	real, err := beneath.OpenResolved(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	st := &store{real: real, digits: 40}
	there := map[string]string{}
	put := func(kind, body string) string {
		plain := fmt.Sprintf("%s %d\x00%s", kind, len(body), body)
		name := sum1(plain)
		at := filepath.Join(dir, name[:2], name[2:])
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, deflate(plain), 0o644)); err != nil {
			t.Fatal(err)
		}
		there[name], st.added = kind, append(st.added, name)
		return name
	}
	tree := func(mode, of string) string {
		raw, _ := hex.DecodeString(of)
		return put("tree", mode+" z\x00"+string(raw))
	}
	commit := func(tree string, parents ...string) string {
		text := "tree " + tree + "\n"
		for _, p := range parents {
			text += "parent " + p + "\n"
		}
		return put("commit", text+"author a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nparent of nothing\n")
	}
	file, missing := sum1("blob 1\x00a"), strings.Repeat("1", 40)
	there[file] = "blob"
	good := tree("100644", file)
	first := commit(good)
	second := commit(tree("40000", good), first)
	tree("160000", missing) // of another repository
	put("tag", "object "+second+"\ntype commit\ntag x\n")

	asFile := tree("100755", first)
	above := tree("40000", asFile)
	bad := []string{
		asFile, above, commit(above, second), tree("120000", missing), tree("40000", missing), tree("40000", file), commit(first), commit(good, good),
		put("tag", "object "+second+"\ntype tree\ntag x\n"),
	}
	slices.Sort(bad)
	got, err := st.badLinks(func(ids []string) (map[string]string, error) {
		return parseKinds(strings.NewReader(answers(ids, there)), ids)
	})
	if err != nil || !slices.Equal(got, bad) {
		t.Errorf("got %q, %v, want %q", got, err, bad)
	}
}

// answers are what git says of objects.
func answers(ids []string, kinds map[string]string) string {
	var b strings.Builder
	for _, id := range ids {
		kind := kinds[id]
		if kind == "" {
			kind = "missing"
		}
		b.WriteString(id + " " + kind + "\n")
	}
	return b.String()
}

func FuzzParseKinds(f *testing.F) {
	f.Add("a blob\nb missing\n")
	f.Add("b\n")
	f.Fuzz(func(t *testing.T, said string) {
		if kinds, err := parseKinds(strings.NewReader(said), []string{"a", "b"}); err == nil && len(kinds) > 2 {
			t.Errorf("%v", kinds)
		}
	})
}

func FuzzLinksOf(f *testing.F) {
	f.Add("tree", []byte("100644 z\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Add("commit", []byte("tree x\nparent y\n\n"))
	f.Add("tag", []byte("object x"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		if links := linksOf(kind, body, 40); len(links) > len(body)+1 {
			t.Errorf("%d links in %d bytes", len(links), len(body))
		}
	})
}
