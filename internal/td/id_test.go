package td

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHandles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := string(NewTaskID())
		short := Handle(TaskHandle, id, HandleLength)
		if len(short) != 2+HandleLength || !strings.HasPrefix(short, "t-") {
			t.Fatalf("handle %q", short)
		}
		last := short[2:]
		for n := HandleLength; n <= MaxHandleLength; n++ {
			h := Handle(TaskHandle, id, n)
			if len(h) != 2+n || !strings.HasSuffix(h, last) || strings.Trim(h[2:], base32) != "" {
				t.Fatalf("%d characters: %q after %q", n, h, last)
			}
			last = h[2:]
			for _, ref := range []string{h, h[2:], strings.ToUpper(h), " " + h + "\n", id} {
				if exact, _ := MatchesRef(ref, id, h); !exact {
					t.Fatalf("%q does not mean %s", ref, h)
				}
			}
			from := rapid.IntRange(0, len(h)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(h)).Draw(t, "to")
			if _, partial := MatchesRef(h[from:to], id, h); !partial {
				t.Fatalf("fragment %q does not mean %s", h[from:to], h)
			}
		}
		if _, partial := MatchesRef(id[:9], id, short); !partial {
			t.Fatalf("the start of an id is no fragment of it")
		}
		if exact, partial := MatchesRef("", id, short); exact || partial {
			t.Fatal("nothing means something")
		}
	})
}

// Two ids that differ anywhere in their random tail have different longest handles, so a taken handle can
// always be made longer until it is free.
func TestHandlesPartInTheEnd(t *testing.T) {
	a := "01890000-0000-7000-8000-000000000001"
	for bit := range 62 {
		tail := uint64(1) ^ 1<<bit
		var b strings.Builder
		b.WriteString("01890000-0000-7000-")
		hex := "0123456789abcdef"
		for i := 15; i >= 0; i-- {
			nibble := tail >> (4 * i) & 15
			if i == 15 {
				nibble = nibble&3 | 8
			}
			b.WriteByte(hex[nibble])
			if i == 12 {
				b.WriteByte('-')
			}
		}
		if h, g := Handle(TaskHandle, a, MaxHandleLength), Handle(TaskHandle, b.String(), MaxHandleLength); h == g {
			t.Errorf("%s and %s are both %s", a, b.String(), h)
		}
		same := Handle(TaskHandle, a, HandleLength) == Handle(TaskHandle, b.String(), HandleLength)
		if same != (bit >= 5*HandleLength) {
			t.Errorf("bit %d: short handles the same: %v", bit, same)
		}
	}
}

func TestHandleOfNoUUID(t *testing.T) {
	for _, c := range []struct {
		id string
		n  int
	}{{"", 8}, {"not a uuid", 8}, {string(NewTaskID()), 0}, {string(NewTaskID()), 14}} {
		if got := Handle(TaskHandle, c.id, c.n); got != "t-"+c.id {
			t.Errorf("%q, %d: %q", c.id, c.n, got)
		}
	}
	if exact, _ := MatchesRef("odd", "y", "odd"); !exact {
		t.Error("a handle without a dash does not mean itself")
	}
}

func TestIDsGrow(t *testing.T) {
	last := NewTaskID()
	for range 1000 {
		next := NewTaskID()
		if next <= last || next == DaemonStream {
			t.Fatalf("%s after %s", next, last)
		}
		last = next
	}
}
