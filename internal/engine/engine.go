// Package engine runs one task in the native loop: assemble the context, call the model, run the tools
// it asks for, until the task is nominated and passes the finish rule (spec chapter 3).
//
// What a run does next follows from the fold of its journal alone, so there is no separate path for
// recovery: a run that goes on after a crash is the same loop looking at the same records. A run
// acts on the world only through durable steps. It holds no claim and no goroutine while a person is
// asked: it records the request and returns.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/coord"
	"taskdaemon/internal/disk"
	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/scheduler"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

var (
	fpStarted     = failpoint.New("engine.run.started")
	fpInterrupted = failpoint.New("engine.run.interrupted")
	fpRecovered   = failpoint.New("engine.attend.recovered")
)

// Options are what an Engine works with.
type Options struct {
	Journal store.Journal
	// Records are all records of a task, those among them that retention has let go: NotFound when they are nowhere any more.
	Records func(context.Context, td.Task) ([]td.Event, error)
	Model   llm.Model
	Tools   *tool.Registry
	Spool   tool.Spool
	// Sandbox is what the commands of tools may do in a workspace, which lies in a worktree of the task's own with its top at tree, or in none; nil: whatever the user may.
	Sandbox func(workspace, tree string) *sandbox.Profile
	// Enforced reports whether this machine can enforce the whole of a sandbox; nil: it cannot.
	Enforced func() bool
	Models   map[td.Tier]string
	// Choose says which model to call in place of one that is down, and why; nil: always the one wanted.
	Choose func(model string) (use, why string)
	// Chain is the models to use, in this order, when the waits of one are used up; nil: none.
	Chain  func(model string) []string
	Prices llm.Prices
	// Budgets bound what models may cost.
	Budgets Budgets
	// Escalate is how many failed attempts it takes until the next tier does the work; zero: off.
	Escalate int

	// MayWorkIn says why no task may work in a folder; nil: tasks may work anywhere. It is asked whenever a task goes on, because folders are refused by now that were not when it was begun.
	MayWorkIn func(dir string) error
	// Environment describes a workspace for the model: branch, dirt, recent commits.
	Environment func(ctx context.Context, dir, tree string) string
	// Recent names the files that were changed lately in a workspace, as far as that can be told.
	Recent func(ctx context.Context, dir string) []string
	// Tree is the hash of a workspace's content, or empty where it is not under git.
	Tree func(ctx context.Context, dir string) (string, error)
	// UserDir is where the user's own AGENTS.md lies; may be empty.
	UserDir string
	// More is what a task has beside Tools. It is asked when the context is assembled, while there is none,
	// and may wait for others within ctx; after that with the context that holds its record, and must not wait.
	More func(ctx context.Context, t td.Task, set *td.ContextSet) More
	// Planned is what the graph of a task's project knows of it; nil: nothing.
	Planned func(ctx context.Context, t td.Task) (Planned, error)
	// Knowledge is what earlier tasks learned; nil: nothing is learned or told.
	Knowledge *knowledge.Shelf
	// Extract says what becomes of passages that may hold a learning when a task ends.
	Extract Extract
	// Worktrees is where tasks work that have a worktree of their own; nil: there are none.
	Worktrees Worktrees
	// Albums keep what workspaces held, step by step; nil: nobody does.
	Albums Albums
	// Newest is the newest snapshot of a task's workspace that its repository had when it was first asked about the task since the start; nil, or no
	// commit: there is none, or the repository is not there.
	Newest func(ctx context.Context, t td.Task) td.Snapshotted
	// Checkouts are where verifiers work.
	Checkouts Checkouts
	// Spawn creates a subtask, or finds the one that was created, and lets it run.
	Spawn func(ctx context.Context, spec td.Spec) (td.Task, error)
	// Raised is told that a person raised a budget of everybody; nil: nobody.
	Raised func(ctx context.Context)
	// Tell hands a hook's letter to other loops in the name of a task, or does what else the hook wants of them; nil: there are none. The same letter
	// again is handed to nobody twice.
	Tell func(ctx context.Context, from td.TaskID, do string, l td.Letter) (to []string, err error)
	// CancelChild tells a subtask that it is not wanted any more. Telling it again is harmless.
	CancelChild func(ctx context.Context, id td.TaskID, why string) error
	// Desk is where tasks that prepare a PRD work; nil: there are none.
	Desk Desk
	// Hooks are the hooks of the config; nil: none. HookDir is where those that are commands have their folders.
	Hooks   *hook.Set
	HookDir string
	// Replay says that answers come from a cassette: nothing is set aside for them.
	Replay bool
	// Redact takes secrets out of what hooks and commands say before anybody acts on it or sees it.
	Redact *redact.Redactor
	// Live tells viewers what is on its way; it must not block.
	Live func(api.Live)

	Window    int         // of the models, in tokens
	Windows   llm.Windows // of single models
	Share     float64     // of the window, above which a conversation is compacted
	MaxTokens int
	Thinking  int
	// Temperature is that of calls; empty: the provider's own.
	Temperature json.Number
	// SubtaskLimit is how long a task waits for a subtask; zero: without an end.
	SubtaskLimit time.Duration
	Turns        int // answers before a task is paused
	Reminders    int // turns that may end without a nomination, less one
	Iterations   int // that a run may begin of one task before a person is asked; zero: any number
	// Verifications is how often an iteration is begun anew because the verifier did not let the one before pass.
	Verifications int
	Tool          time.Duration // how long a tool may take
	Permission    time.Duration // how long a permission request stays open
	// Guard judges every call; the rest says what it is judged by, besides the rules.
	Guard       Guard
	Permissions td.PermissionMode // of tasks that bring none
	Rates       []policy.Rate
	Taint       bool // tasks that have read untrusted text are held stricter

	Anomalies     transcript.AnomalyLimits
	AnomalyAction td.AnomalyAction
	Retry         RetryTable
	Drift         transcript.DriftLimits
	Leases        Leases

	Boot string // boot id of this host
	Log  *slog.Logger
	Now  func() time.Time
}

