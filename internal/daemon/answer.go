package daemon

import (
	"context"
	"fmt"
	"slices"

	"taskdaemon/internal/api"
	"taskdaemon/internal/rulebook"
	"taskdaemon/internal/td"
)

// answer hands a person's answer to the task. All who answer a request post under one key, so that the first
// one counts and is taken once (G-3); whoever comes later is told.
func (d *Daemon) answer(ctx context.Context, t td.Task, ref string, cmd td.Command, in api.Command) (td.Task, error) {
	origin := cmd.Key
	r, err := requestMeant(t, ref, in.Request)
	if err != nil {
		if d.answered(ctx, t, in.Request, origin) {
			return t, nil // the answer to it was lost, and it is given again
		}
		return td.Task{}, err
	}
	a := td.Answer{Request: r.ID, Choice: in.Answer, Words: in.Text, By: in.By, Origin: origin}
	if err := keeping(&a, r, in); err != nil {
		return td.Task{}, err
	}
	if in.ByTask && a.Choice != td.No && a.Choice != td.Never {
		if err := d.expected(ctx, t, r, in.By); err != nil {
			return td.Task{}, err
		}
	}
	cmd.Key, cmd.Answer = fmt.Sprintf("answer/%s/%d", r.ID, r.AskedAt.UnixNano()), &a
	if err := td.Refuse(t, cmd, cmd.At); err != nil {
		return td.Task{}, err
	}
	if err := d.post(ctx, t, cmd); err != nil {
		return td.Task{}, err
	}
	first, _, err := d.journal.Posted(ctx, t.ID, cmd.Key)
	if err != nil {
		return td.Task{}, err
	}
	if first.Answer != nil && first.Answer.Origin != origin {
		return td.Task{}, td.Errorf(td.Conflict, "request %s was answered with %s by %s a moment ago", r.Handle(), first.Answer.Choice, first.By).
			WithHint("taskdaemon task show %s", t.Handle)
	}
	return t, nil
}

// expected refuses an answer of somebody who named the task alone, if the request that was open before this one ended without them: it is the one that they may
// have seen, and they would agree to another.
func (d *Daemon) expected(ctx context.Context, t td.Task, r td.Request, by string) error {
	theirs := true
	for ev, err := range d.journal.Read(ctx, t.ID, 0) {
		if err != nil {
			return err
		}
		switch b := ev.Body.(type) {
		case td.RequestExpired:
			theirs = false
		case td.RequestAnswered:
			theirs = b.Answer.By == by
		}
	}
	if theirs {
		return nil
	}
	return td.Errorf(td.Conflict, "what %s asked before was settled without you; now it asks %s: %s", t.Handle, r.Handle(), oneLine(r.Asks(), 200)).
		WithHint("taskdaemon approve %s, if you agree to that; taskdaemon task show %s", r.Handle(), t.Handle)
}

// keeping fills in what an always or never keeps, and where.
func keeping(a *td.Answer, r td.Request, in api.Command) error {
	if r.Kind != td.AskPermission || a.Choice != td.Always && a.Choice != td.Never {
		if len(in.Rules) > 0 || in.Scope != "" {
			return td.Errorf(td.Invalid, "only always and never keep rules").WithHint("taskdaemon task answer %s always", r.Handle())
		}
		return nil
	}
	a.Rules, a.Scope = in.Rules, in.Scope
	if len(a.Rules) == 0 && len(r.Offers) > 0 {
		a.Rules = r.Offers[0].Rules
	}
	for _, rule := range in.Rules {
		if !slices.ContainsFunc(r.Offers, func(o td.Offer) bool { return slices.Contains(o.Rules, rule) }) {
			return td.Errorf(td.Invalid, "request %s does not offer the rule %s", r.Handle(), rule).
				WithHint("taskdaemon task show %s; rules of your own: taskdaemon permissions add", r.Handle())
		}
	}
	if len(a.Rules) == 0 {
		return td.Errorf(td.Invalid, "no rule can be made of request %s", r.Handle()).WithHint("taskdaemon task answer %s yes", r.Handle())
	}
	if a.Scope == "" {
		a.Scope = td.ProjectScope
	}
	if !slices.Contains(td.RuleScopes, a.Scope) {
		return td.Errorf(td.Invalid, "scope %q: it is one of %v", a.Scope, td.RuleScopes)
	}
	verdict := "allow"
	if a.Choice == td.Never {
		verdict = "deny"
	}
	for _, match := range a.Rules {
		if err := rulebook.Valid(td.KeptRule{Verdict: verdict, Match: match}); err != nil {
			return err
		}
	}
	return nil
}

// answered reports whether the answer that a request got was this one's.
func (d *Daemon) answered(ctx context.Context, t td.Task, request, origin string) bool {
	for ev, err := range d.journal.Read(ctx, t.ID, 0) {
		if err != nil {
			return false
		}
		if b, is := ev.Body.(td.RequestAnswered); is && string(b.Answer.Request) == request && b.Answer.Origin == origin {
			return true
		}
	}
	return false
}
