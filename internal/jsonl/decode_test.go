package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

const (
	taskA = `"task":"019a86d3-b5c0-7000-8000-000000000001"`
	opA   = `"op":"019a86d3b5c0-000000-ana"`
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"as it should be", `{"add":{"labels":["ui"]},` + opA + `,"set":{"title":"Log in"},` + taskA + `}`, ""},
		{"order and space", " {\t" + taskA + ` , "set" : { "b" : 1 , "a" : [ 1 , { "d" : 1 , "c" : 2 } ] } ,` + opA + "}\r\n",
			`{` + opA + `,"set":{"a":[1,{"c":2,"d":1}],"b":1},` + taskA + `}`},
		{"escapes", `{` + opA + `,"set":{"t":"\u00e9\u003c\/\ud83d\ude00\u000A\u001F\u007f\u2028\b"},` + taskA + `}`,
			`{` + opA + `,"set":{"t":"é</😀\n\u001f` + "\x7f\u2028" + `\b"},` + taskA + `}`},
		{"an escaped slash", `{` + opA + `,"set":{"t":"a\/b"},` + taskA + `}`, `{` + opA + `,"set":{"t":"a/b"},` + taskA + `}`},
		{"escaped keys", `{"\u006fp":"019a86d3b5c0-000000-an\u0061","set":{"b\u0061":{"z":1,"\u0079":2}},` + taskA + `}`,
			`{` + opA + `,"set":{"ba":{"y":2,"z":1}},` + taskA + `}`},
		{"numbers stay", `{` + opA + `,"set":{"n":[0,-0,1.0,1e5,1E+5,100000000000000000000000]},` + taskA + `}`, ""},
		{"members sorted, once", `{"add":{"b":["y","x","y"],"a":[]},` + opA + `,"remove":{},"set":{},` + taskA + `}`,
			`{"add":{"b":["x","y"]},` + opA + `,` + taskA + `}`},
		{"extra keys", `{"zz":{"b":1,"a":2},` + opA + `,"Op":1,` + taskA + `}`, `{"Op":1,` + opA + `,` + taskA + `,"zz":{"a":2,"b":1}}`},
		{"compact", `{"add":{"l":["x","y"]},"at":{"first":"000000000001-000000-b","members":{"l":{"x":"000000000002-000000-a"}},"set":{"t":"000000000001-000000-b"}},` +
			`"op":"000000000009-000000-a","set":{"t":1,"u":2},` + taskA + `}`, ""},
		{"compact, its own op named", `{"add":{"l":["x"]},"at":{"first":"000000000009-000000-a","members":{"l":{"x":"000000000009-000000-a"},"k":{}},"set":{"t":"000000000009-000000-a"}},` +
			`"op":"000000000009-000000-a","set":{"t":1},` + taskA + `}`,
			`{"add":{"l":["x"]},"at":{},"op":"000000000009-000000-a","set":{"t":1},` + taskA + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			change, err := Decode([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if want == "" {
				want = c.in
			}
			if got := strings.TrimSuffix(string(line(t, change)), "\n"); got != want {
				t.Errorf("written as\n%s, want\n%s", got, want)
			}
		})
	}
}

