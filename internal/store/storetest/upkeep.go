package storetest

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

func cursors(t *testing.T, f *fixture) {
	at := func(name string, want uint64) {
		t.Helper()
		got, err := f.Cursor(f.ctx, name)
		must(t, err)
		equal(t, name, got, want)
	}
	at("mirror", 0)
	for _, x := range []struct{ set, want uint64 }{{5, 5}, {3, 5}, {5, 5}, {9, 9}, {0, 9}} {
		must(t, f.SetCursor(f.ctx, "mirror", x.set))
		at("mirror", x.want)
	}
	at("other", 0)
	f.again()
	at("mirror", 9)
}

const day = 24 * time.Hour

func retention(now time.Time, mirrored uint64) store.Retention {
	return store.Retention{Now: now, Completed: day, Failed: 7 * day, Audit: 90 * day, Mirrored: mirrored}
}

func (f *fixture) trim(p store.Retention) store.Trimmed {
	f.t.Helper()
	got, err := f.Trim(f.ctx, p)
	must(f.t, err)
	return got
}

// kinds is a stream in short: a type with a dash for a body that is gone.
func (f *fixture) kinds(id td.TaskID) string {
	f.t.Helper()
	var out []string
	for _, ev := range f.read(id, 0) {
		s := string(ev.Body.Type())
		if _, gone := ev.Body.(td.Trimmed); gone {
			s = "-" + s
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func trimBodies(t *testing.T, f *fixture) {
	done := f.ended("done")
	live, c := f.running("live")
	live = f.append(c, live.Head, f.said(strings.Repeat("large ", 20000)), f.said("x"))
	failed, cf := f.running("failed")
	failed = f.append(cf, failed.Head, f.said("why"))
	failed = f.move(cf, failed, func(t td.Task, at time.Time) (td.Move, error) { return td.Fail(t, td.FailedData{Error: "broke"}, at) })
	last, err := f.Last(f.ctx)
	must(t, err)

	const whole, trimmed = "created moved said said moved", "created moved -said -said moved"
	equal(t, "too early", f.trim(retention(f.now.Add(day/2), last)), store.Trimmed{})
	equal(t, "done", f.kinds(done.ID), whole)
	equal(t, "after a day", f.trim(retention(f.now.Add(2*day), last)), store.Trimmed{Tasks: 1, Events: 2})
	equal(t, "again", f.trim(retention(f.now.Add(2*day), last)), store.Trimmed{})
	for range 2 {
		equal(t, "done", f.kinds(done.ID), trimmed)
		equal(t, "live", f.kinds(live.ID), "created moved said said")
		equal(t, "failed", f.kinds(failed.ID), "created moved said moved")
		equal(t, "the task", f.task(done.ID), done)
		f.again()
	}
	equal(t, "after eight days", f.trim(retention(f.now.Add(8*day), last)).Tasks, 1)
	equal(t, "failed", f.kinds(failed.ID), "created moved -said moved")

	// A person asks to try again: it lives, and is not touched however old it is.
	failed = f.move(cf, failed, func(t td.Task, at time.Time) (td.Move, error) { return td.Reset(t, "again", at) })
	f.append(cf, failed.Head, f.said("new"))
	last, err = f.Last(f.ctx)
	must(t, err)
	f.trim(retention(f.now.Add(200*day), last))
	equal(t, "failed", f.kinds(failed.ID), "created moved -said moved moved said")
	equal(t, "live", f.kinds(live.ID), "created moved said said")
	f.sound()
}

func trimRecords(t *testing.T, f *fixture) {
	d := f.claim(td.DaemonStream, 1)
	stream := f.append(d, 0, td.Event{At: f.tick(), Body: td.DaemonStarted{Version: "1"}}, td.Event{At: f.tick(), Body: td.DaemonStopped{}})
	big, c := f.running("big")
	must(t, f.Post(f.ctx, big.ID, command("k", f.tick())))
	ev := f.said(strings.Repeat("large ", 20000))
	ev.Takes = "k"
	big = f.append(c, big.Head, ev, td.Event{At: f.tick(), Body: td.Decided{Tool: "Bash", Decision: "allow"}})
	big = f.move(c, big, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "enough", at) })
	young := f.now.Add(89 * day)
	stream = f.append(d, stream.Head, td.Event{At: young, Body: td.DaemonStarted{Version: "2"}})
	last, err := f.Last(f.ctx)
	must(t, err)

	got := f.trim(retention(f.now.Add(80*day), last))
	equal(t, "tasks and bodies", [2]int{got.Tasks, got.Events}, [2]int{1, 1})
	equal(t, "big", f.kinds(big.ID), "created moved -said decided moved")
	got = f.trim(retention(f.now.Add(91*day), last))
	equal(t, "tasks and records", [2]int{got.Tasks, got.Events}, [2]int{1, 4})
	equal(t, "big", f.kinds(big.ID), "created moved moved")
	equal(t, "the daemon", f.kinds(td.DaemonStream), "daemon_started")
	equal(t, "the task", f.task(big.ID), big)
	f.again()
	// Nothing that was given out is given out again.
	next := f.append(d, stream.Head, td.Event{At: f.tick(), Body: td.DaemonStopped{}})
	equal(t, "the daemon's head", next.Head, stream.Head+1)
	now, err := f.Last(f.ctx)
	must(t, err)
	if now <= last {
		t.Fatalf("cursor %d was given twice", now)
	}
	// The journal's newest record stays however old it is: its cursor is where the next goes on.
	f.trim(retention(f.now.Add(1000*day), now))
	f.again()
	again, err := f.Last(f.ctx)
	must(t, err)
	equal(t, "the last cursor", again, now)
	f.sound()
}

func trimMirrored(t *testing.T, f *fixture) {
	a := f.ended("a")
	at := f.read(a.ID, 0)
	b := f.ended("b")
	old := f.now.Add(30 * day)
	equal(t, "nothing mirrored", f.trim(retention(old, 0)), store.Trimmed{})
	equal(t, "half mirrored", f.trim(retention(old, at[2].Cursor)), store.Trimmed{})
	equal(t, "a", f.kinds(a.ID), "created moved said said moved")
	last, err := f.Last(f.ctx)
	must(t, err)
	equal(t, "all mirrored", f.trim(retention(old, last)).Events, 4)
	equal(t, "a", f.kinds(a.ID), "created moved -said -said moved")
	equal(t, "b", f.kinds(b.ID), "created moved -said -said moved")
	equal(t, "and old", f.trim(retention(f.now.Add(100*day), last)).Events, 4)
	f.again()
	now, err := f.Last(f.ctx)
	must(t, err)
	equal(t, "the last cursor", now, last)
}
