package td

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cause says what a model was called for. Values are on disk.
type Cause string

// The causes. The last two are calls whose answer nobody has: they may have been billed, and are booked
// with all that was set aside for them; by records of earlier versions, with what was sent.
const (
	CauseTurn     Cause = "turn"     // the next answer of the conversation
	CauseSummary  Cause = "summary"  // makes the conversation smaller
	CauseDigest   Cause = "digest"   // reads a page for a tool
	CauseLearning Cause = "learning" // keeps something for later tasks
	CauseQuery    Cause = "query"    // answers a question about the task
	CauseRepeated Cause = "repeated" // a crash or an interruption took its answer away; it was made again
	CauseStopped  Cause = "stopped"  // the task ended, or the answer was dropped, while it was under way
)

// Scope is what a cap bounds. Values are on disk.
type Scope string

// The scopes.
const (
	OfTask  Scope = "task"  // one task alone
	OfTree  Scope = "tree"  // a task with all its subtasks
	OfDay   Scope = "day"   // everything in a day
	OfMonth Scope = "month" // everything in a month
)

// The same, counted in tokens.
const (
	OfTaskTokens  Scope = "task_tokens"
	OfTreeTokens  Scope = "tree_tokens"
	OfDayTokens   Scope = "day_tokens"
	OfMonthTokens Scope = "month_tokens"
	OfUnpriced    Scope = "unpriced_tokens" // a task with all its subtasks, that calls a model without a price and has no other token budget
)

// Everybodys reports whether the scope is that of all tasks together.
func (s Scope) Everybodys() bool { return s.Base() == OfDay || s.Base() == OfMonth }

// words is the budget as people say it.
func (s Scope) words() string {
	of := "the " + string(s.Base())
	if s.Base() == OfTree {
		of = "the task and its subtasks"
	}
	if s.InTokens() {
		return "the token budget of " + of
	}
	return "the budget of " + of
}

// Cap bounds what may be spent: by a task or a tree (the key is a task's id), in a day (2026-11-15) or in
// a month (2026-11). Its limit, and what is spent, are millionths of a dollar, or tokens where the scope says so.
type Cap struct {
	Scope Scope  `json:"scope"`
	Key   string `json:"key"`
	Limit Money  `json:"limit"`
}

// Reserve is what a call of a model may cost at most, set aside in the same record that says that the call
// is about to be made.
type Reserve struct {
	Model  string `json:"model,omitempty"` // if it is not what the step is called
	Amount Money  `json:"amount,omitempty"`
	Input  Money  `json:"input,omitempty"` // the part of it that is for what is sent
	Cause  Cause  `json:"cause"`
	Day    string `json:"day"` // to which it is booked, in the daemon's time zone
	Caps   []Cap  `json:"caps,omitempty"`
	// Unpriced says that nobody knows what the model costs: only tokens are set aside.
	Unpriced bool `json:"unpriced,omitempty"`
	// Tokens is how many it may take at most, and InputTokens the part of them that is sent. A call that counts towards no
	// token budget, such as a rehearsal, has none.
	Tokens      int64 `json:"tokens,omitempty"`
	InputTokens int64 `json:"input_tokens,omitempty"`
	// Held says that all of it is booked if nobody learns the outcome. Records of earlier versions book Input.
	Held bool `json:"held,omitempty"`
}

// Reservation is a reserve that is not settled yet.
type Reservation struct {
	Step     StepKey `json:"step"`
	Model    string  `json:"model"`
	Amount   Money   `json:"amount,omitempty"`
	Input    Money   `json:"input,omitempty"`
	Cause    Cause   `json:"cause"`
	Day      string  `json:"day"`
	Unpriced bool    `json:"unpriced,omitempty"`
	// The rest is as in Reserve.
	Tokens      int64 `json:"tokens,omitempty"`
	InputTokens int64 `json:"input_tokens,omitempty"`
	Held        bool  `json:"held,omitempty"`
}

