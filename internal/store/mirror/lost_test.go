package mirror

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Each lost conversation is named once, however often it was noted, and whatever else is in the file.
func TestLostIsNoted(t *testing.T) {
	dir := t.TempDir()
	if names, err := Lost(dir); err != nil || len(names) > 0 {
		t.Fatalf("nothing was noted: %q, %v", names, err)
	}
	for _, names := range [][]string{{"t-two", "t-one"}, nil, {"t-one"}} {
		if err := noteLost(dir, names); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := Lost(dir); err != nil || !slices.Equal(names, []string{"t-one", "t-two"}) {
		t.Errorf("noted are %q, %v", names, err)
	}
	if err := os.Remove(LostFile(dir)); err != nil {
		t.Fatal(err)
	}
	if names, err := Lost(dir); err != nil || len(names) > 0 {
		t.Errorf("a person has accepted it: %q, %v", names, err)
	}
}

func FuzzLost(f *testing.F) {
	f.Add([]byte("t-one\nt-two\r\n\nt-one"))
	f.Add([]byte("\x1b[2J\n../../x\n-rf\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		names := parseLost(raw)
		if !slices.IsSorted(names) {
			t.Errorf("%q", names)
		}
		for _, name := range names {
			if !fitName(name) || strings.ContainsAny(name, "\x1b/\n ") {
				t.Errorf("%q is no name", name)
			}
		}
	})
}
