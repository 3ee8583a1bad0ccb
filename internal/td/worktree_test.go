package td

import "testing"

// TestResolveIsBounded: an agent has its tries, counted from its records, and then a person is asked. What a person lets it
// do does not count.
func TestResolveIsBounded(t *testing.T) {
	task := in(Running)
	task.Worktree = &Worktree{Trunk: "main"}
	take := func(bodies ...Body) {
		for _, b := range bodies {
			if err := task.Fold(Event{Seq: task.Head + 1, At: noon, Body: b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	take(FellBehind{Commit: "by a person"}, FellBehind{By: "ann"})
	for try := range MostResolves {
		take(FellBehind{Commit: "c"})
		bodies := Resolve(task)
		if bodies == nil {
			t.Fatalf("try %d is refused", try+1)
		}
		take(bodies...)
		if task.Behind != "" {
			t.Fatalf("it is still to be brought onto %s", task.Behind)
		}
	}
	take(FellBehind{Commit: "c"})
	if bodies := Resolve(task); bodies != nil || task.Behind == "" {
		t.Errorf("after %d tries: %v, behind %q", MostResolves, bodies, task.Behind)
	}
}
