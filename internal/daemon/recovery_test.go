package daemon

import (
	"testing"
	"time"

	"taskdaemon/internal/config"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

// Work that a daemon left goes on with the next one, unless it lay too long: then a person is asked first. The clock may have
// been set back meanwhile.
func TestWorkThatLayTooLongIsAskedAbout(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	ages := map[string]time.Duration{"young": 5 * time.Minute, "old": 15 * time.Minute, "of tomorrow": -24 * time.Hour}
	tasks := map[string]td.TaskID{}
	j, err := sqlite.Open(t.Context(), sqlite.Options{Dir: dir, Alive: sandbox.Alive})
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range []string{"", " given back"} { // and not: it was at work when the daemon died
		for name, age := range ages {
			at := time.Now().Add(-age).UTC().Round(0)
			tasks[name+given] = leave(t, j, work, at, given != "")
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	l := start(t, dir, func(c *config.Config) { c.Recovery.MaxAge = 10 * time.Minute })
	for name, id := range tasks {
		task, err := l.Task(t.Context(), string(id))
		if err != nil {
			t.Fatal(err)
		}
		asked := len(task.Requests) == 1 && task.Requests[0].About == td.AboutAge && task.Status.State == td.Waiting
		if old := name == "old" || name == "old given back"; asked != old {
			t.Errorf("%s is %s with %+v", name, task.Status.State, task.Requests)
		}
	}
}

// leave makes a task that a daemon which is gone has begun, and perhaps given back when it was stopped.
func leave(t *testing.T, j *sqlite.Store, dir string, at time.Time, back bool) td.TaskID {
	t.Helper()
	id := td.NewTaskID()
	task, err := j.Create(t.Context(), td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Title: "t", Prompt: "p", Dir: dir, Mode: td.Autonomous, Tier: td.Worker, CreatedAt: at,
	}, string(id))
	if err != nil {
		t.Fatal(err)
	}
	claim, err := j.Claim(t.Context(), id, td.Holder{Host: "gone", Boot: "gone", Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	moves := []func(td.Task) (td.Move, error){func(task td.Task) (td.Move, error) { return td.Start(task, td.NewRunID(), at) }}
	if back {
		moves = append(moves, func(task td.Task) (td.Move, error) { return td.Interrupt(task, "the daemon stops", at) })
	}
	for _, decide := range moves {
		m, err := decide(task)
		if err != nil {
			t.Fatal(err)
		}
		if task, err = j.Append(t.Context(), claim, task.Head, m.Events...); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Release(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return id
}
