package td

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLiveAsJSON holds AppendJSON against package json: with nothing set, with each field alone, whatever fields
// there are, and with any number of them.
func TestLiveAsJSON(t *testing.T) {
	if !knowsAllFields {
		t.Error("there are fields that AppendJSON does not know: teach it, and count them")
		knowsAllFields = true // to name them
		defer func() { knowsAllFields = false }()
	}
	sameJSON(t, Live{})
	live := reflect.TypeFor[Live]()
	for f := range live.Fields() {
		t.Run(f.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var l Live
				fill(t, reflect.ValueOf(&l).Elem().FieldByIndex(f.Index), 4)
				sameJSON(t, l)
			})
		})
	}
	t.Run("many", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			var l Live
			for f := range live.Fields() {
				if rapid.Bool().Draw(t, f.Name) {
					fill(t, reflect.ValueOf(&l).Elem().FieldByIndex(f.Index), 4)
				}
			}
			sameJSON(t, l)
		})
	})
}

// TestLiveTimes: zones are written as package json writes them, and what it refuses is refused.
func TestLiveTimes(t *testing.T) {
	for _, zone := range []*time.Location{time.FixedZone("east", 5*3600+1800), time.FixedZone("west", -3600)} {
		sameJSON(t, Live{UpdatedAt: time.Unix(1e9, 1000).In(zone)})
	}
	for _, at := range []time.Time{
		time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1e9, 0).In(time.FixedZone("nowhere", 25*3600)),
	} {
		l := Live{UpdatedAt: at}
		if _, err := json.Marshal(l); err == nil {
			t.Fatal("package json takes it")
		}
		if b, err := l.AppendJSON(nil); err == nil {
			t.Errorf("taken: %s", b)
		}
	}
}

func FuzzLiveText(f *testing.F) {
	for _, s := range []string{
		"it's plain", "a \"quoted\" word", `back\slash`, "<b>&amp;</b>", "line\nbreak\ttab", "\x00\x1f\x7f", "ä € 𝄞",
		"\u2028\u2029", "cut \xc3", "\xff", "\ufffd", "{}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sameJSON(t, Live{LastText: s, InFlight: []StepRef{{Name: s}}, Reserved: []Reservation{{Model: s}}})
	})
}

func sameJSON(t rapid.TB, l Live) {
	t.Helper()
	want, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.AppendJSON([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "before"+string(want) {
		t.Fatalf("got %s\nwant before%s", got, want)
	}
}
