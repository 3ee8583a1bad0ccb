package engine

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"taskdaemon/internal/td"
)

// recorded is a context as it comes from the journal: with bytes of its own.
func recorded(system, tool string) *td.ContextSet {
	return &td.ContextSet{
		System: strings.Clone(system),
		Tools:  json.RawMessage(fmt.Sprintf(`[{"name":%q,"description":"does it","schema":{"type":"object"}}]`, tool)),
	}
}

func TestRunsThatBeginAlikeShareTheirBeginning(t *testing.T) {
	e := New(Options{})
	one, other, odd := recorded("Be kind.", "Read"), recorded("Be kind.", "Read"), recorded("Be quick.", "Write")
	var begin []beginning
	for _, set := range []*td.ContextSet{one, other, odd} {
		b, err := e.common(set)
		if err != nil {
			t.Fatal(err)
		}
		begin = append(begin, b)
	}
	if unsafe.StringData(one.System) != unsafe.StringData(other.System) || &one.Tools[0] != &other.Tools[0] || begin[0].kit != begin[1].kit {
		t.Error("two runs that begin alike hold the same bytes twice")
	}
	if odd.System != "Be quick." || len(begin[2].kit.tools) != 1 || begin[2].kit.tools[0].Name != "Write" {
		t.Errorf("the one that begins otherwise begins with %q and %+v", odd.System, begin[2].kit.tools)
	}
	if got := begin[0].kit.tools; len(got) != 1 || got[0].Name != "Read" || string(got[0].Schema) != `{"type":"object"}` {
		t.Errorf("tools %+v", got)
	}
	if _, err := e.common(&td.ContextSet{Tools: json.RawMessage(`{`)}); err == nil {
		t.Error("tools that are no JSON pass")
	}
	runtime.KeepAlive(begin)
}

func TestAKitGoesWithTheLastRunThatUsesIt(t *testing.T) {
	k := newKits()
	for i := range 100 {
		if _, err := k.of(recorded("", fmt.Sprint("tool", i)).Tools); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		runtime.GC() // cleanups follow in their own time
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.used)
	}
	for deadline := time.Now().Add(10 * time.Second); left() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 100 kits that nobody uses are still there", left())
		}
	}
}
