package jsonl

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func set(op, field, raw string) Change {
	return Change{Op: mustStamp(op), Task: someTasks[0], Set: map[string]json.RawMessage{field: json.RawMessage(raw)}}
}

func mustStamp(text string) Stamp {
	s, ok := stampOf(text)
	if !ok {
		panic(text + " is no stamp")
	}
	return s
}

func short(wall int, actor string) string { return fmt.Sprintf("%012x-000000-%s", wall, actor) }

func TestRecord(t *testing.T) {
	f := NewFold()
	for _, c := range []Change{
		set(short(5, "ana"), "title", `"new"`),
		set(short(3, "ben"), "title", `"old"`),
		set(short(4, "ben"), "text", `"gone"`),
		set(short(6, "ana"), "text", `null`),
		{Op: mustStamp(short(2, "ana")), Task: someTasks[0], Add: map[string][]string{"labels": {"ui", "db"}}},
		{Op: mustStamp(short(7, "ana")), Task: someTasks[0], Remove: map[string][]string{"labels": {"db", "net"}}},
		{Op: mustStamp(short(3, "ana")), Task: someTasks[0], Add: map[string][]string{"labels": {"net"}}},
	} {
		if f.Apply(c) {
			t.Errorf("%v clashes", c.Op)
		}
	}
	r, ok := f.records[someTasks[0]]
	if !ok {
		t.Fatal("no record")
	}
	if title, ok := r.Field("title"); !ok || string(title) != `"new"` {
		t.Errorf("title %s", title)
	}
	if text, ok := r.Field("text"); ok {
		t.Errorf("text %s", text)
	}
	if _, ok := r.Field("never set"); ok {
		t.Error("a field that was never set")
	}
	if got := r.Members("labels"); !slices.Equal(got, []string{"ui"}) {
		t.Errorf("labels %q", got)
	}
	if r.First.String() != short(2, "ana") || r.Last.String() != short(7, "ana") || r.Deleted() {
		t.Errorf("first %v, last %v, deleted %v", r.First, r.Last, r.Deleted())
	}
	f.Apply(set(short(8, "ana"), FieldDeleted, "true"))
	if !r.Deleted() {
		t.Error("not deleted")
	}
	f.Apply(set(short(9, "ben"), FieldDeleted, "null"))
	if r.Deleted() {
		t.Error("deleted for good")
	}
	if _, ok := f.records[someTasks[1]]; ok {
		t.Error("a record of a task that nobody changed")
	}
}

// Whatever the order and however often: one fold, the one that the words describe.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var changes []Change
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			changes = append(changes, asRead(t, drawChange(t, drawStamp(t))))
		}
		f := NewFold()
		for _, c := range changes {
			f.Apply(c)
		}
		if got, want := flat(f), model(changes); !reflect.DeepEqual(got, want) {
			t.Fatalf("folded to\n%v, want\n%v", got, want)
		}
		again := append(slices.Clone(changes), rapid.SliceOfN(rapid.SampledFrom(append(changes, set(short(1, "ana"), "title", "1"))), 0, 5).Draw(t, "again")...)
		for _, c := range again {
			f.Apply(c)
		}
		g := NewFold()
		for _, c := range rapid.Permutation(again).Draw(t, "order") {
			g.Apply(c)
		}
		if a, b := f.Records(), g.Records(); !reflect.DeepEqual(a, b) {
			t.Fatalf("in order\n%v, in another\n%v", a, b)
		}
	})
}

// A record as one compact change, or two records of parts of the changes, stand for the changes.
func TestCompactChangesStandForWhatTheyAreMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, one, two Record
		task := someTasks[0]
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			c := asRead(t, drawChange(t, drawStamp(t)))
			c.Task = task
			all.Apply(c)
			part := rapid.IntRange(1, 3).Draw(t, "part")
			if part&1 != 0 {
				one.Apply(c)
			}
			if part&2 != 0 {
				two.Apply(c)
			}
		}
		var whole, parts Record
		whole.Apply(asRead(t, all.Change()))
		for _, r := range []Record{one, two} {
			if r.ID != "" {
				parts.Apply(asRead(t, r.Change()))
			}
		}
		if !reflect.DeepEqual(whole, all) {
			t.Fatalf("%v became %v", all, whole)
		}
		if !reflect.DeepEqual(parts, all) {
			t.Fatalf("%v, of parts %v", all, parts)
		}
	})
}

// One op with two contents is told of, whichever comes first, and the larger value counts.
func TestOneOpWithTwoContents(t *testing.T) {
	a, b := set(short(1, "ana"), "title", `"a"`), set(short(1, "ana"), "title", `"b"`)
	b.Add = map[string][]string{"labels": {"x"}}
	a.Remove = map[string][]string{"labels": {"x"}}
	for _, order := range [][]Change{{a, b}, {b, a}, {a, b, a}, {b, a, a, b}} {
		f := NewFold()
		clashes := 0
		for _, c := range order {
			if f.Apply(c) {
				clashes++
			}
		}
		r := f.records[someTasks[0]]
		if title, _ := r.Field("title"); clashes == 0 || string(title) != `"b"` || len(r.Members("labels")) != 1 {
			t.Errorf("%d clashes, title %s, labels %q", clashes, title, r.Members("labels"))
		}
	}
	f := NewFold()
	for _, c := range []Change{a, a, {Op: a.Op, Task: a.Task, At: &At{}}} {
		if f.Apply(c) {
			t.Errorf("%+v clashes", c)
		}
	}
	for i, other := range []Change{
		{Op: a.Op, Task: someTasks[1], Set: a.Set, Remove: a.Remove},
		{Op: a.Op, Task: a.Task, Set: a.Set},
		{Op: a.Op, Task: a.Task, Set: a.Set, Add: a.Remove},
		{Op: a.Op, Task: a.Task, Set: a.Set, Remove: a.Remove, Extra: a.Set},
		{Op: a.Op, Task: a.Task, Extra: a.Set, Remove: a.Remove},
	} {
		if !f.Apply(other) {
			t.Errorf("%d does not clash", i)
		}
	}
}

// Both lines of one op stay in the log, whoever merges it.
func TestOneOpWithTwoContentsIsKept(t *testing.T) {
	a, b := line(t, set(short(1, "ana"), "title", `"a"`)), line(t, set(short(1, "ana"), "title", `"b"`))
	if got, want := string(Merge(b, a)), string(a)+string(b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(Merge(a, b, a)); strings.Count(got, "\n") != 2 {
		t.Errorf("%s", got)
	}
}
