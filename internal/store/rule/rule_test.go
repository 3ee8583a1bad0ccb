package rule_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// TestDeadline sets the clock back and forward between the process that took a claim and this one.
func TestDeadline(t *testing.T) {
	opened := time.Now()
	for name, x := range map[string]struct{ left, want time.Duration }{
		"fresh":                {td.ClaimTTL, td.ClaimTTL},
		"half gone":            {td.ClaimTTL / 2, td.ClaimTTL / 2},
		"expired":              {-time.Hour, 0},
		"clock set back":       {24 * time.Hour, td.ClaimTTL}, // it is not held for a day
		"clock set forward":    {-24 * time.Hour, 0},
		"clock a bit set back": {td.ClaimTTL + time.Second, td.ClaimTTL},
	} {
		if got := rule.Deadline(opened.Round(0).Add(x.left), opened).Sub(opened); got != x.want {
			t.Errorf("%s: free after %v, want %v", name, got, x.want)
		}
	}
}

func TestFree(t *testing.T) {
	a, b := td.Holder{Pid: 1}, td.Holder{Pid: 2}
	now := time.Now()
	later, earlier := now.Add(time.Second), now.Add(-time.Second)
	dead := func(td.Holder) bool { return false }
	live := func(td.Holder) bool { return true }
	for name, x := range map[string]struct {
		h     td.Holder
		until time.Time
		alive func(td.Holder) bool
		want  bool
	}{
		"held by another":            {b, later, nil, false},
		"held by another, who lives": {b, later, live, false},
		"held by the dead":           {b, later, dead, true},
		"held by itself":             {a, later, live, true},
		"expired":                    {b, earlier, live, true},
		"expires now":                {b, now, live, true},
	} {
		if got := rule.Free(a, x.h, x.until, now, x.alive); got != x.want {
			t.Errorf("%s: free is %v", name, got)
		}
	}
}

func TestNanos(t *testing.T) {
	for _, at := range []time.Time{
		{},
		time.Unix(0, 0), time.Unix(0, -1), time.Unix(0, math.MaxInt64), time.Now(),
		time.Date(2030, 5, 6, 7, 8, 9, 123456789, time.FixedZone("far", -9*3600)),
	} {
		n, err := rule.Nanos(at)
		if err != nil || !rule.FromNanos(n).Equal(at) || rule.FromNanos(n) != rule.Instant(at) {
			t.Errorf("%v came back as %v, %v", at, rule.FromNanos(n), err)
		}
	}
	for _, at := range []time.Time{time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, math.MinInt64)} {
		if _, err := rule.Nanos(at); !td.IsKind(err, td.Invalid) {
			t.Errorf("%v gave %v", at, err)
		}
	}
}

// FuzzPrepare reads bodies of any bytes and appends what it could read: what is stored must be what a
// later read gives.
func FuzzPrepare(f *testing.F) {
	for _, b := range []td.Body{
		td.Said{Text: "nul \x00, <html> & \u2028", By: "me"},
		td.Moved{Verb: td.VerbStart, From: td.Queued, Status: td.Status{
			State: td.Running,
			Since: time.Unix(1, 2), Running: &td.RunningData{Run: "r"},
		}},
		td.ContextSet{Tools: []byte(`[ {"a": "<b>"} ]`)},
		td.RequestOpened{Request: td.Request{ID: "x", Options: []string{}}},
		td.JobsEnded{},
		td.DaemonStarted{},
		td.StepEnded{Outcome: td.Outcome{Tool: &td.ToolResult{Content: "\xff"}}},
	} {
		raw, err := td.EncodeBody(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b.Type()), raw)
	}
	f.Add("said", []byte(`{"text":5}`))
	f.Add("never", []byte("null"))
	f.Fuzz(func(t *testing.T, typ string, raw []byte) {
		body := td.DecodeBody(td.EventType(typ), raw)
		if body.Type() != td.EventType(typ) {
			t.Fatalf("a %q was read as %q", typ, body.Type())
		}
		switch body.(type) {
		case td.Unreadable, td.Trimmed, td.Created:
			return
		}
		got, err := rule.Prepare("task", []td.Event{{Body: body}})
		if err != nil {
			if !td.IsKind(err, td.Invalid) {
				t.Fatal(err)
			}
			return
		}
		again := td.DecodeBody(td.EventType(typ), got[0].Raw)
		if !reflect.DeepEqual(again, got[0].Body) {
			t.Fatalf("published %#v, stored %#v", got[0].Body, again)
		}
		twice, err := rule.Prepare("task", []td.Event{got[0].Event})
		if err != nil || string(twice[0].Raw) != string(got[0].Raw) {
			t.Fatalf("appended again it is %s, was %s, %v", twice[0].Raw, got[0].Raw, err)
		}
	})
}