// Engine runs tasks.
type Engine struct {
	Options
	// opening bounds how many journals are read at once: a thousand tasks that take up their work
	// together would leave nothing for whoever asks meanwhile.
	opening chan struct{}
	kits    *kits
	// calibration corrects what calls are estimated at.
	calibration *calibration
	warning     sync.Mutex // held while people are told of a budget, so that they are told once
}

// New makes an engine.
func New(o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Window == 0 {
		o.Window = 200_000
	}
	if o.Live == nil {
		o.Live = func(api.Live) {}
	}
	if o.MayWorkIn == nil {
		o.MayWorkIn = func(string) error { return nil }
	}
	return &Engine{Options: o, opening: make(chan struct{}, 4), kits: newKits(),
		calibration: &calibration{journal: o.Journal, log: o.Log, rates: map[string][]float64{}}}
}

// run is one task being worked on under one claim.
type run struct {
	*Engine
	held  *coord.Held
	ctl   *scheduler.Control
	log   *durable.Log
	root  *tool.Workspace
	wires map[string]*llm.Wire // by provider: each encodes in its own way

	ctx       context.Context // of the run, for what is made when first needed
	box       *tool.Registry  // made when first needed
	more      More            // made with it
	beginning beginning       // of the conversation, as recorded

	learned  int             // the turn after which what the conversation gives away was kept
	looked   map[string]bool // learnings that were looked at while the task worked
	searched int             // the turn whose answer was searched for what it wants to be kept

	caughtUp int // the turn before which the branch was brought onto the trunk, counted from 1; 0: none

	count      counted                    // by the provider, of the newest call it was asked about
	waited     time.Duration              // in the queue, before this run
	begun      bool                       // the hooks of its beginning were asked
	startWords []string                   // what they add to the opening
	pre        map[td.StepKey]hook.Result // what hooks said of the calls before they run
	ending     hook.Point                 // at which the task is about to end
	obeying    bool                       // commands are being carried out
	judges     bool                       // hooks look at a result that anybody may have written
	given      []givenBack                // leases that hooks are not told of yet

	shots    snapshots
	cleaning sync.WaitGroup // what is being removed from the spool, and the snapshot that is being taken
}

