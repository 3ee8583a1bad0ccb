package td

import (
	"slices"
	"testing"
)

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
		bodies := Resolve(task, []string{"f"})
		if bodies == nil {
			t.Fatalf("try %d is refused", try+1)
		}
		take(bodies...)
		if task.Behind != "" || task.Resolving == nil || task.Resolving.Onto != "c" || !slices.Equal(task.Resolving.Files, []string{"f"}) {
			t.Fatalf("behind %q, %+v is resolved", task.Behind, task.Resolving)
		}
		take(FellBehind{Commit: "newer"})
		if task.Behind != "newer" || task.Resolving == nil {
			t.Fatalf("a newer commit: behind %q, %+v is resolved", task.Behind, task.Resolving)
		}
		take(FellBehind{Commit: "newer", Resolved: true})
		if task.Behind != "newer" || task.Resolving != nil {
			t.Fatalf("once it is resolved: behind %q, %+v", task.Behind, task.Resolving)
		}
	}
	take(FellBehind{Commit: "c"})
	if bodies := Resolve(task, []string{"f"}); bodies != nil || task.Behind == "" {
		t.Errorf("after %d tries: %v, behind %q", MostResolves, bodies, task.Behind)
	}
}
