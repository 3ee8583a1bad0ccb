package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpHookStarted   = failpoint.New("engine.hook.started")
	fpHookEnded     = failpoint.New("engine.hook.ended")
	fpHookAdopted   = failpoint.New("engine.hook.adopted")
	fpStopping      = failpoint.New("engine.hook.before_pause")
	fpHookCleaned   = failpoint.New("engine.hook.cleaned")
	fpHookTold      = failpoint.New("engine.hook.told")
	errHookLost     = errors.New("its answer was lost with its process")
	errHookUnheard  = errors.New("its recorded answer cannot be read")
	errHookStopped  = errors.New("the task ended before it did")
	errHookNoFolder = errors.New("there is no folder for hooks")
	errHookAlone    = errors.New("there are no other loops to tell")
)

// fire asks the hooks that are configured at a point and met by p (G-10). key names the occasion, the same
// in every life of the daemon: what a hook said is recorded under it, and going the same way once more
// after a crash replays that instead of asking again. Where no hook is configured it costs a lookup.
func fire[P hook.Payload](ctx context.Context, r *run, key td.StepKey, p P) (P, hook.Result, error) {
	if !r.Hooks.Has(p.Point()) {
		return p, hook.Result{}, nil
	}
	ctx, done := r.step(ctx)
	defer done()
	return fireWithin(ctx, r, key, p)
}

// fireWithin is fire inside a step of its own.
func fireWithin[P hook.Payload](ctx context.Context, r *run, key td.StepKey, p P) (P, hook.Result, error) {
	return hook.Fire(ctx, r.Hooks, p, func(ctx context.Context, s hook.Spec, p P) (hook.Result, error) {
		return askHook(ctx, r, key, s, p)
	})
}

// step is the context of a step. While commands are being carried out only the daemon's leaving ends it: the
// urgent one is just being obeyed.
func (r *run) step(ctx context.Context) (context.Context, func()) {
	switch {
	case r.ctl == nil:
		return ctx, func() {}
	case r.obeying:
		return r.ctl.Patient(ctx)
	}
	return r.ctl.Step(ctx)
}

// askHook asks one hook as a durable step, unless its answer is recorded.
func askHook[P hook.Payload](ctx context.Context, r *run, key td.StepKey, s hook.Spec, p P) (hook.Result, error) {
	a := &asking{r: r, spec: s, key: hookKey(key, s)}
	known := r.log.Transcript().Hook(a.key)
	if known.Result != nil {
		return readResult(s, known.Result), nil
	}
	p, err := heard(r, p)
	if err != nil {
		return hook.Result{}, err
	}
	a.payload = p
	a.attempt = known.Attempts
	if prior := known.InFlight; prior != nil {
		a.attempt = prior.Attempt
		// What it was told stands in the record: an answer is held against that.
		var told map[string]json.RawMessage
		if json.Unmarshal(prior.Evidence, &told) == nil {
			if was, err := hook.Apply(p, told); err == nil {
				a.payload = was
			}
		}
	}
	var out td.Outcome
	if s.Command != "" {
		out, err = a.command(ctx, known.InFlight)
	} else {
		out, err = a.call(ctx, known.InFlight != nil)
	}
	if err != nil {
		return hook.Result{}, err
	}
	return readResult(s, out.Hook), nil
}

// heard is a payload without known secrets in any of its fields: hooks write to files and to addresses (G-9).
func heard[P hook.Payload](r *run, p P) (P, error) {
	raw, err := hook.Encode(p)
	if err != nil {
		return p, err
	}
	clean := r.Redact.Known(raw)
	if bytes.Equal(clean, raw) {
		return p, nil
	}
	out, err := hook.Decode[P](clean)
	if err != nil {
		return p, fmt.Errorf("take secrets out of what a hook is told: %w", err)
	}
	return out, nil
}

// hookKey is the step of asking one hook on an occasion.
func hookKey(key td.StepKey, s hook.Spec) td.StepKey {
	return td.StepKey(fmt.Sprintf("%s.hook.%s.%s", key, s.Point, s.Name))
}

// asking is one hook being asked.
type asking struct {
	r       *run
	spec    hook.Spec
	payload hook.Payload
	key     td.StepKey
	attempt int
}

