package daemon

import (
	"context"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/stats"
)

// Stats are what loops did in a time, by what the journal tallied.
func (d *Daemon) Stats(ctx context.Context, q api.StatsQuery) (api.Stats, error) {
	now, err := d.journal.Counts(ctx)
	if err != nil {
		return api.Stats{}, err
	}
	tallies, err := d.journal.Tallies(ctx, q.Since)
	if err != nil {
		return api.Stats{}, err
	}
	out := stats.Of(tallies, q.Since, time.Now())
	out.Now = now
	return out, nil
}
