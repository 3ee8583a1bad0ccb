package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

const (
	raceRounds = 2000
	raceCanary = "canary-4f1c"
)

// swap exchanges two names of the workspace in one step, as a job in the background can.
func (b *bench) swap(one, other string) {
	b.Helper()
	if err := exchange(b.dir, one, other); err != nil {
		b.Fatal(err)
	}
}

func exchange(dir, one, other string) error {
	return unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, one), unix.AT_FDCWD, filepath.Join(dir, other), unix.RENAME_EXCHANGE)
}

// racing exchanges two names over and over while do runs.
func (b *bench) racing(one, other string, do func()) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := exchange(b.dir, one, other); err != nil {
				b.Error(err)
				return
			}
		}
	})
	do()
	stop()
	running.Wait()
}

// trap is a workspace with a repository, a folder, and a symbolic link to take the folder's place.
func trap(t *testing.T, target string) *bench {
	b := newBench(t)
	b.put(".git/HEAD", "ref: refs/heads/main\n")
	b.put(".git/objects/x", "")
	b.put(".git/hooks/seed", raceCanary+"\n")
	b.put("docs/seed", "plain\n")
	if err := os.Symlink(target, filepath.Join(b.dir, "trap")); err != nil {
		t.Fatal(err)
	}
	return b
}

