package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// foldLog folds the changes of a log.
func foldLog(t failer, log []byte) *Fold {
	t.Helper()
	f := NewFold()
	for e, err := range Read(bytes.NewReader(log), Place{}) {
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if e.Bad == nil && !e.Torn {
			f.Apply(e.Change)
		}
	}
	return f
}

func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }

func TestMerge(t *testing.T) {
	text := func(c Change) string { return strings.TrimSuffix(string(line(t, c)), "\n") }
	a, b, c := text(set(short(1, "ana"), "title", `"a"`)), text(set(short(2, "ben"), "title", `"b"`)), text(set(short(2, "cid"), "text", `"c"`))
	for _, m := range []struct {
		name string
		logs []string
		want string
	}{
		{"nothing", nil, ""},
		{"empty logs", []string{"", "\n\n"}, ""},
		{"union, sorted", []string{lines(c, a), lines(b, a)}, lines(a, b, c)},
		{"no newline at the end", []string{b, a}, lines(a, b)},
		{"CRLF and marks", []string{"\uFEFF" + a + "\r\n" + b + "\r\r\n", lines(b)}, lines(a, b)},
		{"not canonical", []string{strings.ReplaceAll(lines(a), ",", " , "), lines(a)}, lines(a)},
		{"bad lines last, sorted, once", []string{lines("zzz", "{", a), lines("aaa", "{")}, lines(a, "aaa", "zzz", "{")},
		{"bad lines without what is around them", []string{"\uFEFF\uFEFFx\r\r\n\uFEFF\r\n", "x"}, lines("x")},
		{"a conflict", []string{lines("<<<<<<< HEAD", b, "||||||| base", a, "=======", c, ">>>>>>> theirs")}, lines(a, b, c)},
		{"extra keys", []string{`{"zz":1,` + opA + `,` + taskA + `}`}, lines(`{` + opA + `,` + taskA + `,"zz":1}`)},
	} {
		t.Run(m.name, func(t *testing.T) {
			var logs [][]byte
			for _, log := range m.logs {
				logs = append(logs, []byte(log))
			}
			if got := string(Merge(logs...)); got != m.want {
				t.Errorf("%q, want %q", got, m.want)
			}
		})
	}
}

func TestCompact(t *testing.T) {
	sets := func(op string, add, remove []string) Change {
		return Change{Op: mustStamp(op), Task: someTasks[0], Add: map[string][]string{"labels": add}, Remove: map[string][]string{"labels": remove}}
	}
	other := set(short(1, "ana"), "title", `"alone"`)
	other.Task = someTasks[1]
	unknown := set(short(2, "ana"), "text", `"?"`)
	unknown.Extra = map[string]json.RawMessage{"link": json.RawMessage("1")}
	var log []byte
	for _, c := range []Change{
		set(short(1, "ana"), "title", `"a"`), sets(short(2, "ben"), []string{"ui", "db"}, nil), set(short(3, "ben"), "text", `"b"`),
		set(short(4, "ana"), "title", `null`), sets(short(5, "ana"), nil, []string{"db"}), other, unknown, set(short(9, "ana"), "text", `"new"`),
	} {
		log = append(log, line(t, c)...)
	}
	log = append(log, "not a change\n"...)
	got := string(Compact(log, time.UnixMilli(6)))
	want := string(line(t, other)) + string(line(t, unknown)) +
		`{"add":{"labels":["ui"]},"at":{"first":"000000000001-000000-ana","members":{"labels":{"ui":"000000000002-000000-ben"}},` +
		`"set":{"text":"000000000003-000000-ben","title":"000000000004-000000-ana"}},"op":"000000000005-000000-ana","remove":{"labels":["db"]},` +
		`"set":{"text":"b","title":null},` + taskA + "}\n" + string(line(t, set(short(9, "ana"), "text", `"new"`))) + "not a change\n"
	if got != want {
		t.Errorf("\n%swant\n%s", got, want)
	}
	if exact := string(Compact(log, time.UnixMilli(5))); !strings.Contains(exact, string(line(t, sets(short(5, "ana"), nil, []string{"db"})))) {
		t.Errorf("a change of that very time was folded\n%s", exact)
	}
	if again := string(Compact([]byte(got), time.UnixMilli(6))); again != got {
		t.Errorf("compacted again\n%s", again)
	}
	if merged := string(Merge(log, []byte(got))); merged != got {
		t.Errorf("merged with what it was made of\n%s", merged)
	}
	later := string(Compact(Merge(log, []byte(got)), time.UnixMilli(10)))
	if strings.Count(later, "\n") != 4 || !strings.Contains(later, `"text":"new"`) {
		t.Errorf("compacted later\n%s", later)
	}
	if merged := string(Merge([]byte(later), log, []byte(got))); merged != later {
		t.Errorf("the older compact line came back\n%s", merged)
	}
}