func (e *Engine) open(ctx context.Context, held *coord.Held, ctl *scheduler.Control) (*run, error) {
	select {
	case e.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-e.opening }()
	task, err := e.Journal.Task(ctx, held.Task)
	if err != nil {
		return nil, fmt.Errorf("load task: %w", err)
	}
	log, err := durable.Open(ctx, e.Journal, task, held.Claim, e.Now)
	if err != nil {
		return nil, err
	}
	r := &run{Engine: e, ctx: ctx, held: held, ctl: ctl, log: log}
	log.OnFree(r.gaveBack)
	return r, r.untold(ctx)
}

// end waits for what the run has begun beside its steps, and lets go of what it holds.
func (r *run) end() {
	r.cleaning.Wait()
	r.shots.close()
}

// Attend carries out the commands of a task that is not running, takes a running one from a holder that
// let it fall, and looks whether a blocked one may go on.
func (e *Engine) Attend(ctx context.Context, held *coord.Held) (*td.Task, error) {
	r, err := e.open(ctx, held, nil)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if r.log.Look().Status.State == td.Running {
		err := r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
			return td.Recover(t, "taken up again", at)
		})
		if err != nil {
			return nil, err
		}
		fpRecovered.Hit()
	}
	if err := r.obey(ctx); err != nil {
		return nil, err
	}
	if err := r.returnLeases(ctx); err != nil {
		return nil, err
	}
	if err := r.log.Flush(ctx); err != nil { // what hooks answered: else the next look would ask them again
		return nil, err
	}
	if t := r.log.Task(); t.Status.State == td.Blocked && r.log.Damaged() == nil {
		why, err := e.freed(ctx, t)
		if err == nil && why != "" {
			err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Unblock(t, why, at) })
		}
		if err != nil {
			return nil, err
		}
	}
	return r.left(), nil
}

// freed says why a blocked task may go on, or nothing.
func (e *Engine) freed(ctx context.Context, t td.Task) (string, error) {
	if b := t.Status.Blocked; b != nil && b.Child != "" {
		child, err := e.Journal.Task(ctx, b.Child)
		if err != nil {
			return "", err
		}
		if !child.Status.State.Terminal() {
			if !b.Until.IsZero() && !e.Now().Before(b.Until) { // the end of the child frees the parent
				err = e.CancelChild(ctx, b.Child, fmt.Sprintf("its parent waited for it %s, which is the limit (timeouts.subtask)", b.Until.Sub(child.CreatedAt)))
			}
			return "", err
		}
		return fmt.Sprintf("its subtask %s is %s", child.Handle, child.Status.State), nil
	}
	if b := t.Status.Blocked; b != nil && len(b.Wants) > 0 {
		return e.leaseFree(ctx, t)
	}
	if b := t.Status.Blocked; b != nil && b.Outage != nil {
		if !b.Outage.Due(e.Now()) {
			return "", nil
		}
		return "the model is asked again", nil
	}
	if b := t.Status.Blocked; b != nil && b.Budget != nil {
		return e.room(ctx, t)
	}
	if b := t.Status.Blocked; t.Worktree != nil && b != nil && (b.Resource == t.Worktree.Repo || b.Resource == t.Dir) {
		if !available(t.Worktree.Repo) || e.MayWorkIn(t.Dir) != nil {
			return "", nil
		}
		return "it is tried again", nil
	}
	if !available(t.Dir) || e.MayWorkIn(t.Dir) != nil {
		return "", nil
	}
	return "it is tried again", nil
}

