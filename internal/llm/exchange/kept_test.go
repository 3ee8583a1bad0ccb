package exchange

import (
	"errors"
	"fmt"
	"testing"

	"taskdaemon/internal/llm"
)

func TestKeptEncodesOnce(t *testing.T) {
	var k Kept[int]
	made := 0
	of := func(key int) string {
		t.Helper()
		got, err := k.Of(key, func() ([]byte, error) { made++; return fmt.Append(nil, key), nil })
		if err != nil || string(got) != fmt.Sprint(key) {
			t.Fatalf("%d: %q, %v", key, got, err)
		}
		return string(got)
	}
	for range 3 {
		for key := range mostKept {
			of(key)
		}
	}
	if made != mostKept {
		t.Errorf("%d keys were encoded %d times", mostKept, made)
	}
	of(0) // the oldest becomes the newest
	of(mostKept)
	if of(0); made != mostKept+1 {
		t.Error("what was used last was let go of")
	}
	if of(1); made != mostKept+2 {
		t.Error("what was not used for longest was kept")
	}
	if len(k.newest) != mostKept {
		t.Errorf("%d are kept", len(k.newest))
	}
}

func TestKeptKeepsNoFailure(t *testing.T) {
	var k Kept[string]
	want := errors.New("no")
	if _, err := k.Of("a", func() ([]byte, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	if got, err := k.Of("a", func() ([]byte, error) { return []byte("yes"), nil }); err != nil || string(got) != "yes" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestToolsetIsTheVerySameTools(t *testing.T) {
	tools, equal := []llm.Tool{{Name: "A"}, {Name: "B"}}, []llm.Tool{{Name: "A"}, {Name: "B"}}
	if ToolsetOf(tools) != ToolsetOf(tools) || ToolsetOf(nil) != ToolsetOf([]llm.Tool{}) {
		t.Error("the same tools have two names")
	}
	if ToolsetOf(tools) == ToolsetOf(equal) || ToolsetOf(tools) == ToolsetOf(tools[:1]) || ToolsetOf(tools) == ToolsetOf(nil) {
		t.Error("others have the same name")
	}
}
