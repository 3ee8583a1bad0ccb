package store

import (
	"context"

	"taskdaemon/internal/td"
)

// Ledger is what was spent and what is set aside. It follows from the events of all tasks and is written in
// the transaction of each append: an append whose reservation might take more than a cap it names leaves is
// refused there, with td.OverBudget and a td.Shortage, so that any number of loops cannot overrun a budget
// together.
type Ledger interface {
	// Balances says how caps stand. The limit is the cap's own, or what it was raised to if that is more.
	Balances(ctx context.Context, caps ...td.Cap) ([]td.Balance, error)

	// SubtasksSpent is what the subtasks of a task have spent, and theirs, whatever became of them and of
	// the calls that asked for them.
	SubtasksSpent(ctx context.Context, id td.TaskID) (td.Spent, error)

	// Spending is what was booked to this day or a later one; to any when it is empty.
	Spending(ctx context.Context, since string) (Spending, error)

	// Sums is Spending of all tasks together: its lines name none. It takes no longer the more tasks there are.
	Sums(ctx context.Context, since string) (Spending, error)
}

// Spending is a look into the ledger.
type Spending struct {
	Lines    []SpendLine
	Reserved td.Money // by calls under way now
	Tokens   int64    // that they may take
	Open     int      // how many those are
}

// SpendLine is the sum of the bookings with the same day, task, model and cause.
type SpendLine struct {
	Day      string
	Task     td.TaskID
	Handle   string
	Title    string
	Model    string
	Cause    td.Cause
	Amount   td.Money
	Calls    int
	Unpriced int // calls of a model whose price nobody knows
	// Estimated are calls of which the provider did not say what they took, and Replayed those that a cassette answered.
	Estimated, Replayed int
	Usage               td.Usage
	Tokens              int64 // that count towards token budgets
}
