package crash

import (
	"context"
	"path/filepath"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// prices is a file that gives the rehearsal a price.
func prices() string {
	path, err := filepath.Abs(filepath.Join("testdata", "prices.json"))
	if err != nil {
		panic(err)
	}
	return path
}

// raiseAll raises whatever budget stands in the way. What was spent must be what the answers cost, however
// often they were cut off.
func raiseAll(ctx context.Context, p *person, t td.Task) error {
	if b := t.Status.Blocked; b != nil && b.Budget != nil && !b.Budget.Passes() {
		if _, err := p.svc.RaiseBudget(ctx, api.RaiseBudget{Scope: b.Budget.Scope, Amount: 50_000_000, Tokens: 50_000_000, By: "person"}); err != nil {
			return err
		}
		t.Requests = nil // which takes the request back that is about this
	}
	if err := paidFor(ctx, p, t); err != nil {
		return err
	}
	return answerAll(ctx, p, t)
}

// answerForAll is raiseAll by answers alone. There is never more than one open request.
func answerForAll(ctx context.Context, p *person, t td.Task) error {
	if len(t.Requests) > 1 {
		return td.Errorf(td.Internal, "it asks %+v", t.Requests)
	}
	if err := paidFor(ctx, p, t); err != nil {
		return err
	}
	return answerAll(ctx, p, t)
}

// paidFor compares what was spent with what the answers cost.
func paidFor(ctx context.Context, p *person, t td.Task) error {
	if t.Status.State == td.Completed && (t.Cost != 9*50_000 || len(t.Reserved) > 0) {
		return td.Errorf(td.Internal, "it cost %s, and %+v is reserved", t.Cost, t.Reserved)
	}
	bill, err := p.svc.Cost(ctx, api.CostQuery{})
	if err != nil {
		return err
	}
	now, err := p.svc.Task(ctx, string(t.ID))
	if err == nil && now.Head == t.Head && bill.Total.Amount != t.Cost+t.Lost {
		return td.Errorf(td.Internal, "%s are booked, the task says %s and %s", bill.Total.Amount, t.Cost, t.Lost)
	}
	return err
}
