package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// evil is a script that makes a folder of git deep down, whose settings name a program, for the checkout in dir.
func (y *yard) evil(dir string) string {
	return "mkdir -p deep/" + far + ";" + y.bare("deep/"+far+"/evil", filepath.Join(y.work, dir))
}

// TestDotFiles is what a command may leave as a .git that is a file, or near one: nothing of it has a person's git run a program, now or after the next command.
func TestDotFiles(t *testing.T) {
	for name, scripts := range map[string][]string{
		"a link that is exchanged":         {"mkdir src; git init -q a", "ln -s $PWD/a/.git lnk; echo gitdir: $PWD/lnk > src/.git", "EVIL; ln -sfn $PWD/FAR/evil lnk"},
		"a relative link":                  {"mkdir src; git init -q a", "ln -s a/.git lnk; echo gitdir: ../lnk > src/.git", "EVIL; ln -sfn FAR/evil lnk"},
		"the repository of the workspace":  {"mkdir src", "ln -s $PWD/.git lnk; echo gitdir: $PWD/lnk > src/.git", "EVIL; ln -sfn $PWD/FAR/evil lnk"},
		"a parent of what a link leads to": {"mkdir src; git init -q a; EVIL; mkdir -p FAR/x; ln -s $PWD/FAR/x lnk; mv a/.git evil; echo gitdir: $PWD/lnk/../evil > src/.git"},
		"the folder at the end":            {"mkdir src; git init -q a; mv a b; echo gitdir: ../b/.git > src/.git", "for i in $(seq 200); do mkdir $i; done; mkdir -p z/b", "EVIL; mv b c; mkdir b; mv FAR/evil b/.git"},
		"what is made later":               {"mkdir src; echo gitdir: ../later > src/.git", "EVIL; mv FAR/evil later"},
		"among many":                       {"for i in $(seq 1500); do mkdir d$i; done; mkdir src; git init -q src; git -C src config core.fsmonitor 'touch OUT/ran; false'"},
		"among many of before":             {"for i in $(seq 1500); do mkdir d$i; done; mkdir src", "git init -q src; git -C src config core.fsmonitor 'touch OUT/ran; false'"},
		"a link to one deep down":          {"mkdir -p FAR/r; git init -q FAR/r; git -C FAR/r config core.fsmonitor 'touch OUT/ran; false'; ln -s FAR/r src"},
		"a link to one among many":         {"mkdir -p d/d; for i in $(seq 1500); do mkdir d/d/d$i; done; mkdir -p d/d/d700/x/y", "git init -q d/d/d700/x/y; git -C d/d/d700/x/y config core.fsmonitor 'touch OUT/ran; false'; ln -s d/d/d700/x src2; ln -s src2/y src"},
		"a link to the temp folder":        {"git init -q /tmp/r; git -C /tmp/r config core.fsmonitor 'touch OUT/ran; false'; ln -s $(awk '$5 == \"/tmp\" {print $4}' /proc/self/mountinfo)/r src"},
	} {
		t.Run(name, func(t *testing.T) {
			y := gitYard(t)
			for _, script := range scripts {
				y.run(strings.NewReplacer("EVIL;", y.evil("src"), "FAR", "deep/"+far, "OUT", y.out).Replace(script))
			}
			if y.ranIn("src", "status") || y.ran() {
				raw, _ := os.ReadFile(y.work + "/src/.git")
				t.Errorf("a program was run; .git says %q", raw)
			}
		})
	}
}

// A .git file that stays is a new file: no memory and no descriptor of a job reaches it.
func TestDotFileIsRenewed(t *testing.T) {
	y := gitYard(t)
	for text, want := range map[string]string{
		"gitdir: ../a/.git\n": "gitdir: ../a/.git\n", "gitdir: ../x/../a/.git\r\n": "gitdir: ../a/.git\n", "gitdir: ../lnk\n": "gitdir: " + y.work + "/a/.git\n", "nothing of git\n": "nothing of git\n",
	} {
		if err := os.RemoveAll(y.work + "/src"); err != nil {
			t.Fatal(err)
		}
		y.works("mkdir -p src x; test -d a || git init -q a; ln -sfn a/.git lnk; printf %s '" + text + "' > src/.git; ln src/.git same")
		raw, err := os.ReadFile(y.work + "/src/.git")
		if err != nil || string(raw) != want {
			t.Errorf("%q: %q, %v", text, raw, err)
		}
		if sameInode(t, y.work+"/src/.git", y.work+"/same") {
			t.Errorf("%q is the command's own file", text)
		}
		if err := os.Remove(y.work + "/same"); err != nil {
			t.Fatal(err)
		}
	}
}

func sameInode(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y syscall.Stat_t
	if err := syscall.Stat(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Stat(b, &y); err != nil {
		t.Fatal(err)
	}
	return x.Ino == y.Ino
}

// A .git file or a link that leads to the person's repository takes nothing from that, though commands cannot write it.
func TestDotFileToShut(t *testing.T) {
	y := gitYard(t)
	y.p.GitWrite = false
	y.git("clone", "-q", y.work, y.home+"/upstream")
	y.git("submodule", "add", "-q", y.home+"/upstream", "sub")
	for _, git := range []string{".git", ".git/modules/sub"} {
		y.git("--git-dir="+git, "config", "core.pager", "mine")
		y.put(filepath.Join(y.work, git, "hooks/pre-push"), "#!/bin/sh\n")
		y.works("rm -rf src lnk mod; mkdir src; echo 'gitdir: ../" + git + "' > src/.git; ln -s $PWD/" + git + " lnk; ln -s .git/modules mod")
		if got := y.git("--git-dir="+git, "config", "core.pager"); got != "mine" || !fileExists(filepath.Join(y.work, git, "hooks/pre-push")) {
			t.Errorf("the person's settings in %s are %q", git, got)
		}
		if err := os.RemoveAll(y.work + "/src"); err != nil {
			t.Fatal(err)
		}
	}
}

// A .git file of the person's that leads through a link of the workspace leads where it did, or is put aside.
func TestDotFileOfThePerson(t *testing.T) {
	y := gitYard(t)
	y.git("init", "-q", "a")
	y.link("a/.git", y.work+"/lnk")
	y.put(y.work+"/src/.git", "gitdir: ../lnk\n")
	y.works("true")
	if raw, err := os.ReadFile(y.work + "/src/.git"); err != nil || string(raw) != "gitdir: ../lnk\n" {
		t.Errorf("it says %q, %v", raw, err)
	}
	y.run(y.evil("src") + "ln -sfn deep/" + far + "/evil lnk")
	if y.ranIn("src", "status") {
		t.Error("a program was run")
	}
}
