package td

import (
	"testing"
	"time"
)

func TestDurationClasses(t *testing.T) {
	last := -1
	for us := range 100_000 {
		d := time.Duration(us) * time.Microsecond
		class := durationClass(d)
		if class != last && class != last+1 {
			t.Fatalf("%v is of class %d, what is a microsecond shorter of %d", d, class, last)
		}
		last = class
		longest := TallyKey{Took: class}.Longest()
		if longest < d || durationClass(longest) != class || longest > d+d/16 {
			t.Fatalf("%v is of class %d, whose longest is %v", d, class, longest)
		}
	}
	for d := time.Second; d < 300*24*time.Hour; d = d*5/4 + 7*time.Microsecond {
		longest := TallyKey{Took: durationClass(d)}.Longest()
		if longest < d.Truncate(time.Microsecond) || longest > d+d/16 {
			t.Errorf("%v counts as up to %v", d, longest)
		}
	}
	if got := durationClass(-time.Second); got != 0 {
		t.Errorf("a clock that went back makes class %d", got)
	}
}

func TestSlots(t *testing.T) {
	at := time.Date(2026, 5, 6, 12, 19, 59, 0, time.FixedZone("", 3600))
	if got, want := SlotOf(at), time.Date(2026, 5, 6, 11, 10, 0, 0, time.UTC).Unix(); got != want {
		t.Errorf("%v is in the slot %d, want %d", at, got, want)
	}
}
