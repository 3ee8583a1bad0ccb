package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type taskAnswerOptions struct {
	app   *app
	ref   string
	words []string
	rules []string // to keep with always or never; none: the first that the request offers
	scope string   // where to keep them
}

// keepFlags are those of an answer that keeps a rule.
func (o *taskAnswerOptions) keepFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.rules, "rule", nil, "offered rule to keep, instead of the first one; may be repeated")
	cmd.Flags().StringVar(&o.scope, "scope", "", "where to keep it: task, project or user; project when not given")
}

func newTaskAnswerCmd(a *app) *cobra.Command {
	o := taskAnswerOptions{app: a}
	cmd := &cobra.Command{
		Use: "answer <task or request> <yes | no | always | never | option | words…>", Short: "Answer what a task asks",
		Long: `Answer what a task asks. Words after yes, no or another option go to the model with it: a no with
a reason helps it to find another way. A task with one open request may be named itself.

always and never answer a permission and keep a rule, so that the like is not asked again: the narrowest that the
request offers, another one by its number (always 2), or the one given with --rule.`,
		Args:        args(cobra.MinimumNArgs(2), "a task or request, and the answer"),
		Example:     `  taskdaemon task answer q-7h2m4k9x no "not on this branch"`,
		Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref, o.words = args[0], args[1:]
			return runTaskAnswer(cmd.Context(), o)
		},
	}
	o.keepFlags(cmd)
	return cmd
}

func runTaskAnswer(ctx context.Context, o taskAnswerOptions) error {
	a := o.app
	svc, t, err := a.task(ctx, o.ref)
	if err != nil {
		return err
	}
	r, err := requestMeant(t, o.ref)
	if err != nil {
		return err
	}
	cmd := answerTo(r, o.words)
	cmd.By = a.by()
	exact, partial := td.MatchesRef(o.ref, string(r.ID), r.Handle())
	cmd.ByTask = !exact && !partial
	if len(o.rules) > 0 {
		cmd.Rules = o.rules
	}
	if o.scope != "" {
		cmd.Scope = td.RuleScope(o.scope)
	}
	t, err = svc.Command(ctx, string(t.ID), cmd)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(t)
	}
	if r.Kind == td.AskConversation {
		a.say("%s has your answer", t.Handle)
		return nil
	}
	a.say("%s has your answer: %s, to %s: %s", t.Handle, plainLine(cmd.Answer, 40), r.Handle(), plainLine(r.Question(), 200))
	return nil
}

// requestMeant is the open request a ref names, or the only one of the task it names.
func requestMeant(t td.Task, ref string) (td.Request, error) {
	var named []td.Request
	for _, r := range t.Requests {
		exact, partial := td.MatchesRef(ref, string(r.ID), r.Handle())
		if exact {
			return r, nil
		}
		if partial {
			named = append(named, r)
		}
	}
	if len(named) != 1 && len(t.Requests) > 0 {
		named = t.Requests
	}
	switch len(named) {
	case 0:
		return td.Request{}, td.Errorf(td.Conflict, "%s asks nothing: it is %s", t.Handle, stateWords(t)).
			WithHint("taskdaemon task show %s", t.Handle)
	case 1:
		return named[0], nil
	}
	names := make([]string, len(named))
	for i, r := range named {
		names[i] = r.Handle() + " (" + plainLine(r.Question(), 60) + ")"
	}
	return td.Request{}, td.Errorf(td.Ambiguous, "%s asks several things: %s", t.Handle, strings.Join(names, ", ")).
		WithHint("taskdaemon task answer %s …", named[0].Handle())
}

// answerTo makes a command of a person's words. The first word is the choice when it is one; y and n
// are yes and no. A question takes all words as its answer, a conversation as its next message.
func answerTo(r td.Request, words []string) api.Command {
	all := strings.Join(words, " ")
	if r.Kind == td.AskConversation {
		return api.Command{Type: td.CmdMessage, Text: all}
	}
	cmd := api.Command{Type: td.CmdAnswer, Request: string(r.ID), Answer: all}
	options := r.Options
	if r.Kind == td.AskPermission && len(options) == 0 {
		options = []string{td.Yes, td.No}
	}
	first := words[0]
	if short := strings.ToLower(first); slices.Contains(options, td.Yes) && (short == "y" || short == "n") {
		first = map[string]string{"y": td.Yes, "n": td.No}[short]
	}
	for _, o := range options {
		if strings.EqualFold(o, all) {
			cmd.Answer = o
			return cmd
		}
	}
	for _, o := range options {
		if strings.EqualFold(o, first) {
			cmd.Answer = o
			if r.Kind == td.AskPermission && (o == td.Always || o == td.Never) {
				words = keeping(r, &cmd, words)
			}
			cmd.Text = strings.Join(words[1:], " ")
			return cmd
		}
	}
	return cmd
}

// keeping takes what is to be kept out of the words after always or never: the number of an offer, and where.
func keeping(r td.Request, cmd *api.Command, words []string) []string {
	rest := words[1:]
	for len(rest) > 0 {
		n, err := strconv.Atoi(rest[0])
		switch {
		case err == nil && n >= 1 && n <= len(r.Offers) && cmd.Rules == nil:
			cmd.Rules = r.Offers[n-1].Rules
		case slices.Contains(td.RuleScopes, td.RuleScope(rest[0])) && cmd.Scope == "":
			cmd.Scope = td.RuleScope(rest[0])
		default:
			return append(words[:1:1], rest...)
		}
		rest = rest[1:]
	}
	return words[:1]
}
