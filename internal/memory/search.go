package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/words"
)

const (
	maxQuery     = 256      // words of a question that are looked up
	maxQueryText = 64 << 10 // bytes of it that are read
	maxMatched   = 40       // words that are searched for, the rarest
	maxRanked    = 4000     // learnings that are ranked for one question
	maxLimit     = 1000
)

// Match is a learning that a question found.
type Match struct {
	Learning
	Score float64  `json:"score"`           // BM25; more is better
	Stale []string `json:"stale,omitempty"` // cited files that changed or are gone: the learning is void
}

// Search finds at most n learnings for a person, the best first, stale ones marked. Cited files are
// looked at in tree; without one nothing is stale. Effect: none.
func (s *Store) Search(ctx context.Context, tree *beneath.Folder, text string, n int) ([]Match, error) {
	found, err := s.search(ctx, text, n)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].Stale = Stale(tree, found[i].Learning)
	}
	return found, nil
}

// About is what a task is about, as far as it decides which learnings it should be told.
type About struct {
	Text    string   // what it is asked to do
	Feature string   // it is part of
	Files   []string // that were changed lately where it works
}

// maxNear is how many words of the names of files are looked up.
const maxNear = 60

// A learning of the same feature counts half as much more, and so does one that is filed under a word of a file that was changed lately. One that has
// nothing but that in common with the task counts half.
const (
	weighMore = 1.5
	weighLess = 0.5
)

// Relevant finds at most n learnings that a task should be told, the best first: void ones are left out, and so are
// those that have but a word in common with it. Effect: none.
func (s *Store) Relevant(ctx context.Context, tree *beneath.Folder, about About, n int) ([]Match, error) {
	near := nearby(about.Files)
	// What is short stands first: of a long text the end is not looked up.
	found, err := s.search(ctx, about.Feature+" "+strings.Join(near, " ")+"\n"+about.Text, 4*n)
	if err != nil {
		return nil, err
	}
	asked := words.Set(clip(about.Text), maxQuery)
	for i := range found {
		found[i].Score *= about.weight(asked, near, found[i].Learning)
	}
	slices.SortStableFunc(found, func(a, b Match) int { return cmp.Compare(b.Score, a.Score) })
	var out []Match
	for _, m := range found {
		if len(out) < n && m.Score > 0 && len(Stale(tree, m.Learning)) == 0 {
			out = append(out, m)
		}
	}
	return out, nil
}

// weight is how much a learning has to do with what a task is about; 0: nothing.
func (a About) weight(asked, near []string, l Learning) float64 {
	feature := a.Feature != "" && l.Feature == a.Feature
	filed := words.Shared(near, words.Set(strings.Join(l.Tags, " "), maxQuery)) > 0
	weight := 0.0
	switch {
	case related(asked, l):
		weight = 1
	case feature || filed:
		weight = weighLess
	}
	for _, more := range []bool{feature, filed} {
		if more {
			weight *= weighMore
		}
	}
	return weight
}

// nearby are the words of the names of files, without their endings.
func nearby(files []string) []string {
	var names strings.Builder
	for _, f := range files {
		names.WriteString(strings.TrimSuffix(f, path.Ext(f)) + "\n")
	}
	return words.Set(names.String(), maxNear)
}

// related reports whether a learning has to do with what is asked: two words of it, or one that it is
// filed under.
func related(asked []string, l Learning) bool {
	about := words.Set(strings.Join(l.Tags, " ")+" "+l.Feature, maxQuery)
	return words.Shared(asked, about) > 0 || words.Shared(asked, words.Set(l.Title+" "+l.Text, maxMerged)) > 1
}

func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxQueryText)], "")
}

func (s *Store) search(ctx context.Context, text string, n int) ([]Match, error) {
	terms := words.Terms(clip(text), maxQuery)
	if n = min(n, maxLimit); n <= 0 || len(terms) == 0 {
		return nil, nil
	}
	var found []Match
	err := s.read(ctx, func() (err error) {
		found, err = s.find(ctx, terms, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search learnings: %w", err)
	}
	return found, nil
}

// find ranks the learnings that hold any of the terms. Ranking costs most, so of a long question the
// common words, which hardly count, are left out once enough learnings are found.
func (s *Store) find(ctx context.Context, terms []string, n int) ([]Match, error) {
	defer s.ix.db.SetInterrupt(s.ix.db.SetInterrupt(ctx))
	terms, docs, err := s.rarest(terms)
	if err != nil || len(terms) == 0 {
		return nil, err
	}
	s.ix.ranking.ask(docs)
	var found []Match
	ask := `"` + strings.Join(terms, `" OR "`) + `"`
	err = s.ix.query(`SELECT page, found.rank FROM (SELECT rowid, rank FROM word WHERE word MATCH ? ORDER BY rank LIMIT ?) AS found
		JOIN doc ON doc.n = found.rowid`, []any{ask, n + 20}, func(st *sqlite3.Stmt) error {
		m := Match{Score: -st.ColumnFloat(1)}
		if err := json.Unmarshal(st.ColumnRawBlob(0), &m.Learning); err != nil {
			return err
		}
		found = append(found, m)
		return nil
	})
	// The index's own order of equals depends on its history.
	slices.SortFunc(found, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return found[:min(len(found), n)], err
}

// rarest are the terms to search for, at least the rarest one that is there, and how many learnings have each.
func (s *Store) rarest(terms []string) (rare []string, docs []int, _ error) {
	type counted struct {
		term string
		docs int
	}
	var known []counted
	for _, t := range terms {
		err := s.ix.query("SELECT docs FROM term WHERE word = ? AND docs > 0", []any{t}, func(st *sqlite3.Stmt) error {
			known = append(known, counted{t, st.ColumnInt(0)})
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortFunc(known, func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.docs, b.docs), strings.Compare(a.term, b.term))
	})
	ranked := 0
	for i, k := range known {
		if ranked += k.docs; i > 0 && (ranked > maxRanked || i == maxMatched) {
			break
		}
		rare, docs = append(rare, k.term), append(docs, k.docs)
	}
	return rare, docs, nil
}

// Changed names the learnings whose files were written since then, each with the time of that. Clocks of file systems are
// coarse: one that was written just before may be among them. Effect: none.
func (s *Store) Changed(ctx context.Context, since time.Time) (out []string, err error) {
	from := since.Add(-racy).UnixNano()
	err = s.read(ctx, func() error {
		out = nil
		for id, e := range s.ix.known {
			if e.mtime >= from && e.words > 0 {
				out = append(out, fmt.Sprintf("%s@%d", id, e.mtime))
			}
		}
		slices.Sort(out)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for new learnings: %w", err)
	}
	return out, nil
}
