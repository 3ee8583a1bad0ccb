package engine

import (
	"context"
	"fmt"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// Desk is where the authors of PRDs work.
type Desk interface {
	// Hold keeps everybody else from the author's document until it is let go.
	Hold(ctx context.Context, t td.Task) (release func(), err error)
	// Lacks says what an author has yet to do before its task counts as completed, or nothing.
	Lacks(ctx context.Context, t td.Task) (why string, err error)
}

const (
	ruleForeign  = "an author writes its own document and nothing else"
	ruleDocument = "its own document"
)

// authored judges a call of an author: it may write its own document, and change nothing else, whatever rules,
// modes and answers say. What only looks is left to the rules, and so is what somebody plans who has no document: a plan
// may name commands that are run later.
func authored(t td.Task, call tool.Call) (d policy.Decision, decided bool) {
	if t.Author == nil {
		return d, false
	}
	own, foreign := false, call.Command != "" || len(call.Hosts) > 0
	for _, p := range call.Paths {
		if p.Access == policy.Write {
			own, foreign = true, foreign || p.Path != t.Author.Document
			d.Writes = append(d.Writes, p.Path)
		}
	}
	switch {
	case foreign || !own && call.Effect != td.Pure && !call.Free && t.Author.Document != "":
		d.Verdict, d.Rule, d.Floor, d.Fixed = policy.Deny, ruleForeign, true, true
		if d.Why = "You may write no file at all."; t.Author.Document != "" {
			d.Why = fmt.Sprintf("The only file you may write is %s.", t.Author.Document)
		}
		return d, true
	case own:
		d.Verdict, d.Rule = policy.Allow, ruleDocument
		return d, true
	}
	return d, false
}

// atDesk is a call that changes an author's document, made while nobody else is at it.
func (r *run) atDesk(call tool.Call) tool.Call {
	t := r.log.Task()
	if t.Author == nil || t.Author.Document == "" || r.Desk == nil || call.Effect == td.Pure || call.Free {
		return call
	}
	change := call.Run
	call.Run = func(ctx context.Context) (td.ToolResult, error) {
		release, err := r.Desk.Hold(ctx, t)
		if err != nil {
			return td.ToolResult{}, err
		}
		defer release()
		return change(ctx)
	}
	return call
}

// lacks says what an author has yet to do, or nothing.
func (r *run) lacks(ctx context.Context) (string, error) {
	t := r.log.Task()
	if t.Author == nil || r.Desk == nil {
		return "", nil
	}
	return r.Desk.Lacks(ctx, t)
}