// call asks an address or a function. Both may be asked again when a crash took the answer away: an
// address and a function are given the same key.
func (a *asking) call(ctx context.Context, again bool) (td.Outcome, error) {
	in, err := a.intent(td.Keyed)
	if err != nil {
		return td.Outcome{}, err
	}
	return a.r.log.Do(ctx, durable.Step{Intent: in, Again: again, Run: func(ctx context.Context) (td.Outcome, error) {
		var res hook.Result
		var err error
		key := string(a.r.held.Task) + "/" + string(a.key.Try(a.attempt))
		if a.spec.Func != "" {
			res, err = a.r.Hooks.Call(ctx, a.spec, a.payload, hook.Firing{Key: key, Again: again})
		} else {
			res, err = hook.HTTP(ctx, a.spec, a.payload, key, a.screened)
		}
		if err == nil {
			res, err = a.tell(ctx, res)
		}
		if err != nil {
			return td.Outcome{}, err
		}
		return a.outcome(res, td.Via("")), nil
	}})
}

// command asks a shell command under a shim, as the Bash tool runs one: it survives the daemon, and the
// next one adopts it.
func (a *asking) command(ctx context.Context, prior *td.Intent) (td.Outcome, error) {
	r, run := a.r, a.run
	if prior != nil {
		settled, err := r.log.Settle(ctx, *prior, a.resolve, a.clean)
		if err != nil {
			return td.Outcome{}, err
		}
		if settled {
			return td.Outcome{Hook: r.log.Transcript().Hook(a.key).Result}, nil
		}
		before := *a
		run = func(ctx context.Context) (td.Outcome, error) {
			before.clean() // of that attempt the folder was evidence until this one was on record
			return a.run(ctx)
		}
		a.attempt++
	}
	if !r.held.MayStart() {
		return td.Outcome{}, errClaimEnds
	}
	in, err := a.intent(td.Opaque)
	if err != nil {
		return td.Outcome{}, err
	}
	do := durable.Step{Intent: in, Kept: true, Then: a.clean, Run: run}
	r.spooled(&do, a.spool())
	return r.log.Do(ctx, do)
}

func (a *asking) run(ctx context.Context) (td.Outcome, error) {
	r := a.r
	if r.HookDir == "" {
		return a.failed(errHookNoFolder), nil
	}
	stdin, err := hook.Encode(a.payload)
	if err != nil {
		return a.failed(err), nil
	}
	if err := hook.Prepare(a.dir(), stdin); err != nil {
		return a.failed(err), nil
	}
	t := r.log.Task()
	p, err := r.Spool.Start(ctx, a.spool(), sandbox.Command{
		Shell: hook.Wrap(a.dir(), a.spec.Command), Dir: t.Dir, Timeout: a.spec.Timeout, Task: t.ID, Run: t.Run, Step: a.key, Own: true, Alone: true,
	})
	switch {
	case context.Cause(ctx) != nil && err != nil:
		return td.Outcome{}, context.Cause(ctx)
	case errors.Is(err, sandbox.ErrLost):
		return td.Outcome{}, err // the next look at the records settles it
	case err != nil:
		return a.failed(err), nil
	}
	fpHookStarted.Hit()
	return a.await(ctx, p, "")
}

// await waits for the command. When the run is told to look around, it goes on by itself and is found
// again: a pause does not kill a hook.
func (a *asking) await(ctx context.Context, p sandbox.Process, via td.Via) (td.Outcome, error) {
	res, err := p.Wait(ctx, nil)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return td.Outcome{}, cause
		}
		return td.Outcome{}, err
	}
	fpHookEnded.Hit()
	stdout, err := hook.Collect(a.dir())
	if err != nil {
		return a.failed(err), nil
	}
	said, err := a.tell(ctx, hook.Interpret(a.spec, a.payload, hook.Output{
		Exit: res.Exit, Stdout: a.screened(stdout), Stderr: []byte(tool.Output(a.r.Redact, res)), TimedOut: res.TimedOut, // before they are cut
	}))
	if err != nil {
		return td.Outcome{}, err
	}
	return a.outcome(said, via), nil
}

// screened is what a hook wrote, data or words, without secrets.
func (a *asking) screened(said []byte) []byte {
	if json.Valid(said) {
		return a.r.Redact.JSON(said)
	}
	return a.r.Redact.Bytes(said)
}

// tell hands over what the hook has for other loops. It comes before the record of its answer, so that a crash in between
// finds the answer again, and the names of the messages see to it that nobody reads one twice. The error is ctx's
// cause: whatever else goes wrong is a failure of the hook, whose block stands.
func (a *asking) tell(ctx context.Context, res hook.Result) (hook.Result, error) {
	for i, m := range res.Tell {
		letter := m.Letter(fmt.Sprintf("%s/%s.%d", a.r.held.Task, a.key.Try(a.attempt), i))
		letter.Untrusted = a.r.judges
		err := errHookAlone
		if a.r.Tell != nil {
			_, err = a.r.Tell(ctx, a.r.held.Task, m.Do, letter)
		}
		switch {
		case err == nil:
			fpHookTold.Hit()
		case context.Cause(ctx) != nil:
			return res, context.Cause(ctx)
		case res.Blocked:
			res.Failure = err.Error()
		default:
			return hook.Failed(a.spec, fmt.Errorf("tell other loops: %w", err)), nil
		}
	}
	return res, nil
}