// Run works on a queued task until it ends, waits, pauses or is blocked, or until it is told to stop.
func (e *Engine) Run(ctx context.Context, held *coord.Held, ctl *scheduler.Control) (*td.Task, error) {
	r, err := e.open(ctx, held, ctl)
	if err != nil {
		return nil, err
	}
	defer r.end()
	err = r.work(ctx)
	return r.left(), err
}

// work opens the workspace, starts the task and goes round the loop.
func (r *run) work(ctx context.Context) error {
	defer func() {
		if r.root != nil {
			_ = r.root.Close()
		}
	}()
	if err := r.obey(ctx); err != nil || r.log.Look().Status.State != td.Queued {
		return err
	}
	if behind, err := r.behind(ctx); err != nil || behind {
		return err
	}
	err := r.log.Damaged()
	if err == nil {
		err = r.MayWorkIn(r.log.Look().Dir)
	}
	if err == nil && r.log.Look().Worktree == nil {
		r.root, err = tool.OpenWorkspace(r.log.Look().Dir)
	}
	if err != nil {
		return r.block(ctx, err)
	}
	err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		r.waited = max(0, at.Sub(t.Status.Since))
		return td.Start(t, td.NewRunID(), at)
	})
	if err != nil {
		return err
	}
	fpStarted.Hit()
	if r.root == nil {
		if err := r.place(ctx); err != nil {
			return r.notPlaced(ctx, err)
		}
	}
	r.snapStart(ctx)
	return r.loop(ctx)
}

// Crashed records that the run panicked: the same panic would come again, so the task fails.
func (e *Engine) Crashed(ctx context.Context, held *coord.Held, panicked string) (*td.Task, error) {
	r, err := e.open(ctx, held, nil)
	if err != nil {
		return nil, err
	}
	defer r.end()
	if r.log.Look().Status.State != td.Running {
		return r.left(), fmt.Errorf("panic outside a run: %s", panicked)
	}
	err = r.fail(ctx, td.FailedData{
		Error: "taskdaemon itself crashed in this run: " + panicked, Recoverable: true,
		Hint: "taskdaemon daemon logs",
	})
	return r.left(), err
}

// left is the task as the run leaves it.
func (r *run) left() *td.Task {
	t := *r.log.Look()
	return &t
}

// loop does what the records call for, one safe point after the other.
func (r *run) loop(ctx context.Context) error {
	for r.log.Look().Status.State == td.Running {
		if err := r.safePoint(ctx); err != nil {
			return err
		}
		if r.log.Look().Status.State != td.Running {
			break
		}
		if err := r.snappedYet(); err != nil {
			return err
		}
		err := r.next(ctx)
		// The safe point takes the command that could not wait, or gives the task back to a daemon that stops; a process that was lost is in flight
		// without an outcome, which the next look at the records settles.
		if errors.Is(err, scheduler.ErrUrgent) || errors.Is(err, scheduler.ErrHalted) || errors.Is(err, sandbox.ErrLost) {
			continue
		}
		if short := td.ShortageOf(err); short != nil {
			err = r.outOfBudget(ctx, short)
		}
		if git, is := errors.AsType[*repoError](err); is && !r.ctl.Halted() {
			err = r.stuck(ctx, git)
		}
		if disk.Trouble(err) && !r.ctl.Halted() {
			// What the machine lacks is no outcome of a step: it is left without one, and settled when the task goes on.
			err = r.block(ctx, err)
		}
		if err != nil {
			return err
		}
	}
	if err := r.snapped(ctx); err != nil {
		return err
	}
	return r.log.Flush(ctx)
}

