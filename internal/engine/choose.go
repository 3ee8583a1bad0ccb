package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// choose is the model for a call that failed like this so far: the one wanted, the one that stands in for it
// while it is down, or, where the waits of those are used up, the next of the chain. It is not ok when there
// is none left. Which models are down is all that does not come from the records.
func (e *Engine) choose(model string, failed []td.ModelFailure) (use, why string, ok bool) {
	var spent []string
	for _, f := range failed {
		if !f.RetryAt.IsZero() {
			continue
		}
		if f.Class == td.BadRequest || f.Class == td.AuthFailed {
			return "", "", false // not the model's fault: a person must look
		}
		spent = append(spent, f.Model)
	}
	use = model
	if e.Choose != nil {
		use, why = e.Choose(model)
	}
	if len(spent) == 0 {
		return use, why, true
	}
	var chain []string
	if e.Chain != nil {
		chain = e.Chain(model)
	}
	if len(spent) > len(chain) { // also when a hook names the models
		return "", "", false
	}
	for _, other := range append([]string{use, model}, chain...) {
		if !slices.Contains(spent, other) {
			return other, fmt.Sprintf("%s failed too often; using %s", strings.Join(spent, " and "), other), true
		}
	}
	return "", "", false
}

// gaveUp says why no model is left to ask.
func gaveUp(failed []td.ModelFailure) td.FailedData {
	last := failed[len(failed)-1]
	out := td.FailedData{Error: last.Message, Hint: last.Hint, Recoverable: last.Class != td.BadRequest}
	var models []string
	for _, f := range failed {
		if !slices.Contains(models, f.Model) {
			models = append(models, f.Model)
		}
	}
	if len(models) > 1 {
		out.Error = fmt.Sprintf("%s all failed, the last with: %s", strings.Join(models, ", "), last.Message)
	}
	return out
}

// bill is what an answer cost.
type bill struct {
	cost      td.Money
	unpriced  bool // nobody knows the price
	estimated bool // the provider did not say what it took, or not all
}

// billed says what an answer cost, by the name the model was asked for and then by the one that answered. What the
// provider does not say of its usage is estimated, so that nobody takes it for nothing: the input by what was sent, the
// output by what came.
func (e *Engine) billed(asked string, resp *llm.Response, sent int) (out bill) {
	if resp.Replayed {
		return out
	}
	rehearsed := strings.HasPrefix(asked, llm.Rehearsal+"/")
	if !rehearsed {
		out.estimated = estimate(resp, sent)
	}
	for _, name := range []string{asked, resp.Model} {
		if cost, ok := e.Prices.Cost(name, resp.Usage); ok {
			if cost == 0 && !rehearsed && name != asked && strings.HasPrefix(name, llm.Rehearsal) {
				continue // a provider that gives itself the name of what is free is not free
			}
			out.cost = cost
			return out
		}
	}
	out.unpriced = resp.Usage != td.Usage{}
	return out
}

// lettersOfToken is how many bytes a token stands for, on average over the text of an answer.
const lettersOfToken = 3

// paidFor says what a call cost that failed after the provider had begun to answer; nil: it had not.
func (e *Engine) paidFor(asked string, failed error, sent int) *td.Paid {
	why, ok := errors.AsType[*llm.Error](failed)
	if !ok || why.Begun == nil {
		return nil
	}
	resp := llm.Response{Model: why.Begun.Model, Usage: why.Begun.Usage, Cut: true}
	came := int64(why.Begun.Letters / lettersOfToken)
	less := resp.Usage.Output < came
	resp.Usage.Output = max(resp.Usage.Output, came)
	b := e.billed(asked, &resp, sent)
	return &td.Paid{Model: cmp.Or(resp.Model, asked), Usage: resp.Usage, Cost: b.cost, Unpriced: b.unpriced, Estimated: b.estimated || less}
}

// estimate fills in what the usage of an answer lacks, and reports whether it did.
func estimate(resp *llm.Response, sent int) bool {
	u, was := &resp.Usage, resp.Usage
	if u.Input <= 0 && u.CacheRead <= 0 && u.CacheWrite <= 0 {
		u.Input = int64(sent)
	}
	// Of a stream that was cut off the end of the usage is missing, too.
	if u.Output <= 0 || resp.Cut {
		u.Output = max(u.Output, int64(window.MessageTokens(resp.Message)))
	}
	return *u != was
}
