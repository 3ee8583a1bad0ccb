// Package stats counts what loops did, from the records of the journal (U-5).
package stats

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Types are the records that are counted.
var Types = []td.EventType{
	td.Created{}.Type(), td.Moved{}.Type(), td.StepIntended{}.Type(), td.StepEnded{}.Type(), td.RequestOpened{}.Type(), td.Received{}.Type(), td.Queried{}.Type(), td.Recovered{}.Type(),
}

// Fold counts records. The zero value is ready.
type Fold struct {
	out   api.Stats
	first time.Time
	begun map[step]begin // steps whose end is to come
	took  map[line][]time.Duration
	bad   map[line]int
}

type (
	step struct {
		task td.TaskID
		key  td.StepKey
	}
	begin struct {
		line
		at time.Time
	}
	line struct {
		kind td.StepKind
		name string
	}
)

// Add counts one record.
func (f *Fold) Add(ev td.Event) {
	if f.begun == nil {
		f.first, f.begun, f.took, f.bad = ev.At, map[step]begin{}, map[line][]time.Duration{}, map[line]int{}
		f.out.Ended = map[td.State]int{}
	}
	switch b := ev.Body.(type) {
	case td.Created:
		f.out.Added++
	case td.Moved:
		if b.Status.State.Terminal() {
			f.out.Ended[b.Status.State]++
		}
	case td.StepIntended:
		l := line{kind: b.Kind}
		if b.Kind == td.ToolStep {
			l.name = b.Name
		}
		f.begun[step{ev.Task, b.Key}] = begin{l, ev.At}
	case td.StepEnded:
		f.ended(step{ev.Task, b.Key}, b.Outcome, ev.At)
	case td.RequestOpened:
		f.out.Asked++
	case td.Received:
		f.out.Letters++
	case td.Queried:
		f.spent(b.Side.Usage, b.Side.Cost)
	case td.Recovered:
		if !b.Report.Clean {
			f.out.Crashes++
		}
	case td.Trimmed:
		f.out.Trimmed++
	}
}

func (f *Fold) ended(s step, out td.Outcome, at time.Time) {
	began, known := f.begun[s]
	delete(f.begun, s)
	if !known {
		return // it began before the time
	}
	l, took := began.line, out.Took
	if took == 0 { // one of the daemon's own, or one that a later life found done
		took = max(0, at.Sub(began.at))
	}
	f.took[l] = append(f.took[l], took)
	switch {
	case out.Model != nil:
		f.spent(out.Model.Usage, out.Model.Cost)
	case out.Side != nil:
		f.spent(out.Side.Usage, out.Side.Cost)
	}
	if out.Failure != nil || out.Tool != nil && out.Tool.IsError || out.Side != nil && out.Side.Error != "" {
		f.bad[l]++
	}
}

// spent counts the call of a model.
func (f *Fold) spent(u td.Usage, cost td.Money) {
	f.out.Calls++
	f.out.Usage = f.out.Usage.Add(u)
	f.out.Cost += cost
}

// Stats are what was counted, of a time. It begins with the first record in it: before that there was nothing.
func (f *Fold) Stats(since, until time.Time) api.Stats {
	s := f.out
	switch {
	case f.first.After(since):
		since = f.first
	case since.IsZero():
		since = until
	}
	s.Since, s.Until, s.Steps = since, until, []api.StepStats{}
	if s.Ended == nil {
		s.Ended = map[td.State]int{}
	}
	lines := slices.SortedFunc(maps.Keys(f.took), func(a, b line) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	for _, l := range lines {
		took := slices.Clone(f.took[l])
		slices.Sort(took)
		s.Steps = append(s.Steps, api.StepStats{
			Kind: l.kind, Name: l.name, Count: len(took), Failed: f.bad[l], P50: within(took, 50), P95: within(took, 95), P99: within(took, 99),
		})
	}
	return s
}

// within is how many milliseconds so many percent took at most.
func within(sorted []time.Duration, percent int) float64 {
	i := (len(sorted)*percent+99)/100 - 1
	return float64(sorted[max(0, i)].Microseconds()) / 1000
}