// What compact lines make needless, and what they do not.
func TestCovered(t *testing.T) {
	member := func(wall int, add, remove []string) Change {
		return Change{Op: mustStamp(short(wall, "ana")), Task: someTasks[0], Add: map[string][]string{"l": add}, Remove: map[string][]string{"l": remove}}
	}
	compact := func(changes ...Change) Change {
		var r Record
		for _, c := range changes {
			r.Apply(c)
		}
		return r.Change()
	}
	extra := func(c Change) Change {
		c.Extra = map[string]json.RawMessage{"link": json.RawMessage("1")}
		return c
	}
	foreign := set(short(3, "ana"), "a", "1")
	foreign.Task = someTasks[1]
	whole := compact(set(short(1, "ana"), "a", "1"), set(short(3, "ana"), "a", "3"), member(4, []string{"x"}, []string{"y"}), set(short(9, "ana"), "b", "9"))
	for _, c := range []struct {
		name   string
		change Change
		goes   bool
	}{
		{"an older value", set(short(2, "ana"), "a", "2"), true},
		{"the value itself", set(short(3, "ana"), "a", "3"), true},
		{"a smaller value of the same op", set(short(3, "ana"), "a", "2"), true},
		{"a larger value of the same op", set(short(3, "ana"), "a", "4"), false},
		{"a newer value", set(short(4, "ana"), "a", "3"), false},
		{"another field", set(short(2, "ana"), "c", "2"), false},
		{"another task", foreign, false},
		{"before the first", set(short(0, "ana"), "a", "1"), false},
		{"after the last", Change{Op: mustStamp(short(10, "ana")), Task: someTasks[0]}, false},
		{"nothing, in between", Change{Op: mustStamp(short(5, "ana")), Task: someTasks[0]}, true},
		{"keys that are not known", extra(set(short(2, "ana"), "a", "2")), false},
		{"added before", member(3, []string{"x", "y"}, nil), true},
		{"added after", member(5, []string{"x"}, nil), false},
		{"removed before", member(3, nil, []string{"x", "y"}), true},
		{"removed after", member(5, nil, []string{"x"}), false},
		{"removed by the op that adds", member(4, nil, []string{"x"}), true},
		{"added by the op that removes", member(4, []string{"y"}, nil), false},
		{"another member", member(3, nil, []string{"z"}), false},
		{"an older compact line", compact(set(short(1, "ana"), "a", "1"), set(short(2, "ana"), "a", "2")), true},
		{"an older compact line with more", compact(set(short(1, "ana"), "c", "1"), set(short(2, "ana"), "a", "2")), false},
		{"an older compact line with keys that are not known", extra(compact(set(short(1, "ana"), "a", "1"), set(short(2, "ana"), "a", "2"))), false},
		{"a compact line as new, of less", compact(set(short(1, "ana"), "a", "1"), set(short(9, "ana"), "b", "9")), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			merged := Merge(line(t, c.change), line(t, whole))
			if !bytes.Contains(merged, line(t, whole)) || bytes.Contains(merged, line(t, c.change)) == c.goes {
				t.Errorf("merged to\n%s", merged)
			}
		})
	}
	// Compact lines that hold it together, none alone.
	one, two := compact(set(short(1, "ana"), "a", "1"), set(short(5, "ana"), "a", "5")), compact(set(short(1, "ben"), "b", "1"), set(short(5, "ben"), "b", "5"))
	both := Change{Op: mustStamp(short(3, "ana")), Task: someTasks[0], Set: map[string]json.RawMessage{"a": json.RawMessage("3"), "b": json.RawMessage("3")}}
	if merged := Merge(line(t, both), line(t, one), line(t, two)); bytes.Count(merged, []byte("\n")) != 2 {
		t.Errorf("merged to\n%s", merged)
	}
}

