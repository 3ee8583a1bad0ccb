package td

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Obey decides what a person's command does to a task (L-10). It never fails: a command that makes no
// sense any more is consumed by an Ignored event that says why. The first event takes the command.
func Obey(t Task, c Command, at time.Time) []Event {
	m, err := obey(t, c, at)
	if err != nil {
		m.Events = []Event{{Task: t.ID, At: at, Body: Ignored{Command: c.Type, Why: err.Error()}}}
	}
	m.Events[0].Takes = c.Key
	return m.Events
}

// Ignore consumes a command that has no effect, for a reason that the task alone does not tell.
func Ignore(t Task, c Command, why string, at time.Time) Event {
	return Event{Task: t.ID, At: at, Takes: c.Key, Body: Ignored{Command: c.Type, Why: why}}
}

// Refuse says why a command makes no sense in the task's present state, or nil.
func Refuse(t Task, c Command, at time.Time) error {
	_, err := obey(t, c, at)
	return err
}

func obey(t Task, c Command, at time.Time) (Move, error) {
	switch c.Type {
	case CmdMessage:
		return say(t, c, at)
	case CmdAnswer:
		return answer(t, c, at)
	case CmdExpire:
		if c.Answer == nil {
			return Move{}, Errorf(Invalid, "no request named")
		}
		r, open := t.Request(c.Answer.Request)
		if !open || r.ExpiresAt().IsZero() || r.ExpiresAt().After(c.At) {
			return Move{}, Errorf(Conflict, "request %s was answered or asked again", c.Answer.Request.Handle())
		}
		return Expire(t, r.ID, at)
	case CmdPause:
		return Pause(t, c.By, cmp.Or(c.Text, "paused by a person"), at)
	case CmdResume:
		switch {
		case t.Status.State == Paused:
			return Resume(t, at)
		case t.Status.State == Blocked:
			return Unblock(t, "resumed by a person", at)
		case t.Status.State.Terminal() && t.Status.State != Completed:
			return Reset(t, "resumed by a person", at)
		}
		return Move{}, Errorf(Conflict, "%s is %s: there is nothing to resume", t.Handle, t.Status.State).
			WithHint("taskdaemon task show %s", t.Handle)
	case CmdOrder:
		return order(t, c, at)
	case CmdRebase:
		switch {
		case t.Worktree == nil:
			return Move{}, Errorf(Conflict, "%s has no branch of its own", t.Handle)
		case c.Text == "":
			return Move{}, Errorf(Invalid, "no commit named")
		}
		return only(t, FellBehind{Commit: c.Text, By: c.By}, at)
	case CmdLimit:
		return limit(t, c, at)
	case CmdInterrupt:
		return interrupt(t, c, at)
	case CmdMail:
		b, err := receive(t, c)
		if err != nil {
			return Move{}, err
		}
		return stays(t, b, at), nil
	case CmdQueried:
		if c.Query == nil {
			return Move{}, Errorf(Invalid, "the question is empty")
		}
		return stays(t, *c.Query, at), nil // one that has ended may be asked, too
	case CmdRewind:
		return rewind(t, c, at)
	case CmdCancel:
		return Cancel(t, c.Text, at)
	case CmdRetry:
		return discard(t, c, at)
	case CmdCompact:
		return only(t, CompactionWanted{By: c.By}, at)
	case CmdMode:
		if mode := PermissionMode(c.Text); slices.Contains(PermissionModes, mode) {
			return only(t, PermissionsChosen{Mode: mode, By: c.By}, at)
		}
		return Move{}, Errorf(Invalid, "permission mode %q: it is one of %v", c.Text, PermissionModes)
	case CmdModel:
		if c.Text == "" {
			return Move{}, Errorf(Invalid, "no model named")
		}
		return choose(t, c, at)
	}
	return Move{}, Errorf(Invalid, "unknown command %q", c.Type)
}