// planted are the files in a folder that were not there before.
func planted(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Name() != "seed" {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestSwappedFolder puts a symbolic link in the place of a folder after the call was judged.
func TestSwappedFolder(t *testing.T) {
	for _, tc := range []struct {
		tool string
		in   args
	}{
		{"Write", args{"path": "docs/pre-commit", "content": "x"}},
		{"Write", args{"path": "docs/new/pre-commit", "content": "x"}},
		{"Edit", args{"path": "docs/seed", "old_string": "plain", "new_string": "edited"}},
		{"MultiEdit", args{"path": "docs/seed", "edits": []args{{"old_string": "plain", "new_string": "edited"}}}},
		{"Read", args{"path": "docs/seed"}},
		{"Grep", args{"path": "docs", "pattern": "."}},
		{"Grep", args{"path": "docs/seed", "pattern": "."}},
		{"Glob", args{"path": "docs", "pattern": "*"}},
	} {
		t.Run(tc.tool, func(t *testing.T) {
			b := trap(t, ".git/hooks")
			b.files = []string{"docs/seed"}
			call := b.prepare(tc.tool, tc.in)
			b.swap("docs", "trap")
			res, err := call.Run(t.Context())
			if !td.IsKind(err, td.Conflict) || !strings.Contains(fmt.Sprint(err), "docs is now a symbolic link") {
				t.Errorf("it gave %+v, %v", res, err)
			}
			if got := planted(t, filepath.Join(b.dir, ".git/hooks")); len(got) > 0 || b.get(".git/hooks/seed") != raceCanary+"\n" {
				t.Errorf("in .git/hooks: %v", got)
			}
		})
	}
}

// TestSwappedFile puts a symbolic link in the place of the file itself.
func TestSwappedFile(t *testing.T) {
	for _, name := range []string{"Read", "Grep", "Edit", "Write"} {
		b := trap(t, "../.git/hooks/seed")
		b.files = []string{"docs/seed"}
		call := b.prepare(name, map[string]args{
			"Read": {"path": "docs/seed"}, "Grep": {"path": "docs/seed", "pattern": "."},
			"Edit":  {"path": "docs/seed", "old_string": "plain", "new_string": "x"},
			"Write": {"path": "docs/seed", "content": "x"},
		}[name])
		b.swap("docs/seed", "trap")
		if res, err := call.Run(t.Context()); err == nil || strings.Contains(res.Content, raceCanary) {
			t.Errorf("%s gave %+v, %v", name, res, err)
		}
		if b.get(".git/hooks/seed") != raceCanary+"\n" {
			t.Errorf("%s changed it", name)
		}
	}
}

// TestRaces runs each tool while a folder and a symbolic link change places as fast as they can.
func TestRaces(t *testing.T) {
	for _, target := range []string{"hooks", "outside"} {
		t.Run(target, func(t *testing.T) {
			outside := filepath.Join(t.TempDir(), "outside")
			b := trap(t, map[string]string{"hooks": ".git/hooks", "outside": outside}[target])
			if err := os.Mkdir(outside, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(outside, "seed"), []byte(raceCanary+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			b.files = []string{"docs/seed", "trap/seed"}
			done, leaks := map[string]int{}, map[string]int{}
			b.racing("docs", "trap", func() {
				for i := range raceRounds {
					b.env.Step = td.StepKey(fmt.Sprintf("1.%d", i+1))
					name, in := "Write", args{"path": fmt.Sprintf("docs/hook%d", i), "content": "x"}
					switch i % 6 {
					case 1:
						words := []string{"plain", "other"}
						if done["Edit"]%2 == 1 {
							words[0], words[1] = words[1], words[0]
						}
						name, in = "Edit", args{"path": "docs/seed", "old_string": words[0], "new_string": words[1]}
					case 2:
						name, in = "Read", args{"path": "docs/seed"}
					case 3:
						name, in = "Grep", args{"path": "docs", "pattern": "canary"}
					case 4:
						name, in = "Glob", args{"path": "docs", "pattern": "see*"}
					case 5:
						name, in = "Write", args{"path": fmt.Sprintf("docs/sub%d/hook", i), "content": "x"}
					}
					call, err := b.tool(name).Prepare(t.Context(), b.env, input(in))
					if err != nil {
						continue // the link was there already, and was judged
					}
					res, err := call.Run(t.Context())
					if err == nil {
						done[name]++
					}
					if judged := strings.Contains(call.Paths[0].Path, ".git"); !judged && strings.Contains(res.Content, raceCanary) {
						leaks[name]++
					}
				}
			})
			if got := planted(t, filepath.Join(b.dir, ".git/hooks")); len(got) > 0 {
				t.Errorf("%d files were planted in .git/hooks, the first: %s", len(got), got[0])
			}
			if got := planted(t, outside); len(got) > 0 {
				t.Errorf("%d files were written outside", len(got))
			}
			if len(leaks) > 0 {
				t.Errorf("read through the link: %v", leaks)
			}
			if done["Write"]+done["Edit"] == 0 || done["Read"]+done["Grep"] == 0 {
				t.Errorf("the race shows nothing: only %v came through", done)
			}
		})
	}
}

// TestRenamedRepository gives the repository's own folder another name after the call was judged: no link is needed.
func TestRenamedRepository(t *testing.T) {
	b := trap(t, "none")
	b.put("docs/hooks/seed", "plain\n")
	b.files = []string{"docs/hooks/seed"}
	for _, call := range []func(context.Context) (td.ToolResult, error){
		b.prepare("Write", args{"path": "docs/hooks/pre-commit", "content": "x"}).Run,
		b.prepare("Write", args{"path": "docs/config", "content": "x"}).Run,
		b.prepare("Write", args{"path": "docs/new/x", "content": "x"}).Run,
	} {
		b.swap("docs", ".git")
		if res, err := call(t.Context()); !td.IsKind(err, td.Refused) {
			t.Errorf("it gave %+v, %v", res, err)
		}
		b.swap("docs", ".git")
	}
	if got := planted(t, filepath.Join(b.dir, ".git/hooks")); len(got) > 0 {
		t.Errorf("in .git/hooks: %v", got)
	}
	if _, err := os.Stat(filepath.Join(b.dir, ".git/config")); err == nil {
		t.Error("a config was planted")
	}
	b.bad("Write", args{"path": ".GIT/config", "content": "x"}, "only git may change")
	b.bad("Write", args{"path": "sub/.Git/config", "content": "x"}, "only git may change")
}

// Whatever order the parts of a repository are written in, one at a time or all at once, git finds none. A folder is not made either by a call that is refused.
func TestNoRepositoryIsWritten(t *testing.T) {
	parts := map[string]string{
		"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tworktree = ..\n\tfsmonitor = touch ran\n", "objects/k": "", "refs/k": "",
	}
	var orders [][]string
	for _, a := range slices.Sorted(maps.Keys(parts)) {
		for _, b := range slices.Sorted(maps.Keys(parts)) {
			for _, c := range slices.Sorted(maps.Keys(parts)) {
				for _, d := range slices.Sorted(maps.Keys(parts)) {
					if order := []string{a, b, c, d}; len(slices.Compact(slices.Sorted(slices.Values(order)))) == len(parts) {
						orders = append(orders, order)
					}
				}
			}
		}
	}
	found := func(dir string) bool {
		cmd := exec.Command("git", "rev-parse", "--is-bare-repository")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		return cmd.Run() == nil
	}
	b := newBench(t)
	for i, order := range orders {
		refused := 0
		at := fmt.Sprintf("one/%d", i)
		for _, part := range order {
			if _, err := b.prepare("Write", args{"path": filepath.Join(at, part), "content": parts[part]}).Run(t.Context()); err != nil {
				refused++
			}
		}
		if found(filepath.Join(b.dir, at)) || refused == 0 {
			t.Errorf("%v: %d were refused, and git finds a repository: %v", order, refused, found(filepath.Join(b.dir, at)))
		}
		at = fmt.Sprintf("all/%d", i)
		b.put(filepath.Join(at, "x"), "")
		var all sync.WaitGroup
		for _, part := range order {
			call := b.prepare("Write", args{"path": filepath.Join(at, part), "content": parts[part]})
			all.Go(func() { _, _ = call.Run(context.Background()) })
		}
		all.Wait()
		if found(filepath.Join(b.dir, at)) {
			t.Errorf("%v at once: git finds a repository", order)
		}
	}
	b.put("deep/HEAD", "")
	b.bad("Write", args{"path": "deep/commondir", "content": ".."}, "only git may change")
	b.bad("Write", args{"path": "deep/objects/pack/x/y", "content": ""}, "only git may change")
	b.ok("Write", args{"path": "deep/refs/objects/x", "content": ""})
	b.ok("Write", args{"path": "src/objects/HEAD/x", "content": ""})
}

// TestHardLink changes a file that has another name in .git/hooks: what is there stays as it is.
func TestHardLink(t *testing.T) {
	for _, change := range []func(b *bench){
		func(b *bench) { b.ok("Write", args{"path": "docs/linked", "content": "x"}) },
		func(b *bench) {
			b.ok("Edit", args{"path": "docs/linked", "old_string": raceCanary, "new_string": "x"})
		},
	} {
		b := trap(t, "none")
		if err := os.Link(filepath.Join(b.dir, ".git/hooks/seed"), filepath.Join(b.dir, "docs/linked")); err != nil {
			t.Fatal(err)
		}
		b.files = []string{"docs/linked"}
		change(b)
		if b.get(".git/hooks/seed") != raceCanary+"\n" || b.get("docs/linked") == raceCanary+"\n" {
			t.Error("the hook was changed, or nothing was")
		}
	}
}

// TestResolveAfterASwap looks for what became of a call when its folder is a link by now: nothing beyond it is looked at
// or removed, and the model is told to look itself.
func TestResolveAfterASwap(t *testing.T) {
	b := trap(t, ".git/hooks")
	in := args{"path": "docs/new", "content": "x"}
	call := b.prepare("Write", in)
	var c change
	if err := json.Unmarshal(call.Evidence, &c); err != nil {
		t.Fatal(err)
	}
	b.put(filepath.Join(".git/hooks", filepath.Base(c.Temp)), "not ours")
	b.put(".git/hooks/new", "x")
	b.swap("docs", "trap")
	if res := b.resolve("Write", in, call); res.State != tool.Done || !res.Result.IsError {
		t.Errorf("it found %+v", res)
	}
	if got := planted(t, filepath.Join(b.dir, ".git/hooks")); len(got) != 2 {
		t.Errorf("left in .git/hooks: %v", got)
	}
}

// TestUnknownFilesAreNotRead: a file that a command made as large as it likes is not read to say that it was not read.
func TestUnknownFilesAreNotRead(t *testing.T) {
	b := newBench(t)
	b.put("huge", "")
	if err := os.Truncate(filepath.Join(b.dir, "huge"), 1<<42); err != nil {
		t.Fatal(err)
	}
	b.bad("Write", args{"path": "huge", "content": "x"}, "read it first")
	b.files = []string{"huge"}
	b.bad("Write", args{"path": "huge", "content": "x"}, "too large to replace")
	b.bad("Edit", args{"path": "huge", "old_string": "a", "new_string": "b"}, "too large to edit")
}
