package hook

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func at(p Point) Spec {
	return Spec{Point: p, Name: "h", Command: "true", Timeout: time.Minute, OnError: Open}
}

func raw(s string) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		panic(err)
	}
	return m
}

// echo is a payload as a hook that prints all of it back would, with something in it replaced.
func echo(p Point, old, replacement string) string {
	b, err := Encode(Sample(p))
	if err != nil {
		panic(err)
	}
	if !strings.Contains(string(b), old) {
		panic(old + " is not in the sample")
	}
	return strings.Replace(string(b), old, replacement, 1)
}

func TestInterpret(t *testing.T) {
	const call = `{"tool_input":{"command":"true"}}`
	for name, c := range map[string]struct {
		at   Point
		out  Output
		want Result // without its Hook
	}{
		"silence":           {PreToolUse, Output{}, Result{}},
		"only space":        {PreToolUse, Output{Stdout: []byte(" \n")}, Result{}},
		"empty object":      {PreToolUse, Output{Stdout: []byte("{}")}, Result{}},
		"stderr is ignored": {PreToolUse, Output{Stderr: []byte("log")}, Result{}},
		"unknown fields":    {PreToolUse, Output{Stdout: []byte(`{"suppressOutput":true,"x":[1]}`)}, Result{}},

		"exit 2": {PreToolUse, Output{Exit: 2, Stderr: []byte(" no \n")}, Result{Blocked: true, Permission: Deny, Reason: "no"}},
		"exit 2 without words": {
			TaskStarted,
			Output{Exit: 2},
			Result{Blocked: true, Reason: "blocked by hook h"},
		},
		"exit 2 hears no output": {
			PostToolUse,
			Output{Exit: 2, Stdout: []byte(strings.Repeat("x", MaxOutput+1)), Stderr: []byte("no")},
			Result{Blocked: true, Reason: "no"},
		},
		"exit 2, binary reason": {
			PostToolUse,
			Output{Exit: 2, Stderr: []byte("a\xffb")},
			Result{Blocked: true, Reason: "a\uFFFDb"},
		},

		"block":        {PreToolUse, Output{Stdout: []byte(`{"decision":"block","reason":"no"}`)}, Result{Blocked: true, Permission: Deny, Reason: "no"}},
		"deny":         {LoopIteration, Output{Stdout: []byte(`{"decision":"deny","reason":"no"}`)}, Result{Blocked: true, Reason: "no"}},
		"allow":        {PreToolUse, Output{Stdout: []byte(`{"decision":"allow"}`)}, Result{Permission: Allow}},
		"approve":      {PermissionRequest, Output{Stdout: []byte(`{"decision":"approve","reason":"safe"}`)}, Result{Permission: Allow, Reason: "safe"}},
		"ask":          {PreToolUse, Output{Stdout: []byte(`{"decision":"ask"}`)}, Result{Permission: Ask}},
		"empty allow":  {TaskCompleted, Output{Stdout: []byte(`{"decision":"allow"}`)}, Result{}},
		"stop":         {PreToolUse, Output{Stdout: []byte(`{"continue":false,"stopReason":"enough"}`)}, Result{Blocked: true, Stop: true, Permission: Deny, Reason: "enough"}},
		"go on":        {PreToolUse, Output{Stdout: []byte(`{"continue":true,"stopReason":"x"}`)}, Result{}},
		"stop, reason": {LoopIteration, Output{Stdout: []byte(`{"continue":false,"stopReason":"x","reason":"y"}`)}, Result{Blocked: true, Stop: true, Reason: "y"}},
		"stop beats allow": {
			PreToolUse,
			Output{Stdout: []byte(`{"continue":false,"decision":"allow"}`)},
			Result{Blocked: true, Stop: true, Permission: Deny, Reason: "blocked by hook h"},
		},

		"text where it has a place": {TaskStarted, Output{Stdout: []byte("\nmind the gap\n")}, Result{Inject: []string{"mind the gap"}}},
		"text where it has none":    {TaskPaused, Output{Stdout: []byte("logged")}, Result{}},
		"a list is text":            {TaskStarted, Output{Stdout: []byte("[1]")}, Result{Inject: []string{"[1]"}}},
		"text with an object in it": {TaskStarted, Output{Stdout: []byte("see\n{\"a\":1}")}, Result{Inject: []string{"see\n{\"a\":1}"}}},
		"inject":                    {PreToolUse, Output{Stdout: []byte(`{"inject":"words"}`)}, Result{Inject: []string{"words"}}},
		"tell": {
			TaskPaused, Output{Stdout: []byte(`{"tell":[{"to":["t-a"],"text":"x"},{"type":"wrote","text":"y"}]}`)},
			Result{Tell: []Tell{{To: []string{"t-a"}, Text: "x"}, {Type: "wrote", Text: "y"}}},
		},
		"empty inject without a place": {TaskPaused, Output{Stdout: []byte(`{"inject":" "}`)}, Result{}},

		"modify": {PreToolUse, Output{Stdout: []byte(call)}, Result{Changes: raw(call)}},
		"modify and allow": {
			PreToolUse,
			Output{Stdout: []byte(`{"tool_input": {"command": "true"},"decision":"allow"}`)},
			Result{Changes: raw(call), Permission: Allow},
		},
		"a result in place of the call": {
			PreToolUse,
			Output{Stdout: []byte(`{"tool_response":{"content":"cached"}}`)},
			Result{Changes: raw(`{"tool_response":{"content":"cached"}}`)},
		},
		"an answer in place of the model": {
			PreLLMCall,
			Output{Stdout: []byte(`{"answer":"42","model":"claude-opus-5"}`)},
			Result{Changes: raw(`{"answer":"42","model":"claude-opus-5"}`)},
		},
		"all of the payload": {PreToolUse, Output{Stdout: []byte(echo(PreToolUse, "{", "{"))}, Result{}},
		"all of it, with a change": {
			KnowledgeQuery,
			Output{Stdout: []byte(echo(KnowledgeQuery, `"limit":5`, `"limit":9`))},
			Result{Changes: raw(`{"limit":9}`)},
		},
		"the same in other words": {
			PreToolUse,
			Output{Stdout: []byte(`{"iteration":1.0,"tool_name":"\u0042ash","tool_input":{"timeout":120000,"command":"go test -run TestCheckout -count 20 ./cart \u0026\u0026 git status --short"}}`)},
			Result{},
		},
		"null is no change": {PreToolUse, Output{Stdout: []byte(`{"tool_input":null,"task_id":null,"decision":null}`)}, Result{}},

		"as others say deny": {
			PreToolUse,
			Output{Stdout: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`)},
			Result{Blocked: true, Permission: Deny, Reason: "no"},
		},
		"as others change": {
			PreToolUse,
			Output{Stdout: []byte(`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"true"},"additionalContext":"words"}}`)},
			Result{Permission: Allow, Changes: raw(call), Inject: []string{"words"}},
		},
		"as others answer": {
			PermissionRequest,
			Output{Stdout: []byte(`{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"no"}}}`)},
			Result{Blocked: true, Permission: Deny, Reason: "no"},
		},
		"the strictest word": {
			PreToolUse,
			Output{Stdout: []byte(`{"decision":"approve","hookSpecificOutput":{"permissionDecision":"ask"}}`)},
			Result{Permission: Ask},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Hook = "h"
			if got := Interpret(at(c.at), Sample(c.at), c.out); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestInterpretFailures(t *testing.T) {
	out := func(s string) Output { return Output{Stdout: []byte(s)} }
	for name, c := range map[string]struct {
		at   Point
		out  Output
		want string
	}{
		"exit 1":          {PreToolUse, Output{Exit: 1, Stderr: []byte("oops\n")}, "it exited with 1: oops"},
		"exit 127":        {PreToolUse, Output{Exit: 127}, "it exited with 127"},
		"a signal":        {PreToolUse, Output{Exit: 137}, "it exited with 137"},
		"too slow":        {PreToolUse, Output{TimedOut: true, Exit: 143}, "it took longer than 1m0s"},
		"too slow, block": {PreToolUse, Output{TimedOut: true, Exit: 2}, "it took longer than 1m0s"},
		"half an object":  {PreToolUse, out(`{"decision":"bl`), "read its decision: unexpected end of JSON"},
		"more after it":   {PreToolUse, out(`{} {}`), "read its decision"},
		"words before it": {PreToolUse, out("checking…\n{\"decision\":\"block\"}"), "other words before its decision"},
		"words before a long one": {
			TaskStarted, out("checking…\n{\n  \"hookSpecificOutput\": {\n    \"a\": 1\n  }\n}\n"),
			"other words before its decision",
		},
		"flood":                       {TaskStarted, out(strings.Repeat("x", MaxOutput+1)), "more than 1048576 bytes"},
		"not UTF-8":                   {TaskStarted, out("\xff\xfe"), "not text"},
		"not UTF-8 in an object":      {PreToolUse, out("{\"reason\":\"\xff\"}"), "not text"},
		"NUL":                         {TaskStarted, out("a\x00b"), "not text"},
		"unknown decision":            {PreToolUse, out(`{"decision":"maybe"}`), `unknown decision "maybe"`},
		"decision of a wrong type":    {PreToolUse, out(`{"decision":true}`), "read its decision"},
		"reason of a wrong type":      {PreToolUse, out(`{"reason":7}`), "read its reason"},
		"continue of a wrong type":    {PreToolUse, out(`{"continue":"no"}`), "read its continue"},
		"specific of a wrong type":    {PreToolUse, out(`{"hookSpecificOutput":[]}`), "read its hookSpecificOutput"},
		"block where nothing can be":  {TaskCompleted, out(`{"decision":"block"}`), "nothing can be blocked at TaskCompleted"},
		"exit 2 where nothing can be": {TaskCompleted, Output{Exit: 2}, "nothing can be blocked at TaskCompleted"},
		"stop where nothing can be":   {TaskCreated, out(`{"continue":false}`), "nothing can be blocked at TaskCreated"},
		"ask where nobody is asked":   {PostToolUse, out(`{"decision":"ask"}`), "no permission is decided at PostToolUse"},
		"inject without a place":      {TaskPaused, out(`{"inject":"x"}`), "TaskPaused has no place for them"},
		"tell of an odd kind":         {TaskPaused, out(`{"tell":[{"type":"A B","text":"x"}]}`), `the type "A B"`},
		"tell nothing":                {TaskPaused, out(`{"tell":[{}]}`), "the message is empty"},
		"tell that is no list":        {TaskPaused, out(`{"tell":"x"}`), "read its tell"},
		"tell nobody to stop":         {TaskPaused, out(`{"tell":[{"do":"stop","text":"x"}]}`), "stop wants the loops"},
		"tell to do what":             {TaskPaused, out(`{"tell":[{"do":"dance","to":["t-a"],"text":"x"}]}`), `do is "dance"`},
		"tell too much":               {TaskPaused, out(`{"tell":[` + strings.Repeat(`{"text":"x"},`, maxTells) + `{"text":"x"}]}`), "it tells 11 things"},
		"another tool":                {PreToolUse, out(`{"tool_name":"Read"}`), "it changes tool_name, which is read-only at PreToolUse"},
		"another task":                {PreToolUse, out(echo(PreToolUse, "01990b1e-7c4a", "01990b1e-7c4b")), "it changes task_id, which is read-only"},
		"another point":               {PreToolUse, out(`{"hook_event_name":"PostToolUse"}`), "it changes hook_event_name"},
		"another point, as others":    {PreToolUse, out(`{"hookSpecificOutput":{"hookEventName":"PostToolUse"}}`), "its hookEventName"},
		"what has run":                {PostToolUse, out(`{"tool_input":{}}`), "it changes tool_input, which is read-only at PostToolUse"},
		"what was judged":             {PermissionRequest, out(`{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{}}}}`), "it changes tool_input"},
		"input that is no object":     {PreToolUse, out(`{"tool_input":"ls"}`), "tool_input is no object"},
		"two inputs":                  {PreToolUse, out(`{"tool_input":{},"hookSpecificOutput":{"updatedInput":{"a":1}}}`), "two different inputs"},
		"text for a number":           {PreLLMCall, out(`{"max_tokens":"many"}`), "max_tokens: json: cannot unmarshal"},
		"no tokens":                   {PreLLMCall, out(`{"max_tokens":0}`), "max_tokens is 0"},
		"all thinking":                {PreLLMCall, out(`{"thinking":16384}`), "thinking is 16384 of 16384"},
		"no model":                    {PreLLMCall, out(`{"model":""}`), "model is empty"},
		"no such tier":                {PreContextAssembly, out(`{"tier":"genius"}`), `tier "genius" is none of`},
		"turns":                       {PreContextAssembly, out(`{"max_turns":-1}`), "max_turns is -1"},
		"no messages":                 {PostContextAssembly, out(`{"messages":[]}`), "0 messages, not the opening alone"},
		"no such role":                {PostContextAssembly, out(`{"messages":[{"role":"system","blocks":[{"type":"text","text":"x"}]}]}`), `messages[0]: role "system"`},
		"no such block":               {PostContextAssembly, out(`{"messages":[{"role":"user","blocks":[{"type":"video"}]}]}`), `unknown type "video"`},
		"no blocks":                   {PostLLMCall, out(`{"message":{"role":"assistant","blocks":[]}}`), "it has no blocks"},
		"a call without an id":        {PostLLMCall, out(`{"message":{"role":"assistant","blocks":[{"type":"tool_use"}]}}`), "has no id"},
		"the other's answer":          {PostLLMCall, out(`{"message":{"role":"user","blocks":[{"type":"text"}]}}`), `role "user" is not`},
		"no prompt":                   {PreUserPrompt, out(`{"prompt":" "}`), "prompt is empty"},
		"no question":                 {PermissionRequest, out(`{"prompt":""}`), "prompt is empty"},
		"an empty learning":           {LearningExtracted, out(`{"text":""}`), "to keep nothing, block"},
		"too many learnings":          {KnowledgeQuery, out(`{"limit":51}`), "limit is 51"},
		"a wordless learning":         {KnowledgeInjected, out(`{"learnings":[{"id":"x"}]}`), "learnings[0]: text is empty"},
		"a flood of learnings":        {KnowledgeInjected, out(`{"learnings":[` + strings.Repeat(`{"text":"x"},`, 50) + `{"text":"x"}]}`), "51 learnings"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Interpret(at(c.at), Sample(c.at), c.out)
			if !strings.HasPrefix(got.Failure, "hook h failed: ") || !strings.Contains(got.Failure, c.want) {
				t.Errorf("got %+v", got)
			}
			if open := (Result{Hook: "h", Failure: got.Failure}); !reflect.DeepEqual(got, open) {
				t.Errorf("open: it decided something: %+v", got)
			}
			if tr, _ := TraitOf(c.at); tr.Block == "" {
				return
			}
			closed := at(c.at)
			closed.OnError = Closed
			got = Interpret(closed, Sample(c.at), c.out)
			if !got.Blocked || got.Reason != got.Failure || got.Failure == "" || len(got.Inject)+len(got.Changes) > 0 {
				t.Errorf("closed: got %+v", got)
			}
		})
	}
	if got := Interpret(at(PostToolUse), samplePreToolUse, Output{}); got.Failure == "" {
		t.Error("a payload of another point was accepted")
	}
}

