package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpBeforeLearn = failpoint.New("builtin.learn.before_add")
	fpLearned     = failpoint.New("builtin.learn.added")
)

type learnInput struct {
	Title string   `json:"title" jsonschema:"what it is about, in under ten words" min:"1"`
	Text  string   `json:"text" jsonschema:"what was learned, in a few sentences that make sense without this conversation" min:"1"`
	Kind  string   `json:"kind,omitempty" jsonschema:"learning: something found out (the usual one); decision: something settled that later work keeps to" enum:"learning,decision"`
	Tags  []string `json:"tags,omitempty" jsonschema:"two or three words to file it under"`
	Files []string `json:"files,omitempty" jsonschema:"files it is about; once one of them changes it no longer counts"`
}

// learnTool writes to the project's knowledge and nowhere else, so nobody is asked. That is in the project's own folder: what is in
// a worktree goes with it, or into the commits of the task.
func learnTool(shelf *knowledge.Shelf) tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Learn",
		Description: "Keeps something for later tasks in this project: how a part behaves, why something failed, a rule of " +
			"the people who own it, a decision. Only what is true beyond this task and not plain from the code. Never secrets.",
	}, func(_ context.Context, env *tool.Env, in learnInput) (tool.Call, error) {
		return prepareLearn(shelf, env, in)
	}, func(ctx context.Context, env *tool.Env, _ learnInput, intent td.Intent) (tool.Resolution, error) {
		return resolveLearn(ctx, shelf, env, intent)
	})
}

func prepareLearn(shelf *knowledge.Shelf, env *tool.Env, in learnInput) (tool.Call, error) {
	files, missing, err := knowledge.Cite(env.Root.Dir(), in.Files)
	if err != nil {
		return tool.Call{}, err
	}
	if len(missing) > 0 {
		return tool.Call{}, td.Errorf(td.NotFound, "%s: not a file in the project", strings.Join(missing, ", "))
	}
	kind, err := td.LearningKindOf(in.Kind)
	if err != nil {
		return tool.Call{}, err
	}
	l := memory.Learning{
		Kind: kind, Title: in.Title, Text: in.Text, Tags: in.Tags, Files: files, Feature: env.Feature, CreatedAt: env.Now(),
		Sources: []string{td.Handle(td.TaskHandle, string(env.Task), td.HandleLength)},
	}
	evidence, err := json.Marshal(l)
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	return tool.Call{
		Effect: td.Keyed, Evidence: evidence, Title: title("Learn", in.Title), Free: true, Learns: true,
		Run: func(ctx context.Context) (res td.ToolResult, err error) {
			err = shelf.Use(env.Home, func(s *memory.Store) error {
				fpBeforeLearn.Hit()
				kept, _, err := s.Add(ctx, l)
				fpLearned.Hit()
				res = learned(kept)
				return err
			})
			return res, err
		},
	}, nil
}

// learned is the same whether it was seen or found done.
func learned(l memory.Learning) td.ToolResult {
	return td.ToolResult{Content: fmt.Sprintf("Kept in %s.", knowledge.File(l.ID))}
}

func resolveLearn(ctx context.Context, shelf *knowledge.Shelf, env *tool.Env, intent td.Intent) (out tool.Resolution, err error) {
	var l memory.Learning
	if err := json.Unmarshal(intent.Evidence, &l); err != nil {
		return tool.Resolution{}, td.Errorf(td.Corrupt, "read evidence: %w", err)
	}
	err = shelf.Use(env.Home, func(s *memory.Store) error {
		kept, done, err := s.Probe(ctx, l)
		if done {
			out = tool.Resolution{State: tool.Done, Via: td.Probed, Result: learned(kept)}
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return tool.Resolution{}, nil // adding it again is harmless, and tells the model what is wrong
	}
	return out, err
}
