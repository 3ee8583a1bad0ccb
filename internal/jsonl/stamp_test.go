package jsonl

import (
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

func anyStamp() *rapid.Generator[Stamp] {
	return rapid.Custom(func(t *rapid.T) Stamp {
		return Stamp{
			Wall:  rapid.Int64Range(0, maxWall).Draw(t, "wall"),
			Count: rapid.Uint32Range(0, maxCount).Draw(t, "count"),
			Actor: rapid.StringMatching(`[a-z0-9.\-]{1,64}`).Draw(t, "actor"),
		}
	})
}

func TestStampsSortLikeTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyStamp().Draw(t, "a"), anyStamp().Draw(t, "b")
		if rapid.Bool().Draw(t, "same wall") {
			b.Wall = a.Wall
		}
		if rapid.Bool().Draw(t, "same count") {
			b.Count = a.Count
		}
		if rapid.Bool().Draw(t, "longer actor") && len(a.Actor) < maxActor {
			b.Actor = a.Actor + "-"
		}
		if got, want := a.Compare(b), strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("%v and %v: compare %d, text %d", a, b, got, want)
		}
		for _, s := range []Stamp{a, b} {
			if back, ok := stampOf(s.String()); !ok || back != s {
				t.Fatalf("%v comes back as %v, %v", s, back, ok)
			}
		}
	})
}

func stampOf(text string) (Stamp, bool) {
	return parseStamp([]byte(text), func(b []byte) string { return string(b) })
}

func TestParseStampRefuses(t *testing.T) {
	for _, text := range []string{
		"", "-", "019a86d3b5c0-000000-", "019a86d3b5c0-000000", "019a86d3b5c0-00000-ana", "19a86d3b5c0-000000-ana",
		"019A86D3B5C0-000000-ana", "019a86d3b5c0-000000-Ana", "019a86d3b5c0-000000-a b", "019a86d3b5c0-000000-ü",
		"019a86d3b5c0_000000-ana", "019a86d3b5c0-000000_ana", "+19a86d3b5c0-000000-ana", "019a86d3b5c0--00001-ana",
		"e677d21fdc00-000000-ana", "ffffffffffff-ffffff-ana", " 019a86d3b5c0-000000-ana",
		"019a86d3b5c0-000000-" + strings.Repeat("a", maxActor+1),
	} {
		if s, ok := stampOf(text); ok {
			t.Errorf("%q: %v", text, s)
		}
	}
	if s, ok := stampOf("e677d21fdbff-ffffff-z"); !ok || s.Time().UTC().Year() != 9999 {
		t.Errorf("the last stamp: %v, %v", s, ok)
	}
}

// Whatever the wall clock does and whoever's stamps are seen, a clock goes forward.
func TestClockGoesForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wall int64
		clock, err := NewClock("ana", at(&wall))
		if err != nil {
			t.Fatal(err)
		}
		var newest Stamp
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // the wall clock jumps, before 1970 too
				wall = rapid.Int64Range(-5, 1<<46).Draw(t, "wall")
			case 1:
				s := anyStamp().Draw(t, "seen")
				s.Wall /= 2
				if rapid.Bool().Draw(t, "count at its end") {
					s.Count = maxCount
				}
				clock.Observe(s)
				if s.Compare(newest) > 0 {
					newest = s
				}
			default:
				s := clock.Next()
				if s.Compare(newest) <= 0 || s.check() != nil || s.Actor != "ana" {
					t.Fatalf("%v after %v (%v)", s, newest, s.check())
				}
				if s.Wall < wall {
					t.Fatalf("%v, and the wall clock shows %d", s, wall)
				}
				newest = s
			}
		}
	})
}

func TestClockFollowsTheWall(t *testing.T) {
	wall := int64(1000)
	clock := mustClock(t, "ana", at(&wall))
	for i, want := range []string{"0000000003e8-000000-ana", "0000000003e8-000001-ana", "0000000003e8-000002-ana"} {
		if got := clock.Next().String(); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	wall = 999
	if got := clock.Next().String(); got != "0000000003e8-000003-ana" {
		t.Errorf("set back: %s", got)
	}
	clock.Observe(Stamp{Wall: 5000, Count: maxCount, Actor: "ben"})
	if got := clock.Next().String(); got != "000000001389-000000-ana" {
		t.Errorf("after a count at its end: %s", got)
	}
	wall = 6000
	if got := clock.Next().String(); got != "000000001770-000000-ana" {
		t.Errorf("the wall clock came past it: %s", got)
	}
}

// At the end of time no stamp is right, and the one who writes hears of it.
func TestClockAtTheEnd(t *testing.T) {
	clock := mustClock(t, "ana", time.Now)
	clock.Observe(Stamp{Wall: maxWall, Count: maxCount, Actor: "zoe"})
	for range 2 {
		if _, err := Append(nil, Change{Op: clock.Next(), Task: someTasks[0]}); !td.IsKind(err, td.Invalid) {
			t.Fatalf("written after the year 9999: %v", err)
		}
	}
}

func TestClockWithoutAName(t *testing.T) {
	for _, actor := range []string{"", "Ana", "a b", "a\n", strings.Repeat("a", maxActor+1)} {
		if _, err := NewClock(actor, time.Now); !td.IsKind(err, td.Invalid) {
			t.Errorf("%q: %v", actor, err)
		}
	}
}

func TestClockOfManyGoroutines(t *testing.T) {
	clock := mustClock(t, "ana", time.Now)
	const each = 500
	given := make([][]Stamp, 4)
	var wait sync.WaitGroup
	for i := range given {
		wait.Go(func() {
			for range each {
				given[i] = append(given[i], clock.Next())
				clock.Observe(Stamp{Wall: time.Now().UnixMilli() + 1, Actor: "ben"})
			}
		})
	}
	wait.Wait()
	seen := make(map[Stamp]bool)
	for _, mine := range given {
		for i, s := range mine {
			if seen[s] || i > 0 && s.Compare(mine[i-1]) <= 0 {
				t.Fatalf("%v is not new", s)
			}
			seen[s] = true
		}
	}
}
