package graph

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// A few tasks, looked up one by one, and many, read in one go, are the same and in the order that was asked for; what is
// not there is left out.
func TestEach(t *testing.T) {
	s, _ := fresh(t)
	var tasks []Task
	for i := range 20 {
		task := Task{Title: fmt.Sprint("task ", i), Text: `with "quotes"`, Labels: []string{"a"}, Priority: i % 5}
		if i > 0 {
			task.Blockers = []td.TaskID{tasks[i-1].ID}
		}
		tasks = append(tasks, add(t, s, task)...)
	}
	var all []td.TaskID
	for _, task := range slices.Backward(tasks) {
		all = append(all, task.ID)
	}
	if err := s.Delete(t.Context(), all[3]); err != nil {
		t.Fatal(err)
	}
	each := func(ids []td.TaskID) (out []Task) {
		t.Helper()
		if err := s.Each(t.Context(), ids, func(task *Task, _ *workgraph.Graph) { out = append(out, *task) }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	var singly []Task
	for pair := range slices.Chunk(slices.Insert(slices.Clone(all), 1, td.NewTaskID()), 2) {
		singly = append(singly, each(pair)...)
	}
	together := each(slices.Insert(slices.Clone(all), 1, td.NewTaskID()))
	if len(together) != 19 || !reflect.DeepEqual(singly, together) {
		t.Errorf("read one by one:\n%+v\nand together:\n%+v", singly, together)
	}
}

// An op that says two things is told of, whether its lines are read at once or one after the other, and the same of them
// counts; one that says the same twice is nothing to speak of.
func TestOneOpSaysTwoThings(t *testing.T) {
	s, root := fresh(t)
	// No title is made of hexadecimal digits: an op's name is, and would be found in its place.
	add(t, s, Task{Title: "rst"}, Task{Title: "other"})
	title := "newer"
	if _, err := s.Edit(t.Context(), add(t, s, Task{Title: "xyz"})[0].ID, Edit{Title: &title}); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(content(t, root), "\n")
	found := func(s *Store) string {
		t.Helper()
		h, err := s.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(h.Bad)
	}
	write(t, root, content(t, root)+lines[2]+lines[0])
	if got := found(s); got != "[]" {
		t.Errorf("the same twice: %s", got)
	}
	write(t, root, content(t, root)+strings.Replace(lines[2], "xyz", "zzz", 1)+strings.Replace(lines[0], "rst", "rsu", 1))
	got, anew := found(s), found(open(t, root, filepath.Join(t.TempDir(), "index.db")))
	if strings.Count(got, "says something else in another line") != 2 || got != anew {
		t.Errorf("read on: %s\nread anew: %s", got, anew)
	}
	wants(t, s, "rsu", "other", "newer")
}
