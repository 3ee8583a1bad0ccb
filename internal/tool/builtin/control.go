package builtin

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

type todoInput struct {
	Todos []todo `json:"todos" jsonschema:"the whole list, in order" max:"500"`
}

type todo struct {
	Text   string `json:"text" alias:"content,task,description,title" jsonschema:"what is to be done" min:"1"`
	Status string `json:"status" jsonschema:"how far it is" enum:"pending,in_progress,completed"`
}

func todoTool() tool.Tool {
	return tool.Define(tool.Tool{
		Name:        "Todo",
		Description: "Keeps your list of what is to be done. Each call gives the whole list anew.",
	}, func(_ context.Context, _ *tool.Env, in todoInput) (tool.Call, error) {
		return tool.Call{
			Effect: td.Pure, Title: fmt.Sprintf("Todo, %d entries", len(in.Todos)),
			Run: func(context.Context) (td.ToolResult, error) { return td.ToolResult{Content: todoList(in.Todos)}, nil },
		}, nil
	}, nil)
}

func todoList(todos []todo) string {
	if len(todos) == 0 {
		return "(nothing to do)"
	}
	marks := map[string]string{"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
	var b strings.Builder
	for _, t := range todos {
		fmt.Fprintf(&b, "%s %s\n", marks[t.Status], t.Text)
	}
	return b.String()
}

type askInput struct {
	Question string   `json:"question" jsonschema:"what you need to know" min:"1" max:"30000"`
	Options  []string `json:"options,omitempty" jsonschema:"answers to choose from, if there are few" max:"20"`
}

func askTool() tool.Tool {
	return control("Ask", tool.AskControl,
		"Asks the person a question and waits for the answer. Only for what you cannot find out yourself.",
		func(in askInput) (string, string) { return in.Question, "the question is empty" })
}

type completeInput struct {
	Summary string `json:"summary" jsonschema:"what was done, for the person" min:"1"`
	Notes   string `json:"notes,omitempty" jsonschema:"what those who work here after you should know"`
}

func completeTool() tool.Tool {
	return control("Complete", tool.CompleteControl,
		"Ends the task as done. Call it when all that was asked for is done and checked. Background jobs are ended first, and are gone even if it is not accepted.",
		func(in completeInput) (string, string) { return in.Summary, "the summary is empty" })
}

type failInput struct {
	Reason string `json:"reason" jsonschema:"why it cannot be done, for the person" min:"1"`
	Notes  string `json:"notes,omitempty" jsonschema:"what those who work here after you should know"`
}

func failTool() tool.Tool {
	return control("Fail", tool.FailControl,
		"Ends the task as failed. Call it when what was asked for cannot be done.",
		func(in failInput) (string, string) { return in.Reason, "the reason is empty" })
}

// control makes a tool that the loop itself carries out: its Prepare checks the input and that the text
// it is about says something.
func control[In any](name string, c tool.Control, description string, text func(In) (said, empty string)) tool.Tool {
	return tool.Define(tool.Tool{Name: name, Description: description, Control: c},
		func(_ context.Context, _ *tool.Env, in In) (tool.Call, error) {
			said, empty := text(in)
			if strings.TrimSpace(said) == "" {
				return tool.Call{}, td.Errorf(td.Invalid, "%s", empty)
			}
			return tool.Call{Effect: td.Pure, Title: name}, nil
		}, nil)
}
