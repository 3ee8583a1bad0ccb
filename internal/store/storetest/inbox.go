package storetest

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func command(key string, at time.Time) td.Command {
	return td.Command{Key: key, Type: td.CmdMessage, At: at, By: "me", Text: "do " + key}
}

func inboxOnce(t *testing.T, f *fixture) {
	task, c := f.running("inbox")
	a, b := command("a", f.tick()), command("b", f.tick())
	must(t, f.Post(f.ctx, task.ID, a))
	must(t, f.Post(f.ctx, task.ID, b))
	must(t, f.Post(f.ctx, task.ID, a))
	take := func() []td.Command {
		t.Helper()
		cmds, err := f.Take(f.ctx, c)
		must(t, err)
		return cmds
	}
	equal(t, "taken", take(), []td.Command{a, b})
	f.again()
	equal(t, "taken, and still there", take(), []td.Command{a, b})

	takes := func(ev td.Event, key string) td.Event {
		ev.Takes = key
		return ev
	}
	first := takes(f.said("a"), "a")
	after := task.Head
	task = f.append(c, after, first)
	equal(t, "the event names it", f.read(task.ID, after)[0].Takes, "a")
	f.append(c, after, first) // a repeat is recognised, not refused as a second taking
	equal(t, "taken", take(), []td.Command{b})
	must(t, f.Post(f.ctx, task.ID, a)) // consumed, and still known
	equal(t, "taken", take(), []td.Command{b})

	for _, key := range []string{"a", "unknown"} {
		_, err := f.Append(f.ctx, c, task.Head, f.said("x"), takes(f.said("y"), key))
		wantKind(t, err, td.Conflict)
	}
	// Two events of one append may name the command they both come from.
	task = f.append(c, task.Head, takes(f.said("b1"), "b"), takes(f.said("b2"), "b"))
	if left := take(); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
	f.again()
	if left := take(); len(left) > 0 {
		t.Fatalf("left after reopening: %v", left)
	}
	wantKind(t, f.Post(f.ctx, td.NewTaskID(), a), td.NotFound)
	wantKind(t, f.Post(f.ctx, task.ID, td.Command{}), td.Invalid)
	wantKind(t, f.Post(f.ctx, task.ID, td.Command{Key: "huge", Text: strings.Repeat("x", 17<<20)}), td.Invalid)
	f.sound()
}

func inboxPending(t *testing.T, f *fixture) {
	x, y, z := f.create("x"), f.create("y"), f.create("z")
	pending := func(want ...td.TaskID) {
		t.Helper()
		got, err := f.Pending(f.ctx)
		must(t, err)
		equal(t, "pending", got, want)
	}
	pending()
	must(t, f.Post(f.ctx, y.ID, command("k", f.tick())))
	must(t, f.Post(f.ctx, z.ID, command("k", f.tick()))) // keys are a task's own
	pending(y.ID, z.ID)
	c := f.claim(y.ID, 1)
	ev := f.said("taken")
	ev.Takes = "k"
	f.append(c, y.Head, ev)
	pending(z.ID)
	f.again()
	pending(z.ID)
	_ = x
}
