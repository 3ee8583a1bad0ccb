package daemon

import (
	"context"
	"log/slog"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// loopLog tells the daemon's log what loops do, by their records: state and phase when they change, calls of models, and those
// that failed and are made again. Nothing is logged that is not on disk.
type loopLog struct {
	log   *slog.Logger
	loops map[td.TaskID]*loopSeen
}

// loopSeen is what was seen of a loop that has not ended.
type loopSeen struct {
	state      td.State
	stateSince time.Time
	phase      td.Phase
	phaseSince time.Time
	calls      map[td.StepKey]string // of models under way, with the model
}

func (d *Daemon) logLoops(ctx context.Context, after uint64) error {
	l := loopLog{log: d.o.Log.With("component", "loop"), loops: map[td.TaskID]*loopSeen{}}
	types := []td.EventType{td.Moved{}.Type(), td.ContextSet{}.Type(), td.StepIntended{}.Type(), td.StepEnded{}.Type()}
	for ev, err := range d.journal.Follow(ctx, store.EventFilter{Types: types}, after) {
		if err != nil {
			if ctx.Err() == nil {
				d.o.Log.Warn("the log of loops ends", "err", err) // nothing depends on it
			}
			return nil
		}
		if ev.Task != td.DaemonStream {
			l.take(ev.Event)
		}
	}
	return nil
}

func (l *loopLog) take(ev td.Event) {
	seen := l.loops[ev.Task]
	if seen == nil {
		seen = &loopSeen{calls: map[td.StepKey]string{}}
		l.loops[ev.Task] = seen
	}
	log := l.log.With("loop_id", ev.Task.Handle())
	switch b := ev.Body.(type) {
	case td.Moved:
		l.moved(log, seen, ev, b)
	case td.ContextSet:
		seen.enter(log, td.AssemblingContext, ev.At)
	case td.StepIntended:
		seen.enter(log, td.PhaseOf(b.Kind), ev.At)
		if b.Kind == td.ModelStep || b.Kind == td.SideStep {
			seen.calls[b.Key] = b.Name
		}
	case td.StepEnded:
		if model, is := seen.calls[b.Key]; is {
			delete(seen.calls, b.Key)
			called(log, model, b.Outcome)
		}
	}
}

func (l *loopLog) moved(log *slog.Logger, seen *loopSeen, ev td.Event, b td.Moved) {
	say, args := log.Info, []any{"event", "state_changed", "state", b.Status.State}
	if b.Status.State == td.Failed {
		say = log.Error
	}
	if b.Status.Reason != "" {
		args = append(args, "reason", oneLine(b.Status.Reason, 300))
	}
	if !seen.stateSince.IsZero() {
		args = append(args, "from", seen.state, "duration_ms", ev.At.Sub(seen.stateSince).Milliseconds())
	}
	say("loop", args...)
	*seen = loopSeen{state: b.Status.State, stateSince: ev.At, calls: seen.calls}
	if r := b.Status.Running; r != nil {
		seen.enter(log, r.Phase, ev.At)
	}
	if b.Status.State.Terminal() {
		delete(l.loops, ev.Task)
	}
}

// enter says that a loop has come to another phase, and how long the one before took.
func (s *loopSeen) enter(log *slog.Logger, phase td.Phase, at time.Time) {
	if s.phase == phase || s.state != td.Running && s.state != "" {
		return
	}
	args := []any{"event", "phase_changed", "phase", phase}
	if s.phase != "" {
		args = append(args, "from", s.phase, "duration_ms", at.Sub(s.phaseSince).Milliseconds())
	}
	log.Info("loop", args...)
	s.phase, s.phaseSince = phase, at
}

// called says how a call of a model went.
func called(log *slog.Logger, model string, out td.Outcome) {
	args := []any{"model", model, "duration_ms", out.Took.Milliseconds()}
	switch {
	case out.Failure != nil && !out.Failure.RetryAt.IsZero():
		log.Warn("loop", append(args, "event", "model_retry", "class", out.Failure.Class, "retry_at", out.Failure.RetryAt)...)
	case out.Failure != nil:
		log.Warn("loop", append(args, "event", "model_failed", "class", out.Failure.Class)...)
	case out.Model != nil:
		log.Info("loop", append(args, "event", "model_call", "tokens_in", out.Model.Usage.Input, "tokens_cached", out.Model.Usage.CacheRead, "tokens_out", out.Model.Usage.Output)...)
	case out.Side != nil && out.Side.Error != "":
		log.Warn("loop", append(args, "event", "model_failed")...)
	case out.Side != nil:
		log.Info("loop", append(args, "event", "model_call", "tokens_in", out.Side.Usage.Input, "tokens_cached", out.Side.Usage.CacheRead, "tokens_out", out.Side.Usage.Output)...)
	}
}
