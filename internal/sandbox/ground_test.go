package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// leadOut has a path of each list of a profile lie in the workspace, and each in turn lead to the home.
func leadOut(t *testing.T, y *yard) {
	t.Helper()
	y.put(y.home+"/notes", "canary")
	y.put(y.home+"/mail/inbox", "canary")
	var lists []string
	at := func(name string) string {
		path := y.work + "/" + name
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		lists = append(lists, name)
		return path
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+at("bin"))
	y.p.See = append(y.p.See, at("see"), at("deep/see"))
	y.p.Cache, y.p.Blank = append(y.p.Cache, at("cache")), append(y.p.Blank, at("blank"))
	y.p.Write, y.p.Others = append(y.p.Write, at("write")), append(y.p.Others, at("others"))
	y.put(y.work+"/real", "within")
	for _, name := range lists {
		up := strings.Repeat("../", strings.Count(name, "/"))
		for _, to := range []string{up + "..", y.home, up + "../mail", "/proc/self/root" + y.home} {
			y.works("rm -rf " + name + " && ln -s " + to + " " + name)
			y.fails("grep -rs canary ~/notes ~/mail " + name + "/ | grep canary")
			y.fails("echo x >> ~/.bashrc; echo x > ~/mail/new; test -s ~/.bashrc -o -e ~/mail/new")
			for _, path := range []string{"/.bashrc", "/mail/new"} {
				if _, err := os.Lstat(y.home + path); err == nil {
					t.Fatalf("%s -> %s: a command wrote ~%s", name, to, path)
				}
			}
		}
		y.works("rm " + name + " && ln -s " + up + "real " + name + " && cat " + name) // a link that stays leads where it did
		y.works("rm " + name + " && mkdir " + name)
	}
}

// A path that lies where commands can write opens nothing by a link that one of them puts there.
func TestLinksOfCommandsOpenNothing(t *testing.T) { leadOut(t, newHome(t)) }

func TestLinksOfCommandsOpenNothingWithoutMounts(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_BARE") == "" {
		inBareProcess(t)
		return
	}
	y := newYard(t)
	t.Setenv("HOME", y.home)
	y.p.Required, y.p.See = false, Readable(os.Getenv)
	leadOut(t, y)
}

// The links that a person made in their home lead where they want.
func TestLinksOfThePersonAreFollowed(t *testing.T) {
	y := newHome(t)
	y.put(y.home+"/tools/nvm/node", "needed")
	y.put(y.home+"/envs/one/python", "needed")
	y.put(y.home+"/data/old", "needed")
	y.link("tools/nvm", y.home+"/.nvm")
	y.link("data", y.home+"/scratch")
	y.link("nowhere", y.home+"/.pyenv")
	y.link(".rbenv", y.home+"/.rbenv")
	y.link("../envs/one", y.work+"/.venv")
	y.p.Write, y.p.See = append(y.p.Write, y.home+"/scratch"), append(y.p.See, y.home+"/envs", y.work+"/.venv")
	y.works("grep needed ~/.nvm/node ~/envs/one/python .venv/python && grep needed ~/scratch/old && echo x > ~/scratch/new")
}

// Of the checkout that a worktree belongs to, and of others, a link shows nothing that is not named as well.
func TestLinksOfCommitsOpenNothing(t *testing.T) {
	for _, to := range []string{"../..", ".", "private", "../../mail", "../../.worktrees"} {
		y := newHome(t)
		shop, other := y.home+"/src/shop", y.home+"/src/other"
		y.work = shop + "/.worktrees/t-x"
		y.put(y.home+"/mail/inbox", "canary")
		y.put(shop+"/.env", "canary")
		y.put(shop+"/private/key", "canary")
		y.put(shop+"/venv/python", "needed")
		y.put(y.home+"/.virtualenvs/x/python", "needed")
		y.put(other+"/.git/HEAD", "ref: refs/heads/main")
		y.put(other+"/env2/python", "needed")
		y.put(other+"/.env", "canary")
		y.put(y.work+"/f", "mine")
		y.link(to, shop+"/node_modules")
		y.link("venv", shop+"/.venv")
		y.link(y.home+"/.virtualenvs/x", shop+"/env")
		y.link("env2", other+"/venv")
		y.link("../../mail", other+"/.venv")
		y.p.Workspace, y.p.Close = y.work, []string{shop}
		for _, name := range []string{"node_modules", ".venv", "venv", "env"} {
			y.p.See = append(y.p.See, filepath.Join(shop, name))
		}
		y.p.See = append(y.p.See, other+"/venv", other+"/.venv")
		for _, files := range []Files{WorkspaceWrite, ReadOnly} {
			y.p.Files = files
			y.fails("grep -rs canary ~ ../../node_modules/ " + shop + " " + other + "/.venv/")
			y.works("grep needed ../../venv/python ../../.venv/python ../../env/python " + other + "/venv/python && grep mine f")
		}
	}
}

// A job in another checkout exchanges a folder for a link while the mounts of a command are made that sees the folder.
func TestLinksExchangedMeanwhile(t *testing.T) {
	y := newHome(t)
	other := y.home + "/other"
	y.put(y.home+"/mail/inbox", "canary")
	y.put(other+"/.git/HEAD", "ref: refs/heads/main")
	y.put(other+"/see/x", "mine")
	y.link("../mail", other+"/to")
	flip := y.command(`python3 -c '
import ctypes
c = ctypes.CDLL(None)
open("ready", "w").close()
while True: c.renameat2(-100, b"see", -100, b"to", 2)'`)
	theirs := y.p
	theirs.Workspace = other
	flip.Dir, flip.Profile = other, &theirs
	job := start(t, y.s, "flip", flip)
	ready := y.command("until test -e ready; do :; done")
	ready.Dir, ready.Profile = other, &theirs
	wait(t, start(t, y.s, "ready", ready))
	y.p.See = append(y.p.See, other+"/see")
	for range 20 {
		if res := y.run("cat ~/mail/inbox"); strings.Contains(string(res.Head), "canary") {
			t.Fatalf("it read %s", res.Head)
		}
	}
	if err := job.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, job)
}

// What was resolved is opened without following a link that is there by then, at its end or on the way.
func TestOpenRealFollowsNoLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/folder/in", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("folder", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/folder": true, "/folder/in": true, "/link": false, "/link/in": false} {
		fd, err := openReal(dir+path, 0)
		if got := err == nil; got != want {
			t.Errorf("%s: opened %v, %v", path, got, err)
		}
		if err == nil {
			_ = unix.Close(fd)
		}
	}
}
