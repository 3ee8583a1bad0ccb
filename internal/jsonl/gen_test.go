package jsonl

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

// A small world, so that changes meet.
var (
	someTasks   = []td.TaskID{"019a86d3-b5c0-7000-8000-000000000001", "019a86d3-b5c0-7000-9000-00000000000a"}
	someActors  = []string{"ana", "ben", "ben.2"}
	someFields  = []string{"title", "text", FieldDeleted, "a \"quoted\"\nname", "日本"}
	someSets    = []string{"labels", "blocks"}
	someMembers = []string{"ui", "ü", "<b>&", "a\\b"}
	someValues  = []string{`null`, `true`, `false`, `"a"`, `"b <c> & d"`, `1`, `1.0`, `-2.5e+3`, `{"a":1,"b":[1,{"c":""}]}`, `[]`, `"\u0001\n"`, `{}`}
)

func drawStamp(t *rapid.T) Stamp {
	return Stamp{
		Wall:  rapid.Int64Range(0, 6).Draw(t, "wall"),
		Count: rapid.Uint32Range(0, 1).Draw(t, "count"),
		Actor: rapid.SampledFrom(someActors).Draw(t, "actor"),
	}
}

// drawChange draws a change that is not compact.
func drawChange(t *rapid.T, op Stamp) Change {
	c := Change{Op: op, Task: rapid.SampledFrom(someTasks).Draw(t, "task")}
	set, member := rapid.SampledFrom(someSets).Draw(t, "only set"), rapid.SampledFrom(someMembers).Draw(t, "only member")
	switch rapid.IntRange(0, 3).Draw(t, "only") { // a change of one thing shows what one of many things would hide
	case 0:
		c.Add = with(c.Add, set, member)
		return c
	case 1:
		c.Remove = with(c.Remove, set, member)
		return c
	}
	value := rapid.Map(rapid.SampledFrom(someValues), func(v string) json.RawMessage { return json.RawMessage(v) })
	c.Set = rapid.MapOfN(rapid.SampledFrom(someFields), value, 0, 3).Draw(t, "set")
	for _, set := range someSets {
		for _, m := range someMembers {
			switch rapid.IntRange(0, 5).Draw(t, "member") {
			case 0:
				c.Add = with(c.Add, set, m)
			case 1:
				c.Remove = with(c.Remove, set, m)
			}
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "extra") == 0 {
		c.Extra = map[string]json.RawMessage{rapid.SampledFrom([]string{"link", "zeta", ""}).Draw(t, "key"): json.RawMessage(`{"x":[1]}`)}
	}
	return c
}

// drawCompact draws a compact change.
func drawCompact(t *rapid.T) Change {
	var r Record
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		c := asRead(t, drawChange(t, drawStamp(t)))
		c.Task = someTasks[0]
		r.Apply(c)
	}
	c := r.Change()
	if rapid.IntRange(0, 4).Draw(t, "extra") == 0 {
		c.Extra = map[string]json.RawMessage{"link": json.RawMessage("1")}
	}
	return c
}

func with(sets map[string][]string, set, member string) map[string][]string {
	if sets == nil {
		sets = make(map[string][]string)
	}
	sets[set] = append(sets[set], member)
	return sets
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func line(t failer, c Change) []byte {
	t.Helper()
	text, err := Append(nil, c)
	if err != nil {
		t.Fatalf("append %+v: %v", c, err)
	}
	return text
}

// asRead is c as a reader sees it.
func asRead(t failer, c Change) Change {
	t.Helper()
	d, err := Decode(line(t, c))
	if err != nil {
		t.Fatalf("decode %+v: %v", c, err)
	}
	return d
}

// model is the fold as the package comment words it, in the plainest way: all that was ever said of a field
// or member, sorted, and the last of it counts.
func model(changes []Change) map[string]string {
	said := make(map[string][]string)
	say := func(key string, op Stamp, value string) {
		said[key] = append(said[key], op.String()+"\x00"+value)
	}
	for _, c := range changes {
		say(fmt.Sprintf("%s last", c.Task), c.Op, "")
		for field, raw := range c.Set {
			say(fmt.Sprintf("%s field %q", c.Task, field), c.Op, string(raw))
		}
		for set, members := range c.Add {
			for _, m := range members {
				say(fmt.Sprintf("%s member %q %q", c.Task, set, m), c.Op, "in")
			}
		}
		for set, members := range c.Remove {
			for _, m := range members {
				say(fmt.Sprintf("%s member %q %q", c.Task, set, m), c.Op, "gone")
			}
		}
	}
	folded := make(map[string]string)
	for key, all := range said {
		folded[key] = slices.Max(all) // "in" counts more than "gone", and is the larger
	}
	for _, c := range changes {
		key := fmt.Sprintf("%s first", c.Task)
		if first, ok := folded[key]; !ok || c.Op.String() < first {
			folded[key] = c.Op.String()
		}
	}
	return folded
}

// flat is a fold in the form of the model.
func flat(f *Fold) map[string]string {
	all := make(map[string]string)
	for _, r := range f.Records() {
		all[fmt.Sprintf("%s first", r.ID)] = r.First.String()
		all[fmt.Sprintf("%s last", r.ID)] = r.Last.String() + "\x00"
		for field, v := range r.Fields {
			all[fmt.Sprintf("%s field %q", r.ID, field)] = v.Op.String() + "\x00" + string(v.Raw)
		}
		for set, members := range r.Sets {
			for name, m := range members {
				word := "gone"
				if m.In {
					word = "in"
				}
				all[fmt.Sprintf("%s member %q %q", r.ID, set, name)] = m.Op.String() + "\x00" + word
			}
		}
	}
	return all
}

// at is a clock that the test sets.
func at(wall *int64) func() time.Time { return func() time.Time { return time.UnixMilli(*wall) } }

func mustClock(t testing.TB, actor string, now func() time.Time) *Clock {
	t.Helper()
	c, err := NewClock(actor, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