func TestWordsAreBounded(t *testing.T) {
	long := strings.Repeat("ä", MaxOutput/4)
	r := Interpret(at(TaskStarted), sampleTaskStarted, Output{Stdout: []byte(long)})
	if len(r.Inject) != 1 || len(r.Inject[0]) > maxInject+100 || !strings.HasSuffix(r.Inject[0], "bytes omitted]") {
		t.Errorf("injected %d bytes", len(r.Inject[0]))
	}
	r = Interpret(at(TaskStarted), sampleTaskStarted, Output{Exit: 2, Stderr: []byte(long)})
	if !r.Blocked || len(r.Reason) > maxReason+100 || strings.ContainsRune(r.Reason, '\uFFFD') {
		t.Errorf("reason of %d bytes", len(r.Reason))
	}
	r = Interpret(at(TaskStarted), sampleTaskStarted, Output{Exit: 1, Stderr: []byte(long)})
	if len(r.Failure) > 2*maxReason {
		t.Errorf("failure of %d bytes", len(r.Failure))
	}
}

// A number that a tool rounded is no change of a read-only field, but one of a field that is the hook's.
func TestLargeNumbers(t *testing.T) {
	p := samplePostToolUse
	p.TookMS = 9007199254740993
	r := Interpret(at(PostToolUse), p, Output{Stdout: []byte(`{"took_ms":9007199254740992}`)})
	if r.Failure != "" || r.Changes != nil {
		t.Errorf("got %+v", r)
	}
	q := samplePreToolUse
	q.ToolInput = json.RawMessage(`{"id":9007199254740993}`)
	r = Interpret(at(PreToolUse), q, Output{Stdout: []byte(`{"tool_input":{"id":9007199254740992}}`)})
	if string(r.Changes["tool_input"]) != `{"id":9007199254740992}` {
		t.Errorf("got %+v", r)
	}
}

