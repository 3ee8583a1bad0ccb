package apitest

import (
	"context"
	"encoding/json"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Command acts on a task at once, as the real daemon does a little later.
func (f *Fake) Command(_ context.Context, ref string, cmd api.Command) (td.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.resolve(ref)
	if err != nil {
		return td.Task{}, err
	}
	if cmd.Key != "" && f.used[cmd.Key] {
		return *t, nil
	}
	id := t.ID
	m, err := f.decide(*t, cmd)
	if err != nil {
		return td.Task{}, err
	}
	for i, ev := range m.Events {
		takes := ""
		if i == 0 {
			takes = cmd.Key
		}
		f.append(id, takes, ev.Body)
	}
	f.used[cmd.Key] = true
	if cmd.Type == td.CmdAnswer && f.task(id).Status.State == td.Queued {
		f.complete(id, cmd.Answer)
	}
	return *f.task(id), nil
}

func (f *Fake) decide(t td.Task, cmd api.Command) (td.Move, error) {
	at := now()
	said := func(b td.Body) (td.Move, error) {
		if t.Status.State.Terminal() {
			return td.Move{}, td.Errorf(td.Conflict, "%s is %s", t.Handle, t.Status.State).
				WithHint("taskdaemon task resume %s", t.Handle)
		}
		return td.Move{Events: []td.Event{{Task: t.ID, At: at, Body: b}}}, nil
	}
	switch cmd.Type {
	case td.CmdMessage:
		return said(td.Said{Text: cmd.Text, By: cmd.By})
	case td.CmdModel:
		return said(td.ModelChosen{Model: cmd.Text, By: cmd.By})
	case td.CmdCompact:
		return said(td.CompactionWanted{By: cmd.By})
	case td.CmdRetry:
		return said(td.Discarded{By: cmd.By})
	case td.CmdAnswer:
		for _, r := range t.Requests {
			if cmd.Request == "" || cmd.Request == string(r.ID) || cmd.Request == r.Handle() {
				return td.TakeAnswer(t, td.Answer{Request: r.ID, Choice: cmd.Answer, Words: cmd.Text, By: cmd.By}, at)
			}
		}
		return td.Move{}, td.Errorf(td.Conflict, "%s has no open request", t.Handle).WithHint("taskdaemon task show %s", t.Handle)
	case td.CmdPause:
		return td.Pause(t, cmd.By, cmd.Text, at)
	case td.CmdResume:
		if t.Status.State.Terminal() {
			return td.Reset(t, cmd.Text, at)
		}
		return td.Resume(t, at)
	case td.CmdCancel:
		return td.Cancel(t, cmd.Text, at)
	}
	return td.Move{}, td.Errorf(td.Invalid, "unknown command %q", cmd.Type).WithHint("taskdaemon task send --help")
}

func (f *Fake) move(m td.Move, err error) {
	if err != nil {
		panic("apitest: " + err.Error())
	}
	for _, ev := range m.Events {
		f.append(m.Task, "", ev.Body)
	}
}

// ask plays the first half of a script: the model asks a question.
func (f *Fake) ask(id td.TaskID) {
	f.move(td.Start(*f.task(id), td.NewRunID(), now()))
	f.append(id, "", td.ContextSet{
		Iteration: 1, Provider: "rehearsal", System: "system", Tools: json.RawMessage(`[]`),
		Opening: td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: f.task(id).Prompt}}},
	})
	f.answer(id, "t1.model", "Which colour?", td.Block{
		Type: td.ToolUseBlock, ID: "u1", Name: "Ask",
		Input: json.RawMessage(`{"question":"Which colour?","options":["red","blue"]}`),
	})
	f.append(id, "", td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: "Ask", Effect: td.Pure}})
	f.move(td.Ask(*f.task(id), td.Request{
		ID: td.NewRequestID(), Kind: td.AskQuestion, About: td.AboutModel,
		Prompt: "Which colour?", Options: []string{"red", "blue"}, Step: "t1.0", Tool: "Ask", AskedAt: now(),
	}, now()))
}

// complete plays the second half: the model has its answer and is done.
func (f *Fake) complete(id td.TaskID, choice string) {
	f.move(td.Start(*f.task(id), td.NewRunID(), now()))
	f.append(id, "", td.StepEnded{Outcome: td.Outcome{Key: "t1.0", Via: td.Answered, Tool: &td.ToolResult{Content: choice}}})
	f.answer(id, "t2.model", "It is "+choice+".")
	f.move(td.Complete(*f.task(id), "It is "+choice+".", nil, now()))
}

func (f *Fake) answer(id td.TaskID, key td.StepKey, text string, more ...td.Block) {
	f.append(id, "", td.StepIntended{Intent: td.Intent{Key: key, Kind: td.ModelStep, Name: "rehearsal", Effect: td.Pure}})
	f.append(id, "", td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Model: &td.ModelResult{
		Message:    td.Message{Role: td.Assistant, Blocks: append([]td.Block{{Type: td.TextBlock, Text: text}}, more...)},
		StopReason: td.EndTurn, Model: "rehearsal", Usage: td.Usage{Input: 10, Output: 5},
	}}})
}
