package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// counting is a model whose provider counts tokens.
type counting struct {
	llm.Model
	count func(context.Context) (int, error)
	asked *int
}

func (c counting) Count(ctx context.Context, _ llm.Request) (int, error) {
	*c.asked++
	return c.count(ctx)
}

// Where the estimate leaves open whether a call fits, the provider's count decides, before the call is made. Without a count the turn goes
// on as it would have.
func TestProviderCounts(t *testing.T) {
	fits := strings.Repeat("the cat sat on a mat ", 20_000) // 120,000 words, estimated at more than the window
	says := func(n int, err error) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return n, err }
	}
	for _, c := range []struct {
		name   string
		prompt string
		count  func(context.Context) (int, error)
		asked  int
		state  td.State
		sent   int
	}{
		{"it fits", fits, says(120_000, nil), 1, td.Completed, 1},
		{"it does not fit", fits, says(190_000, nil), 1, td.Failed, 0},
		{"no counter", fits, says(0, llm.ErrNoCounter), 1, td.Completed, 1},
		{"the count fails", fits, says(0, errors.New("status 500")), 1, td.Completed, 1},
		{"the count hangs", fits, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }, 1, td.Completed, 1},
		{"far from the limit", fits[:len(fits)/4], says(1, nil), 0, td.Completed, 1},
		{"far beyond it", strings.Repeat(fits, 5), says(1, nil), 0, td.Failed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			play(t, []any{calls("Complete", `{"summary":"ok"}`)}, func(s *td.Spec, o *Options) {
				s.Prompt, o.Share, o.Model = c.prompt, 0.9, counting{o.Model, c.count, &asked}
			}, func(b *bench, id td.TaskID) {
				task := b.until(id, c.state)
				if f := task.Status.Failed; f != nil && (!strings.Contains(f.Error, "does not fit") || f.Hint == "") {
					t.Errorf("%+v", f)
				}
				if asked != c.asked || len(b.model.requests) != c.sent {
					t.Errorf("counted %d times, sent %d times; want %d and %d", asked, len(b.model.requests), c.asked, c.sent)
				}
			})
		})
	}
}

// What the usage of one task says about a model serves the next one, in this life of the daemon and in the one after it.
func TestCalibrationIsShared(t *testing.T) {
	first := calls("Complete", `{"summary":"ok"}`)
	first.Usage = td.Usage{Input: 10_000, CacheRead: 1000}
	prompt := strings.Repeat("the cat sat on a mat ", 2000)
	play(t, []any{first}, func(s *td.Spec, _ *Options) { s.Prompt = prompt }, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		next := &calibration{journal: b.journal, log: slog.New(slog.NewTextHandler(io.Discard, nil)), rates: map[string][]float64{}}
		for name, c := range map[string]*calibration{"same life": b.engine.calibration, "next life": next} {
			if rate := c.of(b.t.Context(), "worker-model"); rate < 0.4 || rate > 0.7 {
				t.Errorf("%s: a rate of %v", name, rate)
			}
			if rate := c.of(b.t.Context(), "small-model"); rate != 0 {
				t.Errorf("%s: a model that was never called has a rate of %v", name, rate)
			}
		}
		for range calibratedBy {
			next.learn("worker-model", td.Usage{Input: 3000}, 2500)
		}
		if rate := next.of(b.t.Context(), "worker-model"); rate != 1.2 {
			t.Errorf("old calls count for ever: %v", rate)
		}
		next.learn("worker-model", td.Usage{Input: 1 << 60}, 2500)
		next.learn("worker-model", td.Usage{Input: 3000}, 0)
		if rate := next.of(b.t.Context(), "worker-model"); rate != 1.2 {
			t.Errorf("counts that cannot be true are believed: %v", rate)
		}
	})
}