// Booking is one entry of the ledger.
type Booking struct {
	Day       string
	Model     string
	Cause     Cause
	Amount    Money
	Unpriced  bool
	Estimated bool // the provider did not say what it took
	Replayed  bool // played from a cassette: it cost nothing
	Usage     Usage
	Tokens    int64 // that count towards token budgets
}

// mostBooked is more than any one call costs. A provider may claim any number of tokens; sums must not
// overflow because of one that does.
const mostBooked Money = 1e12

// dayLayout is how days are written; a month is its first seven characters.
const dayLayout = time.DateOnly

// Day is the key of the day that t falls on, where it is.
func Day(t time.Time) string { return t.Format(dayLayout) }

// Month is the key of the month of a day.
func Month(day string) string { return day[:min(len(day), len("2006-01"))] }

// Covers reports whether what is booked to a day counts towards the cap, given that its task does.
func (c Cap) Covers(day string) bool {
	switch c.Scope.Base() {
	case OfDay:
		return c.Key == day
	case OfMonth:
		return c.Key == Month(day)
	default:
		return true
	}
}

// Book folds one event into the open reservations of a task and says what it books. It is the only place
// where reservations become bookings: the task and the ledger beside it both follow from here.
func Book(open []Reservation, ev Event) (next []Reservation, booked []Booking) {
	switch b := ev.Body.(type) {
	case StepIntended:
		if b.Reserve == nil {
			return open, nil
		}
		lost, rest := splitReserved(open, b.Key)
		for _, r := range lost {
			booked = append(booked, r.lost(CauseRepeated))
		}
		r := b.Reserve
		return append(rest, Reservation{
			Step: b.Key, Model: cmp.Or(r.Model, b.Name), Amount: clampMoney(r.Amount), Input: clampMoney(r.Input),
			Cause: r.Cause, Day: r.Day, Unpriced: r.Unpriced,
			Tokens: clampTokens(r.Tokens), InputTokens: clampTokens(r.InputTokens), Held: r.Held,
		}), booked
	case StepEnded:
		mine, rest := splitReserved(open, b.Key)
		if e, paid := bookingOf(b.Outcome, ev.At, mine); paid {
			booked = append(booked, e)
		}
		return rest, booked
	case Queried:
		return open, []Booking{b.booking()}
	case Discarded, Rewound:
		return nil, dropped(open)
	case Moved:
		if b.Status.State.Terminal() {
			return nil, dropped(open)
		}
	}
	return open, nil
}

func dropped(open []Reservation) (booked []Booking) {
	for _, r := range open {
		booked = append(booked, r.lost(CauseStopped))
	}
	return booked
}

// lost is the booking of a call that has no answer: it may have taken all that was set aside.
func (r Reservation) lost(why Cause) Booking {
	e := Booking{Day: r.Day, Model: r.Model, Cause: why, Amount: r.Input, Unpriced: r.Unpriced}
	if r.Held {
		e.Amount, e.Tokens = r.Amount, r.Tokens
		e.Usage = Usage{Input: min(r.InputTokens, r.Tokens), Output: max(r.Tokens-r.InputTokens, 0)}
	}
	return e
}

