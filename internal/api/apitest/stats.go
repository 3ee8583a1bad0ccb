package apitest

import (
	"context"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/stats"
	"taskdaemon/internal/td"
)

// Stats tallies the events, as a journal does.
func (f *Fake) Stats(_ context.Context, q api.StatsQuery) (api.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var tallies []td.Tally
	inFlight := map[td.TaskID][]td.StepRef{}
	for _, ev := range f.events {
		if t, ok := td.TallyOf(inFlight[ev.Task], ev); ok && t.Slot >= td.SlotOf(q.Since) {
			tallies = append(tallies, t)
		}
		inFlight[ev.Task] = td.StepsAfter(inFlight[ev.Task], ev)
	}
	out := stats.Of(tallies, q.Since, time.Now())
	out.Now = map[td.State]int{}
	for _, t := range f.tasks {
		out.Now[t.Status.State]++
	}
	return out, nil
}

func testStats(t *testing.T, s suite) {
	since := time.Now().Add(-time.Hour)
	before, err := s.svc.Stats(s.ctx, api.StatsQuery{Since: since})
	if err != nil {
		t.Fatal(err)
	}
	s.asking(t)
	got, err := s.svc.Stats(s.ctx, api.StatsQuery{Since: since})
	if err != nil {
		t.Fatal(err)
	}
	if got.Added != before.Added+1 || got.Asked != before.Asked+1 || got.Now[td.Waiting] != before.Now[td.Waiting]+1 {
		t.Errorf("one more task that asks: %+v after %+v", got, before)
	}
	if got.Since.Before(since) || got.Until.Before(got.Since) || got.Steps == nil || got.Ended == nil {
		t.Errorf("stats are %+v", got)
	}
	all, err := s.svc.Stats(s.ctx, api.StatsQuery{})
	if err != nil || all.Added < got.Added || all.Since.IsZero() {
		t.Errorf("stats of all time are %+v, %v", all, err)
	}
	none, err := s.svc.Stats(s.ctx, api.StatsQuery{Since: time.Now().Add(time.Hour)})
	if err != nil || none.Added != 0 || len(none.Steps) != 0 {
		t.Errorf("stats of the future are %+v, %v", none, err)
	}
}
