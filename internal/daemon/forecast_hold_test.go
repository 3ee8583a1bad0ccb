package daemon

import (
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func TestWhoWaitsForWhom(t *testing.T) {
	task := func(handle string, id, root td.TaskID, priority int, state td.State) td.Task {
		out := td.Task{Spec: td.Spec{ID: id, Handle: handle, Root: root, Priority: priority}}
		out.Status = td.Status{State: state}
		return out
	}
	for what, c := range map[string]struct {
		a, b td.Task
		want td.TaskID // who waits
	}{
		"the younger":                {task("a", "1", "", 2, td.Running), task("b", "2", "", 2, td.Running), "2"},
		"the one that matters less":  {task("a", "1", "", 3, td.Running), task("b", "2", "", 2, td.Queued), "1"},
		"for one that asks":          {task("a", "1", "", 2, td.Waiting), task("b", "2", "", 2, td.Running), "2"},
		"not for one that is paused": {task("a", "1", "", 2, td.Paused), task("b", "2", "", 2, td.Running), ""},
		"still, though paused":       {task("a", "1", "", 2, td.Running), task("b", "2", "", 2, td.Paused), "2"},
		"not for one that is stuck":  {task("a", "1", "", 2, td.Blocked), task("b", "2", "", 2, td.Running), ""},
		"no subtask":                 {task("a", "1", "", 2, td.Blocked), task("b", "2", "1", 2, td.Running), ""},
		"no sibling":                 {task("a", "1", "0", 2, td.Running), task("b", "2", "0", 2, td.Running), ""},
	} {
		got := waits([]td.Task{c.a, c.b}, []api.Clash{{A: "b", B: "a", Files: []string{"x"}}, {A: "a", B: "taskdaemon/into/main", Files: []string{"x"}}})
		if _, is := got[c.want]; len(got) > 1 || is != (c.want != "") || len(got) == 1 && !is {
			t.Errorf("%s: %v", what, got)
		}
	}
}
