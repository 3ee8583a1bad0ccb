package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

const (
	// calibratedBy is how many of a model's newest calls its rate is taken from.
	calibratedBy = 16
	// learnFrom is how many of the newest records are looked at for the calls of daemons before this one.
	learnFrom = 2000
)

// calibration is what the usage of calls says about estimates, by model, for all conversations. It is not recorded: the records of
// the newest calls are, and it is learned from those again in the life of each daemon, when it is first needed.
type calibration struct {
	journal store.Journal
	log     *slog.Logger

	mu     sync.Mutex
	loaded bool
	rates  map[string][]float64 // oldest first
}

// of is the rate to correct estimates for a model with: the highest of its newest calls, because estimates have to err high; zero if
// there are none.
func (c *calibration) of(ctx context.Context, model string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.loaded {
		if err := c.load(ctx); err != nil {
			if ctx.Err() == nil {
				c.log.Warn("learn from the usage of earlier calls", "err", err)
			}
			return 0
		}
		c.loaded = true
	}
	if len(c.rates[model]) == 0 {
		return 0
	}
	return slices.Max(c.rates[model])
}

// learn takes note of what a call was estimated at and what the provider counted.
func (c *calibration) learn(model string, u td.Usage, estimated int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(model, u, estimated)
}

func (c *calibration) add(model string, u td.Usage, estimated int) {
	rate := window.RateOf(u, estimated)
	if rate == 0 {
		return
	}
	rates := append(c.rates[model], rate)
	c.rates[model] = rates[max(len(rates)-calibratedBy, 0):]
}

// load learns from the newest records. What was learned in this life is among them.
func (c *calibration) load(ctx context.Context) error {
	last, err := c.journal.Last(ctx)
	if err != nil {
		return err
	}
	type step struct {
		task td.TaskID
		key  td.StepKey
	}
	asked := map[step]string{}
	known := c.rates
	c.rates = map[string][]float64{}
	steps := store.EventFilter{Types: []td.EventType{td.StepIntended{}.Type(), td.StepEnded{}.Type()}, NoFuture: true}
	for ev, err := range c.journal.Follow(ctx, steps, last-min(last, learnFrom)) {
		if err != nil {
			c.rates = known
			return err
		}
		switch b := ev.Body.(type) {
		case td.StepIntended:
			if b.Kind == td.ModelStep {
				asked[step{ev.Task, b.Key}] = b.Name
			}
		case td.StepEnded:
			if model := asked[step{ev.Task, b.Key}]; model != "" && b.Model != nil && b.Model.Prefix != nil {
				c.add(model, b.Model.Usage, b.Model.Prefix.Estimated)
			}
		}
	}
	return nil
}
