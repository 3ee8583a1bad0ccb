package git

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestForecast(t *testing.T) {
	dir := checkout(t)
	heads := map[string]string{"main": user(t, dir, "rev-parse", "main")}
	for _, branch := range []struct{ name, file, text string }{
		{"one", "main.go", "package main // one\n"},
		{"two", "main.go", "package main // two\n"},
		{"apart", "a\nb", "new\n"},
	} {
		user(t, dir, "switch", "-q", "-c", branch.name, "main")
		write(t, dir+"/"+branch.file, branch.text)
		user(t, dir, "add", "-A")
		user(t, dir, "commit", "-qm", branch.name)
		heads[branch.name] = user(t, dir, "rev-parse", "HEAD")
	}
	heads["twin of two"] = heads["two"]
	before := user(t, dir, "count-objects")
	f := NewForecast(dir)
	want := []Clash{{"one", "twin of two", []string{"main.go"}}, {"one", "two", []string{"main.go"}}}
	check := func() {
		t.Helper()
		if got, err := f.Clashes(t.Context(), heads); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	check()
	if after := user(t, dir, "count-objects"); after != before {
		t.Errorf("%s, and before %s", after, before)
	}
	t.Run("what was tried is not tried again", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir()) // there is no git
		check()
		delete(heads, "twin of two")
		want = want[1:]
		check()
		heads["another"] = strings.Repeat("0", 40)
		_, err := f.Clashes(t.Context(), heads)
		refuses(t, err, td.Unavailable)
	})
	delete(heads, "another")
	check()
	user(t, dir, "switch", "-q", "two")
	user(t, dir, "merge", "-q", "-s", "ours", "-m", "solved", "one")
	heads["two"] = user(t, dir, "rev-parse", "two")
	want = nil
	check()
	if len(f.tried) != 6 {
		t.Errorf("%d pairs are remembered", len(f.tried))
	}
	heads["bad"] = "a b"
	_, err := f.Clashes(t.Context(), heads)
	refuses(t, err, td.Invalid)
	heads["bad"] = strings.Repeat("1", 40)
	if _, err := f.Clashes(t.Context(), heads); err == nil {
		t.Error("a commit that is none was merged")
	}
	user(t, dir, "switch", "-q", "--orphan", "orphan")
	user(t, dir, "commit", "-q", "--allow-empty", "-m", "orphan")
	heads["bad"] = user(t, dir, "rev-parse", "HEAD")
	check()
}

func FuzzParseMerges(f *testing.F) {
	f.Add("0\x00tree\x00a\x00b\x00\x001\x00tree\x00\x00")
	f.Add("1\x00tree\x00a\x00\x00")
	f.Add("0\x00tree\x00")
	f.Fuzz(func(t *testing.T, s string) {
		found, ok := parseMerges(s)
		if !ok && found != nil {
			t.Errorf("%q of what is none", found)
		}
		for _, files := range found {
			for _, name := range files {
				if !strings.Contains(s, "\x00"+name+"\x00") {
					t.Errorf("%q is not in it", name)
				}
			}
		}
	})
}

func FuzzParseMerge(f *testing.F) {
	f.Add("tree\x00b\x00a\x00a\x00")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range parseMerge(s).Conflicts {
			if name == "" || !strings.Contains(s, "\x00"+name) {
				t.Errorf("%q is not in it", name)
			}
		}
	})
}

func FuzzParseRaw(f *testing.F) {
	f.Add(":100644 000000 aa 00 D\x00gone\x00:000000 160000 00 bb A\x00new\x00")
	f.Add(":100644 100644 aa bb M\x00")
	f.Fuzz(func(t *testing.T, s string) {
		all, ok := parseRaw(s)
		if !ok && all != nil {
			t.Errorf("%v of what is none", all)
		}
	})
}

func FuzzParseTimes(f *testing.F) {
	f.Add("a\nb\x00  ctime: 1:2\n  mtime: 3:4\n  dev: 1\tino: 2\n  uid: 0\tgid: 0\n  size: 1\tflags: 0\nc\x00  ctime: 1:2\n  mtime: 3:4\n\n\n\n")
	f.Add("a\x00")
	f.Fuzz(func(t *testing.T, s string) {
		at, ok := parseTimes(s)
		if !ok && at != nil || len(at) > strings.Count(s, "\x00") {
			t.Errorf("%v", at)
		}
	})
}

func FuzzImage(f *testing.F) {
	f.Add("100644 aa 0\ta\x00100644 bb 2\ta/b\nc\x00")
	f.Add("100644 aa 4\ta\x00")
	f.Fuzz(func(t *testing.T, s string) {
		list, ok := imageList(s)
		if !ok {
			return
		}
		// What git would list of the tree that was written of it.
		var tree strings.Builder
		for rec := range strings.SplitSeq(list, "\x00") {
			if head, name, ok := strings.Cut(rec, "\t"); ok {
				fields := strings.Fields(head)
				fmt.Fprintf(&tree, "%s blob %s\t%s\x00", fields[0], fields[1], name)
			}
		}
		back, state, ok := imageOf(tree.String())
		if ok && len(state) == 0 && strings.Count(back, "\x00") != strings.Count(list, "\x00") {
			t.Errorf("%q became %q", s, back)
		}
	})
}

func FuzzRecommit(f *testing.F) {
	f.Add("tree a\nparent b\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0000\ngpgsig x\n y\nencoding latin1\n\nmessage\n\nmore")
	f.Add("tree a\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		again, ok := recommit(s, "T", "C", "P")
		if !ok {
			return
		}
		_, message, _ := strings.Cut(s, "\n\n")
		if !strings.HasPrefix(again, "tree T\nparent P\nauthor ") || !strings.HasSuffix(again, "\n\n"+message) {
			t.Errorf("%q", again)
		}
	})
}

func FuzzBranchName(f *testing.F) {
	f.Add("t-4k7q2m9x", "Mend the roof.lock")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, handle, title string) {
		name := BranchName(handle, title)
		for _, r := range strings.TrimPrefix(name, runBranches) {
			if !(r == '-' || r == '/' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9') {
				t.Errorf("%q", name)
			}
		}
		if len(name) > len(runBranches)+2*maxSlug+1 || strings.HasSuffix(name, "-") || strings.Count(name, "/") != 3 {
			t.Errorf("%q", name)
		}
	})
}
