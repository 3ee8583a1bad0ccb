package builtin

import "taskdaemon/internal/tool"

type taskInput struct {
	Title  string `json:"title,omitempty" alias:"description" jsonschema:"one line for people"`
	Prompt string `json:"prompt" jsonschema:"everything the subtask needs to know: it sees nothing of this conversation" min:"1" max:"100000"`
	Tier   string `json:"tier,omitempty" jsonschema:"class of model, if not yours" enum:"small,worker,expert"`
}

func taskTool() tool.Tool {
	return control("Task", tool.TaskControl,
		"Hands a self-contained piece of the work to a subtask of its own, in this workspace, and waits for its final answer. "+
			"Use it for work whose details you need not keep in mind. Subtasks may be 3 deep.",
		func(in taskInput) (string, string) { return in.Prompt, "the prompt is empty" })
}

type exploreInput struct {
	Question string `json:"question" jsonschema:"what to find out, with all that is needed to look for it" min:"1" max:"100000"`
}

func exploreTool() tool.Tool {
	return control("Explore", tool.ExploreControl,
		"Lets a small, fast agent that can only read look through the workspace, and returns its summary. "+
			"Use it to find things out without filling this conversation with files.",
		func(in exploreInput) (string, string) { return in.Question, "the question is empty" })
}