// choose overrides the model. A task that rests because the one before does not answer goes on with it.
func choose(t Task, c Command, at time.Time) (Move, error) {
	m, err := only(t, ModelChosen{Model: c.Text, By: c.By}, at)
	if b := t.Status.Blocked; err != nil || b == nil || b.Outage == nil {
		return m, err
	}
	next, err := Unblock(t, "another model was chosen", at)
	next.Events = append(m.Events, next.Events...)
	return next, err
}

func say(t Task, c Command, at time.Time) (Move, error) {
	if t.Status.State.Terminal() {
		return Move{}, Errorf(Conflict, "%s is %s and listens no more", t.Handle, t.Status.State).
			WithHint("taskdaemon resume %s", t.Handle)
	}
	said := Event{Task: t.ID, At: at, Body: Said{Text: c.Text, By: c.By}}
	if w := t.Status.Waiting; w != nil && w.Kind == AskConversation {
		m, err := TakeAnswer(t, Answer{Request: w.Request, Choice: "message", By: c.By}, at)
		if err != nil {
			return Move{}, err
		}
		m.Events = append([]Event{said}, m.Events...)
		return m, nil
	}
	return Move{Task: t.ID, From: t.Status.State, To: t.Status.State, Events: []Event{said}}, nil
}

func answer(t Task, c Command, at time.Time) (Move, error) {
	if c.Answer == nil {
		return Move{}, Errorf(Invalid, "the answer is empty")
	}
	r, open := t.Request(c.Answer.Request)
	if !open {
		return Move{}, Errorf(Conflict, "request %s of %s is not open: it was answered or it expired",
			c.Answer.Request.Handle(), t.Handle).WithHint("taskdaemon task show %s", t.Handle)
	}
	if end := r.ExpiresAt(); !end.IsZero() && !c.At.Before(end) {
		return Move{}, Errorf(Conflict, "request %s expired %s ago: it counts as no", r.Handle(), c.At.Sub(end).Round(time.Second)).
			WithHint("taskdaemon task show %s", t.Handle)
	}
	if r.Kind == AskConversation {
		return Move{}, Errorf(Conflict, "%s waits for your next message", t.Handle).
			WithHint("taskdaemon task send %s \"…\"", t.Handle)
	}
	if r.About == AboutBudget {
		return answerBudget(t, r, c, at)
	}
	if len(r.Options) > 0 && r.About != AboutModel && !slices.Contains(r.Options, c.Answer.Choice) {
		return Move{}, Errorf(Invalid, "%q is not an answer to request %s: choose one of %v",
			c.Answer.Choice, r.Handle(), r.Options).WithHint("taskdaemon task answer %s %s", r.Handle(), r.Options[0])
	}
	if r.About == AboutAge && c.Answer.Choice == No {
		m, err := Abandon(t, "too old to go on, said "+by(c.By), at)
		if err != nil {
			return Move{}, err
		}
		m.Events = append([]Event{{Task: t.ID, At: at, Body: RequestAnswered{Answer: *c.Answer}}}, m.Events...)
		return m, nil
	}
	if r.About == AboutRebase {
		return answerRebase(t, r, c, at)
	}
	if r.About == AboutDrift && c.Answer.Choice == No {
		m, err := Pause(t, c.By, "it seemed to go nowhere", at)
		if err != nil {
			return Move{}, err
		}
		m.Events = append([]Event{{Task: t.ID, At: at, Body: RequestAnswered{Answer: *c.Answer}}}, m.Events...)
		return m, nil
	}
	return TakeAnswer(t, *c.Answer, at)
}

// order gives a task that rests or has ended to a run over the graph.
func order(t Task, c Command, at time.Time) (Move, error) {
	if c.Order == nil {
		return Move{}, Errorf(Invalid, "the order is empty")
	}
	var m Move
	var err error
	switch rests := t.Status.State == Paused; {
	case (rests || t.Status.State.Terminal()) && !t.Status.Since.Equal(c.Order.Since):
		err = Errorf(Conflict, "%s is %s by now", t.Handle, t.Status.State).WithHint("taskdaemon run")
	case rests:
		m, err = Resume(t, at)
	case t.Status.State.Terminal():
		m, err = Reset(t, "started again by a run", at)
	default:
		err = Errorf(Conflict, "%s is %s: it was started already", t.Handle, t.Status.State).WithHint("taskdaemon loop attach %s", t.Handle)
	}
	if err != nil {
		return Move{}, err
	}
	m.Events = append([]Event{{Task: t.ID, At: at, Body: Ordered{Order: *c.Order, Fresh: t.Status.State.Terminal() || t.GivenUp(), By: c.By}}}, m.Events...)
	return m, nil
}

