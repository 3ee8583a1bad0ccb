package sandbox

import (
	"os"
	"strings"
	"testing"
)

// A job makes a repository where the index of the person's checkout says that there is one. Their git finds none as long as it runs.
func TestNoRepositoryIsMadeAtAGitlink(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(y *yard){
		"an empty folder": func(y *yard) { y.works("mkdir -p deep/sub") },
		"none":            func(*yard) {},
		"a folder above":  func(y *yard) { y.works("mkdir deep") },
		"a file":          func(y *yard) { y.works("mkdir deep && echo x > deep/sub") },
	} {
		t.Run(name, func(t *testing.T) {
			y := gitYard(t)
			head := strings.TrimSpace(y.git("rev-parse", "HEAD"))
			y.git("update-index", "--add", "--cacheinfo", "160000,"+head+",deep/sub")
			prepare(y)
			y.p.GitWrite = false
			if y.ran() {
				t.Fatal("it ran before")
			}
			job := start(t, y.s, "job", y.command("mv deep aside; mkdir -p deep; rm -rf deep/sub; "+y.armed("elsewhere")+" mv elsewhere deep/sub; "+y.armed("deep/sub")+
				" echo z > deep/sub/f; git -C deep/sub add f; echo 1 > count; while :; do sleep 1; done"))
			y.grows("")
			if y.ran() {
				t.Error("a person's git status ran a program of it")
			}
			if err := job.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			wait(t, job)
			if _, err := os.Lstat(y.work + "/deep/sub/.git"); err == nil {
				t.Error("there is a repository")
			}
			y.works("echo x > deep/another")
			if said := string(y.run("mkdir deep/sub/.git").Head); name != "a file" && !strings.Contains(said, "sandbox.write: "+y.work+"/deep/sub") {
				t.Errorf("it says %q", said)
			}
			y.p.Write = []string{y.work + "/deep/sub"} // as the person wants it
			if name != "a file" {
				y.works("echo x > deep/sub/file")
			}
		})
	}
}
