package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name  string
		was   int
		live  uint64
		since time.Duration
		want  int
	}{
		{"busy and small", 100, 100 << 20, 100 * time.Millisecond, 256},
		{"busy and tiny", 100, 1 << 20, 100 * time.Millisecond, most},
		{"busy and empty", 100, 0, 0, most},
		{"busy and large", 100, 400 << 20, 100 * time.Millisecond, 100},
		{"it stays when it helps", 256, 100 << 20, 800 * time.Millisecond, 256},
		{"and beyond", 256, 100 << 20, 5 * time.Second, 256},
		{"a little more is not worth it", 256, 92 << 20, 100 * time.Millisecond, 256},
		{"the heap has grown", 256, 200 << 20, 2 * time.Second, 128},
		{"it is quiet again", 400, 1 << 20, time.Minute, 100},
		{"never busy", 100, 10 << 20, time.Second, 100},
		{"the clock went back", 100, 400 << 20, -time.Second, 100},
	} {
		if got := choose(c.was, c.live, c.since); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// What chooses is asked after each collection, again and again, and the collector hears it.
func TestCollectionsAreSeen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(standard))
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	eased.Store(false)
	Ease()
	raised := func() bool {
		p := debug.SetGCPercent(standard)
		debug.SetGCPercent(p)
		return p > standard
	}
	for range 200 {
		runtime.GC()
		if raised() {
			return
		}
		time.Sleep(time.Millisecond) // the cleanup runs beside this
	}
	t.Error("200 collections, one after the other, changed nothing")
}

// When the work is done and nothing is collected any more, the room is taken back.
func TestTheRoomIsTakenBack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(standard))
	synctest.Test(t, func(t *testing.T) {
		e := newEaser()
		percent := func() int {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.percent
		}
		for began := time.Now(); time.Since(began) < 3*seldom; time.Sleep(often / 2) {
			e.collected(time.Now(), 32<<20)
		}
		if percent() != most {
			t.Fatalf("%d while it is busy", percent())
		}
		time.Sleep(seldom)
		synctest.Wait()
		if percent() != standard {
			t.Errorf("%d after it", percent())
		}
	})
}

func TestTheEnvironmentIsObeyed(t *testing.T) {
	defer eased.Store(eased.Swap(false))
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "50")
		if Ease(); eased.Load() {
			t.Errorf("%s is ignored", name)
		}
		t.Setenv(name, "")
	}
}
