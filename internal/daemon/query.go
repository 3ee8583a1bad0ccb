package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/query"
	"taskdaemon/internal/td"
)

var (
	fpQueryIntended = failpoint.New("daemon.query.intended")
	fpQueryAnswered = failpoint.New("daemon.query.answered")
	fpQueryPosted   = failpoint.New("daemon.query.posted")
	fpQueryRecorded = failpoint.New("daemon.query.recorded")
	fpQuerySettled  = failpoint.New("daemon.query.settled")
)

// queryLimit is how long a question about a task may take.
const queryLimit = 30 * time.Second

var errQueryLimit = td.Errorf(td.Timeout, "there is no answer after %s", queryLimit).
	WithHint(`taskdaemon loop query <task> "status", which needs no model`)

// Query answers a question about a task, from what is recorded or, if that does not tell, by the small model.
func (d *Daemon) Query(ctx context.Context, ref string, in api.Query) (api.Answer, error) {
	if err := d.accepting(); err != nil {
		return api.Answer{}, err
	}
	t, err := d.Task(ctx, ref)
	switch {
	case err != nil:
		return api.Answer{}, err
	case strings.TrimSpace(in.Question) == "":
		return api.Answer{}, td.Errorf(td.Invalid, "the question is empty").WithHint(`taskdaemon loop query %s "which files did you change?"`, t.Handle)
	case len(in.Question) > query.MaxQuestion:
		return api.Answer{}, td.Errorf(td.Invalid, "the question has %d bytes; %d are allowed", len(in.Question), query.MaxQuestion)
	}
	facts, err := d.facts(ctx, t)
	if err != nil {
		return api.Answer{}, err
	}
	out := api.Answer{Task: t.Handle, Kind: string(query.KindOf(in.Question)), Untrusted: t.Untrusted}
	if out.Text = facts.Answer(query.Kind(out.Kind)); out.Text != "" {
		return out, nil
	}
	said, err := d.ask(ctx, t, facts, in)
	out.Text, out.Model, out.Cost = said.Text, said.Model, said.Cost
	return out, err
}

// facts is what is known of a task. What git cannot tell is left out.
func (d *Daemon) facts(ctx context.Context, t td.Task) (query.Facts, error) {
	events, gone, err := d.records(ctx, t)
	if err != nil {
		return query.Facts{}, err
	}
	f := query.FactsOf(t, events)
	f.Now, f.Gone = time.Now(), gone
	look, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if f.Changed, f.Tracked, err = git.Uncommitted(look, t.Dir); err != nil {
		d.o.Log.Debug("look for changed files", "task", t.Handle, "err", err)
	}
	if w := t.Worktree; w != nil && f.Tracked {
		if f.Committed, err = git.Ahead(look, t.Dir, w.Trunk); err != nil {
			d.o.Log.Debug("look for committed files", "task", t.Handle, "err", err)
		}
	}
	return f, nil
}

// asking is the evidence of a question to the small model: what is booked if nobody learns its answer.
type asking struct {
	Task td.TaskID  `json:"task"`
	Lost td.Queried `json:"lost"`
}

// ask lets the small model answer a question. It is a step of the daemon's own stream, because the task's belongs to whoever
// runs it; what it cost is handed to the task through its inbox, and nothing of it enters the conversation.
func (d *Daemon) ask(ctx context.Context, t td.Task, facts query.Facts, in api.Query) (td.SideResult, error) {
	key, known, err := d.answeredQuery(ctx, t.ID, in.Key)
	if err != nil || known != nil {
		return answerOf(known, err)
	}
	prompt := facts.Prompt(in.Question)
	price := d.engine.ReserveAside(t, query.System+prompt, query.MaxAnswer, td.CauseQuery)
	if err := d.affords(ctx, price); err != nil {
		return td.SideResult{}, err
	}
	lost := td.Queried{
		ID: string(key), Question: in.Question, By: in.By, Day: price.Day, Lost: true,
		Side: td.SideResult{
			Model: price.Model, Cost: price.Amount, Unpriced: price.Unpriced,
			Usage: td.Usage{Input: price.InputTokens, Output: price.Tokens - price.InputTokens},
		},
		Tokens: price.Tokens,
	}
	evidence, err := json.Marshal(asking{t.ID, lost})
	if err != nil {
		return td.SideResult{}, fmt.Errorf("encode evidence: %w", err)
	}
	err = d.own.append(ctx, td.StepIntended{Intent: td.Intent{Key: key, Kind: td.SideStep, Name: price.Model, Effect: td.Pure, Evidence: evidence}})
	if err != nil {
		return td.SideResult{}, err
	}
	fpQueryIntended.Hit()
	within, cancel := context.WithTimeoutCause(ctx, queryLimit, errQueryLimit)
	defer cancel()
	said, err := d.engine.Aside(within, t, query.System, prompt, query.MaxAnswer)
	fpQueryAnswered.Hit()
	done := lost
	if err == nil {
		done.Side, done.Lost, done.Tokens = said, false, 0
		if price.Tokens > 0 && !said.Replayed {
			done.Tokens = said.Usage.Tokens()
		}
	}
	// What it cost is booked, also if nobody waits for the answer any more.
	if berr := d.bookQuery(context.WithoutCancel(ctx), t, key, done); berr != nil {
		return td.SideResult{}, berr
	}
	return answerOf(&done, err)
}

