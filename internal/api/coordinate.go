package api

import (
	"context"

	"taskdaemon/internal/td"
)

// Coordinator is how people and loops reach loops that run (K-5). To stop, pause and resume one are commands.
type Coordinator interface {
	// Tell hands words to loops: to those it names, or to all of a project that listen. They are durable when this
	// returns, and each loop reads them once, before its next answer.
	Tell(ctx context.Context, in Tell) (Told, error)
	// Query asks about a task, running or not, without disturbing it.
	Query(ctx context.Context, ref string, in Query) (Answer, error)
}

// Tell is a message to loops.
type Tell struct {
	Key  string   `json:"key,omitempty" doc:"Idempotency key: with the same key again nobody is told twice."`
	To   []string `json:"to,omitempty" doc:"The tasks it is for; none: all of the project that have not ended and listen."`
	Dir  string   `json:"dir,omitempty" doc:"A folder of the project, when nobody is named."`
	Type string   `json:"type,omitempty" doc:"The kind of event, when nobody is named: tasks with a label listen:TYPE want those types only."`
	Text string   `json:"text" doc:"What they should know; at most 1 MiB."`
	By   string   `json:"by,omitempty"`
}

// Told is what became of it.
type Told struct {
	ID string   `json:"id"`
	To []string `json:"to" doc:"The handles of the tasks that have it."`
}

// Query is a question about a task.
type Query struct {
	Key      string `json:"key,omitempty" doc:"Idempotency key: with the same key again the first answer is given."`
	Question string `json:"question"`
	By       string `json:"by,omitempty"`
}

// Answer is what is known of it.
type Answer struct {
	Task string `json:"task"`
	// Kind is what the question was about: files, state, cost, progress or words, which are known; free: a small model read
	// the conversation.
	Kind      string   `json:"kind" doc:"files, state, cost, progress or words: answered from the records; free: by a small model."`
	Text      string   `json:"text"`
	Model     string   `json:"model,omitempty"`
	Cost      td.Money `json:"cost_micro_usd,omitempty"`
	Untrusted bool     `json:"untrusted,omitempty" doc:"The task has read text that anybody may have written."`
}
