package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// Of a history in which each commit has three parents that have the same three, a merge never comes to an end; it is stopped.
func TestMergeWithoutEnd(t *testing.T) {
	was := shortCompute
	shortCompute = 2 * time.Second
	t.Cleanup(func() { shortCompute = was })
	dir := checkout(t)
	tree := user(t, dir, "rev-parse", "HEAD^{tree}")
	level := []string{user(t, dir, "rev-parse", "HEAD")}
	commit := func(message string, parents []string) string {
		args := []string{"commit-tree", tree, "-m", message}
		for _, p := range parents {
			args = append(args, "-p", p)
		}
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	for i := range 40 {
		var next []string
		for j := range 3 {
			next = append(next, commit(fmt.Sprint(i, ".", j), level))
		}
		level = next
	}
	_, err := MergeTree(t.Context(), dir, commit("a", level), commit("b", level))
	if !td.IsKind(err, td.Refused) || !strings.Contains(err.Error(), "without coming to an end") {
		t.Errorf("%v", err)
	}
}

// A list of attributes without an end takes no more memory than a git may have.
func TestAttributesWithoutEnd(t *testing.T) {
	was := mayTake
	mayTake = 256 << 20
	t.Cleanup(func() { mayTake = was })
	dir := checkout(t)
	if err := syscall.Mkfifo(dir+"/pkg/.gitattributes", 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		line := []byte(strings.Repeat("a", 1<<20))
		for {
			f, err := os.OpenFile(dir+"/pkg/.gitattributes", os.O_WRONLY, 0)
			if err != nil {
				return
			}
			for err == nil {
				_, err = f.Write(line)
			}
			_ = f.Close()
		}
	}()
	write(t, dir+"/pkg/a.go", "package pkg // changed\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := TreeHash(ctx, dir); err == nil || ctx.Err() != nil {
		t.Errorf("it came to an end, or went on: %v", err)
	}
	reader, err := os.OpenFile(dir+"/pkg/.gitattributes", os.O_RDONLY|syscall.O_NONBLOCK, 0) // whoever waits for one goes on
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(dir + "/pkg/.gitattributes")
	_ = reader.Close()
	<-done
}
