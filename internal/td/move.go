package td

import (
	"fmt"
	"slices"
	"time"
)

// Verb names a move. Values are on disk.
type Verb string

// The verbs.
const (
	VerbStart     Verb = "start"
	VerbInterrupt Verb = "interrupt"
	VerbRecover   Verb = "recover"
	VerbAsk       Verb = "ask"
	VerbAnswer    Verb = "answer"
	VerbExpire    Verb = "expire"
	VerbBlock     Verb = "block"
	VerbUnblock   Verb = "unblock"
	VerbPause     Verb = "pause"
	VerbResume    Verb = "resume"
	VerbComplete  Verb = "complete"
	VerbFail      Verb = "fail"
	VerbCancel    Verb = "cancel"
	VerbAbandon   Verb = "abandon"
	VerbReset     Verb = "reset"
	VerbRetry     Verb = "retry"
)

// Rule is one row of the table of legal moves.
type Rule struct {
	Verb Verb
	From []State
	To   []State
	Why  string
}

// Table is every legal move (T-2). Nothing else changes a state; docs/states.md is generated from it.
var Table = []Rule{
	{VerbStart, []State{Queued}, []State{Running}, "its turn has come"},
	{VerbInterrupt, []State{Running}, []State{Queued}, "given back unharmed at a shutdown; costs no attempt"},
	{VerbRecover, []State{Running}, []State{Queued}, "its holder died; it goes on from its last record"},
	{VerbAsk, []State{Running, Queued, Blocked}, []State{Waiting}, "a person must answer"},
	{VerbAnswer, []State{Waiting}, []State{Queued}, "a person answered"},
	{VerbExpire, []State{Waiting}, []State{Queued}, "nobody answered in time: denied automatically"},
	{VerbBlock, []State{Running, Queued}, []State{Blocked}, "something it needs is not there"},
	{VerbUnblock, []State{Blocked}, []State{Queued}, "it is there again"},
	{VerbPause, []State{Queued, Running, Waiting, Blocked}, []State{Paused}, "a person or a limit stopped it"},
	{VerbResume, []State{Paused}, []State{Queued, Waiting}, "a person let it go on; an open request is asked again"},
	{VerbComplete, []State{Running}, []State{Completed}, "the nomination passed the finish rule"},
	{VerbFail, []State{Running}, []State{Failed}, "it cannot go on"},
	{VerbCancel, []State{Queued, Running, Waiting, Blocked, Paused}, []State{Cancelled}, "a person ended it"},
	{VerbAbandon, []State{Queued, Running, Waiting, Blocked, Paused}, []State{Abandoned}, "too old to recover"},
	{VerbReset, []State{Completed, Failed, Cancelled, Abandoned}, []State{Queued}, "a person asked to do it again"},
	{VerbRetry, []State{Running}, []State{Queued}, "the iteration came to nothing; the next begins with a fresh context"},
}

// Legal reports whether verb may take a task from one state to the other.
func Legal(verb Verb, from, to State) bool {
	for _, r := range Table {
		if r.Verb == verb {
			return slices.Contains(r.From, from) && slices.Contains(r.To, to)
		}
	}
	return false
}

// Move is a decided change of state. Appending its events, all together, carries it out.
type Move struct {
	Task   TaskID
	Verb   Verb
	From   State
	To     State
	Events []Event
}

// Start lets a queued task run.
func Start(t Task, run RunID, at time.Time) (Move, error) {
	m, err := move(t, VerbStart, Status{
		State:   Running,
		Running: &RunningData{Run: run, Phase: Initializing, StartedAt: at, Iteration: max(t.Iteration, 1)},
	}, "", at)
	return withdraw(t, m, at), err
}

// Interrupt gives a running task back unharmed: a shutdown is not a failure, so it costs no attempt.
func Interrupt(t Task, reason string, at time.Time) (Move, error) {
	return move(t, VerbInterrupt, Status{State: Queued}, reason, at)
}

// Recover takes a running task from a holder that died.
func Recover(t Task, reason string, at time.Time) (Move, error) {
	return move(t, VerbRecover, Status{State: Queued}, reason, at)
}

// Ask opens a request and waits for it. A request that is already open is waited for, not opened again.
func Ask(t Task, r Request, at time.Time) (Move, error) {
	m, err := move(t, VerbAsk, waitingFor(r), "", at)
	if err != nil {
		return Move{}, err
	}
	if _, open := t.Request(r.ID); !open {
		m.Events = append([]Event{{Task: t.ID, At: at, Body: RequestOpened{Request: r}}}, m.Events...)
	}
	return m, nil
}

// TakeAnswer records a person's answer to an open request and queues the task again. A paused task
// stays paused: the answer is kept for its return.
func TakeAnswer(t Task, a Answer, at time.Time) (Move, error) {
	return settle(t, VerbAnswer, a.Request, RequestAnswered{Answer: a}, "answered", at)
}

