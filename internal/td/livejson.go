package td

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// AppendJSON appends what json.Marshal makes of l, byte for byte. Every append to the journal encodes the whole
// of it, and reflection took longer over that than the database over the rest. What is seldom there is left to
// json.Marshal.
func (l *Live) AppendJSON(b []byte) ([]byte, error) {
	if !knowsAllFields {
		raw, err := json.Marshal(l)
		return append(b, raw...), err
	}
	w := jsonWriter{b: append(b, '{')}
	w.key("status")
	w.status(&l.Status)
	w.key("head")
	w.b = strconv.AppendUint(w.b, l.Head, 10)
	w.time("updated_at", l.UpdatedAt)
	w.textIf("run", string(l.Run))
	w.int("iteration", int64(l.Iteration))
	w.int("turns", int64(l.Turns))
	w.intIf("turns_at_resume", int64(l.TurnsAtResume))
	w.intIf("resets", int64(l.Resets))
	w.intIf("recoveries", int64(l.Recoveries))
	w.key("usage")
	w.usage(&l.Usage)
	w.int("cost", int64(l.Cost))
	w.intIf("unpriced", int64(l.Unpriced))
	w.intIf("estimated", int64(l.Estimated))
	w.intIf("replayed", int64(l.Replayed))
	w.textIf("last_model", l.LastModel)
	w.textIf("last_text", l.LastText)
	w.textIf("model_override", l.ModelOverride)
	w.textIf("raised", string(l.Raised))
	listIf(&w, "rules", l.Rules, nil)
	w.trueIf("untrusted", l.Untrusted)
	w.textIf("permissions_override", string(l.PermissionsOverride))
	listIf(&w, "requests", l.Requests, nil)
	listIf(&w, "in_flight", l.InFlight, (*jsonWriter).step)
	listIf(&w, "jobs", l.Jobs, nil)
	anyIf(&w, "retrying", l.Retrying)
	listIf(&w, "reserved", l.Reserved, (*jsonWriter).reservation)
	w.intIf("lost", int64(l.Lost))
	listIf(&w, "warned", l.Warned, nil)
	anyIf(&w, "place", l.Place)
	anyIf(&w, "ordered", l.Ordered)
	w.textIf("chosen", string(l.Chosen))
	w.textIf("hint", string(l.Hint))
	listIf(&w, "tries", l.Tries, nil)
	w.intIf("unverified", int64(l.Unverified))
	w.textIf("offered", l.Offered)
	w.trueIf("set_up", l.SetUp)
	w.textIf("behind", l.Behind)
	anyIf(&w, "resolving", l.Resolving)
	w.intIf("passed", int64(l.Passed))
	w.intIf("resolves", int64(l.Resolves))
	w.intIf("iterations_from", int64(l.IterationsFrom))
	listIf(&w, "cuts", l.Cuts, nil)
	return append(w.b, '}'), w.err
}

// knowsAllFields says that this file was brought up to date with the fields there are. One that was added and
// forgotten here makes appends slower, and is not lost; TestLiveAsJSON tells.
var knowsAllFields = fields[Live]() == 42 && fields[Status]() == 9 && fields[RunningData]() == 5 && fields[Usage]() == 4 &&
	fields[StepRef]() == 8 && fields[Reservation]() == 10

func fields[T any]() int { return reflect.TypeFor[T]().NumField() }

func (w *jsonWriter) status(s *Status) {
	w.b = append(w.b, '{')
	w.text("state", string(s.State))
	w.time("since", s.Since)
	w.textIf("reason", s.Reason)
	if r := s.Running; r != nil {
		w.key("running")
		w.b = append(w.b, '{')
		w.text("run", string(r.Run))
		w.text("phase", string(r.Phase))
		w.textIf("step", r.Step)
		w.time("started_at", r.StartedAt)
		w.int("iteration", int64(r.Iteration))
		w.b = append(w.b, '}')
	}
	anyIf(w, "waiting", s.Waiting)
	anyIf(w, "blocked", s.Blocked)
	anyIf(w, "paused", s.Paused)
	anyIf(w, "completed", s.Completed)
	anyIf(w, "failed", s.Failed)
	w.b = append(w.b, '}')
}

func (w *jsonWriter) usage(u *Usage) {
	w.b = append(w.b, '{')
	w.int("input", u.Input)
	w.int("output", u.Output)
	w.intIf("cache_read", u.CacheRead)
	w.intIf("cache_write", u.CacheWrite)
	w.b = append(w.b, '}')
}

func (w *jsonWriter) step(s *StepRef) {
	w.b = append(w.b, '{')
	w.text("key", string(s.Key))
	w.text("kind", string(s.Kind))
	w.text("name", s.Name)
	w.text("effect", string(s.Effect))
	w.intIf("attempt", int64(s.Attempt))
	w.time("at", s.At)
	w.trueIf("kept", s.Kept)
	listIf(w, "wants", s.Wants, nil)
	w.b = append(w.b, '}')
}

func (w *jsonWriter) reservation(r *Reservation) {
	w.b = append(w.b, '{')
	w.text("step", string(r.Step))
	w.text("model", r.Model)
	w.intIf("amount", int64(r.Amount))
	w.intIf("input", int64(r.Input))
	w.text("cause", string(r.Cause))
	w.text("day", r.Day)
	w.trueIf("unpriced", r.Unpriced)
	w.intIf("tokens", r.Tokens)
	w.intIf("input_tokens", r.InputTokens)
	w.trueIf("held", r.Held)
	w.b = append(w.b, '}')
}
