package td

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fill sets every field of v to a random value that is not empty, down to a few levels of pointers.
func fill(t *rapid.T, v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case time.Time:
		sec := rapid.Int64Range(0, 4e9).Draw(t, "sec")
		v.Set(reflect.ValueOf(time.Unix(sec, rapid.Int64Range(0, 999999999).Draw(t, "nsec")).UTC()))
		return
	case json.RawMessage:
		raw, _ := json.Marshal(map[string]string{"k": rapid.String().Draw(t, "raw")})
		v.Set(reflect.ValueOf(json.RawMessage(raw)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), depth)
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 2).Draw(t, "len"); n > 0 && depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, v.Index(i), depth-1)
			}
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	default:
		t.Fatalf("a body holds a %s: teach this test to fill it", v.Kind())
	}
}

// What is written is what is read, for every body there is.
func TestEveryBodyRoundTrips(t *testing.T) {
	if len(decoders) < 19 {
		t.Fatalf("only %d bodies are registered", len(decoders))
	}
	for name, dec := range decoders {
		t.Run(string(name), func(t *testing.T) {
			zero, err := dec([]byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if zero.Type() != name {
				t.Fatalf("%T says it is %s", zero, zero.Type())
			}
			rapid.Check(t, func(t *rapid.T) {
				v := reflect.New(reflect.TypeOf(zero)).Elem()
				fill(t, v, 4)
				ev := Event{
					Cursor: rapid.Uint64().Draw(t, "cursor"), Seq: rapid.Uint64().Draw(t, "seq"), Task: NewTaskID(),
					At: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 7).UTC(), Takes: rapid.String().Draw(t, "takes"),
					Body: v.Interface().(Body),
				}
				raw, err := EncodeBody(ev.Body)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(ev.Body, DecodeBody(name, raw)); diff != "" {
					t.Fatalf("body: %s", diff)
				}
				wire, err := json.Marshal(ev)
				if err != nil {
					t.Fatal(err)
				}
				var back Event
				if err := json.Unmarshal(wire, &back); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(ev, back); diff != "" {
					t.Fatalf("event: %s", diff)
				}
			})
		})
	}
}