// resolve finds out what became of the command that an earlier life started.
func (a *asking) resolve(ctx context.Context, prior td.Intent) (durable.Resolution, error) {
	p, state, err := a.r.Spool.Find(a.spool())
	switch {
	case state == sandbox.StillRunning && err != nil:
		return durable.Resolution{}, err
	case state == sandbox.StillRunning || state == sandbox.Finished:
		out, err := a.await(ctx, p, td.Adopted)
		if err == nil {
			fpHookAdopted.Hit()
			return durable.Resolution{State: durable.Done, Outcome: out}, nil
		}
		if !errors.Is(err, sandbox.ErrLost) {
			return durable.Resolution{}, err
		}
	case state == sandbox.NeverStarted && prior.Boot == a.r.Boot:
		return durable.Resolution{State: durable.NotDone}, nil
	}
	return durable.Resolution{State: durable.Done, Outcome: a.failed(errHookLost)}, nil
}

func (a *asking) spool() string { return tool.SpoolName(a.r.held.Task, a.key.Try(a.attempt)) }

func (a *asking) dir() string { return a.r.hookDir(a.spool()) }

// clean removes what the command left, now that its answer is recorded.
func (a *asking) clean() {
	r, spool, dir := a.r, a.spool(), a.dir()
	r.cleaning.Go(func() {
		r.remove(spool)
		if err := hook.Discard(dir); err != nil {
			r.Log.Warn("clear hook folder", "name", spool, "err", err)
		}
		fpHookCleaned.Hit()
	})
}

// largeField is what is not repeated in the record of a hook's question: fields of this size come from the
// journal anyway, and are the same in every life.
const largeField = 2 << 10

func (a *asking) intent(effect td.Effect) (td.Intent, error) {
	raw, err := hook.Encode(a.payload)
	if err != nil {
		return td.Intent{}, err
	}
	var told map[string]json.RawMessage
	if err := json.Unmarshal(raw, &told); err != nil {
		return td.Intent{}, fmt.Errorf("record what %s is told: %w", a.spec.Name, err)
	}
	delete(told, "hook_event_name")
	for name, v := range told {
		if len(v) > largeField {
			delete(told, name)
		}
	}
	evidence, err := json.Marshal(told)
	if err != nil {
		return td.Intent{}, fmt.Errorf("record what %s is told: %w", a.spec.Name, err)
	}
	in := td.Intent{Key: a.key, Kind: td.HookStep, Name: a.spec.Name, Effect: effect, Attempt: a.attempt, Evidence: evidence}
	if effect == td.Opaque {
		in.Boot = a.r.Boot
	}
	return in, nil
}

func (a *asking) failed(err error) td.Outcome { return a.outcome(hook.Failed(a.spec, err), "") }

// outcome is the record of what the hook said. What looks like a secret is taken out before anything acts
// on it, so that what is done is what is recorded.
func (a *asking) outcome(res hook.Result, via td.Via) td.Outcome {
	res.Reason, res.Failure = a.r.Redact.String(res.Reason), a.r.Redact.String(res.Failure)
	for i, words := range res.Inject {
		res.Inject[i] = a.r.Redact.String(words)
	}
	for i, m := range res.Tell {
		res.Tell[i].Text = a.r.Redact.String(m.Text)
	}
	for name, v := range res.Changes {
		res.Changes[name] = a.r.Redact.JSON(v)
	}
	if res.Failure != "" {
		a.r.Log.Warn("hook failed", "hook", a.spec.Name, "point", a.spec.Point, "task", a.r.log.Task().Handle, "err", res.Failure)
	}
	raw, err := json.Marshal(res)
	if err != nil { // its changes were checked to be JSON
		raw, _ = json.Marshal(hook.Failed(a.spec, err))
	}
	return td.Outcome{Via: via, Hook: raw}
}

// readResult is a recorded answer.
func readResult(s hook.Spec, raw json.RawMessage) hook.Result {
	var res hook.Result
	if err := json.Unmarshal(raw, &res); err != nil {
		return hook.Failed(s, errHookUnheard)
	}
	return res
}

func (r *run) hookDir(spool string) string { return filepath.Join(r.HookDir, spool) }

// head is what every hook is told.
func (r *run) head() hook.Head {
	t := r.log.Task()
	return hook.HeadOf(t, t.Parent, r.log.Now())
}
