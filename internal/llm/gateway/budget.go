package gateway

import (
	"slices"
	"time"

	"taskdaemon/internal/llm"
)

// minute is the bound a key has by the options: what is used in any minute, wherever it begins.
type minute struct {
	requests int   // at most; zero: no bound
	tokens   int64 // at most; zero: no bound

	uses []*use // of the last minute, oldest first
	sum  int64  // of their tokens
}

// use is what one call takes.
type use struct {
	at      time.Time
	tokens  int64
	counted bool
}

func (m *minute) bounded() bool { return m.requests > 0 || m.tokens > 0 }

// forget drops what is older than a minute.
func (m *minute) forget(now time.Time) {
	n := 0
	for n < len(m.uses) && now.Sub(m.uses[n].at) >= time.Minute {
		m.sum -= m.uses[n].tokens
		m.uses[n].counted = false
		n++
	}
	clear(m.uses[:n])
	m.uses = m.uses[n:]
}

func (m *minute) add(u *use, now time.Time) {
	m.forget(now)
	u.at, u.counted = now, true
	m.uses = append(m.uses, u)
	m.sum += u.tokens
}

func (m *minute) remove(u *use) {
	if u.counted {
		m.uses = slices.DeleteFunc(m.uses, func(o *use) bool { return o == u })
		m.sum -= u.tokens
		u.counted = false
	}
}

// correct puts what a call really took in place of the estimate; nothing is known of a call that says zero.
func (m *minute) correct(u *use, tokens int64) {
	if u.counted && tokens > 0 {
		m.sum += tokens - u.tokens
		u.tokens = tokens
	}
}

// wait is how long until a call may be made. One that needs more than there ever is gets all there is.
func (m *minute) wait(now time.Time, tokens int64) time.Duration {
	if !m.bounded() {
		return 0
	}
	m.forget(now)
	var wait time.Duration
	if m.requests > 0 && len(m.uses) >= m.requests {
		wait = m.left(now, len(m.uses)-m.requests)
	}
	if over := m.sum + min(tokens, m.tokens) - m.tokens; m.tokens > 0 && over > 0 {
		for i, u := range m.uses {
			if over -= u.tokens; over <= 0 {
				wait = max(wait, m.left(now, i))
				break
			}
		}
	}
	return wait
}

// left is how long the i-th use still counts.
func (m *minute) left(now time.Time, i int) time.Duration {
	return m.uses[i].at.Add(time.Minute).Sub(now)
}

// room is the part of the minute's budget that is left.
func (m *minute) room(now time.Time) float64 {
	m.forget(now)
	room := 1.0
	if m.requests > 0 {
		room = 1 - float64(len(m.uses))/float64(m.requests)
	}
	if m.tokens > 0 {
		room = min(room, 1-float64(m.sum)/float64(m.tokens))
	}
	return max(room, 0)
}

// settled is how long a call may take to be counted in what the provider says is left.
const settled = 2 * time.Second

// after is what calls took that may not be counted in what the answer to u said at the time at: those that
// began later than u, and not long before at.
func (m *minute) after(u *use, at time.Time) (requests, tokens int64) {
	for i := len(m.uses) - 1; i >= 0 && m.uses[i] != u && m.uses[i].at.After(at.Add(-settled)); i-- {
		requests++
		tokens += m.uses[i].tokens
	}
	return requests, tokens
}

// bucket is one limit as a provider told it, followed as calls are made and time passes. Providers refill
// steadily, or all at once at the reset; both are full then, but for calls made since. It is advice: whatever
// is told, the reset is thought to be within a minute, and another minute fills the bucket; after that
// the provider may say no itself.
type bucket struct {
	max, level, rate float64 // rate in a second; max zero: nothing is known
	taken            float64 // since it was told
	at               time.Time
	reset            time.Time // zero: has passed
}

func (b *bucket) learn(l llm.Limit, at, now time.Time, used float64) {
	*b = bucket{max: float64(l.Max), level: float64(l.Remaining) - used, taken: used, rate: float64(l.Max) / 60, at: at}
	if window := l.Reset.Sub(at); window > 0 && l.Remaining < l.Max {
		window = min(window, time.Minute)
		b.reset = at.Add(window)
		b.rate = float64(l.Max-l.Remaining-1) / window.Seconds() // what remains was rounded down
	}
	b.advance(now)
}

func (b *bucket) advance(now time.Time) {
	if !b.reset.IsZero() && !now.Before(b.reset) {
		b.refill(b.reset)
		b.level = max(b.level, b.max-b.taken, 0)
		b.rate, b.reset = b.max/60, time.Time{}
	}
	b.refill(now)
}

func (b *bucket) refill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.level = min(b.max, b.level+b.rate*d.Seconds())
		b.at = now
	}
}

// wait is how long until n is there; of more than there ever is, all counts as enough.
func (b *bucket) wait(now time.Time, n float64) time.Duration {
	if b.max == 0 {
		return 0
	}
	b.advance(now)
	lacks := min(n, b.max) - b.level
	if lacks < 1e-6 { // of a request, or of a token: adding up fractions is not exact
		return 0
	}
	seconds := lacks / b.rate
	if !b.reset.IsZero() {
		seconds = min(seconds, b.reset.Sub(now).Seconds())
	}
	return time.Duration(seconds*float64(time.Second)) + 1 // a moment late rather than early
}

func (b *bucket) room(now time.Time) float64 {
	if b.max == 0 {
		return 1
	}
	b.advance(now)
	return b.level / b.max
}

func (b *bucket) take(now time.Time, n float64) {
	if b.max > 0 {
		b.advance(now)
		n = min(n, b.max)
		b.level -= n
		b.taken += n
	}
}

func (b *bucket) give(n float64) {
	if b.max > 0 {
		n = min(n, b.max)
		b.level += n
		b.taken -= n
	}
}
