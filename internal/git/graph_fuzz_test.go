package git

import (
	"path/filepath"
	"strings"
	"testing"
)

func FuzzParseTree(f *testing.F) {
	f.Add("100644 blob 0123\ttasks.jsonl\x00100755 blob 4567\tknowledge/a.md\x00")
	f.Add("120000 blob 0123\tlink\x00")
	f.Add("100644 blob 0123\t../../etc/passwd\x00")
	f.Add("100644 blob 0123\ta/.GIT/config\x00")
	f.Add("100644 blob 0123\t/etc/passwd\x00")
	f.Add("100644 blob 0123\ta//b\x00100644 blob\x00")
	f.Fuzz(func(t *testing.T, s string) {
		all, err := parseTree(s)
		if err != nil && all != nil {
			t.Errorf("an error and a tree: %v", all)
		}
		for p, e := range all {
			if !filepath.IsLocal(p) || strings.Contains("/"+strings.ToLower(p)+"/", "/.git/") {
				t.Errorf("%q leads elsewhere", p)
			}
			if e.id == "" || e.mode != modePlain && e.mode != modeProgram {
				t.Errorf("%q is %+v", p, e)
			}
		}
	})
}

func FuzzParseWorktrees(f *testing.F) {
	f.Add("worktree /src/proj\x00HEAD 0123\x00branch refs/heads/main\x00\x00worktree /src/a b\nc\x00HEAD 0123\x00detached\x00prunable gone\x00\x00")
	f.Add("branch refs/heads/main\x00")
	f.Add("worktree\x00branch\x00prunable")
	f.Fuzz(func(t *testing.T, s string) {
		if got, most := len(parseWorktrees(s)), strings.Count(s, "worktree"); got > most {
			t.Errorf("%d worktrees in %q", got, s)
		}
	})
}

// Whatever a config says, what is stated again is read by git as just those settings, and as no others.
func FuzzSettings(f *testing.F) {
	f.Add("core.filemode\nfalse\x00filter.x.clean\n./evil\x00user.name\nAnn \"A\" \\ B\x00core.bare\x00")
	f.Add("user.email\na]\n[filter \"x\"]\nclean=./evil\x00extensions.objectformat\nsha1\x00extensions.partialclone\norigin\x00")
	f.Add("user.name")
	f.Fuzz(func(t *testing.T, s string) {
		list := parseSettings(s)
		said := &settings{local: list}
		text := said.text()
		var want []setting
		for _, one := range list {
			if isStated(one.key) && !strings.Contains(one.key[strings.IndexByte(one.key, '.')+1:], ".") {
				want = append(want, one)
			}
		}
		if got := strings.Count(text, "\n["); len(want) > 0 && got != len(want)-1 {
			t.Errorf("%d sections for %d settings:\n%s", got+1, len(want), text)
		}
		for l := range strings.Lines(text) {
			if section := strings.HasPrefix(l, "["); section == strings.HasPrefix(l, "\t") {
				t.Errorf("a line of its own: %q", l)
			}
		}
	})
}

func FuzzLate(f *testing.F) {
	f.Add("To x\n!\t0123:refs/heads/taskdaemon/graph\t[rejected] (fetch first)\nDone\n")
	f.Add("!\tx:y\t[remote rejected] (pre-receive hook declined)\n")
	f.Add("!\tx:y\t[remote rejected] (cannot lock ref 'y': is at 1 but expected 2)\n")
	f.Fuzz(func(t *testing.T, s string) {
		if late(s) && !strings.Contains(s, "!") {
			t.Errorf("%q is no verdict", s)
		}
	})
}

// The list is the user's: it is only ever added to, and only once.
func FuzzExcludeLines(f *testing.F) {
	f.Add("# comment\n*.o\n/.taskdaemon/")
	f.Add("/.taskdaemon/\r\n/.worktrees/  \n")
	f.Add("")
	f.Fuzz(func(t *testing.T, list string) {
		whole := list + excludeLines(list, "/.taskdaemon/", "/.worktrees/")
		if again := excludeLines(whole, "/.taskdaemon/", "/.worktrees/"); again != "" {
			t.Errorf("%q would still get %q", whole, again)
		}
		if list != "" && !strings.HasPrefix(whole, strings.TrimSuffix(list, "\n")+"\n") && whole != list {
			t.Errorf("the last line of %q was continued: %q", list, whole)
		}
	})
}

// A second version gets a name beside the first, in the same folder, that nothing has.
func FuzzConflictPath(f *testing.F) {
	f.Add("knowledge/a.md")
	f.Add(".hidden")
	f.Add("a.b/c")
	f.Add("x/.y.z")
	f.Fuzz(func(t *testing.T, name string) {
		if !sharable(name) || name == "." {
			return
		}
		seen := map[string]bool{name: true}
		for range 3 {
			to := conflictPath(name, strings.Repeat("ab", 20), func(p string) bool { return seen[p] })
			if seen[to] || !sharable(to) || filepath.Dir(to) != filepath.Dir(name) {
				t.Errorf("%q becomes %q", name, to)
			}
			seen[to] = true
		}
	})
}

// A merge is the same from both sides and loses no version that only one side has.
func FuzzMergeEntry(f *testing.F) {
	f.Add(uint8(1), uint8(2), uint8(1), uint8(1), true)
	f.Add(uint8(0), uint8(2), uint8(3), uint8(1), false)
	f.Add(uint8(1), uint8(2), uint8(1), uint8(2), true)
	f.Add(uint8(1), uint8(0), uint8(1), uint8(0), true)
	f.Fuzz(func(t *testing.T, a, b, one, two uint8, crossed bool) {
		of := func(n uint8) entry {
			if n%4 == 0 {
				return none
			}
			return entry{mode: modePlain, id: string('0' + rune(n%4))}
		}
		bases := []tree{{"f": of(one)}}
		if crossed {
			bases = append(bases, tree{"f": of(two)})
		}
		v, w := mergeEntry(bases, "f", of(a), of(b)), mergeEntry(bases, "f", of(b), of(a))
		if v.torn != w.torn || v.kept != w.kept || !v.torn && v.entry != w.entry {
			t.Errorf("one way %+v, the other %+v", v, w)
		}
		if crossed && of(one) != of(two) && of(a) != of(b) && !v.torn && (of(a) != none && of(b) != none || v.entry == none) {
			t.Errorf("decided by one of two bases: %+v", v)
		}
		old := func(e entry) bool { return e == none || e == of(one) || crossed && e == of(two) }
		for _, e := range []entry{of(a), of(b)} {
			if !v.torn && !old(e) && v.entry != e {
				t.Errorf("%+v is lost: %+v", e, v)
			}
		}
	})
}
