package mem

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Runs are the runs over graphs that match, the newest first.
func (s *Store) Runs(ctx context.Context, f store.RunFilter) (out []td.GraphRun, err error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return nil, err
	}
	defer leave()
	newest := func(a, b td.GraphRun) int { return cmp.Compare(b.From, a.From) }
	for _, g := range slices.SortedFunc(maps.Values(s.runs), newest) {
		if f.Limit > 0 && len(out) == f.Limit {
			break
		}
		if rule.MatchesRun(f, g) {
			out = append(out, g)
		}
	}
	return out, nil
}
