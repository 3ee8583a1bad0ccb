package redact

import "slices"

// finder looks for known values in all their forms. A nil one finds nothing.
type finder struct {
	plain, coded []form
	words, codes *automaton // of their heads
	mirror       mirror
}

func newFinder(values [][]byte) *finder {
	var plain, coded []form
	for _, v := range values {
		for _, w := range formsOf(v) {
			if w.gaps {
				coded = append(coded, w)
			} else {
				plain = append(plain, w)
			}
		}
	}
	return finderOf(plain, coded)
}

func finderOf(plain, coded []form) *finder {
	return &finder{plain: plain, coded: coded, words: newAutomaton(heads(plain)), codes: newAutomaton(heads(coded))}
}

func heads(forms []form) (out [][]byte) {
	for _, w := range forms {
		out = append(out, w.head())
	}
	return out
}

// all are the forms that are looked for and that a mark may have no part of. Those in base85 use almost every character: what a mark makes up with its
// neighbours is found in the next round.
func (f *finder) all() (out [][]byte) {
	for _, w := range append(f.plain[:len(f.plain):len(f.plain)], f.coded...) {
		if !w.any {
			out = append(out, w.whole)
		}
	}
	return out
}

// find are the places of values in b, in no order, and from where on the end of b may be the beginning of one. depth is
// how many levels of escapes were undone before.
func (f *finder) find(b []byte, depth int) (found []span, open int) {
	if f == nil || len(b) == 0 {
		return nil, len(b)
	}
	found, open = f.scan(b)
	for _, e := range undoneAt(depth) {
		v := e.undo(b)
		if v == nil {
			continue
		}
		inner, end := f.find(v.text, depth+1)
		for _, s := range inner {
			found = append(found, span{v.source(s.from), v.end(s.to)})
		}
		if end < len(v.text) {
			open = min(open, v.source(end))
		}
		open = min(open, v.cut)
	}
	return found, open
}

// scan is find without escapes.
func (f *finder) scan(b []byte) (found []span, open int) {
	open = len(b)
	hit := func(w form, from, end int) {
		to, more := w.extend(b, end)
		if more {
			open = min(open, from)
		}
		found = append(found, span{from, to})
	}
	begun := f.words.scan(b, func(word int32, end int) {
		w := f.plain[word]
		hit(w, end-len(w.head()), end)
	})
	open = min(open, len(b)-begun)
	begun = f.codes.scanGaps(b, func(word int32, end int) {
		w := f.coded[word]
		hit(w, before(b, end, len(w.head())), end)
	})
	return found, min(open, len(b)-begun)
}

// undoneAt are the escapes that are undone after depth levels of them.
func undoneAt(depth int) []escape {
	if depth == maxDepth {
		return nil
	}
	undone := escapes
	if depth < breaksDepth {
		undone = slices.Concat(undone, breaks)
	}
	if depth < spreadDepth {
		undone = slices.Concat(undone, spread)
	}
	return undone
}

// extend is where a form ends whose head ends at a place: after as much of its rest as is there. more says that
// the text ends before the form does.
func (w form) extend(b []byte, end int) (to int, more bool) {
	rest := w.whole[len(w.head()):]
	to = end
	for at := end; len(rest) > 0; at++ {
		switch {
		case at == len(b):
			return to, true
		case b[at] == rest[0]:
			rest, to = rest[1:], at+1
		case !w.gaps || !gap[b[at]] || at-to >= maxGap:
			return to, false
		}
	}
	return to, false
}
