package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPut checks that something is put back whatever has its name, and that of what is kept.
func TestPut(t *testing.T) {
	git := gitFolder(t)
	was := original{Text: []byte("theirs"), Mode: 0o640}
	long := strings.Repeat("x", 250)
	for _, name := range []string{"config", long} {
		put(t, git, name, "evil")
		put(t, git, "config"+keptAs(7)+"/x", "taken")
		told := was.put(git, name, 7)
		raw, err := os.ReadFile(filepath.Join(git.Name(), name))
		if err != nil || string(raw) != "theirs" || len(told) != 1 || !strings.Contains(told[0], "kept as") {
			t.Errorf("%.10s is %q, %v, told as %q", name, raw, err, told)
		}
		as := strings.TrimSuffix(told[0][strings.Index(told[0], "kept as ")+len("kept as "):], ")")
		if raw, err := os.ReadFile(filepath.Join(git.Name(), as)); err != nil || string(raw) != "evil" {
			t.Errorf("what was kept as %s is %q, %v", as, raw, err)
		}
	}
}

// TestPutFails checks that what cannot be put back, or removed, is told, and that git does not find what it was to replace.
func TestPutFails(t *testing.T) {
	git := gitFolder(t)
	put(t, git, "config", "evil")
	told := original{Link: strings.Repeat("x", 5000)}.put(git, "config", 7)
	removed, failed := failures(told)
	if len(removed) != 1 || len(failed) != 1 || !strings.Contains(failed[0], "restore "+git.Name()+"/config") || fileExists(git.Name()+"/config") {
		t.Errorf("removed %q, failed %q", removed, failed)
	}
	put(t, git, "evil", "evil")
	_ = git.Close()
	if told := slices.Concat(remove(git, "evil"), was(git.Name()).put(git, "evil", 7)); len(told) != 2 || !strings.HasPrefix(told[0], failedPrefix) || !strings.HasPrefix(told[1], failedPrefix) {
		t.Errorf("told %q", told)
	}
}

// TestGuardSums checks that a change is seen wherever it is in a file, and that what is noted says the same when it was written and read.
func TestGuardSums(t *testing.T) {
	git := gitFolder(t)
	large, huge := strings.Repeat("x", mostKept+100), int64(mostSummed+1)
	put(t, git, "hooks/large", large)
	put(t, git, "hooks/huge", "")
	put(t, git, "hooks/empty", "")
	if err := os.Truncate(git.Name()+"/hooks/huge", huge); err != nil {
		t.Fatal(err)
	}
	a := arms{had: map[string]original{}}
	a.add(git, "")
	raw, err := json.Marshal(before{Guarded: map[string]guard{"x": {Had: a.had}}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := decodeBefore(raw)
	if err != nil {
		t.Fatal(err)
	}
	had := b.Guarded["x"].Had
	if had["hooks/empty"].Text == nil || had["hooks/large"].Text != nil || had["hooks/huge"].ID == "" {
		t.Errorf("noted is %+v", had["hooks/empty"])
	}
	differ := func() (names []string) {
		now := arms{had: map[string]original{}, after: true, was: had}
		now.add(git, "")
		for name := range had {
			if !now.had[name].same(had[name]) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got := differ(); got != nil {
		t.Errorf("%v seem to have changed", got)
	}
	put(t, git, "hooks/large", large[:mostKept+50]+strings.Repeat("y", 50))
	put(t, git, "hooks/empty", "y")
	f, err := os.OpenFile(git.Name()+"/hooks/huge", os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("y"), huge-1)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if got := differ(); !slices.Equal(got, []string{"hooks/empty", "hooks/huge", "hooks/large"}) {
		t.Errorf("only %v seem to have changed", got)
	}
}

// TestEmptyComesBack checks that a file without content is put back by whoever comes after a shim that died.
func TestEmptyComesBack(t *testing.T) {
	y := gitYard(t)
	y.crowd("", 200)
	y.theirs("zz")
	y.put(y.work+"/zz/.git/hooks/empty", "")
	y.put(y.work+"/zz/.git/hooks/big", strings.Repeat("x", mostKept))
	y.put(y.work+"/zz/.git/hooks/big2", strings.Repeat("y", mostKept))
	y.put(y.work+"/zz/.git/hooks/big3", strings.Repeat("y", mostKept))
	y.put(y.work+"/yy/x", "")
	y.theirs("yy")
	y.put(y.work+"/yy/.git/hooks/big", strings.Repeat("x", mostKept))
	y.kill("rm zz/.git/hooks/big; echo evil > zz/.git/hooks/empty")
	for name, size := range map[string]int64{"empty": 0, "big": mostKept} {
		if info, err := os.Stat(y.work + "/zz/.git/hooks/" + name); err != nil || info.Size() != size {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func was(text string) original { return original{Text: []byte(text)} }
