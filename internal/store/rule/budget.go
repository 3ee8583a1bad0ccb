package rule

import (
	"slices"

	"taskdaemon/internal/td"
)

// Account is what the events of one append do to the ledger.
type Account struct {
	Open   []td.Reservation // of the task, after them
	Booked []td.Booking
	Raised []td.BudgetRaised
	Warned []td.BudgetWarned
	Kept   []td.BudgetKept
	Asked  []td.Request // to raise a budget of everybody

	was  []td.Reservation
	asks []ask
}

// ask is a reservation that must fit its caps, with what the events before it did.
type ask struct {
	want   td.Reserve
	booked int              // how many bookings came before it
	open   []td.Reservation // before it
}

// AccountOf folds the events of an append to a task with these open reservations.
func AccountOf(open []td.Reservation, evs []td.Record) Account {
	a := Account{Open: open, was: open}
	for _, ev := range evs {
		next, booked := td.Book(a.Open, ev.Event)
		a.Booked = append(a.Booked, booked...)
		switch b := ev.Body.(type) {
		case td.StepIntended:
			if b.Reserve != nil && (b.Reserve.Amount > 0 || b.Reserve.Tokens > 0) && len(b.Reserve.Caps) > 0 {
				// What a call that is made again had set aside is free, its booking counts.
				rest := slices.DeleteFunc(slices.Clone(a.Open), func(r td.Reservation) bool { return r.Step == b.Key })
				a.asks = append(a.asks, ask{*b.Reserve, len(a.Booked), rest})
			}
		case td.BudgetRaised:
			a.Raised = append(a.Raised, b)
		case td.BudgetWarned:
			a.Warned = append(a.Warned, b)
		case td.BudgetKept:
			a.Kept = append(a.Kept, b)
		case td.RequestOpened:
			if k := b.Request.Budget; k != nil && k.Scope.Everybodys() {
				a.Asked = append(a.Asked, b.Request)
			}
		}
		a.Open = next
	}
	return a
}

// Idle reports whether the events leave the ledger as it is.
func (a Account) Idle() bool {
	return len(a.Booked)+len(a.Raised)+len(a.Warned)+len(a.Kept)+len(a.Asked) == 0 && slices.Equal(a.was, a.Open)
}

// Reserves reports whether the open reservations change.
func (a Account) Reserves() bool { return !slices.Equal(a.was, a.Open) }

// Fits refuses the events if a reservation among them might take more than a cap leaves. balance is how a
// cap stands without them.
func (a Account) Fits(balance func(td.Cap) (td.Balance, error)) error {
	for _, k := range a.asks {
		for _, c := range k.want.Caps {
			b, err := balance(c)
			if err != nil {
				return err
			}
			for _, e := range a.Booked[:k.booked] {
				if c.Covers(e.Day) {
					b.Spent += c.Of(e.Amount, e.Tokens)
				}
			}
			b.Reserved += reserved(c, k.open) - reserved(c, a.was)
			for _, r := range a.Raised {
				if r.Scope == c.Scope && r.Key == c.Key {
					b.Limit = max(b.Limit, r.Limit)
				}
			}
			if err := b.Short(c.Of(k.want.Amount, k.want.Tokens)); err != nil {
				return err
			}
		}
	}
	return nil
}

func reserved(c td.Cap, open []td.Reservation) (sum td.Money) {
	for _, r := range open {
		if c.Covers(r.Day) {
			sum += c.Of(r.Amount, r.Tokens)
		}
	}
	return sum
}
