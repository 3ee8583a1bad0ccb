package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpIntended   = failpoint.New("durable.step.intended")
	fpRan        = failpoint.New("durable.step.ran")
	fpRecorded   = failpoint.New("durable.step.recorded")
	fpResolving  = failpoint.New("durable.settle.resolving")
	fpResolved   = failpoint.New("durable.settle.resolved")
	fpAllIntent  = failpoint.New("durable.all.intended")
	fpAllRan     = failpoint.New("durable.all.ran")
	errNotPure   = errors.New("only pure steps run together")
	errNoOutcome = errors.New("a step ended without an outcome")
)

// Step is one thing a run does to the world.
type Step struct {
	Intent td.Intent

	// Again says that an earlier life recorded this very intent and left no outcome. Only a pure step
	// is simply run again; others are settled first.
	Again bool

	// With is recorded together with the intent.
	With []td.Body

	// Before makes what will tell that the step never started, and comes before its intent. Refused is called when the intent
	// did not get on record: nothing will come of the step.
	Before  func() error
	Refused func()

	// Kept says that an opaque step's outcome can be found again, on this host and after a loss of power,
	// until Then is called. So it need not go to disk at once.
	Kept bool

	// Then is called when the outcome is on disk.
	Then func()

	// Run does it. An error means that it was interrupted and has no outcome: nothing is recorded.
	// Everything else, failures included, is an outcome.
	Run func(ctx context.Context) (td.Outcome, error)
}

// Do carries out one step: intent to disk, run, outcome. The outcome is folded when it returns; an opaque
// one that is kept nowhere else is also on disk, others ride with the next append.
//
// A step whose intent wants resources is refused with td.Busy while they are not free. Nothing of it is
// recorded then, and it may be done later. The same goes for one that reserves more than its budgets leave:
// td.OverBudget.
func (l *Log) Do(ctx context.Context, s Step) (td.Outcome, error) {
	if s.Before != nil {
		if err := s.Before(); err != nil {
			return td.Outcome{}, err
		}
	}
	if err := l.intend(ctx, intents(s)); err != nil {
		if s.Refused != nil {
			s.Refused()
		}
		return td.Outcome{}, err
	}
	fpIntended.Hit()
	out, err := l.run(ctx, s)
	if err != nil {
		return td.Outcome{}, err
	}
	fpRan.Hit()
	return out, l.record(ctx, s, out)
}

// DoAll carries out pure steps at the same time. Their intents go to disk together; their outcomes are
// folded in the order of the steps.
func (l *Log) DoAll(ctx context.Context, steps []Step) error {
	var bodies []td.Body
	for _, s := range steps {
		if s.Intent.Effect != td.Pure {
			return fmt.Errorf("step %s is %s: %w", s.Intent.Key, s.Intent.Effect, errNotPure)
		}
		bodies = append(bodies, intents(s)...)
	}
	if err := l.intend(ctx, bodies); err != nil {
		return err
	}
	fpAllIntent.Hit()
	outs := make([]td.Outcome, len(steps))
	errs := make([]error, len(steps))
	var wg sync.WaitGroup
	for i, s := range steps {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("step %s panicked: %v", s.Intent.Key, p)
				}
			}()
			outs[i], errs[i] = l.run(ctx, s)
		})
	}
	wg.Wait()
	fpAllRan.Hit()
	for i, s := range steps {
		if errs[i] == nil {
			errs[i] = l.record(ctx, s, outs[i])
		}
	}
	return errors.Join(errs...)
}

// Settle finds out what became of a step that an earlier life left in flight, and records its outcome
// if it has one. When it was never done, settled is false and the step may be done anew, as the next
// attempt. When nobody can tell, the error is an *UnsureError. then is called when the outcome is on disk.
func (l *Log) Settle(ctx context.Context, prior td.Intent, resolve func(context.Context, td.Intent) (Resolution, error), then func()) (settled bool, err error) {
	fpResolving.Hit()
	res, err := resolve(ctx, prior)
	if err != nil {
		return false, err
	}
	fpResolved.Hit()
	switch res.State {
	case Done:
		return true, l.record(ctx, Step{Intent: prior, Kept: true, Then: then}, res.Outcome)
	case Unsure:
		return false, &UnsureError{Intent: prior, Detail: res.Detail}
	}
	return false, nil
}

// Resolution is what became of a step in flight.
type Resolution struct {
	State   State
	Outcome td.Outcome // when done
	Detail  string     // when unsure: for the person who is asked
}

// State of a step in flight.
type State int

// The states.
const (
	NotDone State = iota
	Done
	Unsure
)

// UnsureError says that nobody can tell whether a step took place: a person must.
type UnsureError struct {
	Intent td.Intent
	Detail string
}

func (e *UnsureError) Error() string {
	return fmt.Sprintf("it is not known what became of %s (%s)", e.Intent.Name, e.Intent.Key)
}

// intend records intents. Those that the journal may refuse are folded when it has taken them.
func (l *Log) intend(ctx context.Context, bodies []td.Body) error {
	for _, b := range bodies {
		if in, is := b.(td.StepIntended); is && (len(in.Wants) > 0 || in.Reserve != nil && len(in.Reserve.Caps) > 0) {
			return l.offer(ctx, bodies...)
		}
	}
	return l.Append(ctx, bodies...)
}

func intents(s Step) []td.Body {
	bodies := append([]td.Body{}, s.With...)
	// A call that is made again may be paid for again: what it may cost is set aside once more.
	if !s.Again || s.Intent.Reserve != nil && (s.Intent.Reserve.Amount > 0 || s.Intent.Reserve.Tokens > 0) {
		bodies = append(bodies, td.StepIntended{Intent: s.Intent})
	}
	return bodies
}

func (l *Log) run(ctx context.Context, s Step) (td.Outcome, error) {
	started := l.now()
	out, err := s.Run(ctx)
	if err != nil {
		return td.Outcome{}, err
	}
	out.Took = l.now().Sub(started)
	if out.Via == "" {
		out.Via = td.Ran
		if s.Again {
			out.Via = td.Reran
		}
	}
	return out, nil
}

// record folds an outcome. It rides with the next append, which saves a sync in every turn, unless nothing
// could find out again what the step did.
func (l *Log) record(ctx context.Context, s Step, out td.Outcome) error {
	out.Key = s.Intent.Key
	if out.Model == nil && out.Failure == nil && out.Tool == nil && out.Side == nil && out.Hook == nil {
		return fmt.Errorf("step %s: %w", s.Intent.Key, errNoOutcome)
	}
	if err := l.Stage(td.StepEnded{Outcome: out}); err != nil {
		return err
	}
	if s.Then != nil {
		l.then = append(l.then, s.Then)
	}
	if s.Intent.Effect == td.Opaque && !s.Kept {
		if err := l.Flush(ctx); err != nil {
			return err
		}
	}
	fpRecorded.Hit()
	return nil
}
