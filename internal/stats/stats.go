// Package stats says what loops did in a time, by what the journal tallied (U-5).
package stats

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// line is what is shown of steps together.
type line struct {
	kind td.StepKind
	name string
}

// Of are the stats of a time, given what was tallied since. It begins with the first slot that has anything: before that there was nothing.
func Of(tallies []td.Tally, since, until time.Time) api.Stats {
	s := api.Stats{Since: until, Until: until, Ended: map[td.State]int{}, Steps: []api.StepStats{}}
	steps := map[line][]td.Tally{}
	for _, t := range tallies {
		if at := time.Unix(t.Slot, 0); at.Before(s.Since) {
			s.Since = at
		}
		s.Calls += t.Calls
		s.Usage = s.Usage.Add(t.Usage)
		s.Cost += t.Cost
		switch t.Type {
		case td.Created{}.Type():
			s.Added += t.Count
		case td.Moved{}.Type():
			s.Ended[td.State(t.Name)] += t.Count
		case td.StepEnded{}.Type():
			l := line{t.Kind, t.Name}
			steps[l] = append(steps[l], t)
		case td.RequestOpened{}.Type():
			s.Asked += t.Count
		case td.Received{}.Type():
			s.Letters += t.Count
		case td.Recovered{}.Type():
			s.Crashes += t.Count
		}
	}
	if !since.IsZero() && since.Before(until) && len(tallies) == 0 {
		s.Since = since
	}
	for _, l := range slices.SortedFunc(maps.Keys(steps), func(a, b line) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) }) {
		done := of(l, steps[l])
		if l.kind == td.MergeStep {
			s.Merged += done.Count - done.Failed
		}
		s.Steps = append(s.Steps, done)
	}
	if s.Merged > 0 {
		s.PerMerged = s.Cost / td.Money(s.Merged)
	}
	return s
}

func of(l line, tallies []td.Tally) api.StepStats {
	out := api.StepStats{Kind: l.kind, Name: l.name}
	for _, t := range tallies {
		out.Count += t.Count
		out.Failed += t.Failed
	}
	slices.SortFunc(tallies, func(a, b td.Tally) int { return cmp.Compare(a.Took, b.Took) })
	out.P50, out.P95, out.P99 = within(tallies, out.Count, 50), within(tallies, out.Count, 95), within(tallies, out.Count, 99)
	return out
}

// within is how many milliseconds so many percent took at most.
func within(sorted []td.Tally, count, percent int) float64 {
	wanted := (count*percent + 99) / 100
	for _, t := range sorted {
		if wanted -= t.Count; wanted <= 0 {
			return float64(t.Longest().Microseconds()) / 1000
		}
	}
	return 0
}
