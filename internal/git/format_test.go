package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestKnownFormat(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config string
		hint   string // empty: it is known
	}{
		"none":               {config: ""},
		"sha1":               {config: "[extensions]\n\tobjectFormat = sha1\n"},
		"sha256":             {config: "[extensions]\n\tobjectFormat = sha256\n"},
		"files":              {config: "[extensions]\n\trefStorage = files\n"},
		"others":             {config: "[extensions]\n\tpartialClone = origin\n\tworktreeConfig\n\tpreciousObjects = true\n\trelativeWorktrees = true\n\tnoop = 1\n"},
		"reftable":           {"[extensions]\n\trefStorage = reftable\n", "refs migrate --ref-format=files"},
		"said again":         {"[extensions]\n\trefStorage = files\n[Extensions] refstorage = reftable\n", "refs migrate"},
		"elsewhere":          {"[extensions]\n\trefStorage = files:///tmp/refs\n", "refs migrate"},
		"objects of two":     {"[extensions]\n\tcompatObjectFormat = sha256\n", "git clone"},
		"objects of another": {"[extensions]\n\tobjectFormat = sha3\n", "git clone"},
		"of tomorrow":        {"[extensions]\n\tquantum = true\n", "git clone"},
		"with a subsection":  {"[extensions \"noop\"]\n\tnoop = true\n", "git clone"},
		"long":               {strings.Repeat("# a word\n", 20_000) + "[extensions]\n\trefStorage = reftable\n", "refs migrate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := checkout(t)
			file := filepath.Join(dir, ".git", "config")
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, string(old)+tc.config)
			for _, at := range []string{dir, filepath.Join(dir, td.WorktreeFolder, "t-1")} { // which is not there yet
				err := KnownFormat(at)
				if (err == nil) != (tc.hint == "") || err != nil && (!td.IsKind(err, td.Refused) || !strings.Contains(td.HintOf(err), tc.hint)) {
					t.Errorf("%v: %q, want %q", err, td.HintOf(err), tc.hint)
				}
			}
			if _, err := TrunkOf(t.Context(), dir); tc.hint != "" && (!td.IsKind(err, td.Refused) || !strings.Contains(td.HintOf(err), tc.hint)) {
				t.Errorf("trunk: %v: %q, want %q", err, td.HintOf(err), tc.hint)
			}
		})
	}
	if err := KnownFormat(t.TempDir()); err != nil {
		t.Error(err)
	}
}
