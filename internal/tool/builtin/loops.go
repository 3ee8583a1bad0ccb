package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/query"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// Loops are the other loops of a loop's project, as it may reach them (K-5).
type Loops interface {
	// Near are those that have not ended.
	Near(ctx context.Context, from td.TaskID) ([]td.Task, error)
	// Find is the one that is meant.
	Find(ctx context.Context, from td.TaskID, ref string) (td.Task, error)
	// Send hands a letter over and says to whom. The same letter again is handed to nobody twice.
	Send(ctx context.Context, from td.TaskID, l td.Letter) (to []string, err error)
	// Facts is what is known of one.
	Facts(ctx context.Context, id td.TaskID) (query.Facts, error)
	// Stop ends one for good, once by key.
	Stop(ctx context.Context, from, id td.TaskID, key, why string) error
}

// queryLimit is how long a question may take.
const queryLimit = 30 * time.Second

var errQueryLimit = td.Errorf(td.Timeout, "there is no answer after %s", queryLimit)

func loopTools(l Loops) []tool.Tool {
	return []tool.Tool{notifyTool(l), shareTool(l), queryTool(l), stopLoopTool(l)}
}

type notifyInput struct {
	Text string `json:"text" jsonschema:"what they should know" min:"1"`
	Type string `json:"type,omitempty" jsonschema:"the kind of event, like api_changed: loops may listen to some kinds only"`
}

func notifyTool(l Loops) tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "Notify",
		Description: "Tells all other loops that work in this project something. They read it as information before their next answers.",
	}, func(_ context.Context, env *tool.Env, in notifyInput) (tool.Call, error) {
		return send(l, env, td.Letter{Topic: in.Type, Text: in.Text}, title("Notify all loops:", in.Text))
	}, again[notifyInput])
}

type shareInput struct {
	To   []string `json:"to" jsonschema:"the loops, like t-4k7q2m9x" min:"1"`
	Text string   `json:"text" jsonschema:"what they should know" min:"1"`
}

func shareTool(l Loops) tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Share",
		Description: "Tells single other loops of this project something. They read it as information before their next answers. " +
			"Query without a loop lists them.",
	}, func(ctx context.Context, env *tool.Env, in shareInput) (tool.Call, error) {
		letter, names := td.Letter{Text: in.Text}, []string{}
		for _, ref := range in.To {
			t, err := l.Find(ctx, env.Task, ref)
			if err != nil {
				return tool.Call{}, err
			}
			if !slices.Contains(names, t.Handle) {
				letter.To, names = append(letter.To, string(t.ID)), append(names, t.Handle)
			}
		}
		return send(l, env, letter, title("Share with "+strings.Join(names, ", ")+":", in.Text))
	}, again[shareInput])
}

// send hands over a letter whose name follows from the step alone.
func send(l Loops, env *tool.Env, letter td.Letter, what string) (tool.Call, error) {
	letter.ID = string(env.Task) + "/" + string(env.Step.Base())
	if err := letter.Check(); err != nil {
		return tool.Call{}, err
	}
	evidence, err := json.Marshal(td.Letter{ID: letter.ID, To: letter.To, Topic: letter.Topic})
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	return tool.Call{
		Effect: td.Keyed, Evidence: evidence, Title: what, Free: true,
		Run: func(ctx context.Context) (td.ToolResult, error) {
			to, err := l.Send(ctx, env.Task, letter)
			if err != nil {
				return td.ToolResult{}, err
			}
			if len(to) == 0 {
				return td.ToolResult{Content: "No other loop of this project listens now."}, nil
			}
			return td.ToolResult{Content: "Handed to " + strings.Join(to, ", ") + "."}, nil
		},
	}, nil
}

// again is what becomes of a call that a crash cut off: to make it once more is harmless, because whoever has got what
// it hands over takes it once.
func again[In any](context.Context, *tool.Env, In, td.Intent) (tool.Resolution, error) {
	return tool.Resolution{State: tool.NotDone}, nil
}

type queryInput struct {
	Loop     string `json:"loop,omitempty" jsonschema:"the loop, like t-4k7q2m9x; leave it out to list the loops of this project"`
	Question string `json:"question,omitempty" jsonschema:"what you want to know of it"`
}