// Expire closes a request nobody answered in time: denied automatically.
func Expire(t Task, id RequestID, at time.Time) (Move, error) {
	return settle(t, VerbExpire, id, RequestExpired{ID: id}, "nobody answered in time", at)
}

func settle(t Task, verb Verb, id RequestID, body Body, reason string, at time.Time) (Move, error) {
	if _, open := t.Request(id); !open {
		return Move{}, Errorf(Conflict, "%s has no open request %s", t.Handle, id.Handle())
	}
	if t.Status.State != Waiting {
		return Move{
			Task: t.ID, Verb: verb, From: t.Status.State, To: t.Status.State,
			Events: []Event{{Task: t.ID, At: at, Body: body}},
		}, nil
	}
	m, err := move(t, verb, Status{State: Queued}, reason, at)
	if err != nil {
		return Move{}, err
	}
	m.Events = append([]Event{{Task: t.ID, At: at, Body: body}}, m.Events...)
	return m, nil
}

// BlockOn parks a task on something that is not there.
func BlockOn(t Task, b BlockedData, at time.Time) (Move, error) {
	return move(t, VerbBlock, Status{State: Blocked, Blocked: &b}, b.Cause, at)
}

// Unblock queues a blocked task again.
func Unblock(t Task, reason string, at time.Time) (Move, error) {
	m, err := move(t, VerbUnblock, Status{State: Queued}, reason, at)
	return withdraw(t, m, at), err
}

// Pause stops a task until a person resumes it.
func Pause(t Task, by, reason string, at time.Time) (Move, error) {
	point := Queued
	if t.Status.State == Waiting {
		point = Waiting
	}
	return move(t, VerbPause, Status{State: Paused, Paused: &PausedData{By: by, ResumePoint: point}}, reason, at)
}

// Resume lets a paused task go on: to its open request if it waited for one, else to the queue.
func Resume(t Task, at time.Time) (Move, error) {
	if p := t.Status.Paused; p != nil && p.ResumePoint == Waiting && len(t.Requests) > 0 {
		r := t.Requests[0]
		r.AskedAt = at
		m, err := move(t, VerbResume, waitingFor(r), "resumed", at)
		if err != nil {
			return Move{}, err
		}
		m.Events = append([]Event{{Task: t.ID, At: at, Body: RequestAskedAgain{ID: r.ID}}}, m.Events...)
		return m, nil
	}
	return move(t, VerbResume, Status{State: Queued}, "resumed", at)
}

// Complete ends a task whose nomination passed the finish rule.
func Complete(t Task, summary string, ev *Evidence, at time.Time) (Move, error) {
	return move(t, VerbComplete, Status{State: Completed, Completed: &CompletedData{
		Summary: summary, Iterations: max(t.Iteration, 1), Cost: t.TreeSpent().Cost, Evidence: ev,
	}}, "", at)
}

// Fail ends a task that cannot go on.
func Fail(t Task, f FailedData, at time.Time) (Move, error) {
	f.Retries = t.Resets
	return move(t, VerbFail, Status{State: Failed, Failed: &f}, "", at)
}

// Cancel ends a task because a person said so.
func Cancel(t Task, reason string, at time.Time) (Move, error) {
	return move(t, VerbCancel, Status{State: Cancelled}, reason, at)
}

// Abandon ends a task that lay too long.
func Abandon(t Task, reason string, at time.Time) (Move, error) {
	return move(t, VerbAbandon, Status{State: Abandoned}, reason, at)
}

// Reset queues an ended task again because a person asked to try once more.
func Reset(t Task, reason string, at time.Time) (Move, error) {
	return move(t, VerbReset, Status{State: Queued}, reason, at)
}

func waitingFor(r Request) Status {
	return Status{State: Waiting, Waiting: &WaitingData{
		Kind: r.Kind, Request: r.ID, Prompt: r.Prompt, Options: r.Options,
	}}
}

func move(t Task, verb Verb, to Status, reason string, at time.Time) (Move, error) {
	from := t.Status.State
	if !Legal(verb, from, to.State) {
		return Move{}, Errorf(Conflict, "cannot %s %s: it is %s", verb, t.Handle, from).
			WithHint("taskdaemon task show %s", t.Handle)
	}
	to.Since, to.Reason = at, reason
	return Move{Task: t.ID, Verb: verb, From: from, To: to.State, Events: []Event{{
		Task: t.ID, At: at, Body: Moved{Verb: verb, From: from, Status: to},
	}}}, nil
}

func (m Move) String() string { return fmt.Sprintf("%s: %s → %s", m.Verb, m.From, m.To) }