// bookingOf is what an outcome costs. A step of the time before there were reservations, or without one,
// is booked to the day of its record.
func bookingOf(o Outcome, at time.Time, reserved []Reservation) (Booking, bool) {
	e := Booking{Day: Day(at.UTC())}
	switch {
	case o.Model != nil:
		e.Model, e.Amount, e.Usage, e.Cause = o.Model.Model, o.Model.Cost, o.Model.Usage, CauseTurn
		e.Unpriced, e.Estimated, e.Replayed = o.Model.Unpriced, o.Model.Estimated, o.Model.Replayed
	case o.Side != nil:
		e.Model, e.Amount, e.Usage, e.Cause = o.Side.Model, o.Side.Cost, o.Side.Usage, CauseSummary
		e.Unpriced, e.Estimated, e.Replayed = o.Side.Unpriced, o.Side.Estimated, o.Side.Replayed
	case o.Tool != nil && o.Tool.Side != nil:
		s := o.Tool.Side
		e.Model, e.Amount, e.Usage, e.Cause = s.Model, s.Cost, s.Usage, CauseDigest
		e.Unpriced, e.Estimated, e.Replayed = s.Unpriced, s.Estimated, s.Replayed
	case o.Failure != nil && o.Failure.Paid != nil:
		p := o.Failure.Paid
		e.Model, e.Amount, e.Usage, e.Cause = p.Model, p.Cost, p.Usage, CauseTurn
		e.Unpriced, e.Estimated = p.Unpriced, p.Estimated
	default:
		return Booking{}, false
	}
	e.Model, e.Amount, e.Usage = cmp.Or(e.Model, "unknown"), clampMoney(e.Amount), clampUsage(e.Usage)
	if e.Replayed {
		e.Usage = Usage{} // nobody was asked for it
	}
	for _, r := range reserved {
		e.Day, e.Cause = r.Day, r.Cause
		if r.Tokens > 0 {
			e.Tokens = e.Usage.Tokens()
		}
	}
	return e, true
}

func clampTokens(n int64) int64 { return min(max(n, 0), int64(mostBooked)) }

func clampMoney(m Money) Money { return min(max(m, 0), mostBooked) }

func clampUsage(u Usage) Usage {
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite} {
		*n = clampTokens(*n)
	}
	return u
}

func splitReserved(open []Reservation, step StepKey) (mine, rest []Reservation) {
	for _, r := range open {
		if r.Step == step {
			mine = append(mine, r)
		} else {
			rest = append(rest, r)
		}
	}
	return mine, rest
}

// book keeps in the task what is reserved for it, and what was booked for calls that have no answer.
func (t *Task) book(ev Event) {
	var booked []Booking
	t.Reserved, booked = Book(t.Reserved, ev)
	for _, e := range booked {
		if e.Cause == CauseRepeated || e.Cause == CauseStopped {
			t.Lost += e.Amount
		}
	}
	if w, is := ev.Body.(BudgetWarned); is {
		t.Warned = append(slices.DeleteFunc(slices.Clone(t.Warned), func(o BudgetWarned) bool {
			return o.Scope == w.Scope && o.Key == w.Key
		}), w)
	}
}

// Tree is the task at the root of the tree that the task belongs to.
func (s Spec) Tree() TaskID { return cmp.Or(s.Root, s.Parent, s.ID) }

// Balance is how a cap stands.
type Balance struct {
	Cap
	Spent    Money `json:"spent"`
	Reserved Money `json:"reserved,omitempty"` // by calls under way
	Warned   int   `json:"warned,omitempty"`   // the highest share in percent of which people were told
	Asked    bool  `json:"asked,omitempty"`    // a request to raise it is open
	Kept     Money `json:"kept,omitempty"`     // the limit at which a person said that it stays
}

// Askable reports whether a person may be asked to raise the limit: nobody is asked already, and nobody has
// said no to raising it.
func (b Balance) Askable() bool { return !b.Asked && b.Kept < b.Limit }

// Left is what may still be set aside.
func (b Balance) Left() Money { return max(b.Limit-b.Spent-b.Reserved, 0) }

// Percent is how much of the limit is spent.
func (b Balance) Percent() int {
	if b.Limit <= 0 {
		return 0
	}
	return int(float64(b.Spent) / float64(b.Limit) * 100)
}

// WarnAt are the shares of a budget, in percent, at which people are told.
var WarnAt = []int{50, 75, 90}

// Warning is the highest share that was reached and not told yet, or zero.
func (b Balance) Warning() int {
	due := 0
	for _, p := range WarnAt {
		if b.Percent() >= p && p > b.Warned {
			due = p
		}
	}
	return due
}

