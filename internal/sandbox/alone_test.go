package sandbox

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// restless is a job that makes repositories whose settings name a program, as fast as it can, and counts how often. Its parts wake each other.
const restless = `counting() { n=0; while :; do n=$((n+1)); echo $n > count.new; mv count.new count; rm -rf sub/.git; git init -q sub; printf '[core]\n\tfsmonitor = "touch OUT/ran; false"\n' >> sub/.git/config; done; }
counting & one=$!
while :; do kill -CONT $one; done & two=$!
while :; do kill -CONT $one $two; done`

// job starts a restless job and returns when it is at it.
func (y *yard) job(name string) Process {
	y.t.Helper()
	p := y.p
	job, err := y.s.Start(context.Background(), name, Command{
		Shell: strings.ReplaceAll(restless, "OUT", y.out), Dir: y.work, Timeout: time.Minute, Background: true, Task: "task", Step: "job", Profile: &p,
	})
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() { _ = job.Kill(context.Background()) })
	y.grows("")
	return job
}

// grows waits until the job's count is there and is not was any more.
func (y *yard) grows(was string) string {
	y.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if raw, err := os.ReadFile(y.work + "/count"); err == nil && string(raw) != was {
			return string(raw)
		}
	}
	y.t.Fatalf("the job does not go on: %q", was)
	return ""
}

// TestAlone is a person's program in the workspace of a job that sets traps there all the time.
func TestAlone(t *testing.T) {
	y := gitYard(t)
	job := y.job("job")
	for _, name := range []string{"hook1", "hook2"} {
		p, err := y.s.Start(context.Background(), name, Command{
			Shell: `was=$(cat count); for i in 1 2 3 4 5 6 7 8 9; do git status >/dev/null 2>&1; git -C sub status >/dev/null 2>&1; done; echo $was $(cat count)`,
			Dir:   y.work, Timeout: time.Minute, Task: "task", Step: "hook", Alone: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.Wait(context.Background(), nil)
		if err != nil || res.Exit != 0 {
			t.Fatalf("%+v, %v: %s", res, err, res.Head)
		}
		if counts := strings.Fields(string(res.Head)); len(counts) != 2 || counts[0] != counts[1] {
			t.Errorf("the job went on beside %s: %s", name, res.Head)
		}
		if fileExists(y.out + "/ran") {
			t.Errorf("%s ran what the job left for git", name)
		}
		y.grows(y.grows(""))
	}
	if err := job.Kill(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestAloneKilled is a job after the death of the one that it was kept still for.
func TestAloneKilled(t *testing.T) {
	y := gitYard(t)
	y.job("job")
	p, err := y.s.Start(context.Background(), "hook", Command{Shell: "sleep 60", Dir: y.work, Timeout: time.Minute, Task: "task", Step: "hook", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	shim, err := load(y.s.Dir+"/hook", lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	was := y.grows("")
	if err := signal(shim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, _ = p.Wait(context.Background(), nil)
	y.grows(was)
}

// TestAloneEndsJob kills a job while it is kept still.
func TestAloneEndsJob(t *testing.T) {
	y := gitYard(t)
	job := y.job("job")
	hook, err := y.s.Start(context.Background(), "hook", Command{Shell: "sleep 60", Dir: y.work, Timeout: time.Minute, Task: "task", Step: "hook", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Kill(context.Background()); err != nil {
		t.Error(err)
	}
	if res, err := job.Wait(context.Background(), nil); err != nil || !res.Killed {
		t.Errorf("%+v, %v", res, err)
	}
	// Nothing that could change the folder begins meanwhile.
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	p := y.p
	if _, err := y.s.Start(ctx, "late", Command{Shell: "true", Dir: y.work, Timeout: time.Minute, Task: "task", Step: "late", Profile: &p}); err == nil {
		t.Error("a command began beside a program that is to be alone")
	}
	if err := hook.Kill(context.Background()); err != nil {
		t.Error(err)
	}
	y.run("true")
}
