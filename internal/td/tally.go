package td

import (
	"math/bits"
	"time"
)

// TallySlot is how finely the past is tallied.
const TallySlot = 10 * time.Minute

// Tally counts what happened in one slot of time: so many records of a type, of steps by kind, tool and duration. Summed up
// as records are written, it answers what a day was like without reading it again.
type Tally struct {
	TallyKey
	Count  int
	Failed int
	Calls  int // of models, among them
	Usage  Usage
	Cost   Money
}

// TallyKey is what a tally is of.
type TallyKey struct {
	Slot int64     // in seconds since 1970
	Type EventType // of the records; only the end of a step has the fields below
	Kind StepKind
	Name string // the tool's, of calls of tools; of a move to an end the state
	Took int    // the class of the duration
}

// Add adds another tally of the same key.
func (t Tally) Add(o Tally) Tally {
	t.TallyKey = o.TallyKey
	t.Count += o.Count
	t.Failed += o.Failed
	t.Calls += o.Calls
	t.Usage = t.Usage.Add(o.Usage)
	t.Cost += o.Cost
	return t
}

// Covers reports whether nothing of another tally of the same key is missing in this one.
func (t Tally) Covers(o Tally) bool {
	return t.Count >= o.Count && t.Failed >= o.Failed && t.Calls >= o.Calls && t.Cost >= o.Cost &&
		t.Usage.Input >= o.Usage.Input && t.Usage.Output >= o.Usage.Output
}

// SlotOf is the slot that a time is in.
func SlotOf(at time.Time) int64 { return at.Truncate(TallySlot).Unix() }

// TallyOf is what an event adds to the tallies of its slot, in a task with these steps in flight; ok is false when it adds nothing.
func TallyOf(inFlight []StepRef, ev Event) (out Tally, ok bool) {
	out = Tally{TallyKey: TallyKey{Slot: SlotOf(ev.At), Type: ev.Body.Type()}, Count: 1}
	switch b := ev.Body.(type) {
	case Created, RequestOpened, Received:
		return out, true
	case Moved:
		out.Name = string(b.Status.State)
		return out, b.Status.State.Terminal()
	case Queried:
		out.spent(b.Side.Usage, b.Side.Cost)
		return out, true
	case Recovered:
		return out, !b.Report.Clean
	case StepEnded:
		for _, s := range inFlight {
			if s.Key == b.Key {
				out.ended(s, b.Outcome, ev.At)
				return out, true
			}
		}
	}
	return out, false
}

// StepsAfter are the steps in flight after an event, by what of them is tallied.
func StepsAfter(inFlight []StepRef, ev Event) []StepRef {
	switch b := ev.Body.(type) {
	case StepIntended:
		return append(withoutStep(inFlight, b.Key), StepRef{Key: b.Key, Kind: b.Kind, Name: b.Name, At: ev.At})
	case StepEnded:
		return withoutStep(inFlight, b.Key)
	case Discarded, Rewound:
		return nil
	case IterationEnded:
		if b.Ending == EndedInterrupted {
			return nil
		}
	}
	return inFlight
}

func (t *Tally) ended(s StepRef, out Outcome, at time.Time) {
	if t.Kind = s.Kind; s.Kind == ToolStep {
		t.Name = s.Name
	}
	took := out.Took
	if took == 0 { // one of the daemon's own, or one that a later life found done
		took = max(0, at.Sub(s.At))
	}
	t.Took = durationClass(took)
	switch {
	case out.Model != nil:
		t.spent(out.Model.Usage, out.Model.Cost)
	case out.Side != nil:
		t.spent(out.Side.Usage, out.Side.Cost)
	}
	if out.Failure != nil || out.Tool != nil && out.Tool.IsError || out.Side != nil && out.Side.Error != "" {
		t.Failed = 1
	}
}

func (t *Tally) spent(u Usage, cost Money) { t.Calls, t.Usage, t.Cost = 1, u, cost }

// classBits says how fine the classes of durations are: 1<<classBits of them for each doubling, so that the longest duration of a
// class is at most a sixteenth longer than the shortest.
const classBits = 4

// durationClass is the class of a duration. Classes are on disk: never change what one means.
func durationClass(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	shift := max(0, bits.Len64(us)-classBits-1)
	return shift<<classBits + int(us>>shift)
}

// Longest is the longest duration of the tally's class.
func (k TallyKey) Longest() time.Duration {
	shift := max(0, k.Took>>classBits-1)
	sub := k.Took - shift<<classBits
	return time.Duration(uint64(sub+1)<<shift-1) * time.Microsecond
}
