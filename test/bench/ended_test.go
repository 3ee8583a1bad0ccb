package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/api"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

const (
	fewEnded  = 20
	manyEnded = 20_000
	askTimes  = 15
	// doctorTimes is how often doctor is asked, which reads everything.
	doctorTimes = 3
)

// BenchmarkEnded asks a daemon with 20,000 completed tasks and one with 20 the same, by turns: what ended must not be in
// the way of what lives.
func BenchmarkEnded(b *testing.B) {
	few, many := ended(b, fewEnded), ended(b, manyEnded)
	for _, q := range []struct {
		name string
		goal float64 // of the ratio; 0: none
		ask  func(context.Context, *house) error
	}{
		{"status", 3, func(ctx context.Context, h *house) error { _, err := h.svc.Status(ctx); return err }},
		{"cost of today", 3, func(ctx context.Context, h *house) error {
			_, err := h.svc.Cost(ctx, api.CostQuery{By: api.ByDay, Since: time.Now()})
			return err
		}},
		{"stats of a day", 3, func(ctx context.Context, h *house) error {
			_, err := h.svc.Stats(ctx, api.StatsQuery{Since: time.Now().Add(-24 * time.Hour)})
			return err
		}},
	} {
		var ours, bare sample
		for range askTimes {
			bare, ours = append(bare, asked(b, few.h, q.ask)), append(ours, asked(b, many.h, q.ask))
		}
		ratio, want := ours.at(0.5)/bare.at(0.5), ""
		if q.goal > 0 {
			want = goal(fmt.Sprintf("≤ %.0f ×", q.goal), ratio <= q.goal)
		}
		figures.add(fmt.Sprintf("%s with %d completed tasks", q.name, manyEnded), fmt.Sprintf("%.1f × with %d", ratio, fewEnded), want,
			fmt.Sprintf("p50 / p95 %s; with %d %s", ours.both(), fewEnded, bare.both()))
	}
	little, much := few.memory().rss, many.memory().rss
	figures.add(fmt.Sprintf("memory with %d completed tasks", manyEnded), fmt.Sprintf("%.1f × with %d", float64(much)/float64(little), fewEnded),
		goal("≤ 3 ×", much <= 3*little), fmt.Sprintf("%d MiB; with %d %d MiB", much>>10, fewEnded, little>>10))
	var ours, bare sample
	for range doctorTimes {
		bare, ours = append(bare, asked(b, few.h, sound)), append(ours, asked(b, many.h, sound))
	}
	figures.add(fmt.Sprintf("doctor with %d completed tasks", manyEnded), fmt.Sprintf("%.1f × with %d", ours.at(0.5)/bare.at(0.5), fewEnded), "",
		fmt.Sprintf("p50 / p95 %s; with %d %s", ours.both(), fewEnded, bare.both()))
	info, err := os.Stat(many.h.path("state/journal.db"))
	if err != nil {
		b.Fatal(err)
	}
	figures.add("journal of a completed task", fmt.Sprintf("%.1f KiB", float64(info.Size())/manyEnded/1024), "", fmt.Sprintf("%d MiB for %d", info.Size()>>20, manyEnded))
}

// sound has doctor find nothing wrong.
func sound(ctx context.Context, h *house) error {
	d, err := h.svc.Doctor(ctx, api.DoctorRequest{})
	if err == nil && d.Problems > 0 {
		err = fmt.Errorf("doctor found %+v", d)
	}
	return err
}

func asked(b *testing.B, h *house, ask func(context.Context, *house) error) time.Duration {
	b.Helper()
	begun := time.Now()
	if err := ask(b.Context(), h); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

// ended is a daemon whose journal has n completed tasks: one was really run, the others are copies of what it left.
func ended(b *testing.B, n int) *daemon {
	b.Helper()
	h := newHouse(b, "turns: [{tools: [{name: Complete, input: {summary: done}}]}]", llmtest.Options{})
	d := h.start()
	d.answers()
	task := d.add(api.AddTask{Prompt: "end", Dir: h.workspace(0), Rehearsal: fmt.Sprintf(
		"turns: [{repeat: 3, tools: [{name: Read, input: {path: %s}}]}, {tools: [{name: Complete, input: {summary: done}}]}]", smallFile)}, td.Completed)
	d.kill()
	s, err := sqlite.Open(b.Context(), sqlite.Options{Dir: h.path("state")})
	if err != nil {
		b.Fatal(err)
	}
	past := events(b, s, task.ID)
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(128)
	for range n - 1 {
		group.Go(func() error { return clone(ctx, s, past, h.path("work/0"), td.Holder{}) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	mirrored(b, s, h.path("state/conversations.git"))
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	d = h.start()
	d.answers()
	return d
}