// answerOf is what whoever asked is given.
func answerOf(q *td.Queried, err error) (td.SideResult, error) {
	switch {
	case err != nil:
		return td.SideResult{}, err
	case q.Side.Error != "" || strings.TrimSpace(q.Side.Text) == "":
		return td.SideResult{}, td.Errorf(td.Unavailable, "%s gave no answer: %s", q.Side.Model, q.Side.Error).
			WithHint("taskdaemon daemon status")
	}
	return q.Side, nil
}

// answeredQuery is the answer that a question with this key got, or the step under which it is to be asked.
func (d *Daemon) answeredQuery(ctx context.Context, id td.TaskID, key string) (td.StepKey, *td.Queried, error) {
	base := td.StepKey(fmt.Sprintf("query/%s/%s", id, cmp.Or(key, string(td.NewRequestID()))))
	for n := 0; ; n++ {
		cmd, posted, err := d.journal.Posted(ctx, id, string(base.Try(n)))
		if err != nil || !posted {
			return base.Try(n), nil, err
		}
		if cmd.Query != nil && !cmd.Query.Lost {
			return "", cmd.Query, nil
		}
	}
}

// affords refuses a question that might cost more than a budget leaves.
func (d *Daemon) affords(ctx context.Context, price *td.Reserve) error {
	if len(price.Caps) == 0 {
		return nil
	}
	balances, err := d.journal.Balances(ctx, price.Caps...)
	if err != nil {
		return err
	}
	for _, b := range balances {
		if err := b.Short(b.Of(price.Amount, price.Tokens)); err != nil {
			return fmt.Errorf("ask the small model: %w", err)
		}
	}
	return nil
}

// bookQuery hands what a question cost to its task, and closes the step.
func (d *Daemon) bookQuery(ctx context.Context, t td.Task, key td.StepKey, q td.Queried) error {
	err := d.journal.Post(ctx, t.ID, td.Command{
		Key: string(key), Type: td.CmdQueried, At: time.Now().UTC().Round(0), By: q.By, Query: &q,
	})
	if err != nil {
		return fmt.Errorf("book the question: %w", err)
	}
	fpQueryPosted.Hit()
	d.sched.Wake(ctx, t, false)
	return d.closeQuery(ctx, key, q.Lost)
}

func (d *Daemon) closeQuery(ctx context.Context, key td.StepKey, lost bool) error {
	res := &td.ToolResult{Content: "answered"}
	if lost {
		res = &td.ToolResult{Content: "there was no answer", IsError: true}
	}
	err := d.own.append(ctx, td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Tool: res}})
	fpQueryRecorded.Hit()
	return err
}

// settleQueries books the questions that were under way when the last daemon died: whoever asked is gone, and the model may
// have been paid.
func (d *Daemon) settleQueries(ctx context.Context) error {
	left, err := d.underWay(ctx, td.SideStep)
	for _, in := range left {
		if err := d.settleQuery(ctx, in); err != nil {
			return err
		}
	}
	return err
}

func (d *Daemon) settleQuery(ctx context.Context, in td.Intent) error {
	var a asking
	if err := json.Unmarshal(in.Evidence, &a); err != nil {
		d.o.Log.Warn("a question cannot be booked", "step", in.Key, "err", err)
		return d.closeQuery(ctx, in.Key, true)
	}
	// If its answer is in the inbox already, the key says so, and this is none.
	err := d.journal.Post(ctx, a.Task, td.Command{
		Key: string(in.Key), Type: td.CmdQueried, At: time.Now().UTC().Round(0), By: a.Lost.By, Query: &a.Lost,
	})
	if err != nil && !td.IsKind(err, td.NotFound) {
		return fmt.Errorf("book a question: %w", err)
	}
	fpQuerySettled.Hit()
	return d.closeQuery(ctx, in.Key, true)
}
