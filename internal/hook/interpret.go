package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// blockExit is the exit code with which a command blocks.
const blockExit = 2

// Output is how a hook's command ended.
type Output struct {
	Exit     int
	Stdout   []byte // at most MaxOutput and one more byte of it
	Stderr   []byte // at least its beginning
	TimedOut bool
}

// Interpret says what a command's end means. It is pure and total: the same bytes give the same result
// in every life of the daemon, and whatever cannot be understood is a failure of the hook.
func Interpret(s Spec, p Payload, o Output) Result {
	r, err := interpret(s, p, o)
	if err == nil {
		r, err = settle(s, p, r)
	}
	if err != nil {
		return Failed(s, err)
	}
	return r
}

func interpret(s Spec, p Payload, o Output) (Result, error) {
	switch {
	case o.TimedOut:
		return Result{}, fmt.Errorf("it took longer than %s", s.Timeout)
	case o.Exit == 0:
		return parse(p, o.Stdout, true)
	case o.Exit == blockExit:
		return Result{Blocked: true, Reason: string(bytes.TrimSpace(o.Stderr))}, nil
	}
	err := fmt.Errorf("it exited with %d", o.Exit)
	if words := strings.TrimSpace(clip(string(o.Stderr), maxReason)); words != "" {
		err = fmt.Errorf("%w: %s", err, words)
	}
	return Result{}, err
}

// Call asks a function of the daemon. A panic is a failure of
// the hook. The error is ctx's cause, when the caller ended it: then nothing was decided.
func (s *Set) Call(ctx context.Context, spec Spec, p Payload, firing Firing) (Result, error) {
	f := s.funcs[spec.Func]
	if f == nil {
		return Failed(spec, fmt.Errorf("there is no function %q", spec.Func)), nil
	}
	within, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	r, err := guarded(within, func(ctx context.Context) (Result, error) { return f(ctx, p, firing) })
	if err == nil {
		r, err = settle(spec, p, r)
	}
	if err != nil {
		return failedWithin(ctx, within, spec, err)
	}
	return r, nil
}

func guarded(ctx context.Context, f func(context.Context) (Result, error)) (r Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return f(ctx)
}

// failedWithin tells a hook that ran out of its time from one whose caller went away.
func failedWithin(ctx, within context.Context, s Spec, err error) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if errors.Is(within.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %s", s.Timeout)
	}
	return Failed(s, err), nil
}

// Fire asks the hooks that p meets, one after the other, through run, which records what it does. Each is
// given what the one before it left; the first that blocks is the last to be asked. Fire returns the
// payload with all changes, and what the results come to. An error is run's: nothing is decided then,
// and with the same answers recorded the next Fire comes to the same.
func Fire[P Payload](ctx context.Context, set *Set, p P, run func(ctx context.Context, s Spec, p P) (Result, error)) (P, Result, error) {
	var sum Result
	if !set.Has(p.Point()) {
		return p, sum, nil // the common case costs a lookup
	}
	for _, s := range set.Match(p) {
		r, err := run(ctx, s, p)
		if err != nil {
			return p, sum, fmt.Errorf("ask hook %s at %s: %w", s.Name, s.Point, err)
		}
		p, sum = take(s, p, sum, r)
		if sum.Blocked {
			break
		}
	}
	return p, sum, nil
}

// Replay is what recorded answers come to, in their order, whatever hooks are configured by now: what was
// begun on their word goes on by it. Pure.
func Replay[P Payload](p P, said []Result) (P, Result) {
	var sum Result
	for _, r := range said {
		p, sum = take(Spec{Point: p.Point(), Name: r.Hook, OnError: Closed}, p, sum, r)
	}
	return p, sum
}

// take adds one answer to p and to what the answers before it came to.
func take[P Payload](s Spec, p P, sum, r Result) (P, Result) {
	next, err := Apply(p, r.Changes)
	if err != nil {
		// A recorded result that no longer fits, as after an update of the program.
		r, next = Failed(s, fmt.Errorf("its changes do not fit: %w", err)), p
	}
	return next, merge(sum, r)
}
