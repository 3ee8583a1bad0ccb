package daemon

import (
	"context"
	"fmt"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/stats"
	"taskdaemon/internal/store"
)

// Stats are what loops did in a time, counted from the journal.
func (d *Daemon) Stats(ctx context.Context, q api.StatsQuery) (api.Stats, error) {
	now, err := d.journal.Counts(ctx)
	if err != nil {
		return api.Stats{}, err
	}
	var fold stats.Fold
	for rec, err := range d.journal.Follow(ctx, store.EventFilter{Types: stats.Types, Since: q.Since, NoFuture: true}, 0) {
		if err != nil {
			return api.Stats{}, fmt.Errorf("count what is in the journal: %w", err)
		}
		fold.Add(rec.Event)
	}
	out := fold.Stats(q.Since, time.Now())
	out.Now = now
	return out, nil
}