// Whatever Interpret lets through can be applied, encoded for the journal, and read back the same.
func TestResultSurvivesTheJournal(t *testing.T) {
	r := Interpret(at(PreToolUse), samplePreToolUse, Output{Stdout: []byte(`{"decision":"ask","reason":"r","inject":"w","tool_input":{"command":"a <b> && c"}}`)})
	enc, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(enc, &back); err != nil {
		t.Fatal(err)
	}
	p, err := Apply(samplePreToolUse, back.Changes)
	if err != nil {
		t.Fatal(err)
	}
	var in struct{ Command string }
	if err := json.Unmarshal(p.ToolInput, &in); err != nil || in.Command != "a <b> && c" {
		t.Errorf("got %s, %v", p.ToolInput, err)
	}
	if back.Permission != Ask || back.Reason != "r" || back.Inject[0] != "w" {
		t.Errorf("got %+v", back)
	}
	if string(samplePreToolUse.ToolInput) == string(p.ToolInput) {
		t.Error("the payload it was made from changed too")
	}
	if _, err := Apply(samplePreToolUse, raw(`{"nonsense":1}`)); err == nil {
		t.Error("an unknown field was applied")
	}
}

func FuzzInterpret(f *testing.F) {
	for i, s := range []string{
		"", "words", "{}", `{"decision":"block","reason":"no"}`, `{"decision":"bl`, "a\n{\"decision\":\"deny\"}",
		`{"tool_input":{"command":"true"},"inject":"x"}`, `{"continue":false}`, "\xff\x00", `{"max_tokens":1e400}`,
		`{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{},"decision":{"behavior":"deny"}}}`,
		`{"messages":[{"role":"user","blocks":[{"type":"text","text":"x"}]}],"system":null}`, `{"learnings":[{"text":"x","tags":null}]}`,
		`{"tell":[{"to":["t-a"],"text":"x"},{"type":"a","text":"y"}]}`, `{"tell":[{"to":[""],"type":"a"}]}`, `{"tell":null}`,
	} {
		f.Add(uint8(i*5), uint8(0), []byte(s), []byte("why"))
	}
	f.Add(uint8(12), uint8(2), []byte("x"), []byte("\xff"))
	f.Fuzz(func(t *testing.T, which, exit uint8, stdout, stderr []byte) {
		tr := Traits[int(which)%len(Traits)]
		s := at(tr.Point)
		if tr.Block != "" && exit%2 == 1 {
			s.OnError = Closed
		}
		o := Output{Exit: int(exit), Stdout: stdout, Stderr: stderr}
		r := Interpret(s, tr.sample, o)
		if again := Interpret(s, tr.sample, o); !reflect.DeepEqual(r, again) {
			t.Fatalf("two answers: %+v, %+v", r, again)
		}
		for name := range r.Changes {
			if !slices.Contains(tr.Modify, name) {
				t.Errorf("%s changed at %s", name, tr.Point)
			}
		}
		switch {
		case r.Blocked && tr.Block == "", len(r.Inject) > 0 && tr.Inject == "", r.Permission != NoOpinion && !tr.Permits,
			r.Blocked && r.Reason == "", r.Permission == Deny && !r.Blocked, r.Failure != "" && r.Blocked != (s.OnError == Closed):
			t.Errorf("%s: %+v", tr.Point, r)
		}
		next, err := with(tr.sample, r.Changes)
		if err != nil {
			t.Fatalf("cannot apply %s: %v", r.Changes, err)
		}
		if _, err := Encode(next); err != nil {
			t.Fatalf("cannot encode what %s made: %v", r.Changes, err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

// An answer on record that no longer fits what it was about stops things, also that of a hook that was open: nobody
// knows what it would have changed.
func TestReplayOfAnAnswerThatDoesNotFit(t *testing.T) {
	p := PreToolUsePayload{ToolCall: ToolCall{ToolName: "Bash", ToolInput: json.RawMessage(`{"command":"ls"}`)}}
	fits := Result{Hook: "one", Changes: map[string]json.RawMessage{"tool_input": json.RawMessage(`{"command":"pwd"}`)}}
	got, said := Replay(p, []Result{fits})
	if said.Blocked || string(got.ToolInput) != `{"command":"pwd"}` {
		t.Errorf("it came to %s, %+v", got.ToolInput, said)
	}
	not := Result{Hook: "two", Changes: map[string]json.RawMessage{"no_such_field": json.RawMessage(`1`)}}
	if got, said := Replay(p, []Result{fits, not}); !said.Blocked || said.Hook != "two" || string(got.ToolInput) != `{"command":"pwd"}` {
		t.Errorf("it came to %s, %+v", got.ToolInput, said)
	}
}
