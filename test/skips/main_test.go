package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// session is what `go test -json` says of three packages.
var session = []any{
	event{Action: "start", Package: "a"},
	event{Action: "output", Package: "a", Test: "TestGood", Output: "=== RUN   TestGood\n"},
	event{Action: "output", Package: "a", Test: "TestGood", Output: "    a_test.go:3: chatter\n"},
	event{Action: "output", Package: "a", Test: "TestGood", Output: "--- PASS: TestGood (0.00s)\n"},
	event{Action: "pass", Package: "a", Test: "TestGood"},
	event{Action: "output", Package: "a", Test: "TestRoot", Output: "=== RUN   TestRoot\n"},
	event{Action: "output", Package: "a", Test: "TestRoot", Output: "    a_test.go:9: needs root\n"},
	event{Action: "output", Package: "a", Test: "TestRoot", Output: "--- SKIP: TestRoot (0.00s)\n"},
	event{Action: "skip", Package: "a", Test: "TestRoot"},
	event{Action: "skip", Package: "a", Test: "TestSilent"},
	event{Action: "output", Package: "a", Output: "PASS\n"},
	event{Action: "output", Package: "a", Output: "printed by the way\n"},
	event{Action: "output", Package: "a", Output: "ok  \ta\t0.01s\n"},
	event{Action: "pass", Package: "a"},
	event{Action: "output", Package: "b", Test: "TestBad", Output: "=== RUN   TestBad\n"},
	event{Action: "output", Package: "b", Test: "TestBad", Output: "    b_test.go:4: wrong\n"},
	event{Action: "output", Package: "b", Test: "TestBad", Output: "--- FAIL: TestBad (0.00s)\n"},
	event{Action: "fail", Package: "b", Test: "TestBad"},
	event{Action: "output", Package: "b", Test: "TestCut", Output: "panic: oh\n"},
	event{Action: "output", Package: "b", Output: "FAIL\tb\t0.01s\n"},
	event{Action: "fail", Package: "b"},
	event{Action: "build-output", Output: "c.go:1: no such thing\n"},
	event{Action: "output", Package: "d", Output: "?   \td\t[no test files]\n"},
	event{Action: "skip", Package: "d"},
}

func TestShow(t *testing.T) {
	var in, out, skips strings.Builder
	for _, e := range session {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	in.WriteString("go: a word of its own")
	if err := show(strings.NewReader(in.String()), &out, &skips); err != nil {
		t.Fatal(err)
	}
	want := "ok  \ta\t0.01s\n    b_test.go:4: wrong\n--- FAIL: TestBad (0.00s)\npanic: oh\nFAIL\tb\t0.01s\nc.go:1: no such thing\n?   \td\t[no test files]\ngo: a word of its own"
	if out.String() != want {
		t.Errorf("shown:\n%s\nwant:\n%s", out.String(), want)
	}
	if got := skips.String(); got != "a TestRoot: a_test.go:9: needs root\na TestSilent: no reason given\n" {
		t.Errorf("skipped:\n%s", got)
	}
}

func FuzzShow(f *testing.F) {
	f.Add(`{"Action":"output","Package":"a","Test":"T","Output":"x\n"}` + "\n" + `{"Action":"skip","Package":"a","Test":"T"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if err := show(strings.NewReader(text), &strings.Builder{}, &strings.Builder{}); err != nil {
			t.Error(err)
		}
	})
}
