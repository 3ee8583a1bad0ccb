package sandbox

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestInside(t *testing.T) {
	s := open(t)
	if why := Inside(s.Dir, os.Getpid()); why != "" {
		t.Errorf("the daemon itself: %s", why)
	}
	if why := Inside(s.Dir, os.Getppid()); why != "" {
		t.Errorf("who started the daemon: %s", why)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if Inside(s.Dir, gone.Process.Pid) == "" {
		t.Error("one that is gone may be anything")
	}
	for name, p := range map[string]*Profile{"plain": nil, "confined": {Files: WorkspaceWrite, Network: NetworkFull}} {
		cmd := command(t, "setsid sh -c 'echo $$ > pid; exec env -i sleep 60' & wait")
		if p != nil {
			p.Workspace = cmd.Dir
			cmd.Profile = p
		}
		start(t, s, name, cmd)
		pid := 0
		eventually(t, "it runs", func() bool {
			raw, _ := os.ReadFile(cmd.Dir + "/pid")
			pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
			return pid > 0 && environ(pid)[envSpool] == ""
		})
		if Inside(s.Dir, pid) == "" {
			t.Errorf("%s: a command's process counts as somebody else's", name)
		}
	}
}

// TestInsideOfADeadDaemon looks at a command whose daemon was killed, so that only its shim and its marks tell.
func TestInsideOfADeadDaemon(t *testing.T) {
	spool, work := t.TempDir(), t.TempDir()
	d := daemon(t, spool, work, "echo $$ > pid; exec sleep 60")
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, spool)
	pid := 0
	eventually(t, "it runs", func() bool {
		raw, _ := os.ReadFile(work + "/pid")
		pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		return pid > 0
	})
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait()
	if Inside(s.Dir, pid) == "" {
		t.Error("a command of an earlier daemon counts as somebody else's")
	}
	if why := Inside(t.TempDir(), pid); why != "" {
		t.Errorf("it is no command of another daemon: %s", why)
	}
}
