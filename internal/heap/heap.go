// Package heap gives the garbage collector room where memory is plenty and time is short.
//
// Go collects when as much was allocated as lives. A daemon whose 200 loops keep 50 MiB and make 70 MiB of garbage a second would collect
// more than once a second, 30 ms each, and those who wait for their turn feel it: when collections come near a twentieth of the time, they are what
// the slowest twentieth of all turns waits for. With room for four times what lives, 256 MiB at most, it collects a quarter as often.
// An idle daemon keeps nothing for that, and one whose heap is large collects as ever.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// standard is Go's own, in percent of what lives.
	standard = 100
	// most is as far as it is raised.
	most = 400
	// room is how much garbage may lie about.
	room = 256 << 20
	// often and seldom are the times between two collections below which room is given and beyond which it is taken back. They
	// are further apart than most and standard, so that one does not lead to the other.
	often, seldom = time.Second, 6 * time.Second
)

// Ease lets the collector have room whenever it runs often, for as long as the process lives. Whoever has said in the environment
// how it should run is obeyed instead.
func Ease() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" || eased.Swap(true) {
		return
	}
	watch(newEaser())
}

var eased atomic.Bool

// easer follows the collections of this process.
type easer struct {
	mu      sync.Mutex
	last    time.Time
	percent int
	quiet   *time.Timer // takes the room back when there are no more collections
}

func newEaser() *easer {
	e := &easer{last: time.Now(), percent: standard}
	e.quiet = time.AfterFunc(seldom, e.calm)
	return e
}

// calm gives back what lies about: nobody needs the processor now.
func (e *easer) calm() {
	e.mu.Lock()
	eased := e.percent > standard
	e.set(standard)
	e.mu.Unlock()
	if eased {
		debug.FreeOSMemory()
	}
}

// watch calls e after the next collection: what nobody refers to is gone then.
func watch(e *easer) {
	runtime.AddCleanup(new([4]*byte), func(e *easer) { // with pointers: small things without them share their fate
		e.collected(time.Now(), live())
		watch(e)
	}, e)
}

func (e *easer) collected(now time.Time, live uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set(choose(e.percent, live, now.Sub(e.last)))
	e.last = now
	if e.percent > standard {
		e.quiet.Reset(seldom)
	}
}

func (e *easer) set(percent int) {
	if percent != e.percent {
		e.percent = percent
		debug.SetGCPercent(percent)
	}
}

// choose is the percentage after a collection that left so much alive, so long after the one before. Small steps are not taken: each
// stops everybody for a moment.
func choose(was int, live uint64, since time.Duration) int {
	wanted := min(max(int(100*room/max(live, 1)), standard), most)
	switch {
	case since > seldom:
		return standard
	case wanted < was, since < often && wanted > was+was/4:
		return wanted
	}
	return was
}

func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return room // it is not known any more under this name: leave all as it is
	}
	return sample[0].Value.Uint64()
}
