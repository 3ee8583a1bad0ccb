package api

import (
	"time"

	"taskdaemon/internal/td"
)

// CostBy says how a bill is broken down.
type CostBy string

// The ways.
const (
	ByTask  CostBy = "task"
	ByModel CostBy = "model"
	ByDay   CostBy = "day"
	ByCause CostBy = "cause"
)

// CostWays lists them.
var CostWays = []CostBy{ByTask, ByModel, ByDay, ByCause}

// CostQuery chooses what a bill is about.
type CostQuery struct {
	By    CostBy    `json:"by,omitempty"`   // by task when empty
	Since time.Time `json:"since,omitzero"` // from the day of this time on; everything when zero
}

// Cost is a bill: what calls of models cost, what is set aside for those under way, and how the budgets stand.
type Cost struct {
	By       CostBy     `json:"by"`
	Since    string     `json:"since,omitempty"` // the first day that counts
	Lines    []CostLine `json:"lines"`
	Total    CostLine   `json:"total"`
	Reserved td.Money   `json:"reserved_micro_usd"`
	// ReservedTokens is what the calls under way may take, where tokens are counted.
	ReservedTokens int64 `json:"reserved_tokens,omitempty"`
	Open           int   `json:"open"` // calls under way
	// Merged is how many pieces of work were merged since.
	Merged  int          `json:"merged"`
	Budgets []td.Balance `json:"budgets"`
}

// CostLine is one line of a bill.
type CostLine struct {
	Name     string `json:"name"`
	Title    string `json:"title,omitempty"` // of a task
	Calls    int    `json:"calls"`
	Unpriced int    `json:"unpriced,omitempty"` // calls of models whose price nobody knows: not in the amount
	// Estimated are calls of which the provider did not say what they took: usage and amount are estimates.
	Estimated int `json:"estimated,omitempty"`
	// Replayed are calls that a cassette answered: they cost nothing.
	Replayed int `json:"replayed,omitempty"`
	// Unknown are calls whose outcome nobody knows: they count with all that was set aside.
	Unknown int      `json:"outcome_unknown,omitempty"`
	Usage   td.Usage `json:"usage"`
	Amount  td.Money `json:"cost_micro_usd"`
}

// RaiseBudget lets more be spent in this day or month than the config says.
type RaiseBudget struct {
	Scope  td.Scope  `json:"scope" doc:"day or month; day_tokens or month_tokens"`
	Amount td.Money  `json:"amount_micro_usd" doc:"The new budget, in millionths of a dollar; not used for one in tokens."`
	Tokens td.Tokens `json:"tokens,omitempty" doc:"The new budget, in tokens, of day_tokens and month_tokens."`
	By     string    `json:"by,omitempty"`
}