// Lines that would make a line too long stay as they are.
func TestCompactTooLong(t *testing.T) {
	half := json.RawMessage(`"` + strings.Repeat("x", MaxLine*2/3) + `"`)
	a, b := set(short(1, "ana"), "title", string(half)), set(short(2, "ana"), "text", string(half))
	log := append(line(t, a), line(t, b)...)
	if got := Compact(log, time.UnixMilli(9)); !bytes.Equal(got, log) {
		t.Errorf("%d bytes became %d", len(log), len(got))
	}
}

// Compacting changes nothing but the size, whatever is in the log.
func TestCompactKeepsTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		before := time.UnixMilli(rapid.Int64Range(0, 8).Draw(t, "before"))
		small := Compact(log, before)
		want := foldLog(t, append(log, '\n')).Records()
		if got := foldLog(t, small).Records(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nbecame\n%s", log, small)
		}
		if again := Compact(small, before); !bytes.Equal(again, small) {
			t.Fatalf("\n%s\ncompacted again\n%s", small, again)
		}
		if merged := Merge(small); !bytes.Equal(merged, small) {
			t.Fatalf("\n%s\nmerged with itself\n%s", small, merged)
		}
		if got := foldLog(t, Merge(log, small)).Records(); !reflect.DeepEqual(got, want) {
			t.Fatalf("beside itself, %s", log)
		}
	})
}

// The laws of Merge, on logs of all sorts.
func TestMergeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var logs [3][]byte
		for i := range logs {
			logs[i] = drawLog(t)
			if rapid.Bool().Draw(t, "compact") {
				logs[i] = Compact(logs[i], time.UnixMilli(rapid.Int64Range(0, 8).Draw(t, "before")))
			}
		}
		checkLaws(t, logs[0], logs[1], logs[2])
	})
}

func checkLaws(t failer, a, b, c []byte) {
	t.Helper()
	all := Merge(a, b, c)
	for name, other := range map[string][]byte{
		"in another order": Merge(c, a, b), "first two first": Merge(Merge(a, b), c), "last two first": Merge(a, Merge(c, b)),
		"first and last first": Merge(b, Merge(a, c)), "again": Merge(all), "with itself": Merge(all, all), "with a part": Merge(all, b),
	} {
		if !bytes.Equal(all, other) {
			t.Fatalf("%s: logs\n%q\n%q\n%q\nmerged to\n%s\nand to\n%s", name, a, b, c, all, other)
		}
	}
	want := NewFold()
	for _, log := range [][]byte{a, b, c} {
		for _, r := range foldLog(t, append(bytes.Clone(log), '\n')).Records() {
			want.Apply(r.Change())
		}
	}
	if got := foldLog(t, all).Records(); !reflect.DeepEqual(got, want.Records()) {
		t.Fatalf("logs\n%q\n%q\n%q\nmerged to\n%s\nwhich folds to\n%+v, not\n%+v", a, b, c, all, got, want.Records())
	}
}

