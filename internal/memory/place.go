package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
	"taskdaemon/internal/words"
)

// place finds where a learning belongs: old, which says the same, and next, with both; or, not found, a
// new one. In this order: the same title, all of its paragraphs, the most alike. Since merging adds
// paragraphs and changes no title, what was merged once is found again.
//
// Only learnings that hold are merged: what was learned of a file as it was must not hold again because
// something new is known of it, nor what is new become void with it. One that is void and is said again
// as a whole is renewed.
func (s *Store) place(ctx context.Context, l Learning) (old, next Learning, found bool, err error) {
	titled, err := s.ix.pages(ctx, "SELECT page FROM doc WHERE title = ? ORDER BY id", titleKey(l.Title))
	if err != nil {
		return
	}
	holding, err := s.holding(ctx, l)
	if err != nil {
		return
	}
	near, err := s.near(ctx, l)
	if err != nil {
		return
	}
	all := slices.Concat(titled, holding, near)
	for _, old := range all {
		if next, ok := merge(old, l); ok && same(old, next) {
			return old, next, true, nil
		}
	}
	tree, err := beneath.OpenResolved(s.opts.Project)
	if err != nil {
		return old, next, false, td.Errorf(td.Unavailable, "open project: %w", err)
	}
	defer func() { _ = tree.Close() }()
	if len(Stale(tree, l)) == 0 {
		if old, next, found = join(tree, all, l); found {
			return old, next, true, nil
		}
	}
	l.ID = newID(l)
	for n := 2; ; n++ {
		if _, taken := s.ix.known[l.ID]; !taken {
			return Learning{}, l, false, nil
		}
		l.ID = fmt.Sprintf("%s-%d", newID(l), n) // the name is some other file's
	}
}

// join finds the first learning that l renews, else the first that has room for it.
func join(tree *beneath.Folder, all []Learning, l Learning) (old, next Learning, found bool) {
	var holds []Learning
	for _, old := range all {
		if len(Stale(tree, old)) == 0 {
			holds = append(holds, old)
			continue
		}
		void := old
		void.Files = nil
		if next, ok := merge(void, l); ok && restates(l, old) {
			return old, next, true
		}
	}
	for _, old := range holds {
		if next, ok := merge(old, l); ok {
			return old, next, true
		}
	}
	return old, next, false
}

// holding are the learnings that have every paragraph of l.
func (s *Store) holding(ctx context.Context, l Learning) ([]Learning, error) {
	keys := map[string]bool{}
	for _, p := range paragraphs(l.Text) {
		keys[paragraphKey(p)] = true
	}
	counts := map[int64]int{}
	for key := range keys {
		err := s.ix.query("SELECT n FROM paragraph WHERE key = ?", []any{[]byte(key)}, func(st *sqlite3.Stmt) error {
			counts[st.ColumnInt64(0)]++
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var out []Learning
	for n, have := range counts {
		if have < len(keys) {
			continue
		}
		found, err := s.ix.pages(ctx, "SELECT page FROM doc WHERE n = ?", n)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, func(a, b Learning) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// near are the learnings that say the same as l in other words, the most alike first.
func (s *Store) near(ctx context.Context, l Learning) ([]Learning, error) {
	hits, err := s.find(ctx, words.Terms(l.Title+" "+l.Text, maxQuery), 20)
	if err != nil {
		return nil, err
	}
	var out []Learning
	score := map[string]float64{}
	for _, h := range hits {
		if a := alike(h.Learning, l); a > 0 {
			score[h.ID] = a
			out = append(out, h.Learning)
		}
	}
	slices.SortFunc(out, func(a, b Learning) int {
		return cmp.Or(cmp.Compare(score[b.ID], score[a.ID]), strings.Compare(a.ID, b.ID))
	})
	return out, nil
}
