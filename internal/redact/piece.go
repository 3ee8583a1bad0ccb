package redact

import (
	"slices"
	"sync"
)

// leastPart is the shortest end of a value that is looked for at the beginning of a piece.
const leastPart = 4

// mostEscape is how many bytes an escape leaves of itself that a cut goes through, and mostEscaped in how much of a piece a value is looked for behind them.
const (
	mostEscape  = 9
	mostEscaped = 4 << 10
)

// Piece is what may be shown of a piece of a longer text: without secrets, and without what may be a part of a known value that lies
// across its ends. before and after say that the text has more there. Whoever cuts a text takes secrets out first, or cuts it
// here: what is left of a value that was cut in two is found by nobody.
func (r *Redactor) Piece(text string, before, after bool) string {
	k, b := r.get(), []byte(text)
	if before {
		b = b[k.finder.ends(b):]
	}
	if after {
		b = b[:k.safeCut(b, len(b))]
	}
	return r.String(string(b))
}

// Uncut is how much of a text that goes on can be had now without a known value being cut in two: all of it if that is nothing.
func (r *Redactor) Uncut(b []byte) int {
	if cut := r.get().safeCut(b, len(b)); cut > 0 {
		return cut
	}
	return len(b)
}

// ends is where in b that may end which began before it, as a part of a value.
func (f *finder) ends(b []byte) int {
	if f == nil {
		return 0
	}
	end := f.endsAt(b, 0)
	for skip := 1; skip <= min(mostEscape, len(b)); skip++ {
		if inner := f.endsAt(b[skip:min(len(b), skip+mostEscaped)], 0); inner > 0 {
			end = max(end, skip+inner)
		}
	}
	return end
}

func (f *finder) endsAt(b []byte, depth int) int {
	turned := slices.Clone(b)
	slices.Reverse(turned)
	_, open := f.backwards().scan(turned)
	end := len(b) - open
	if end < leastPart {
		end = 0
	}
	for _, e := range undoneAt(depth) {
		if v := e.undo(b); v != nil {
			if inner := f.endsAt(v.text, depth+1); inner > 0 {
				end = max(end, v.end(inner))
			}
		}
	}
	return end
}

// mirror is a finder of the same values read backwards, made when the first is wanted.
type mirror struct {
	once sync.Once
	f    *finder
}

func (f *finder) backwards() *finder {
	f.mirror.once.Do(func() {
		turn := func(forms []form) (out []form) {
			for _, w := range forms {
				w.whole = slices.Clone(w.whole)
				slices.Reverse(w.whole)
				out = append(out, w)
			}
			return out
		}
		f.mirror.f = finderOf(turn(f.plain), turn(f.coded))
	})
	return f.mirror.f
}
