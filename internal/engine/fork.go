package engine

import (
	"context"
	"fmt"

	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

// forkOf is the conversation that a forked task begins with, and what it is told then. It is copied, not referred to: the
// records of the other task go long before this one may be done. Nil for a task that is no fork.
func (r *run) forkOf(ctx context.Context, t td.Task) ([]td.Body, error) {
	if t.Fork == nil {
		return nil, nil
	}
	source, err := r.Journal.Task(ctx, t.Fork.Task)
	if err != nil {
		return nil, fmt.Errorf("find the task that is forked: %w", err)
	}
	events, err := r.Records(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("read the conversation that is forked: %w", err)
	}
	from := transcript.At(events, t.Fork.Seq)
	words := fmt.Sprintf("[taskdaemon] You go on from here in another folder: %s. It holds what %s held at this point; what is in that one now is not yours to touch. "+
		"Use the new folder for every path from now on, and read a file again before you change it.", t.Dir, source.Dir)
	bodies := []td.Body{
		td.Forked{From: t.Fork.Task, Step: t.Fork.Step, Messages: from.Messages, Answers: from.Answers},
		td.Said{By: "taskdaemon", Why: td.Continue, Text: words},
	}
	if t.Prompt != source.Prompt {
		bodies = append(bodies, td.Said{By: t.CreatedBy, Text: t.Prompt})
	}
	return bodies, nil
}
