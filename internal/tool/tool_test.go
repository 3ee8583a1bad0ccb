package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

type sample struct {
	Name  string   `json:"name" jsonschema:"who" min:"1" max:"5"`
	Size  int      `json:"size,omitempty" jsonschema:"how large" min:"1" max:"9"`
	Kind  string   `json:"kind,omitempty" jsonschema:"what" enum:"a,b"`
	Parts []string `json:"parts,omitempty" jsonschema:"of what" min:"1"`
	Flag  *bool    `json:"flag,omitempty" jsonschema:"whether"`
}

func TestShape(t *testing.T) {
	const want = `{"type":"object","properties":{"name":{"type":"string","description":"who","minLength":1,"maxLength":5},` +
		`"size":{"type":"integer","description":"how large","minimum":1,"maximum":9},"kind":{"type":"string","description":"what","enum":["a","b"]},` +
		`"parts":{"type":"array","description":"of what","items":{"type":"string"},"minItems":1},"flag":{"type":"boolean","description":"whether"}},` +
		`"required":["name"],"additionalProperties":false}`
	shape := ShapeOf[sample]()
	var got, wanted any
	if err := json.Unmarshal(shape.Schema(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(wanted)
	if !bytes.Equal(a, b) {
		t.Errorf("got  %s\nwant %s", shape.Schema(), want)
	}
	if in, _, err := shape.Decode(json.RawMessage(`{"name":"x","size":3,"kind":"b","parts":["p"],"flag":true}`)); err != nil || in.Size != 3 || !*in.Flag {
		t.Errorf("got %+v, %v", in, err)
	}
	for input, says := range map[string]string{
		``:                             "name",
		`{}`:                           "name",
		`{"name":""}`:                  "name",
		`{"name":"toolong"}`:           "name",
		`{"name":3}`:                   "name",
		`{"name":"x","size":10}`:       "size",
		`{"name":"x","size":"3"}`:      "size",
		`{"name":"x","size":1.5}`:      "size",
		`{"name":"x","kind":"c"}`:      "kind",
		`{"name":"x","parts":null}`:    "parts",
		`{"name":"x","parts":[]}`:      "parts",
		`[]`:                           "array",
		`{"name":`:                     "JSON",
		`{"name":"x","size":1e400}`:    "JSON",
		`{"name":"x"} {"name":"y"}`:    "JSON",
		`{"name":"x","parts":[1,"2"]}`: "parts",
	} {
		_, _, err := shape.Decode(json.RawMessage(input))
		if !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that names %q", input, err, says)
		}
	}
	if _, _, err := shape.Decode(json.RawMessage(`{"name":"x","kind":"` + strings.Repeat("c", 1<<20) + `"}`)); err == nil || len(err.Error()) > 1000 {
		t.Error("a huge input is repeated in the error")
	}
}

// Models that know a like tool from elsewhere give its arguments other names, and more of them.
func TestOtherNames(t *testing.T) {
	type input struct {
		Path string `json:"path" alias:"file_path,filename" min:"1"`
		Size int    `json:"size,omitempty" max:"9"`
	}
	shape := ShapeOf[input]()
	if strings.Contains(string(shape.Schema()), "file_path") {
		t.Error("the schema tells other names")
	}
	for raw, want := range map[string]string{
		`{"path":"a"}`:                                  "a []",
		`{"file_path":"a"}`:                             "a []",
		`{"filename":"a","size":3}`:                     "a []",
		`{"path":"a","file_path":"b"}`:                  "a [file_path]",
		`{"path":"a","Path":"b"}`:                       "a [Path]",
		`{"path":"a","description":"x","z":{"path":1}}`: "a [description z]",
	} {
		in, ignored, err := shape.Decode(json.RawMessage(raw))
		if got := fmt.Sprint(in.Path, " ", ignored); err != nil || got != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	for _, raw := range []string{`{"file_path":""}`, `{"file_path":3}`, `{"description":"x"}`, `{"path":"a","size":10,"x":1}`} {
		if _, _, err := shape.Decode(json.RawMessage(raw)); !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	deep := ShapeOf[struct {
		Edits []*input `json:"edits" alias:"changes"`
		Last  struct {
			Parts [][]input `json:"parts"`
		} `json:"last,omitempty"`
	}]()
	for raw, want := range map[string]string{
		`{"edits":[{"file_path":"a","why":1},{"path":"b","why":2}],"last":{"parts":[]}}`:                "a [edits[].why]",
		`{"changes":[{"filename":"a"}],"last":{"x":1,"parts":[[{"filename":"c","y":1},{"path":"d"}]]}}`: "a [last.x last.parts[][].y]",
	} {
		in, ignored, err := deep.Decode(json.RawMessage(raw))
		if err != nil || fmt.Sprint(in.Edits[0].Path, " ", ignored) != want {
			t.Errorf("%s: %v, %v", raw, ignored, err)
		}
	}
	for _, raw := range []string{`{"edits":{"path":"a"},"last":{"parts":[]}}`, `{"edits":[["a"]]}`, `{"edits":[{"why":1}],"last":{"parts":[]}}`, `{"edits":[],"last":[]}`, `[]`, `null`} {
		if _, _, err := deep.Decode(json.RawMessage(raw)); !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	many, err := json.Marshal(map[string]any{"edits": slices.Repeat([]map[string]int{{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}}, 9)})
	if err != nil {
		t.Fatal(err)
	}
	var loose any
	if err := json.Unmarshal(many, &loose); err != nil {
		t.Fatal(err)
	}
	if ignored, _ := deep.form.fit(loose, ""); len(ignored) != maxIgnored {
		t.Errorf("%d names are told", len(ignored))
	}
	asks := Define(Tool{Name: "A", Control: AskControl}, func(context.Context, *Env, input) (Call, error) { return Call{}, nil }, nil)
	if call, err := asks.Prepare(t.Context(), nil, json.RawMessage(`{"file_path":"a","why":1}`)); err != nil || string(call.Input) != `{"path":"a"}` || !strings.Contains(call.Ignored, "no argument why") {
		t.Errorf("a control has %s, %q, %v", call.Input, call.Ignored, err)
	}
	tl := Define(Tool{Name: "T"}, func(_ context.Context, _ *Env, in input) (Call, error) {
		return Call{Run: func(context.Context) (td.ToolResult, error) { return td.ToolResult{Content: in.Path}, nil }}, nil
	}, nil)
	call, err := tl.Prepare(t.Context(), nil, json.RawMessage(`{"file_path":"a","why":"\u202e"}`))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := call.Run(t.Context()); err != nil || res.Content != "a\n[T has no argument why; what you gave was ignored]" {
		t.Errorf("%q, %v", res.Content, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"x","size":3}`))
	f.Add([]byte(`{"name":"x","size":3.0,"name":"y"}`))
	f.Add([]byte(`{"name":"x","parts":[{"a":[{}]}],"more":{"name":[]}}`))
	shape := ShapeOf[sample]()
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, _, err := shape.Decode(raw)
		if err == nil && (in.Name == "" || utf8.RuneCountInString(in.Name) > 5 || in.Size < 0 || in.Size > 9) {
			t.Errorf("%q gave %+v", raw, in)
		}
	})
}

func TestDefine(t *testing.T) {
	tl := Define(Tool{Name: "T", Description: "d"}, func(_ context.Context, _ *Env, in sample) (Call, error) {
		return Call{Title: in.Name}, nil
	}, nil)
	if call, err := tl.Prepare(t.Context(), nil, json.RawMessage(`{"name":"x"}`)); err != nil || call.Title != "x" || tl.Resolve != nil {
		t.Errorf("got %+v, %v", call, err)
	}
	if _, err := tl.Prepare(t.Context(), nil, json.RawMessage(`{}`)); err == nil {
		t.Error("an input that does not fit was taken")
	}
	if d := NewRegistry(tl).Describe(); len(d) != 1 || d[0].Name != "T" || !bytes.Equal(d[0].Schema, tl.Schema) {
		t.Errorf("described as %+v", d)
	}
	defer func() {
		if recover() == nil {
			t.Error("a name was registered twice")
		}
	}()
	NewRegistry(tl, tl)
}

func TestSpoolName(t *testing.T) {
	safe := regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,150}$`)
	seen := map[string]bool{}
	for _, task := range []td.TaskID{"", td.NewTaskID(), "../../x", td.TaskID(strings.Repeat("t", 500))} {
		for _, step := range []td.StepKey{"", "1/2", "1_2", "1.2", "a\nb", td.StepKey(strings.Repeat("s", 500)), td.StepKey(strings.Repeat("s", 501)), "\xff"} {
			name := SpoolName(task, step)
			if !safe.MatchString(name) || seen[name] || name != SpoolName(task, step) {
				t.Errorf("%q, %q: %q", task, step, name)
			}
			seen[name] = true
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n", "a\x00b\x07": "a\uFFFDb\uFFFD", "\xff\xfe": "\uFFFD", "x\r\ny\rz": "x\ny\nz", "N\bN_\bé\b": "N", "seX\bcr": "secr",
		"\x1b[1;31mred\x1b[0m": "red", "\x1b]0;title\x07on": "on", "\x1b": "\uFFFD", "\u009b31m": "\uFFFD31m", "é\u2028": "é\u2028",
	} {
		if got := Clean([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("\x1b[31m\xff\x00\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := Clean(raw)
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\x1b\r\x07") {
			t.Errorf("%q gave %q", raw, s)
		}
	})
}

func TestOutput(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 3276)
	for name, tc := range map[string]struct {
		res      sandbox.ProcessResult
		min, max int
		has      string
	}{
		"nothing":              {sandbox.ProcessResult{}, 0, 0, ""},
		"short":                {sandbox.ProcessResult{Head: []byte("hello")}, 5, 5, "hello"},
		"across head and tail": {sandbox.ProcessResult{Head: []byte("caf\xc3"), Tail: []byte("\xa9")}, 4, 4, "café"},
		"long":                 {sandbox.ProcessResult{Head: long}, MaxOutput, MaxOutput + 60, "[truncated, 2760 characters omitted]"},
		"omitted":              {sandbox.ProcessResult{Head: long, Tail: long, Omitted: 1000}, MaxOutput, MaxOutput + 60, "[truncated, 36520 bytes omitted]"},
	} {
		got := Output(nil, tc.res)
		if n := utf8.RuneCountInString(got); n < tc.min || n > tc.max || !strings.Contains(got, tc.has) {
			t.Errorf("%s: %d characters, %.80q", name, n, got)
		}
	}
}

// Of what a process wrote both ends are kept, cut wherever that is. No part of a known value is left there, even if the rest is short without its secrets.
func TestOutputIsCutWithoutSecrets(t *testing.T) {
	const key = "zqSEKRETvalue98765xyz"
	secrets := redact.New(key)
	many := strings.Repeat(key, 1600)
	for cut := range key {
		res := sandbox.ProcessResult{Head: []byte(many[:len(many)-cut]), Tail: []byte(many[cut:]), Omitted: 1000}
		got := Output(secrets, res)
		for i := range len(key) - redact.MinLength {
			if part := key[i : i+redact.MinLength+1]; strings.Contains(got, part) {
				t.Fatalf("cut after %d: %q", cut, part)
			}
		}
	}
}
