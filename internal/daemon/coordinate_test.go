package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func TestPaceBoundsEachSender(t *testing.T) {
	var p pace
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for i := range td.MailRate {
		if !p.take("a", now.Add(time.Duration(i)*time.Millisecond)) {
			t.Fatalf("message %d is refused", i+1)
		}
	}
	end := now.Add(time.Second - time.Nanosecond)
	if p.take("a", end) {
		t.Error("one more than may be within a second")
	}
	if !p.take("b", end) {
		t.Error("another loop is held back")
	}
	if !p.take("a", now.Add(time.Second)) {
		t.Error("the first was a second ago, and there is no room")
	}
	if p.take("b", now.Add(5*time.Second)); len(p.sent) != 1 {
		t.Errorf("%d senders are remembered", len(p.sent))
	}
}

func TestHomeIsTheRepository(t *testing.T) {
	repo, plain := t.TempDir(), t.TempDir()
	for _, dir := range []string{".git/worktrees/x", ".worktrees/t-x", "sub"} {
		if err := os.MkdirAll(filepath.Join(repo, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{".worktrees/t-x/.git": "gitdir: " + repo + "/.git/worktrees/x\n", ".git/worktrees/x/commondir": "../..\n"} {
		if err := os.WriteFile(filepath.Join(repo, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home := homeOf(repo)
	for _, dir := range []string{"sub", ".worktrees/t-x", ".worktrees/t-gone"} {
		if got := homeOf(filepath.Join(repo, dir)); got != home {
			t.Errorf("the home of %s is %s, not %s", dir, got, home)
		}
	}
	if homeOf(plain) == home {
		t.Error("two projects are one")
	}
}
