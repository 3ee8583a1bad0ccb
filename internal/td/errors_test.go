package td

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestKindAndHint(t *testing.T) {
	bottom := Errorf(Storage, "write %s: %w", "x", io.ErrShortWrite).WithHint("free %d bytes", 7)
	wrapped := fmt.Errorf("append: %w", fmt.Errorf("flush: %w", bottom))
	outer := &Error{Kind: Unknown, Err: wrapped}
	for _, c := range []struct {
		err  error
		kind Kind
		hint string
	}{
		{bottom, Storage, "free 7 bytes"},
		{wrapped, Storage, "free 7 bytes"},
		{outer, Unknown, "free 7 bytes"}, // the outer one decided anew and had nothing better to say
		{errors.Join(io.EOF, wrapped), Storage, "free 7 bytes"},
		{&Error{Kind: Auth, Hint: "set a key", Err: wrapped}, Auth, "set a key"},
		{io.EOF, Internal, ""},
		{Errorf(Timeout, "slow"), Timeout, ""},
	} {
		if got := KindOf(c.err); got != c.kind || !IsKind(c.err, c.kind) {
			t.Errorf("%v: kind %s, want %s", c.err, got, c.kind)
		}
		if got := HintOf(c.err); got != c.hint {
			t.Errorf("%v: hint %q, want %q", c.err, got, c.hint)
		}
	}
	if !errors.Is(outer, io.ErrShortWrite) || outer.Error() != "append: flush: write x: short write" {
		t.Errorf("the chain is broken: %v", outer)
	}
	if IsKind(nil, Internal) || HintOf(nil) != "" {
		t.Error("no error has a kind or a hint")
	}
}
