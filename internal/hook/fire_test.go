package hook

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// row makes a set of functions at PreToolUse that answer these, in order, and a run that asks them.
func row(t *testing.T, results ...Result) (*Set, func(context.Context, Spec, PreToolUsePayload) (Result, error), *[]string) {
	t.Helper()
	var specs []Spec
	funcs := map[string]Func{}
	asked := &[]string{}
	for i, r := range results {
		name := string(rune('a' + i))
		specs = append(specs, Spec{Point: PreToolUse, Name: name, Func: name})
		funcs[name] = func(_ context.Context, p Payload, _ Firing) (Result, error) {
			*asked = append(*asked, name+" "+string(p.(PreToolUsePayload).ToolInput))
			if r.Failure != "" {
				return Result{}, errors.New(r.Failure)
			}
			return r, nil
		}
	}
	set, err := New(specs, funcs)
	if err != nil {
		t.Fatal(err)
	}
	return set, func(ctx context.Context, s Spec, p PreToolUsePayload) (Result, error) {
		return set.Call(ctx, s, p, Firing{})
	}, asked
}

func input(n string) map[string]json.RawMessage { return raw(`{"tool_input":{"n":` + n + `}}`) }

func TestFire(t *testing.T) {
	start := samplePreToolUse
	start.ToolInput = json.RawMessage(`{"n":0}`)
	for name, c := range map[string]struct {
		results []Result
		asked   string
		input   string
		want    Result
	}{
		"none": {nil, "", `{"n":0}`, Result{}},
		"each works on what the one before left": {
			[]Result{{Changes: input("1")}, {}, {Changes: input("2")}},
			`a {"n":0}, b {"n":1}, c {"n":1}`, `{"n":2}`,
			Result{Changes: input("2")},
		},
		"different fields add up": {
			[]Result{{Changes: input("1")}, {Changes: raw(`{"tool_response":{"content":"x"}}`)}},
			`a {"n":0}, b {"n":1}`, `{"n":1}`,
			Result{Changes: raw(`{"tool_input":{"n":1},"tool_response":{"content":"x"}}`)},
		},
		"words add up": {
			[]Result{{Inject: []string{"x", "y"}}, {Inject: []string{"z"}}},
			`a {"n":0}, b {"n":0}`, `{"n":0}`,
			Result{Inject: []string{"x", "y", "z"}},
		},
		"the first block ends the row": {
			[]Result{{Inject: []string{"x"}}, {Blocked: true, Stop: true, Reason: "no"}, {Blocked: true, Reason: "never"}},
			`a {"n":0}, b {"n":0}`, `{"n":0}`,
			Result{Hook: "b", Blocked: true, Stop: true, Reason: "no", Permission: Deny, Inject: []string{"x"}},
		},
		"the strictest permission counts": {
			[]Result{{Permission: Allow}, {Permission: Ask, Reason: "odd"}, {Permission: Allow}},
			`a {"n":0}, b {"n":0}, c {"n":0}`, `{"n":0}`,
			Result{Hook: "b", Permission: Ask, Reason: "odd"},
		},
		"a change voids what was allowed": {
			[]Result{{Permission: Allow}, {Changes: input("1")}},
			`a {"n":0}, b {"n":0}`, `{"n":1}`,
			Result{Changes: input("1")},
		},
		"who changes may allow": {
			[]Result{{Permission: Allow}, {Changes: input("1"), Permission: Allow}},
			`a {"n":0}, b {"n":0}`, `{"n":1}`,
			Result{Hook: "b", Changes: input("1"), Permission: Allow},
		},
		"a change voids no question": {
			[]Result{{Permission: Ask}, {Changes: input("1"), Permission: Allow}},
			`a {"n":0}, b {"n":0}`, `{"n":1}`,
			Result{Hook: "a", Changes: input("1"), Permission: Ask},
		},
		"a failure is passed over and told": {
			[]Result{{Failure: "oops"}, {Changes: input("1")}, {Failure: "ouch"}},
			`a {"n":0}, b {"n":0}, c {"n":1}`, `{"n":1}`,
			Result{Changes: input("1"), Failure: "hook a failed: oops; hook c failed: ouch"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set, run, asked := row(t, c.results...)
			p, got, err := Fire(t.Context(), set, start, run)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(*asked, ", ") != c.asked {
				t.Errorf("asked %s", strings.Join(*asked, ", "))
			}
			if string(p.ToolInput) != c.input {
				t.Errorf("input %s", p.ToolInput)
			}
			if len(got.Inject) == 0 {
				got.Inject = nil
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestFireStopsWithItsRunner(t *testing.T) {
	set, _, _ := row(t, Result{}, Result{})
	gone := errors.New("gone")
	calls := 0
	_, _, err := Fire(t.Context(), set, samplePreToolUse, func(context.Context, Spec, PreToolUsePayload) (Result, error) {
		calls++
		return Result{}, gone
	})
	if !errors.Is(err, gone) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// A recorded result that does not fit the payload is a failure, not a panic and not a change.
func TestFireOldRecord(t *testing.T) {
	set, _, _ := row(t, Result{})
	p, got, err := Fire(t.Context(), set, samplePreToolUse, func(context.Context, Spec, PreToolUsePayload) (Result, error) {
		return Result{Hook: "a", Changes: raw(`{"tool_inputs":{}}`)}, nil
	})
	if err != nil || !strings.Contains(got.Failure, "do not fit") || !reflect.DeepEqual(p, samplePreToolUse) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCall(t *testing.T) {
	funcs := map[string]Func{
		"panics": func(context.Context, Payload, Firing) (Result, error) { panic("ouch") },
		"hangs": func(ctx context.Context, _ Payload, _ Firing) (Result, error) {
			<-ctx.Done()
			return Result{}, ctx.Err()
		},
		"oversteps": func(context.Context, Payload, Firing) (Result, error) {
			return Result{Changes: raw(`{"tool_name":"Read"}`)}, nil
		},
		"broken": func(context.Context, Payload, Firing) (Result, error) {
			return Result{Changes: map[string]json.RawMessage{"tool_input": []byte(`{"half`)}}, nil
		},
		"invents": func(context.Context, Payload, Firing) (Result, error) { return Result{Permission: "perhaps"}, nil },
	}
	for name, want := range map[string]string{
		"panics": "it panicked: ouch", "hangs": "it took longer than 1m0s", "oversteps": "read-only",
		"broken": "tool_input: unexpected", "invents": "unknown permission",
	} {
		synctest.Test(t, func(t *testing.T) {
			set, err := New([]Spec{{Point: PreToolUse, Func: name, OnError: Closed}}, funcs)
			if err != nil {
				t.Fatal(err)
			}
			r, err := set.Call(t.Context(), set.All()[0], samplePreToolUse, Firing{})
			if err != nil || !r.Blocked || r.Permission != Deny || !strings.Contains(r.Failure, want) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		})
	}
	set, err := New([]Spec{{Point: PreToolUse, Func: "hangs", OnError: Closed}}, funcs)
	if err != nil {
		t.Fatal(err)
	}
	leaving := errors.New("the daemon leaves")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(leaving) })
	if r, err := set.Call(ctx, set.All()[0], samplePreToolUse, Firing{}); !errors.Is(err, leaving) || r.Blocked {
		t.Errorf("cut off: %+v, %v", r, err)
	}
	gone := set.All()[0]
	gone.Func = "removed since"
	if r, err := set.Call(t.Context(), gone, samplePreToolUse, Firing{}); err != nil || !strings.Contains(r.Failure, "no function") {
		t.Errorf("%+v, %v", r, err)
	}
}
