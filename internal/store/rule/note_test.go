package rule

import (
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/words"
)

func TestBestNotes(t *testing.T) {
	notes := []string{
		"lexer token lexer", // 1
		"parser",
		"lexer " + strings.Repeat("long ", 50),
		"lexer short here",
		"lexer short here", // 5: as good as 4, and newer
		"token stream",
	}
	best := func(match string, limit int, except ...uint64) []uint64 {
		s := SearchNotes(match)
		for i, n := range notes {
			s.Show(uint64(i+1), n, !slices.Contains(except, uint64(i+1)))
		}
		return s.Best(limit)
	}
	for _, c := range []struct {
		match  string
		limit  int
		except []uint64
		want   []uint64
	}{
		{"lexer", 0, nil, []uint64{1, 5, 4, 3}},
		{"lexer", 2, nil, []uint64{1, 5}},
		{"lexer", 2, []uint64{1, 5}, []uint64{4, 3}},
		{"stream of the lexer", 1, nil, []uint64{6}}, // the rare word counts
		{"nothing", 0, nil, nil},
		{"", 0, nil, nil},
	} {
		if got := best(c.match, c.limit, c.except...); !slices.Equal(got, c.want) {
			t.Errorf("%q, %d: %v, want %v", c.match, c.limit, got, c.want)
		}
	}
}

func FuzzSearchNotes(f *testing.F) {
	for _, s := range []string{`"`, `lexer*`, `NEAR(a b, 2)`, "NOT x", "\xff", "字句解析", "e\u0301", "a_b fooBar", "\x00", strings.Repeat("word ", 3000)} {
		f.Add(s, "the lexer of fooBar")
		f.Add("lexer fooBar", s)
	}
	f.Fuzz(func(t *testing.T, match, note string) {
		stored := NoteWords("", td.IterationEnded{Notes: note})
		if n := strings.Count(stored, " "); n >= maxNoteWords || strings.Contains(stored, "\n") {
			t.Errorf("%d words: %q", n, stored)
		}
		s := SearchNotes(match)
		s.Show(7, stored, true)
		s.Show(8, "other words", false)
		has := slices.ContainsFunc(strings.Fields(stored), func(w string) bool {
			return slices.Contains(words.Terms(match[:min(len(match), maxAskedText)], maxAsked), w)
		})
		if found := len(s.Best(0)) > 0; found != has {
			t.Errorf("%q in %q: found %v, has %v", match, stored, found, has)
		}
	})
}
