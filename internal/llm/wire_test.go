package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"taskdaemon/internal/td"
)

func say(text string) td.Message {
	return td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: text}}}
}

func TestWireEncodesOnlyWhatIsNew(t *testing.T) {
	var w Wire
	calls := 0
	encode := func(dst []byte, m td.Message) ([]byte, error) {
		calls++
		raw, err := json.Marshal(m.Text())
		return append(dst, raw...), err
	}
	extend := func(want string, wantCalls int, ms ...td.Message) []byte {
		t.Helper()
		calls = 0
		got, err := w.Extend(ms, encode)
		if err != nil || string(got) != want || calls != wantCalls {
			t.Fatalf("Extend = %s, %v after %d encodings; want %s after %d", got, err, calls, want, wantCalls)
		}
		if end := w.End(len(ms) - 1); end != len(want) {
			t.Fatalf("End = %d, want %d", end, len(want))
		}
		return got
	}
	extend(`"a"`, 1, say("a"))
	extend(`"a","b","c"`, 2, say("a"), say("b"), say("c"))
	held := extend(`"a","b","c"`, 0, say("a"), say("b"), say("c"))
	kept := bytes.Clone(held)
	extend(`"a","b","C!","d"`, 2, say("a"), say("b"), say("C!"), say("d")) // the newest grew while a retry waited
	extend(`"x"`, 1, say("x"))                                             // shorter: rewritten
	if !bytes.Equal(held, kept) {
		t.Errorf("bytes handed out earlier became %s", held)
	}
	w.Reset()
	extend(`"y","z"`, 2, say("y"), say("z"))
}

func TestWireErrorLeavesTheBufferWhole(t *testing.T) {
	var w Wire
	boom := errors.New("boom")
	fail := true
	encode := func(dst []byte, m td.Message) ([]byte, error) {
		dst = append(dst, "partial"...)
		if m.Text() == "bad" && fail {
			return nil, boom
		}
		return fmt.Appendf(dst, ":%s", m.Text()), nil
	}
	if _, err := w.Extend([]td.Message{say("a"), say("bad")}, encode); !errors.Is(err, boom) {
		t.Fatalf("err = %v", err)
	}
	fail = false
	got, err := w.Extend([]td.Message{say("a"), say("bad")}, encode)
	if err != nil || string(got) != "partial:a,partial:bad" {
		t.Errorf("Extend = %s, %v", got, err)
	}
}