func queryTool(l Loops) tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Query",
		Description: "Asks about another loop of this project without disturbing it: which files it changed, its state, cost, progress " +
			"and last words are known at once; for any other question a small model reads its conversation.",
		Timeout: queryLimit,
	}, func(ctx context.Context, env *tool.Env, in queryInput) (tool.Call, error) {
		if in.Loop == "" {
			return tool.Call{
				Effect: td.Pure, Title: "List the loops of the project", Free: true,
				Run: func(ctx context.Context) (td.ToolResult, error) { return listLoops(ctx, l, env.Task) },
			}, nil
		}
		t, err := l.Find(ctx, env.Task, in.Loop)
		switch {
		case err != nil:
			return tool.Call{}, err
		case strings.TrimSpace(in.Question) == "":
			return tool.Call{}, td.Errorf(td.Invalid, "the question is empty")
		case len(in.Question) > query.MaxQuestion:
			return tool.Call{}, td.Errorf(td.Invalid, "the question has %d bytes; %d are allowed", len(in.Question), query.MaxQuestion)
		}
		call := tool.Call{
			Effect: td.Pure, Title: title("Ask about "+t.Handle+":", in.Question), Free: true, Timeout: queryLimit,
			Run: func(ctx context.Context) (td.ToolResult, error) { return askAbout(ctx, l, env, t.ID, in.Question) },
		}
		if query.KindOf(in.Question) == query.Free {
			call.Side = tool.Side{Prompt: query.MaxPrompt, Answer: query.MaxAnswer, Why: td.CauseQuery}
		}
		return call, nil
	}, nil)
}

func listLoops(ctx context.Context, l Loops, from td.TaskID) (td.ToolResult, error) {
	near, err := l.Near(ctx, from)
	if err != nil || len(near) == 0 {
		return td.ToolResult{Content: "No other loop works in this project now."}, err
	}
	var b strings.Builder
	untrusted := false
	for _, t := range near {
		fmt.Fprintf(&b, "%s  %s  %s\n", t.Handle, t.Status.State, t.Title)
		untrusted = untrusted || t.Tainted
	}
	return td.ToolResult{Content: fence.Text("The list of the other loops", fence.Visible(b.String())), Untrusted: untrusted}, nil
}

// askAbout answers from what is recorded, or lets the small model read it. Whoever asks pays.
func askAbout(ctx context.Context, l Loops, env *tool.Env, id td.TaskID, question string) (td.ToolResult, error) {
	facts, err := l.Facts(ctx, id)
	if err != nil {
		return td.ToolResult{}, err
	}
	res := td.ToolResult{Untrusted: facts.Task.Untrusted}
	what := "What is known of " + facts.Task.Handle
	text := facts.Answer(query.KindOf(question))
	if text == "" {
		ctx, cancel := context.WithTimeoutCause(ctx, queryLimit, errQueryLimit)
		defer cancel()
		said, err := env.Ask(ctx, facts.Prompt(question), query.MaxAnswer)
		if err != nil {
			return td.ToolResult{}, err
		}
		res.Side = &said
		if said.Error != "" || strings.TrimSpace(said.Text) == "" {
			res.Content, res.IsError = fmt.Sprintf("Nobody could be asked about %s (%s).", facts.Task.Handle, said.Error), true
			return res, nil
		}
		what, text = "What a small model reads in the conversation of "+facts.Task.Handle, said.Text
	}
	res.Content = fence.Text(what, fence.Visible(text))
	return res, nil
}

type stopLoopInput struct {
	Loop   string `json:"loop" jsonschema:"the loop, like t-4k7q2m9x" min:"1"`
	Reason string `json:"reason" jsonschema:"why, for the person" min:"1" max:"8000"`
}

// stopLoopTool ends the work of another loop, so a person is asked, as about a command.
func stopLoopTool(l Loops) tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "StopLoop",
		Description: "Ends another loop of this project for good. What it changed stays. Only for work that is of no use any more.",
	}, func(ctx context.Context, env *tool.Env, in stopLoopInput) (tool.Call, error) {
		t, err := l.Find(ctx, env.Task, in.Loop)
		if err != nil {
			return tool.Call{}, err
		}
		key := string(env.Task) + "/" + string(env.Step.Base())
		evidence, err := json.Marshal(td.Letter{ID: key, To: []string{string(t.ID)}})
		if err != nil {
			return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
		}
		return tool.Call{
			Effect: td.Keyed, Evidence: evidence, Title: title("Stop", t.Handle+" ("+t.Title+"): "+in.Reason),
			Run: func(ctx context.Context) (td.ToolResult, error) {
				if err := l.Stop(ctx, env.Task, t.ID, key, in.Reason); err != nil {
					return td.ToolResult{}, err
				}
				return td.ToolResult{Content: t.Handle + " is told to stop."}, nil
			},
		}, nil
	}, again[stopLoopInput])
}