// limit has another run take over a task that is at work: how many iterations may begin is its to say from here on. Whatever
// else the order says was the business of whoever started the task, and stays.
func limit(t Task, c Command, at time.Time) (Move, error) {
	if c.Order == nil || c.Order.Until <= 0 || c.Order.Run == "" {
		return Move{}, Errorf(Invalid, "the limit is empty")
	}
	if t.Ordered == nil {
		return Move{}, Errorf(Conflict, "no run works on %s", t.Handle).WithHint("taskdaemon task show %s", t.Handle)
	}
	order := *t.Ordered
	order.Run, order.Until = c.Order.Run, c.Order.Until
	return only(t, Ordered{Order: order, By: c.By}, at)
}

// interrupt records a person's words to a task that a run works on, and has the run let go of it. Whoever holds the
// conversation adds the note of the iteration that ends by it.
func interrupt(t Task, c Command, at time.Time) (Move, error) {
	if t.Ordered == nil {
		return Move{}, Errorf(Conflict, "no run works on %s", t.Handle).WithHint("taskdaemon task send %s \"…\"", t.Handle)
	}
	if c.Text == "" {
		return Move{}, Errorf(Invalid, "nothing is said to %s", t.Handle).WithHint("taskdaemon task pause %s", t.Handle)
	}
	m, err := only(t, Said{Text: c.Text, By: c.By}, at)
	if err != nil || t.Status.State == Paused {
		return m, err
	}
	let, err := Pause(t, ByRun, "interrupted by a person", at)
	if err != nil {
		return Move{}, err
	}
	let.Events = append(m.Events, let.Events...)
	return let, nil
}

func discard(t Task, c Command, at time.Time) (Move, error) {
	dropped := Event{Task: t.ID, At: at, Body: Discarded{By: c.By}}
	var m Move
	var err error
	switch {
	case t.Status.State == Waiting:
		m, err = move(t, VerbAnswer, Status{State: Queued}, "the last answer is asked for again", at)
	case t.Status.State == Paused:
		m, err = move(t, VerbResume, Status{State: Queued}, "the last answer is asked for again", at)
	case t.Status.Blocked != nil && t.Status.Blocked.Child != "":
		m, err = Unblock(t, "the answer that asked for the subtask was dropped", at)
	case t.Status.Blocked != nil && t.Status.Blocked.Outage != nil:
		m, err = Unblock(t, "the last answer is asked for again", at)
	case t.Status.State == Completed:
		err = Errorf(Conflict, "%s is completed", t.Handle).WithHint("taskdaemon task show %s", t.Handle)
	case t.Status.State.Terminal():
		m, err = Reset(t, "the last answer is asked for again", at)
	default:
		m = Move{Task: t.ID, From: t.Status.State, To: t.Status.State}
	}
	if err != nil {
		return Move{}, err
	}
	m.Events = append([]Event{dropped}, m.Events...)
	return m, nil
}

func only(t Task, b Body, at time.Time) (Move, error) {
	if t.Status.State.Terminal() {
		return Move{}, Errorf(Conflict, "%s is %s", t.Handle, t.Status.State).WithHint("taskdaemon resume %s", t.Handle)
	}
	return stays(t, b, at), nil
}

// stays records something that changes no state.
func stays(t Task, b Body, at time.Time) Move {
	return Move{
		Task: t.ID, From: t.Status.State, To: t.Status.State,
		Events: []Event{{Task: t.ID, At: at, Body: b}},
	}
}

func by(who string) string {
	if who == "" {
		return "a person"
	}
	return fmt.Sprintf("%q", who)
}
