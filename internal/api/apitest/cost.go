package apitest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Cost gives Bill, broken down as asked.
func (f *Fake) Cost(_ context.Context, q api.CostQuery) (api.Cost, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.Bill
	out.By = cmp.Or(q.By, api.ByTask)
	if !slices.Contains(api.CostWays, out.By) {
		return api.Cost{}, td.Errorf(td.Invalid, "cost by %q: it is by task, model, day or cause", out.By)
	}
	if !q.Since.IsZero() {
		out.Since = td.Day(q.Since.Local())
	}
	if out.Lines == nil {
		out.Lines = []api.CostLine{}
	}
	if out.Budgets == nil {
		out.Budgets = []td.Balance{}
	}
	return out, nil
}

// RaiseBudget raises one of Bill's budgets.
func (f *Fake) RaiseBudget(_ context.Context, in api.RaiseBudget) (td.Balance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Scope != td.OfDay && in.Scope != td.OfMonth {
		return td.Balance{}, td.Errorf(td.Invalid, "raise the budget of the %s", in.Scope)
	}
	for i, b := range f.Bill.Budgets {
		if b.Scope != in.Scope {
			continue
		}
		if in.Amount < b.Limit {
			return td.Balance{}, td.Errorf(td.Invalid, "it is %s already", b.Limit)
		}
		f.Bill.Budgets[i].Limit = in.Amount
		return f.Bill.Budgets[i], nil
	}
	return td.Balance{}, td.Errorf(td.Conflict, "there is no budget of the %s to raise", in.Scope)
}

func testCost(t *testing.T, s suite) {
	for _, by := range append([]api.CostBy{""}, api.CostWays...) {
		got, err := s.svc.Cost(s.ctx, api.CostQuery{By: by, Since: time.Now().Add(-48 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if got.By != cmp.Or(by, api.ByTask) || got.Lines == nil || got.Budgets == nil || len(got.Since) != len(time.DateOnly) {
			t.Errorf("cost by %q is %+v", by, got)
		}
	}
	if _, err := s.svc.Cost(s.ctx, api.CostQuery{By: "colour"}); !td.IsKind(err, td.Invalid) {
		t.Errorf("cost by colour: %v", err)
	}
	if _, err := s.svc.RaiseBudget(s.ctx, api.RaiseBudget{Scope: td.OfTask, Amount: 1}); !td.IsKind(err, td.Invalid) {
		t.Errorf("raise the budget of a task: %v", err)
	}
	if _, err := s.svc.RaiseBudget(s.ctx, api.RaiseBudget{Scope: td.OfDay, Amount: 1}); !td.IsKind(err, td.Conflict) {
		t.Errorf("raise a budget that is not set: %v", err)
	}
}