// Short says that a call might take more than a cap leaves, if it does.
func (b Balance) Short(want Money) error {
	if b.Limit <= 0 || want <= b.Left() {
		return nil
	}
	s := &Shortage{Balance: b, Want: want}
	return &Error{Kind: OverBudget, Err: s, Hint: "taskdaemon cost"}
}

// Shortage is why a call may not be made: it might cost more than a cap leaves.
type Shortage struct {
	Balance
	Want Money `json:"want"`
}

func (s *Shortage) Error() string {
	take := "cost"
	if s.Scope.InTokens() {
		take = "take"
	}
	text := fmt.Sprintf("%s is %s: %s are spent", s.Scope.words(), s.Scope.Amount(s.Limit), s.Scope.Amount(s.Spent))
	if s.Reserved > 0 {
		text += fmt.Sprintf(", %s set aside for calls under way", s.Scope.Amount(s.Reserved))
	}
	return text + fmt.Sprintf(", and the next call may %s up to %s", take, s.Scope.Amount(s.Want))
}

// Passes reports whether there will be room when the calls under way are settled.
func (s *Shortage) Passes() bool { return s.Spent+s.Want <= s.Limit }

// Raise is a limit that lets the work go on for as long again.
func (s *Shortage) Raise() Money {
	const cent = 10_000 // or ten thousand tokens
	to := max(2*s.Limit, s.Spent+s.Reserved+2*s.Want)
	return min((to+cent-1)/cent*cent, MaxBudget)
}

// ShortageOf is the shortage in err's chain, or nil.
func ShortageOf(err error) *Shortage {
	s, _ := errors.AsType[*Shortage](err)
	return s
}

// MaxBudget is the largest budget: more is a slip of the pen.
const MaxBudget Money = 1e15

// ParseDollars reads an amount as people write it: 5, 2.50, $10.
func ParseDollars(text string) (Money, error) {
	f, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(text), "$"), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, Errorf(Invalid, "%q is no amount of dollars: write 5 or 2.50", text)
	}
	if f < 0 || f > MaxBudget.Dollars() {
		return 0, Errorf(Invalid, "%s dollars: a budget is between 0 and %.0f dollars", strings.TrimSpace(text), MaxBudget.Dollars())
	}
	return Money(math.Round(f * 1e6)), nil
}

// String is the amount in dollars: with cents, or as many digits as it takes to say that it is not nothing.
func (m Money) String() string {
	if m == 0 || m >= 10_000 || m <= -10_000 {
		return fmt.Sprintf("$%.2f", m.Dollars())
	}
	return "$" + strconv.FormatFloat(m.Dollars(), 'f', -1, 64)
}

// The bodies that are about budgets.
type (
	// BudgetWarned says that much of a budget is spent: once for each share of it.
	BudgetWarned struct {
		Scope   Scope  `json:"scope"`
		Key     string `json:"key"`
		Percent int    `json:"percent"`
		Spent   Money  `json:"spent"`
		Limit   Money  `json:"limit"`
	}
	// BudgetRaised lets more be spent than the config and the task say.
	BudgetRaised struct {
		Cap
		By string `json:"by,omitempty"`
	}
	// BudgetKept says that a person was asked to raise a budget of everybody and wants it to stay.
	BudgetKept struct {
		Cap
		By string `json:"by,omitempty"`
	}
)

// Type names the body on disk.
func (BudgetWarned) Type() EventType { return "budget_warned" }

// Type names the body on disk.
func (BudgetRaised) Type() EventType { return "budget_raised" }

// Type names the body on disk.
func (BudgetKept) Type() EventType { return "budget_kept" }

func init() {
	register[BudgetWarned]()
	register[BudgetRaised]()
	register[BudgetKept]()
}

func (r BudgetRaised) String() string {
	return fmt.Sprintf("%s is %s now", r.Scope.words(), r.Scope.Amount(r.Limit))
}

