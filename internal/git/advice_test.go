package git

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// Nobody is told to run git in the worktree of a task: it would obey what the task wrote there.
func TestNoHintNamesGitInATasksFolder(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, top, own string){
		"an index that is a link": func(t *testing.T, _, own string) {
			index := filepath.Join(own, "index")
			if err := os.Rename(index, index+".away"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("index.away", index); err != nil {
				t.Fatal(err)
			}
		},
		"a .git that is a link": func(t *testing.T, top, own string) {
			if err := os.Remove(filepath.Join(top, ".git")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(own, filepath.Join(top, ".git")); err != nil {
				t.Fatal(err)
			}
		},
		"a .git that leads elsewhere": func(t *testing.T, top, own string) {
			write(t, filepath.Join(top, ".git"), "gitdir: "+filepath.Join(filepath.Dir(filepath.Dir(own)))+"\n")
		},
		"no repository": func(t *testing.T, top, _ string) {
			if err := os.Remove(filepath.Join(top, ".git")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(top, ".git", "HEAD"), "ref: x\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := checkout(t)
			top := filepath.Join(dir, td.WorktreeFolder, "t-1")
			user(t, dir, "worktree", "add", "-q", "-b", BranchName("t-1", "x"), top)
			spoil(t, top, filepath.Join(dir, ".git", "worktrees", "t-1"))
			for _, at := range []string{top, filepath.Join(top, "below")} {
				if err := os.MkdirAll(at, 0o755); err != nil {
					t.Fatal(err)
				}
				err := misfit(at)
				if err == nil {
					t.Fatal("nothing is wrong with it")
				}
				if hint := td.HintOf(err); strings.Contains(hint, "git -C") || !strings.Contains(hint, "taskdaemon task show t-1") {
					t.Errorf("%v: %s", err, hint)
				}
			}
		})
	}
}

// persons are the folders that no task works in: what is said of any other goes through adviceAt, which knows.
var persons = []string{"repo", "root", "w.Repo", "p.repo", "g.dir"}

func TestHintsAskWhoseFolderItIs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	named := regexp.MustCompile(`WithHint\("[^"]*git -C [^"]*", ([\w.]+)`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if found++; !slices.Contains(persons, m[1]) {
				t.Errorf("%s: %s: say it with adviceAt", file, m[0])
			}
		}
	}
	if found == 0 {
		t.Error("no hint was found")
	}
}
