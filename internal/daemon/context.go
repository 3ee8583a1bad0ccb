package daemon

import (
	"context"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
	"taskdaemon/internal/window"
)

// Context is what the model is told in a task's next call, part by part.
func (d *Daemon) Context(ctx context.Context, ref string) (api.Context, error) {
	t, err := d.Task(ctx, ref)
	if err != nil {
		return api.Context{}, err
	}
	script := &transcript.Transcript{}
	c := api.Context{Task: t.Handle, Model: t.LastModel, Turns: t.Turns, Total: t.Usage, Cost: t.Booked(), TreeCost: t.TreeSpent().Booked(), Unpriced: t.TreeSpent().Unpriced}
	for ev, err := range d.journal.Read(ctx, t.ID, 0) {
		if err != nil {
			return api.Context{}, err
		}
		script.Take(ev, t.Cuts)
		switch b := ev.Body.(type) {
		case td.StepEnded:
			if b.Model != nil {
				c.Last, c.Prefix = b.Model.Usage, b.Model.Prefix
			}
		case td.Compacted:
			c.Compacted++
		}
	}
	budget := d.engine.Budget(script.Called)
	c.Window, c.Limit, c.Messages = budget.Window, budget.Limit(), len(script.Messages)
	if set := script.Context; set != nil {
		parts := window.Count(set.System, set.Tools, script.Messages)
		c.Tokens = script.Scale.Of(parts.Total())
		// Each part has its share of the whole, which is what decides about a compaction.
		scaled := func(n int) int { return int(int64(n) * int64(c.Tokens) / int64(max(parts.Total(), 1))) }
		for _, p := range set.Parts {
			c.Parts = append(c.Parts, api.ContextPart{Name: p.Name, Source: p.Source, Tokens: scaled(p.Tokens)})
		}
		c.Parts = append(c.Parts,
			api.ContextPart{Name: "tools", Tokens: scaled(parts.Tools)},
			api.ContextPart{Name: "history", Tokens: scaled(parts.History)})
	}
	return c, nil
}
