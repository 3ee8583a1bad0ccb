package engine

import (
	"context"
	"errors"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/window"
)

// countWithin bounds how long the provider may take to count: a turn does not hang on it.
const countWithin = 5 * time.Second

// counted is what the provider said of the tokens of one call; zero tokens: it said nothing.
type counted struct {
	model                     string
	turn, compacted, estimate int
	tokens                    int
}

// scale corrects the estimate of the next call, and reports whether the provider has counted just that call. The provider is asked
// only where the estimate leaves open whether the call fits, once for each such call. Without its count the estimate has to do.
func (r *run) scale(ctx context.Context, model string, limit int) (window.Scale, bool) {
	script := r.log.Transcript()
	scale, estimate := script.ScaleFor(model), script.Estimate()
	if window.SurelyFits(estimate, limit) {
		return scale, false
	}
	scale.Rate = r.calibration.of(ctx, model)
	if script.Wanted > 0 || !scale.Unsure(estimate, limit) {
		return scale, false
	}
	is := counted{model: model, turn: script.Turn, compacted: script.Compacted, estimate: estimate, tokens: r.count.tokens}
	if r.count != is {
		is.tokens = r.askCount(ctx, model)
		r.count = is
	}
	if is.tokens == 0 {
		return scale, false
	}
	return window.Scale{Counted: is.tokens, Estimated: estimate, Rate: scale.Rate}, true
}

// askCount asks the provider how many tokens the next call to a model has; zero: it does not say.
func (r *run) askCount(ctx context.Context, model string) int {
	counter, ok := r.Model.(llm.Counter)
	if !ok {
		return 0
	}
	t := r.log.Task()
	req, err := r.request(t, model)
	if err != nil {
		return 0 // the call itself will say so
	}
	limited, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n, err := counter.Count(limited, req)
	if err != nil && !errors.Is(err, llm.ErrNoCounter) && ctx.Err() == nil {
		r.Log.Warn("count tokens", "task", t.Handle, "model", model, "err", err)
	}
	return max(n, 0)
}
