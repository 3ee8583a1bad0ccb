package git

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// What a commit has to go through may be said in a file that the repository's settings include, also one that includes another, or for certain branches only.
func TestDemandsOfIncludedSettings(t *testing.T) {
	for name, including := range map[string]string{
		"include.path":                          "[include]\n\tpath = ../settings\n",
		"includeIf":                             "[includeIf \"onbranch:main\"]\n\tpath = ../settings\n",
		"one that includes another":             "[include]\n\tpath = more\n",
		"one beside one that is not there":      "[include]\n\tpath = nowhere\n\tpath = ../settings\n",
		"one that includes itself, and nothing": "[include]\n\tpath = loop\n\tpath = /dev/null\n\tpath = ../settings\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t)
			write(t, dir+"/settings", "[commit]\n\tgpgSign = true\n[core]\n\thooksPath = hk\n[filter \"crypt\"]\n\tclean = tr a-z A-Z\n")
			write(t, dir+"/.git/more", "[include]\n\tpath = ../settings\n")
			write(t, dir+"/.git/loop", "[include]\n\tpath = loop\n")
			write(t, dir+"/hk/pre-commit", "#!/bin/sh\n")
			if err := os.Chmod(dir+"/hk/pre-commit", 0o755); err != nil {
				t.Fatal(err)
			}
			config, err := os.ReadFile(dir + "/.git/config")
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir+"/.git/config", string(config)+including)
			d, err := DemandsOf(t.Context(), dir)
			if err != nil || !d.Signed || strings.Join(d.Hooks, " ") != "pre-commit" {
				t.Errorf("%+v, %v", d, err)
			}
			if names, err := filters(t.Context(), dir); err != nil || strings.Join(names, " ") != "crypt" {
				t.Errorf("filters %v, %v", names, err)
			}
			said, err := configs.of(t.Context(), site{top: dir, git: dir + "/.git", common: dir + "/.git"})
			if err != nil || strings.Contains(said.text(), "gpg") || strings.Contains(said.text(), "hooks") {
				t.Errorf("stated: %q, %v", said.text(), err)
			}
			write(t, filepath.Join(dir, "settings"), "")
			if d, err := DemandsOf(t.Context(), dir); err != nil || d.Signed {
				t.Errorf("after a change: %+v, %v", d, err)
			}
		})
	}
	dir := checkout(t)
	var many strings.Builder
	for i := range mostFiles + 1 {
		fmt.Fprintf(&many, "[include]\n\tpath = f%d\n", i)
	}
	write(t, dir+"/.git/config", many.String())
	if _, err := DemandsOf(t.Context(), dir); !td.IsKind(err, td.Refused) {
		t.Errorf("too many: %v", err)
	}
}
