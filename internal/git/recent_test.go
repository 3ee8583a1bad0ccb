package git

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecent(t *testing.T) {
	if files, err := Recent(t.Context(), t.TempDir()); err != nil || len(files) > 0 {
		t.Errorf("without git: %q, %v", files, err)
	}
	dir := checkout(t)
	write(t, dir+"/pkg/new lexer.go", "package pkg\n")
	user(t, dir, "add", "-A")
	user(t, dir, "commit", "-qm", "lex")
	write(t, dir+"/main.go", "package main // changed\n")
	write(t, dir+"/sub/other.go", "package sub\n")
	files, err := Recent(t.Context(), dir)
	want := []string{"main.go", "sub/other.go", "pkg/new lexer.go", ".gitignore", "pkg/a.go"}
	if d := cmp.Diff(want, files); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
}