// badLines are lines that are no change, and words that must be in what is said of them.
var badLines = []struct{ name, line, why string }{
	{"text", `hello`, "column 1: a JSON object is expected"},
	{"array", `[]`, "a JSON object is expected"},
	{"null", `null`, "a JSON object is expected"},
	{"cut", `{"op":"019a86d3`, "ends in the middle"},
	{"cut in an escape", `{"op":"\u00`, "ends in the middle"},
	{"cut in a literal", `{"set":{"a":tr`, "ends in the middle"},
	{"two", `{` + opA + `,` + taskA + `}{}`, "the end of the line is expected"},
	{"trailing comma", `{` + opA + `,` + taskA + `,}`, "a key is expected"},
	{"no comma", `{` + opA + ` ` + taskA + `}`, "a comma or } is expected"},
	{"no colon", `{"op" "x"}`, "a colon is expected"},
	{"no op", `{` + taskA + `}`, "op is missing"},
	{"no task", `{` + opA + `}`, "task is missing"},
	{"op a number", `{"op":1,` + taskA + `}`, `"op": column 7: a string is expected`},
	{"op no stamp", `{"op":"x",` + taskA + `}`, `"op": "x" is no stamp`},
	{"op null", `{"op":null,` + taskA + `}`, "a string is expected"},
	{"task in capitals", `{` + opA + `,"task":"019A86D3-B5C0-7000-8000-000000000001"}`, "no task's id"},
	{"task of version 4", `{` + opA + `,"task":"019a86d3-b5c0-4000-8000-000000000001"}`, "no task's id"},
	{"task of another variant", `{` + opA + `,"task":"019a86d3-b5c0-7000-c000-000000000001"}`, "no task's id"},
	{"task too short", `{` + opA + `,"task":"019a86d3"}`, "no task's id"},
	{"set a list", `{` + opA + `,"set":[],` + taskA + `}`, `"set": column 39: an object is expected`},
	{"set null", `{` + opA + `,"set":null,` + taskA + `}`, "an object is expected"},
	{"a field without a name", `{` + opA + `,"set":{"":1},` + taskA + `}`, "a field without a name"},
	{"add of a string", `{"add":{"l":"x"},` + opA + `,` + taskA + `}`, `"add": column 13: a list of strings is expected`},
	{"add of a number", `{"add":{"l":[1]},` + opA + `,` + taskA + `}`, "a string is expected"},
	{"a set without a name", `{"add":{"":["x"]},` + opA + `,` + taskA + `}`, "a set without a name"},
	{"a member without a name", `{` + opA + `,"remove":{"l":[""]},` + taskA + `}`, "a member without a name"},
	{"in and out", `{"add":{"l":["x"]},` + opA + `,"remove":{"l":["x"]},` + taskA + `}`, "added to \"l\" and removed"},
	{"op twice", `{` + opA + `,` + opA + `,` + taskA + `}`, `"op" comes twice`},
	{"task twice", `{` + opA + `,` + taskA + `,` + taskA + `}`, `"task" comes twice`},
	{"set twice", `{` + opA + `,"set":{},"set":{},` + taskA + `}`, `"set" comes twice`},
	{"extra twice", `{` + opA + `,"x":1,"x":1,` + taskA + `}`, `"x" comes twice`},
	{"field twice", `{` + opA + `,"set":{"a":1,"\u0061":2},` + taskA + `}`, `"a" comes twice`},
	{"key twice deep inside", `{` + opA + `,"set":{"a":[{"b":1,"b":1}]},` + taskA + `}`, `"b" comes twice`},
	{"key twice deep inside, apart", `{` + opA + `,"x":{"b":1,"a":1,"b":1},` + taskA + `}`, `"b" comes twice`},
	{"too deep", `{` + opA + `,"x":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `,` + taskA + `}`, "nested more than 100 deep"},
	{"a leading zero", `{` + opA + `,"x":01,` + taskA + `}`, "a comma or } is expected"},
	{"half a number", `{` + opA + `,"x":1.,` + taskA + `}`, "a digit is expected"},
	{"a plus", `{` + opA + `,"x":+1,` + taskA + `}`, "a value is expected"},
	{"NaN", `{` + opA + `,"x":NaN,` + taskA + `}`, "a value is expected"},
	{"a wrong word", `{` + opA + `,"x":nule,` + taskA + `}`, "null is expected"},
	{"a wrong escape", `{` + opA + `,"x":"\x",` + taskA + `}`, "an escape that there is not"},
	{"a wrong hex digit", `{` + opA + `,"x":"\u00g0",` + taskA + `}`, "a hex digit is expected"},
	{"half a pair", `{` + opA + `,"x":"\ud83d!",` + taskA + `}`, "half a surrogate pair"},
	{"the other half", `{` + opA + `,"x":"\ude00\u0041",` + taskA + `}`, "half a surrogate pair"},
	{"a pair of firsts", `{` + opA + `,"x":"\ud83d\ud83d",` + taskA + `}`, "half a surrogate pair"},
	{"a tab in a string", `{` + opA + `,"x":"	",` + taskA + `}`, "a control character inside a string"},
	{"a NUL", `{` + opA + `,"x":"` + "\x00" + `",` + taskA + `}`, "a NUL byte"},
	{"only NULs", "\x00\x00\x00", "column 1: a NUL byte"},
	{"broken UTF-8", `{` + opA + `,"x":"` + "\xc3" + `",` + taskA + `}`, "column 38: not valid UTF-8"},
	{"a surrogate in UTF-8", `{` + opA + `,"x":"` + "\xed\xa0\x80" + `",` + taskA + `}`, "not valid UTF-8"},
	{"ours", `<<<<<<< HEAD`, "conflict marker"},
	{"base", `||||||| 1234567`, "conflict marker"},
	{"between", `=======`, "conflict marker"},
	{"theirs", `>>>>>>> theirs`, "conflict marker"},
	{"nearly a marker", `======= x`, "a JSON object is expected"},
	{"a longer marker", `<<<<<<<<`, "a JSON object is expected"},
	{"at a list", `{"at":[],` + opA + `,` + taskA + `}`, `"at": column 7: an object is expected`},
	{"at of an unknown kind", `{"at":{"counters":{}},` + opA + `,` + taskA + `}`, `"counters" is not known`},
	{"at twice", `{"at":{},"at":{},` + opA + `,` + taskA + `}`, `"at" comes twice`},
	{"at set twice", `{"at":{"set":{},"set":{}},` + opA + `,` + taskA + `}`, `"set" comes twice`},
	{"at a field that is not set", `{"at":{"set":{"t":"000000000001-000000-b"}},` + opA + `,` + taskA + `}`, `does not set "t"`},
	{"at a member that is not there", `{"at":{"members":{"l":{"x":"000000000001-000000-b"}}},` + opA + `,` + taskA + `}`, `neither adds nor removes "x"`},
	{"at before first", `{"at":{"set":{"t":"000000000001-000000-b"}},` + opA + `,"set":{"t":1},` + taskA + `}`, "not between"},
	{"first after op", `{"at":{"first":"119a86d3b5c0-000000-ana"},` + opA + `,` + taskA + `}`, "not between"},
	{"at after op", `{"at":{"first":"000000000001-000000-b","set":{"t":"119a86d3b5c0-000000-ana"}},` + opA + `,"set":{"t":1},` + taskA + `}`, "not between"},
	{"at no stamp", `{"at":{"first":"now"},` + opA + `,` + taskA + `}`, `"now" is no stamp`},
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range badLines {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode([]byte(c.line))
			if err == nil {
				t.Fatalf("read as %+v", got)
			}
			if !strings.Contains(err.Error(), c.why) || !td.IsKind(err, td.Corrupt) {
				t.Errorf("%v, want %s", err, c.why)
			}
			if strings.ContainsAny(err.Error(), "\x00\n\xff") {
				t.Errorf("not fit to print: %q", err)
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	op := Stamp{Wall: 1, Actor: "ana"}
	set := func(field, raw string) Change {
		return Change{Op: op, Task: someTasks[0], Set: map[string]json.RawMessage{field: json.RawMessage(raw)}}
	}
	for _, c := range []struct {
		name   string
		change Change
		why    string
	}{
		{"no op", Change{Task: someTasks[0]}, "no actor"},
		{"a wall before 1970", Change{Op: Stamp{Wall: -1, Actor: "a"}, Task: someTasks[0]}, "outside the years"},
		{"a count too high", Change{Op: Stamp{Count: maxCount + 1, Actor: "a"}, Task: someTasks[0]}, "counted to"},
		{"no task", Change{Op: op}, "no task's id"},
		{"no value", set("a", ""), `the value of "a": it ends in the middle`},
		{"no JSON", set("a", "x"), "a value is expected"},
		{"two values", set("a", "1 2"), "its end is expected"},
		{"a newline after a value", set("a", "1\n"), "its end is expected"},
		{"broken UTF-8 in a value", set("a", "\"\xff\""), "not valid UTF-8"},
		{"broken UTF-8 in a name", set("\xff", "1"), "not valid UTF-8"},
		{"broken UTF-8 in a member", Change{Op: op, Task: someTasks[0], Add: map[string][]string{"l": {"\xff"}}}, "not valid UTF-8"},
		{"a known key as an extra one", Change{Op: op, Task: someTasks[0], Extra: map[string]json.RawMessage{"op": json.RawMessage("1")}}, "name of a known one"},
		{"a byte too long", set("a", `"`+strings.Repeat("x", MaxLine)+`"`), "a line has at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Append([]byte("before"), c.change)
			if err == nil || !strings.Contains(err.Error(), c.why) || !td.IsKind(err, td.Invalid) {
				t.Errorf("%v, want %s", err, c.why)
			}
			if string(got) != "before" {
				t.Errorf("dst came back as %.40q", got)
			}
		})
	}
}

// The longest line there may be is written and read; a byte more is not.
func TestTheLongestLine(t *testing.T) {
	c := Change{Op: Stamp{Wall: 1, Actor: "ana"}, Task: someTasks[0], Set: map[string]json.RawMessage{"a": json.RawMessage(`""`)}}
	room := MaxLine - (len(line(t, c)) - 1)
	c.Set["a"] = json.RawMessage(`"` + strings.Repeat("x", room) + `"`)
	text := line(t, c)
	if len(text) != MaxLine+1 {
		t.Fatalf("%d bytes", len(text))
	}
	if _, err := Decode(text[:MaxLine]); err != nil {
		t.Error(err)
	}
	c.Set["a"] = json.RawMessage(`"` + strings.Repeat("x", room+1) + `"`)
	if _, err := Append(nil, c); err == nil || !strings.Contains(err.Error(), "a line has at most") {
		t.Errorf("a byte more is written: %v", err)
	}
	if _, err := Decode(append(text[:MaxLine], ' ')); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a byte more is read: %v", err)
	}
}

// Values that somebody made by hand, or with encoding/json, are written like those that were read.
func TestAppendTidiesValues(t *testing.T) {
	for in, want := range map[string]string{`"\u003cb\u003e"`: `"<b>"`, `{"b": 1,"a":[ ]}`: `{"a":[],"b":1}`, `[1, 2]`: `[1,2]`} {
		got := line(t, set(short(1, "ana"), "f", in))
		if !bytes.Contains(got, []byte(`"set":{"f":`+want+`}`)) {
			t.Errorf("%s is written as %s", in, got)
		}
	}
}

// A log with ever new names does not make its reader keep them all.
func TestNamesKeptAreBounded(t *testing.T) {
	var d decoder
	for i := range 2 * maxNames {
		if name := d.name(fmt.Appendf(nil, "field %d", i)); name != fmt.Sprintf("field %d", i) {
			t.Fatalf("%d is %q", i, name)
		}
	}
	if len(d.names) > maxNames {
		t.Errorf("%d names kept", len(d.names))
	}
	d.names = nil
	d.name(bytes.Repeat([]byte("x"), maxNameLength))
	d.name(bytes.Repeat([]byte("y"), maxNameLength+1))
	if len(d.names) != 1 {
		t.Errorf("%d names kept", len(d.names))
	}
}

// Members are a set: however they are written, they are read and written alike.
func TestMembersAreASet(t *testing.T) {
	want := []string{"x", "y"}
	for _, text := range []string{`["x","y"]`, `["y","x"]`, `["y","x","y","x"]`} {
		c, err := Decode([]byte(`{"add":{"l":` + text + `},` + opA + `,` + taskA + `}`))
		if err != nil || !reflect.DeepEqual(c.Add["l"], want) {
			t.Errorf("%s is read as %q, %v", text, c.Add["l"], err)
		}
	}
	got := line(t, Change{Op: mustStamp(short(1, "ana")), Task: someTasks[0], Remove: map[string][]string{"l": {"y", "x", "y"}}})
	if !bytes.Contains(got, []byte(`{"l":["x","y"]}`)) {
		t.Errorf("written as %s", got)
	}
}

func TestWrittenAndReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChange(t, drawStamp(t))
		if rapid.Bool().Draw(t, "compact") {
			r := new(Record)
			r.Apply(asRead(t, c))
			r.Apply(asRead(t, Change{Op: drawStamp(t), Task: c.Task, Set: map[string]json.RawMessage{"title": json.RawMessage(`"x"`)}}))
			c = r.Change()
		}
		text := line(t, c)
		back, err := Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again := line(t, back); !bytes.Equal(text, again) {
			t.Fatalf("written as %s, then as %s", text, again)
		}
		if !json.Valid(text) || bytes.Count(text, []byte("\n")) != 1 {
			t.Fatalf("%q is no line of JSON", text)
		}
		if c.At == nil && (!reflect.DeepEqual(back.Set, c.Set) && len(c.Set) > 0 || !reflect.DeepEqual(back.Extra, c.Extra)) {
			t.Fatalf("%+v came back as %+v", c, back)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range badLines {
		f.Add([]byte(c.line))
	}
	f.Add([]byte(`{"at":{"first":"000000000001-000000-b","set":{"t":"000000000001-000000-b"}},"op":"000000000009-000000-a","set":{"t":{"b":1,"a":"\u00e9"}},` + taskA + `}`))
	f.Add([]byte(`{"add":{"b":["y","x","y"],"a":[]},` + opA + `,"remove":{"b":["z"]},"x":[1, 2.50e-7],` + taskA + `}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := Decode(in)
		if err != nil {
			return
		}
		if !json.Valid(in) {
			t.Fatalf("read, and no JSON: %q", in)
		}
		text := line(t, c)
		if len(text) > len(in)+1 {
			t.Fatalf("%q grew to %q", in, text)
		}
		again := line(t, asRead(t, c))
		if !bytes.Equal(text, again) {
			t.Fatalf("written as %s, then as %s", text, again)
		}
		if a, b := setBy(t, in), setBy(t, text); len(a)+len(b) > 0 && !reflect.DeepEqual(a, b) {
			t.Fatalf("%q sets %v, %q sets %v", in, a, text, b)
		}
	})
}

// setBy is what a line sets, as the standard library reads it.
func setBy(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var keys map[string]json.RawMessage // a struct would take keys in any case of letters
	if err := json.Unmarshal(line, &keys); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	var set map[string]any
	if keys[keySet] != nil {
		d := json.NewDecoder(bytes.NewReader(keys[keySet]))
		d.UseNumber() // some have no place in a float
		if err := d.Decode(&set); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return set
}
