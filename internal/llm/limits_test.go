package llm

import (
	"testing"
	"time"
)

func TestParseLimit(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := func(d time.Duration) Limit { return Limit{Max: 50, Remaining: 49, Reset: now.Add(d)} }
	for _, c := range []struct {
		limit, remaining, reset string
		want                    Limit
	}{
		{"50", "49", "2026-01-02T03:04:35Z", in(30 * time.Second)},
		{"50", "49", "2026-01-02T04:04:35+01:00", in(30 * time.Second)},
		{" 50 ", "49", "1m30.5s", in(90*time.Second + 500*time.Millisecond)},
		{"50", "49", "17ms", in(17 * time.Millisecond)},
		{"50", "49", "0.25", in(250 * time.Millisecond)},
		{"50", "49", "24h", in(24 * time.Hour)},
		{"50", "49", "2026-01-02T03:04:00Z", in(0)}, // just passed: clocks differ
		{"50", "49", "", Limit{Max: 50, Remaining: 49}},
		{"50", "0", "0s", Limit{Max: 50, Reset: now}},

		{"", "", "", Limit{}},
		{"50", "", "1s", Limit{}},
		{"", "49", "1s", Limit{}},
		{"0", "0", "1s", Limit{}},
		{"-50", "49", "1s", Limit{}},
		{"50", "-1", "1s", Limit{}},
		{"50", "51", "1s", Limit{}},
		{"many", "some", "soon", Limit{}},
		{"5e1", "49", "1s", Limit{}},
		{"99999999999999999999", "1", "1s", Limit{}},
		{"9223372036854775807", "1", "1s", Limit{}},
		{"50", "49", "soon", Limit{}},
		{"50", "49", "-1s", Limit{}},
		{"50", "49", "-1", Limit{}},
		{"50", "49", "NaN", Limit{}},
		{"50", "49", "Inf", Limit{}},
		{"50", "49", "25h", Limit{}},
		{"50", "49", "1767323045", Limit{}},           // a date in seconds is no duration
		{"50", "49", "9999-12-31T23:59:59Z", Limit{}}, // far away
		{"50", "49", "1970-01-01T00:00:00Z", Limit{}}, // long ago
	} {
		if got := ParseLimit(c.limit, c.remaining, c.reset, now); got.Max != c.want.Max || got.Remaining != c.want.Remaining || !got.Reset.Equal(c.want.Reset) {
			t.Errorf("ParseLimit(%q, %q, %q) = %+v, want %+v", c.limit, c.remaining, c.reset, got, c.want)
		}
	}
	if (Limits{At: now}).Any() != nil || (Limits{Output: in(0)}).Any() == nil {
		t.Error("Any does not tell something from nothing")
	}
}

func FuzzParseLimit(f *testing.F) {
	f.Add("50", "49", "2026-01-02T03:04:35Z")
	f.Add("40000", "0", "6m0s")
	f.Add("1", "1", "1e300")
	f.Add("-1", "", "NaN")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, limit, remaining, reset string) {
		l := ParseLimit(limit, remaining, reset, now)
		switch {
		case !l.Known() && l != (Limit{}):
			t.Errorf("nothing is known, yet %+v", l)
		case l.Remaining < 0 || l.Remaining > l.Max:
			t.Errorf("%d of %d remain", l.Remaining, l.Max)
		case !l.Reset.IsZero() && (l.Reset.Before(now) || l.Reset.After(now.Add(maxReset))):
			t.Errorf("reset at %v", l.Reset)
		}
	})
}
