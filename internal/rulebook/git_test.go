package rulebook

import (
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/policy"
)

// What a folder is to git is read from its files, whatever they are called.
func TestLookAtGit(t *testing.T) {
	inside := func(dir string) map[string]string {
		return map[string]string{dir + "HEAD": "ref: refs/heads/main\n", dir + "objects/x": "", dir + "refs/x": ""}
	}
	with := func(files map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	top, in := policy.Git{Top: true}, policy.Git{Inside: true}
	tests := []struct {
		name  string
		files map[string]string
		want  policy.Git
	}{
		{"nothing", map[string]string{"main.go": ""}, policy.Git{}},
		{"a repository", inside(".git/"), top},
		{"a commit is checked out", with(inside(".git/"), ".git/HEAD", "0123456789012345678901234567890123456789\n"), top},
		{"a .git that is none", map[string]string{".git/x": ""}, policy.Git{}},
		{"no branch in HEAD", with(inside(".git/"), ".git/HEAD", "ref: x"), policy.Git{}},
		{"its settings are elsewhere", with(inside(".git/"), ".git/commondir", "../x"), policy.Git{}},
		{"a bare one", inside(""), in},
		{"a bare one behind an empty .git", with(inside(""), ".git/x", ""), in},
		{"a bare one with a checkout", with(inside(""), ".git/HEAD", "ref: refs/heads/x", ".git/objects/x", "", ".git/refs/x", ""), policy.Git{Top: true, Inside: true}},
		{"kept apart", with(inside("meta/"), ".git", "gitdir: meta\n"), top},
		{"kept apart, but not there", map[string]string{".git": "gitdir: meta\n"}, policy.Git{}},
		{"a worktree", with(inside("main/.git/"), ".git", "gitdir: main/.git/worktrees/x", "main/.git/worktrees/x/HEAD", "ref: refs/heads/y", "main/.git/worktrees/x/commondir", "../..\n"), top},
		{"a file that is no link", map[string]string{".git": "hello"}, policy.Git{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := LookAtGit(dir); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
