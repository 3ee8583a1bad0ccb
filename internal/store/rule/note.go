package rule

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/words"
)

const (
	maxAsked     = 64       // words of a question that notes are searched for
	maxAskedText = 64 << 10 // bytes of it that are read
	maxNoteWords = 2000     // words that a note is found by
)

// MaxSearched is how many notes of a project are searched by their words, the newest.
const MaxSearched = 5000

// NoteWords are the words that a note is found by, in their order, with blanks between them.
func NoteWords(title string, n td.IterationEnded) string {
	var b strings.Builder
	left := maxNoteWords
	words.Each(title+"\n"+n.Reason+"\n"+n.Notes+"\n"+strings.Join(n.Files, "\n"), func(t words.Token) bool {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.Text)
		left--
		return left > 0
	})
	return b.String()
}

// NoteSearch ranks notes by the words they have in common with a text: BM25 with the usual constants, over the notes it
// was shown.
type NoteSearch struct {
	asked map[string]int // a number for each word
	have  []int          // how many notes have it
	total int            // words of all notes
	shown int
	found []foundNote
}

type foundNote struct {
	cursor uint64
	length int
	times  []int // that it has each word that is asked for
	score  float64
}

// SearchNotes begins a search for any text. No sign in it means more than a blank.
func SearchNotes(match string) *NoteSearch {
	s := &NoteSearch{asked: map[string]int{}}
	for i, w := range words.Terms(match[:min(len(match), maxAskedText)], maxAsked) {
		s.asked[w] = i
	}
	s.have = make([]int, len(s.asked))
	return s
}

// Show counts the words of a note. One that is not wanted counts for how rare a word is, and is not found.
func (s *NoteSearch) Show(cursor uint64, words string, wanted bool) {
	n := foundNote{cursor: cursor}
	for w := range strings.FieldsSeq(words) {
		n.length++
		i, asked := s.asked[w]
		if !asked {
			continue
		}
		if n.times == nil {
			n.times = make([]int, len(s.asked))
		}
		if n.times[i]++; n.times[i] == 1 {
			s.have[i]++
		}
	}
	s.shown++
	s.total += n.length
	if wanted && n.times != nil {
		s.found = append(s.found, n)
	}
}

// Best are the cursors of the notes that have any of the words, the best first, of equals the newest, at most limit; 0: all.
func (s *NoteSearch) Best(limit int) []uint64 {
	const saturation, lengthWeight = 1.2, 0.75
	average := float64(s.total) / float64(max(1, s.shown))
	for i := range s.found {
		n := &s.found[i]
		norm := saturation * (1 - lengthWeight + lengthWeight*float64(n.length)/average)
		for j, times := range n.times {
			// A word that most notes have counts for next to nothing, but not against one.
			rarity := max(math.Log((float64(s.shown-s.have[j])+0.5)/(float64(s.have[j])+0.5)), 1e-6)
			n.score += rarity * float64(times) * (saturation + 1) / (float64(times) + norm)
		}
	}
	slices.SortFunc(s.found, func(a, b foundNote) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.cursor, a.cursor))
	})
	var out []uint64
	for _, n := range s.found {
		if limit > 0 && len(out) == limit {
			break
		}
		out = append(out, n.cursor)
	}
	return out
}
