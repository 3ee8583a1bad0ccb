package rehearsal

import (
	"os"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func TestParse(t *testing.T) {
	s, err := Parse([]byte(`
name: all
chunk: {size: 3, delay: 1ms}
scenes:
  - name: first
    when: ^go
    turns:
      - text: one
turns:
  - text: |
      two lines
      here
    thinking: hm
    tools:
      - {name: Read, id: x, input: {path: a.txt, n: 3, deep: [1, 2.5, true, null, {k: v}]}}
    stop: max_tokens
    usage: {input: 1, output: 2, cache_read: 3, cache_write: 4}
    latency: 1.5s
    chunk: {size: 9}
    expect: yes
    repeat: 4
    faults:
      - {status: 429, retry_after: 2s}
      - {error: overloaded_error}
      - {cut: 0}
      - {garbage: true}
      - {silence: 10s}
  - text: on and on
    repeat: forever
`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name() != "all" || len(s.scenes) != 2 || s.chunk != (chunk{3, time.Millisecond}) {
		t.Errorf("script = %+v", s)
	}
	u := s.scenes[1].turns[0]
	if u.text != "two lines\nhere\n" || u.thinking != "hm" || u.stop != td.MaxTokens || u.latency != 1500*time.Millisecond ||
		u.expect != "yes" || u.repeat != 4 || *u.usage != (td.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}) || u.chunk.size != 9 {
		t.Errorf("turn = %+v", u)
	}
	if got := string(u.tools[0].input); got != `{"deep":[1,2.5,true,null,{"k":"v"}],"n":3,"path":"a.txt"}` {
		t.Errorf("input = %s", got)
	}
	if len(u.faults) != 5 || u.faults[0].RetryAfter != 2*time.Second || *u.faults[2].Cut != 0 {
		t.Errorf("faults = %+v", u.faults)
	}
	if n := s.scenes[1].turn(1000); n == nil || n.text != "on and on" {
		t.Errorf("turn 1000 = %+v", n)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "it is empty"},
		{"comment", "# nothing\n", "it is empty"},
		{"no turns", "name: x", "neither turns nor scenes"},
		{"unknown key", "turns:\n  - tools: []\n    txet: hi", `line 3, column 5: a turn has no key "txet": did you mean "text"?`},
		{"unknown top key", "turn: []", `line 1, column 1: the script has no key "turn": did you mean "turns"?`},
		{"unknown fault", "turns:\n  - text: a\n    faults:\n      - {statsu: 500}", `line 4, column 10: a fault has no key "statsu": did you mean "status"?`},
		{"twice", "turns:\n  - text: a\n    text: b", "line 3"},
		{"not a mapping", "- a\n- b", "the script is a mapping of chunk, name, scenes, turns"},
		{"not a list", "turns: {}", "turns is a list"},
		{"empty turn", "turns:\n  - latency: 1s", "needs text, tools or a stop reason"},
		{"bad stop", "turns:\n  - {text: a, stop: end}", `no stop reason "end"`},
		{"tool_use without tools", "turns:\n  - {text: a, stop: tool_use}", "needs tools"},
		{"bad time", "turns:\n  - {text: a, latency: fast}", `"fast" is not a time`},
		{"negative time", "turns:\n  - {text: a, latency: -1s}", `is not a time`},
		{"bad number", "turns:\n  - {text: a, repeat: many}", "a whole number"},
		{"number out of range", "turns:\n  - {text: a, repeat: 0}", "0 is not between 1 and"},
		{"forever in the middle", "turns:\n  - {text: a, repeat: forever}\n  - {text: b}", "turn 1 repeats forever"},
		{"two faults in one", "turns:\n  - {text: a, faults: [{status: 500, cut: 3}]}", "a fault is one of"},
		{"no fault", "turns:\n  - {text: a, faults: [{}]}", "a fault is one of"},
		{"retry_after alone", "turns:\n  - {text: a, faults: [{cut: 1, retry_after: 1s}]}", "goes with a status"},
		{"status 200", "turns:\n  - {text: a, faults: [{status: 200}]}", "between 400 and 599"},
		{"zero silence", "turns:\n  - {text: a, faults: [{silence: 0s}]}", "needs a value"},
		{"garbage false", "turns:\n  - {text: a, faults: [{garbage: false}]}", "garbage: true"},
		{"garbage without tools", "turns:\n  - {text: a, faults: [{garbage: true}]}", "a tool call to garble"},
		{"tool without a name", "turns:\n  - tools: [{input: {}}]", "needs a name"},
		{"input is a list", "turns:\n  - tools: [{name: A, input: [1]}]", "input is a mapping"},
		{"input is infinite", "turns:\n  - tools: [{name: A, input: {x: .inf}}]", "cannot be sent as JSON"},
		{"bad expression", "scenes:\n  - {when: '(', turns: [{text: a}]}", "not a regular expression"},
		{"scene without turns", "scenes:\n  - {when: a}", "a scene needs turns"},
		{"two documents", "turns: [{text: a}]\n---\nturns: [{text: b}]", "one document"},
		{"alias", "a: &x [1]\nb: *x", "anchors and aliases"},
		{"bomb", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "anchors and aliases"},
		{"tag", "turns: !!python/object []", "tags"},
		{"broken YAML", "turns: [", "line 1"},
		{"tabs", "turns:\n\t- text: a", "line 2"},
		{"deep flow", strings.Repeat("[", 100_000), "nests deeper"},
		{"deep block", strings.Repeat("- ", 100_000), "nests deeper"},
		{"deep maps", strings.Repeat("a: ", 100_000), "line 1"},
		{"deep flow maps", strings.Repeat("{a: ", 100_000), "nests deeper"},
		{"deep keys", strings.Repeat("? ", 100_000), "without ?"},
		{"huge", "name: " + strings.Repeat("x", MaxSize), "the limit is"},
		{"not text", "name: \xff\xfe", "not UTF-8"},
		{"NUL", "name: \x00", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse([]byte(c.in))
			if err == nil {
				t.Fatalf("no error, script %+v", s)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
			if !td.IsKind(err, td.Invalid) || td.HintOf(err) == "" {
				t.Errorf("kind %v, hint %q", td.KindOf(err), td.HintOf(err))
			}
		})
	}
}

// The examples of the documentation are scripts.
func TestDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/rehearsal.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(doc), "```yaml\n")[1:]
	if len(parts) < 3 {
		t.Fatalf("%d examples found", len(parts))
	}
	for _, p := range parts {
		example, _, _ := strings.Cut(p, "```")
		if _, err := Parse([]byte(example)); err != nil {
			t.Errorf("%v\n%s", err, example)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("turns:\n  - text: a\n    tools: [{name: A, input: {x: 1}}]"))
	f.Add([]byte("scenes: [{when: '^a', turns: [{text: a, repeat: forever}]}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Add(builtinSource)
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Parse(src)
		if err == nil && s.scene("anything") == nil && len(s.scenes) == 0 {
			t.Error("a script without scenes")
		}
	})
}