// Many compact lines of one task, none of which holds another, are merged in one pass: strangers write logs.
// Were each held against each, this would take minutes.
func TestMergeOfManyCompactLines(t *testing.T) {
	const n = 20_000
	log := make([]byte, 0, n*256)
	stamp := func(wall int) Stamp { return Stamp{Wall: int64(wall), Actor: "a"} }
	for i := range n {
		log = append(log, line(t, Change{
			Op: stamp(n + i), Task: someTasks[0],
			Set: map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("1")},
			At:  &At{First: stamp(0), Set: map[string]Stamp{"a": stamp(i), "b": stamp(n - i)}},
		})...)
	}
	merged := Merge(log)
	if again := Merge(merged, log); !bytes.Equal(again, merged) || !reflect.DeepEqual(foldLog(t, merged).Records(), foldLog(t, log).Records()) {
		t.Errorf("%d bytes, then %d", len(merged), len(again))
	}
}

// clone is one of several that work on the same graph.
type clone struct {
	log   []byte
	wall  int64
	clock *Clock
}

// Three clones edit, with clocks that jump; they pull from each other, and compact, whenever they like. In
// the end all have pulled from all, each in an order of its own: they have the same bytes, and these fold
// to what all that was ever written folds to.
func TestClonesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clones := make([]*clone, 3)
		for i := range clones {
			clones[i] = &clone{wall: rapid.Int64Range(0, 50).Draw(t, "wall")}
			clock, err := NewClock(fmt.Sprintf("clone-%d", i), at(&clones[i].wall))
			if err != nil {
				t.Fatal(err)
			}
			clones[i].clock = clock
		}
		var written []Change
		any := rapid.SampledFrom(clones)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			c := any.Draw(t, "clone")
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				c.wall = rapid.Int64Range(0, 50).Draw(t, "jump")
			case 1:
				c.pull(t, any.Draw(t, "from"))
			case 2:
				c.log = Compact(c.log, time.UnixMilli(rapid.Int64Range(0, 60).Draw(t, "before")))
			default:
				change := asRead(t, drawChange(t, c.clock.Next()))
				written = append(written, change)
				c.log = append(c.log, line(t, change)...)
				c.wall += rapid.Int64Range(0, 2).Draw(t, "tick")
			}
		}
		ends := make([][]byte, len(clones))
		for i := range clones {
			ends[i] = Merge(clones[i].log)
			for _, j := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "order") {
				ends[i] = Merge(ends[i], clones[j].log)
			}
		}
		if !bytes.Equal(ends[0], ends[1]) || !bytes.Equal(ends[1], ends[2]) {
			t.Fatalf("the clones ended with\n%s\n%s\n%s", ends[0], ends[1], ends[2])
		}
		if got, want := flat(foldLog(t, ends[0])), model(written); !reflect.DeepEqual(got, want) {
			t.Fatalf("folded to\n%v, want\n%v", got, want)
		}
	})
}

func (c *clone) pull(t failer, from *clone) {
	c.log = Merge(c.log, from.log)
	for _, r := range foldLog(t, c.log).Records() {
		c.clock.Observe(r.Last)
	}
}

func FuzzMerge(f *testing.F) {
	one, two := line(f, set(short(1, "ana"), "title", `"ü"`)), line(f, set(short(2, "ben"), "title", `{"b":1,"a":2}`))
	both := append(bytes.Clone(two), one...)
	small := Compact(both, time.UnixMilli(9))
	f.Add(one, two, small)
	f.Add(append([]byte("\uFEFF<<<<<<< HEAD\r\n"), both...), one[:30], []byte("\r\r\n\uFEFF\uFEFFx\n=======\n"))
	f.Add(bytes.Replace(small, []byte(`"at":{`), []byte(`"at":{ `), 1), bytes.Replace(small, []byte(`{`), []byte(`{"a":1,`), 1), both)
	f.Add(bytes.Replace(small, []byte(`ben`), []byte(`bob`), 1), small, bytes.ToUpper(both))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		checkLaws(t, a, b, c)
		if x, y := Compact(Merge(a, b, c), time.UnixMilli(2)), Compact(Merge(c, b, a), time.UnixMilli(2)); !bytes.Equal(x, y) {
			t.Fatalf("compacted to\n%s\nand to\n%s", x, y)
		}
	})
}
