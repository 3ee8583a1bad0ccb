package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// smallDisk mounts a file system of a few megabytes as the state folder.
func (s *stage) smallDisk() {
	s.t.Helper()
	if os.Getuid() != 0 {
		s.t.Skip("mounting a small file system needs root; CI runs this as root")
	}
	dir := s.path("state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		s.t.Skipf("this machine does not let us mount a tmpfs: %v", err)
	}
	s.noMirror = true // it goes with the mount, before the house is checked
	s.t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			s.t.Error(err)
		}
	})
}

// fill leaves no block of the disk free.
func (s *stage) fill() {
	s.t.Helper()
	f, err := os.Create(s.path("state/filler"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size > 0; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
}

// TestDiskFull: on a full disk everything that cannot be recorded is refused with a clear error, nothing
// is half-written, and when there is room again everything goes on.
func TestDiskFull(t *testing.T) {
	s := newStage(t, "")
	s.smallDisk()
	s.start(nil)
	s.add("before", twoSteps, false)
	before := s.untilState("before", td.Waiting)
	s.fill()
	refused := func(what string, err error) {
		t.Helper()
		if !td.IsKind(err, td.Storage) || td.HintOf(err) == "" || !strings.Contains(err.Error(), "full") {
			t.Errorf("%s on a full disk: %v (kind %s, hint %q)", what, err, td.KindOf(err), td.HintOf(err))
		}
	}
	_, err := s.person.svc.AddTask(s.ctx, api.AddTask{Prompt: strings.Repeat("long ", 20_000), Dir: s.path("work")})
	refused("add", err)
	_, err = s.person.svc.Command(s.ctx, before.Handle, api.Command{Type: td.CmdMessage, Text: strings.Repeat("long ", 20_000)})
	refused("send", err)
	if got := s.task("before"); got.Head != before.Head || got.Status.State != td.Waiting {
		t.Errorf("the waiting task changed: %+v", got.Status)
	}

	// A daemon that starts on a full disk says so, and loses nothing.
	s.d.kill()
	s.fill()
	s.d = s.startDaemon(nil)
	<-s.d.done
	if log := s.d.log.String(); !strings.Contains(log, "full") && !strings.Contains(log, "space") {
		t.Errorf("a daemon that cannot start on a full disk says:\n%s", log)
	}
	if err := os.Remove(s.path("state/filler")); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	s.until("the task completes", func() bool {
		j := s.task("before")
		if err := answerAll(s.ctx, s.person, j); err != nil {
			t.Fatal(err)
		}
		return j.Status.State == td.Completed
	})
	s.wantMarks("one two")
	s.d.stop()
}

// TestRefusedIsNotPlanned: what could not be recorded because the disk of the state folder was full is not in the graph of its project
// either, which lies on another one, and so no run takes it up later.
func TestRefusedIsNotPlanned(t *testing.T) {
	s := graphed(t, "")
	s.smallDisk()
	s.start(nil)
	s.plan("there")
	log := s.path("work/.taskdaemon/tasks.jsonl")
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	s.fill()
	for _, prompt := range []string{"short", strings.Repeat("long ", 20_000)} {
		task, err := s.person.svc.AddTask(s.ctx, api.AddTask{Prompt: prompt, Dir: s.path("work")})
		if !td.IsKind(err, td.Storage) {
			t.Fatalf("add on a full disk: %s, %v (kind %s)", task.Handle, err, td.KindOf(err))
		}
		if after, err := os.ReadFile(log); err != nil || string(after) != string(before) {
			t.Errorf("a task of %d bytes that was refused is planned: %v\n%.300s", len(prompt), err, after[len(before):])
		}
	}
	_, err = s.person.svc.Plan(s.ctx, api.Plan{Dir: s.path("work"), Tasks: []api.PlanTask{{Title: "no room", Text: strings.Repeat("long ", 20_000)}}})
	if !td.IsKind(err, td.Storage) {
		t.Errorf("plan on a full disk: %v (kind %s)", err, td.KindOf(err))
	}
	if err := os.Remove(s.path("state/filler")); err != nil {
		t.Fatal(err)
	}
	planned, err := s.person.svc.Planned(s.ctx, api.PlanQuery{Dir: s.path("work")})
	if err != nil || len(planned) != 1 || planned[0].Title != "there" {
		t.Errorf("with room again the graph has %+v, %v", planned, err)
	}
	if task, err := s.person.svc.AddTask(s.ctx, api.AddTask{Prompt: "say it", Dir: s.path("work"), Yes: true, Rehearsal: "turns: [{tools: [{name: Complete, input: {summary: done}}]}]"}); err != nil {
		t.Error(err)
	} else {
		s.untilPlanned(task.ID, td.Completed)
	}
	s.d.stop()
}

// TestReadOnlyFolder: a state folder that cannot be written is a clear error.
func TestReadOnlyFolder(t *testing.T) {
	s := newStage(t, "")
	s.smallDisk()
	dir := s.path("state")
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("this machine does not let us remount read-only: %v", err)
	}
	s.d = s.startDaemon(nil)
	<-s.d.done
	if code := s.d.cmd.ProcessState.ExitCode(); code == 0 {
		t.Error("a daemon without a folder to write to says that all is well")
	}
	if log := s.d.log.String(); !strings.Contains(log, "read-only") || !strings.Contains(log, "--state") {
		t.Errorf("it says:\n%s", log)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=12m"); err != nil {
		t.Fatal(err)
	}
}

// TestSecondSignalIsNow: the first SIGTERM waits for the step in flight, the second does not; the command
// runs on and is adopted.
func TestSecondSignalIsNow(t *testing.T) {
	s := newStage(t, "")
	s.start(nil)
	s.add("slow", `
turns:
  - tools: [{name: Bash, input: {command: "echo begun >> COUNTER; until test -e go-on; do sleep 0.01; done; echo ended >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: done}}]
`, true)
	s.until("the step is in flight", func() bool { return s.person.marks() != "" })
	if err := s.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until("the daemon is stopping", func() bool { return strings.Contains(s.d.log.String(), "stopping") })
	if err := s.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.died()
	s.start(nil)
	if r := s.report(); len(r.Resumed) != 1 || !strings.Contains(r.Resumed[0].What, "adopted") {
		t.Errorf("report: %s", r)
	}
	if err := os.WriteFile(s.path("work/slow/go-on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.untilState("slow", td.Completed)
	s.wantMarks("begun ended")
	s.d.stop()
}

// TestNoGit: without the git binary conversations cannot be mirrored; the work goes on, and says so.
func TestNoGit(t *testing.T) {
	s := newStage(t, "")
	bin := s.path("bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "bash", "shuf", "sleep", "test"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	s.start(nil)
	s.add("job", twoSteps, true)
	s.untilState("job", td.Completed)
	s.wantMarks("one two")
	_, err := s.person.svc.Checkpoint(s.ctx, s.task("job").Handle)
	if !td.IsKind(err, td.Unavailable) || !strings.Contains(td.HintOf(err)+err.Error(), "git") {
		t.Errorf("checkpoint without git: %v", err)
	}
	s.until("the log says so", func() bool { return strings.Contains(s.d.log.String(), "git") })
	s.noMirror = true
	s.d.stop()
}

// TestOrderedRunGoesOn: a run whose order was recorded is not refused because its first step found the disk full. It is said that it
// starts later, and it does.
func TestOrderedRunGoesOn(t *testing.T) {
	s := graphed(t, "")
	s.smallDisk()
	s.start(nil)
	added, err := s.person.svc.Plan(s.ctx, api.Plan{Dir: s.path("work"), Tasks: []api.PlanTask{{Title: "long", Text: strings.Repeat("long ", 100_000)}}})
	if err != nil {
		t.Fatal(err)
	}
	s.fill()
	const room = 256 << 10 // for the order, and not for the task
	info, err := os.Stat(s.path("state/filler"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.path("state/filler"), info.Size()-room); err != nil {
		t.Fatal(err)
	}
	run, err := s.startRun(oneStep, true)
	if err != nil || len(run.Later) == 0 || !run.Open() || len(run.Started) > 0 {
		t.Fatalf("a run on a full disk: %+v, %v", run, err)
	}
	if err := os.Remove(s.path("state/filler")); err != nil {
		t.Fatal(err)
	}
	s.untilPlanned(added[0].ID, td.Completed)
	again, err := s.person.svc.Runs(s.ctx, api.RunQuery{Dir: s.path("work")})
	if err != nil || len(again) != 1 || again[0].Run != run.Run {
		t.Errorf("there are the runs %+v, %v", again, err)
	}
	s.wantMarks("one")
	s.d.stop()
}