// What is sealed is what is read back, whatever bytes are in it, and sealing it again is for nothing.
func TestSealedIsWhatIsReadBack(t *testing.T) {
	plains := 0
	for name, dec := range decoders {
		if plain[name] {
			plains++
		}
		zero, err := dec([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			v := reflect.New(reflect.TypeOf(zero)).Elem()
			fill(t, v, 4)
			for i := range v.NumField() {
				if f := v.Field(i); f.Kind() == reflect.String {
					f.SetString(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
				}
			}
			s, err := Seal(v.Interface().(Body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(DecodeBody(name, s.Raw()), s.Body); diff != "" {
				t.Fatal(diff)
			}
			if again, err := Seal(s); err != nil || &again.Raw()[0] != &s.Raw()[0] {
				t.Fatalf("sealed twice: %v", err)
			}
		})
	}
	if plains < 5 || !plain[Said{}.Type()] || plain[StepEnded{}.Type()] {
		t.Errorf("%d types are plain: %v", plains, plain)
	}
}

func TestOddBodies(t *testing.T) {
	for _, c := range []struct {
		t    EventType
		raw  string
		want string
	}{
		{"said", `{"text":"a"}`, "td.Said"},
		{"said", ``, "td.Trimmed"},
		{"said", `null`, "td.Trimmed"},
		{"said", `{`, "td.Unreadable"},
		{"said", `[]`, "td.Unreadable"},
		{"never heard of", `{}`, "td.Unreadable"},
		{"never heard of", ``, "td.Trimmed"},
	} {
		b := DecodeBody(c.t, []byte(c.raw))
		if got := fmt.Sprintf("%T", b); got != c.want || b.Type() != c.t {
			t.Errorf("%s %q: %s of type %s, want %s", c.t, c.raw, got, b.Type(), c.want)
		}
		// A record that cannot be read is handed on as it was.
		if u, ok := b.(Unreadable); ok {
			if raw, err := EncodeBody(u); err != nil || string(raw) != c.raw || u.Err == "" {
				t.Errorf("%q became %q, %v, %q", c.raw, raw, err, u.Err)
			}
		}
	}
	// An event whose body is not even JSON can still be sent.
	wire, err := json.Marshal(Event{Seq: 1, Body: Unreadable{Was: "said", Raw: []byte("{torn")}})
	if err != nil || !json.Valid(wire) {
		t.Errorf("%s, %v", wire, err)
	}
}

func FuzzDecodeBody(f *testing.F) {
	for name := range decoders {
		f.Add(string(name), []byte(`{}`))
	}
	f.Add("moved", []byte(`{"verb":"start","from":"queued","status":{"state":"running"}}`))
	f.Add("step_ended", []byte(`{"key":"a","model":{"message":{"blocks":[{"type":"text","text":"\u0000"}]}}}`))
	f.Add("created", []byte(`{"spec":{"created_at":"2030-01-02T03:04:05+25:00"}}`))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		b := DecodeBody(EventType(name), raw)
		if b.Type() != EventType(name) {
			t.Fatalf("%q became %q", name, b.Type())
		}
		once, err := EncodeBody(b)
		if err != nil {
			return // a time out of range can be read and not be written
		}
		again, err := EncodeBody(DecodeBody(EventType(name), once))
		if err != nil || string(again) != string(once) {
			t.Fatalf("not stable: %s, then %s, %v", once, again, err)
		}
		task := NewTask(Spec{ID: "x", Handle: "t-x"})
		for range 2 {
			if next, err := task.Apply(Event{Seq: task.Head + 1, Body: b}); err == nil {
				task = next
			}
		}
	})
}

// TestEventAsJSON holds MarshalJSON against package json, and against what would not be one line.
func TestEventAsJSON(t *testing.T) {
	for _, ev := range []Event{
		{Seq: 1, Task: "t", At: time.Unix(1e9, 7), Body: Said{Text: "<&>\u2028\n\"\xff", By: "ann"}},
		{Cursor: 1 << 63, Seq: 1 << 63, Task: "\"<é\x00\xff", At: time.Unix(0, 0).In(time.FixedZone("east", 3600)), Takes: "k\"\n", Body: Said{}},
		{Seq: 2, Task: "t", Body: Trimmed{Was: "said"}},
		{Seq: 3, Task: "t", Body: Unreadable{Was: "od\"d", Raw: []byte("{\n  \"a\" : [1,\n2, \"<\"]\n}")}},
		{Seq: 4, Task: "t", Body: Unreadable{Was: "torn", Raw: []byte("{torn\n")}},
		{Seq: 5, Task: "t", Body: Unreadable{Was: "empty"}},
	} {
		body, err := EncodeBody(ev.Body)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(body) {
			body = []byte("null")
		}
		want, err := json.Marshal(wireEvent{ev.Cursor, ev.Seq, ev.Task, ev.At, ev.Body.Type(), ev.Takes, body})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ev.MarshalJSON()
		if err != nil || string(got) != string(want) {
			t.Errorf("%d: %v\n%s, want\n%s", ev.Seq, err, got, want)
		}
		if bytes.ContainsAny(got, "\n\r") {
			t.Errorf("%d is more than a line: %q", ev.Seq, got)
		}
	}
	said := Event{Seq: 1, Task: "t", At: time.Unix(1, 0).UTC(), Body: Said{Text: "<a>"}}
	want, _ := said.MarshalJSON()
	raw, _ := EncodeBody(said.Body)
	if got, err := (Record{Event: said, Raw: raw}).MarshalJSON(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("with the encoding at hand it is %s, %v, not %s", got, err, want)
	}
	if got, _ := (Record{Event: said, Raw: []byte(`"as it is"`)}).MarshalJSON(); !bytes.HasSuffix(got, []byte(`"body":"as it is"}`)) {
		t.Errorf("encoded once more: %s", got)
	}
	if _, err := (Event{At: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), Body: Said{}}).MarshalJSON(); err == nil {
		t.Error("a year that cannot be written is taken")
	}
}

func FuzzEventJSON(f *testing.F) {
	f.Add([]byte(`{"cursor":1,"seq":2,"task":"t","at":"2030-01-02T03:04:05Z","type":"said","takes":"k","body":{"text":"x"}}`))
	f.Add([]byte(`{"type":"said"}`))
	f.Add([]byte(`{"type":"odd","body":[1]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ev Event
		if json.Unmarshal(raw, &ev) != nil {
			return
		}
		wire, err := json.Marshal(ev)
		if err != nil {
			return
		}
		var back Event
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Fatalf("%s: %v", wire, err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(wire) {
			t.Fatalf("not stable: %s, then %s, %v", wire, again, err)
		}
	})
}