func (k BudgetKept) String() string {
	return fmt.Sprintf("%s stays at %s: what needs more waits", k.Scope.words(), k.Scope.Amount(k.Limit))
}

func (w BudgetWarned) String() string {
	if w.Percent >= 100 {
		return fmt.Sprintf("%s is used up: %s of %s are spent, and the next call may take more than is left", w.Scope.words(), w.Scope.Amount(w.Spent), w.Scope.Amount(w.Limit))
	}
	return fmt.Sprintf("%d %% of %s is spent: %s of %s", w.Percent, w.Scope.words(), w.Scope.Amount(w.Spent), w.Scope.Amount(w.Limit))
}

// AskForAll blocks a task on a budget of everybody that is used up, and opens the request to raise it. The
// task stays blocked while the request is open: a new day may bring room before a person does.
func AskForAll(t Task, r Request, b BlockedData, at time.Time) (Move, error) {
	m, err := BlockOn(t, b, at)
	if err != nil {
		return Move{}, err
	}
	m.Events = append([]Event{{Task: t.ID, At: at, Body: RequestOpened{Request: r}}}, m.Events...)
	return m, nil
}

// withdraw takes back the requests to raise a budget of everybody: the task that asks goes on without.
func withdraw(t Task, m Move, at time.Time) Move {
	for _, r := range t.Requests {
		if r.About == AboutBudget && r.Budget != nil && r.Budget.Scope.Everybodys() {
			gone := RequestExpired{ID: r.ID, Why: "the task that asked goes on without it"}
			m.Events = append([]Event{{Task: t.ID, At: at, Body: gone}}, m.Events...)
		}
	}
	return m
}

// answerBudget decides what a person's word on a budget does: yes raises it as the request says, an amount
// raises it to that, no stops the task. No to a budget of everybody stops nobody for good: all who wait for
// it go on waiting, and are not asked about again.
func answerBudget(t Task, r Request, c Command, at time.Time) (Move, error) {
	if r.Budget == nil {
		return Move{}, Errorf(Invalid, "request %s does not say which budget it is about", r.Handle())
	}
	answered := Event{Task: t.ID, At: at, Body: RequestAnswered{Answer: *c.Answer}}
	if c.Answer.Choice == No && r.Budget.Scope.Everybodys() {
		m, err := TakeAnswer(t, *c.Answer, at)
		m.Events = append(m.Events, Event{Task: t.ID, At: at, Body: BudgetKept{Cap: r.Budget.Cap, By: c.By}})
		return m, err
	}
	if c.Answer.Choice == No {
		m, err := Pause(t, c.By, "the budget was not raised", at)
		m.Events = append([]Event{answered}, m.Events...)
		return m, err
	}
	limit := r.Budget.Raise()
	if c.Answer.Choice != Yes {
		var err error
		unit := "dollars"
		if r.Budget.Scope.InTokens() {
			unit = "tokens"
		}
		if limit, err = r.Budget.Scope.Parse(c.Answer.Choice); err != nil {
			return Move{}, Errorf(Invalid, "%q is not an answer to request %s: say yes, no or how many %s", c.Answer.Choice, r.Handle(), unit).
				WithHint("taskdaemon task answer %s yes", r.Handle())
		}
		if limit <= r.Budget.Limit {
			return Move{}, Errorf(Invalid, "%s is no more than the budget was: %s", r.Budget.Scope.Amount(limit), r.Budget.Scope.Amount(r.Budget.Limit)).
				WithHint("taskdaemon task answer %s %s", r.Handle(), r.Budget.Scope.Typed(r.Budget.Raise()))
		}
	}
	m, err := TakeAnswer(t, *c.Answer, at)
	if err != nil {
		return Move{}, err
	}
	raised := BudgetRaised{Cap: Cap{r.Budget.Scope, r.Budget.Key, limit}, By: c.By}
	m.Events = slices.Insert(m.Events, 1, Event{Task: t.ID, At: at, Body: raised})
	return m, nil
}
