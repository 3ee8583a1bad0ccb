package scheduler

import (
	"context"
	"errors"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/durable"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// player is a runner whose tasks do as the dice say.
type player struct {
	y       *yard
	journal *mem.Store
}

func (p *player) open(ctx context.Context, held *coord.Held) (*durable.Log, error) {
	t, err := p.journal.Task(ctx, held.Task)
	if err != nil {
		return nil, err
	}
	return durable.Open(ctx, p.journal, t, held.Claim, time.Now)
}

// obey carries out what was said.
func (p *player) obey(ctx context.Context, log *durable.Log, held *coord.Held) error {
	cmds, err := p.journal.Take(ctx, held.Claim)
	for _, c := range cmds {
		if err == nil {
			err = log.AppendEvents(ctx, td.Obey(log.Task(), c, log.Now())...)
		}
	}
	return err
}

func (p *player) Attend(ctx context.Context, held *coord.Held) (*td.Task, error) {
	p.y.attend(held.Task, true)
	defer p.y.attend(held.Task, false)
	log, err := p.open(ctx, held)
	if err != nil {
		return nil, err
	}
	if log.Task().Status.State == td.Running {
		if err := log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Recover(t, "died", at) }); err != nil {
			return nil, err
		}
	}
	if p.y.roll(12) == 0 {
		return nil, errors.New("the disk is full")
	}
	if err := p.obey(ctx, log, held); err != nil {
		return nil, err
	}
	if log.Task().Status.State == td.Blocked && p.y.roll(2) == 0 {
		err = log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Unblock(t, "it is there", at) })
	}
	p.dawdle(ctx)
	return left(log), err
}

func (p *player) Run(ctx context.Context, held *coord.Held, ctl *Control) (*td.Task, error) {
	log, err := p.open(ctx, held)
	if err != nil {
		return nil, err
	}
	if err := p.obey(ctx, log, held); err != nil || log.Task().Status.State != td.Queued {
		return left(log), err
	}
	if err := log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) }); err != nil {
		return nil, err
	}
	defer p.y.enter(log.Task())()
	for range 1 + p.y.roll(4) {
		step, end := ctl.Step(ctx)
		select {
		case <-time.After(time.Duration(1+p.y.roll(5000)) * time.Millisecond):
		case <-step.Done():
		}
		detached := errors.Is(context.Cause(step), tool.ErrDetach)
		end()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case detached:
			return nil, tool.ErrDetach
		case ctl.Halted():
			err := log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Interrupt(t, "the daemon stops", at) })
			return left(log), err
		}
		ctl.Heard()
		if err := p.obey(ctx, log, held); err != nil || log.Task().Status.State != td.Running {
			return left(log), err
		}
		decide, err := p.turn()
		if err != nil {
			return nil, err
		}
		p.dawdle(ctx)
		if decide != nil {
			err := log.Move(ctx, decide)
			return left(log), err
		}
	}
	err = log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Complete(t, "", nil, at) })
	return left(log), err
}

// dawdle is a while after the inbox was read in which something may be said.
func (p *player) dawdle(ctx context.Context) {
	if p.y.roll(3) == 0 {
		select {
		case <-time.After(time.Duration(p.y.roll(2000)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// turn is what happens to a run after a step; nil: nothing.
func (p *player) turn() (func(t td.Task, at time.Time) (td.Move, error), error) {
	switch p.y.roll(14) {
	case 0:
		p.y.mu.Lock()
		p.y.panics++
		p.y.mu.Unlock()
		panic("oh")
	case 1:
		return nil, errors.New("the disk is full")
	case 2, 3:
		return func(t td.Task, at time.Time) (td.Move, error) {
			return td.Ask(t, td.Request{ID: td.NewRequestID(), Kind: td.AskQuestion, Prompt: "?", AskedAt: at, Options: []string{td.Yes}}, at)
		}, nil
	case 4:
		return func(t td.Task, at time.Time) (td.Move, error) {
			return td.BlockOn(t, td.BlockedData{Cause: "it is not there", Resource: "x"}, at)
		}, nil
	case 5:
		return func(t td.Task, at time.Time) (td.Move, error) { return td.Interrupt(t, "another turn", at) }, nil
	}
	return nil, nil
}

func (p *player) Crashed(ctx context.Context, held *coord.Held, why string) (*td.Task, error) {
	log, err := p.open(ctx, held)
	if err == nil {
		err = log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Fail(t, td.FailedData{Error: why}, at) })
	}
	if err != nil {
		return nil, err
	}
	return left(log), nil
}
