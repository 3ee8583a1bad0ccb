package redact

// automaton finds many strings in one pass over a text (Aho-Corasick, completed to a table). It is not changed once
// made. Bytes that no string holds share one column, so that the table stays small.
type automaton struct {
	column [256]uint16
	width  int32
	next   []int32   // by state*width+column; once complete, state*width, and negative (^) where a string ends
	ends   [][]int32 // the strings that end in a state, the longest first
	depth  []int32   // how many bytes of a string a state has seen
	idle   [256]bool // bytes that leave the first state as it is
}

// newAutomaton makes one of strings; their numbers are their places in the list. None is empty.
func newAutomaton(words [][]byte) *automaton {
	a := &automaton{width: 1}
	for _, w := range words {
		for _, c := range w {
			if a.column[c] == 0 {
				a.column[c] = uint16(a.width)
				a.width++
			}
		}
	}
	a.grow(0)
	for i, w := range words {
		at := int32(0)
		for n, c := range w {
			to := at*a.width + int32(a.column[c])
			if a.next[to] == 0 {
				a.next[to] = a.grow(int32(n + 1))
			}
			at = a.next[to]
		}
		a.ends[at] = append(a.ends[at], int32(i))
	}
	a.complete()
	for i, to := range a.next {
		if a.next[i] = to * a.width; len(a.ends[to]) > 0 {
			a.next[i] = ^a.next[i]
		}
	}
	for c := range 256 {
		a.idle[c] = a.next[a.column[c]] == 0
	}
	return a
}

func (a *automaton) grow(depth int32) int32 {
	a.next = append(a.next, make([]int32, a.width)...)
	a.ends = append(a.ends, nil)
	a.depth = append(a.depth, depth)
	return int32(len(a.depth) - 1)
}

// complete fills in where a state goes with a byte that continues none of its strings: to the longest end of what it
// has seen that begins one.
func (a *automaton) complete() {
	fallback := make([]int32, len(a.depth))
	var queue []int32
	for c := range a.width {
		if to := a.next[c]; to != 0 {
			queue = append(queue, to)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		back := fallback[at]
		a.ends[at] = append(a.ends[at], a.ends[back]...)
		for c := range a.width {
			to := &a.next[at*a.width+c]
			if *to == 0 {
				*to = a.next[back*a.width+c]
				continue
			}
			fallback[*to] = a.next[back*a.width+c]
			queue = append(queue, *to)
		}
	}
}

// scan calls hit for every string that ends before a place in b, and returns how much of b's end may be the beginning
// of one.
func (a *automaton) scan(b []byte, hit func(word int32, end int)) int {
	if len(a.depth) == 1 {
		return 0
	}
	at, next := int32(0), a.next
	for i := 0; i < len(b); i++ {
		if at == 0 {
			for i < len(b) && a.idle[b[i]] {
				i++
			}
			if i == len(b) {
				break
			}
		}
		at = next[at+int32(a.column[b[i]])]
		if at < 0 {
			at = ^at
			for _, w := range a.ends[at/a.width] {
				hit(w, i+1)
			}
		}
	}
	return int(a.depth[at/a.width])
}

// maxGap is how many bytes in a row a scan skips.
const maxGap = 3

// gap are the bytes that stand between pieces of encoded data: the ends of lines of base64, the spaces and colons
// of a hex dump.
var gap = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ':': true, ',': true}

// scanGaps is scan over b without gaps. What it reports are places in b.
func (a *automaton) scanGaps(b []byte, hit func(word int32, end int)) int {
	if len(a.depth) == 1 {
		return 0
	}
	at, next, skipped := int32(0), a.next, 0
	for i := 0; i < len(b); i++ {
		if at == 0 {
			for i < len(b) && a.idle[b[i]] {
				i++
			}
			if i == len(b) {
				break
			}
		} else if gap[b[i]] {
			if skipped++; skipped > maxGap {
				at = 0
			}
			continue
		}
		skipped = 0
		at = next[at+int32(a.column[b[i]])]
		if at < 0 {
			at = ^at
			for _, w := range a.ends[at/a.width] {
				hit(w, i+1)
			}
		}
	}
	return len(b) - before(b, len(b), int(a.depth[at/a.width]))
}

// before is the place n bytes before end, gaps not counted.
func before(b []byte, end, n int) int {
	for n > 0 && end > 0 {
		end--
		if !gap[b[end]] {
			n--
		}
	}
	return end
}