// next is the one thing to do now.
func (r *run) next(ctx context.Context) error {
	if !r.begun {
		return r.begin(ctx)
	}
	if said, stop := r.stopping(); stop {
		fpStopping.Hit()
		return r.pause(ctx, hookName+" "+said.Hook, said.Reason)
	}
	if changed, err := r.afterCall(ctx); err != nil || changed {
		return err
	}
	if err := r.keepSaid(ctx); err != nil {
		return err
	}
	t := r.log.Transcript()
	if r.shots.remade && !t.Open() {
		return r.tellRemade(ctx)
	}
	if !t.Open() {
		if caught, err := r.catchUp(ctx); err != nil || caught {
			return err
		}
	}
	if !t.Open() && t.Context != nil {
		if turned, err := r.turned(ctx); err != nil || turned {
			return err
		}
	}
	switch {
	case t.Context == nil:
		return r.assemble(ctx)
	case t.Open():
		if odd, err := r.odd(ctx); err != nil || odd {
			return err
		}
		return r.useTools(ctx)
	case !t.Ended || t.Stop == td.PauseTurn:
		if odd, err := r.odd(ctx); err != nil || odd {
			return err
		}
		if drifted, err := r.drifting(ctx); err != nil || drifted {
			return err
		}
		if told, err := r.tellLater(ctx); err != nil || told {
			return err
		}
		if fitted, err := r.fit(ctx); err != nil || fitted {
			return err
		}
		return r.callModel(ctx)
	default:
		return r.endTurn(ctx)
	}
}

// safePoint is between two steps: commands are taken and a stop is obeyed here.
func (r *run) safePoint(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case <-r.ctl.Wake():
		if err := r.obey(ctx); err != nil {
			return err
		}
		r.ctl.Heard()
	default:
	}
	if err := r.returnLeases(ctx); err != nil {
		return err
	}
	if r.ctl.Halted() && r.log.Look().Status.State == td.Running {
		err := r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
			return td.Interrupt(t, "the daemon stopped", at)
		})
		fpInterrupted.Hit()
		return err
	}
	if !available(r.log.Look().Dir) && r.log.Look().Status.State == td.Running {
		return r.block(ctx, td.Errorf(td.Unavailable, "the workspace %s is gone", r.log.Look().Dir))
	}
	return nil
}

// block blocks a task on its workspace.
func (r *run) block(ctx context.Context, why error) error {
	return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		return td.BlockOn(t, td.BlockedData{Cause: causeOf(why), Resource: t.Dir}, at)
	})
}

// causeOf is why a task is blocked, and what to type.
func causeOf(why error) string {
	if hint := td.HintOf(why); hint != "" {
		return why.Error() + "; next: " + hint
	}
	return why.Error()
}

// fail ends the task. What with holds is recorded together with the end: what comes before it is done anew
// after a crash.
func (r *run) fail(ctx context.Context, f td.FailedData, with ...td.Body) error {
	if err := r.learn(ctx); err != nil {
		return err
	}
	r.ending = hook.TaskFailed
	if err := r.reap(ctx, "the task failed"); err != nil {
		return err
	}
	if err := r.snapped(ctx); err != nil {
		return err
	}
	if err := r.failing(ctx, f); err != nil {
		return err
	}
	noted := slices.ContainsFunc(with, func(b td.Body) bool { return b.Type() == td.IterationEnded{}.Type() })
	if planned(r.log.Task()) && !noted {
		with = append(with, r.note(td.EndedFailed, f.Error))
	}
	if err := r.log.Stage(with...); err != nil {
		return err
	}
	return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Fail(t, f, at) })
}

func (r *run) ask(ctx context.Context, req td.Request) error {
	req, err := r.prompted(ctx, req)
	if err != nil {
		return err
	}
	return r.openRequest(ctx, req)
}

// openRequest is ask for a request whose prompt hooks have seen.
func (r *run) openRequest(ctx context.Context, req td.Request) error {
	req.AskedAt = r.log.Now()
	req.Prompt = clip(req.Prompt, maxAnswer) // whoever wrote it
	fpBeforeAsk.Hit()
	err := r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Ask(t, req, at) })
	fpAsked.Hit()
	return err
}
