package store

import (
	"context"
	"time"

	"taskdaemon/internal/td"
)

// Notes are what iterations of planned tasks left for those after them: one for each td.IterationEnded. They stay as long
// as audited records do, when the rest of a conversation is gone.
type Notes interface {
	// Notes are those that match: the newest first, or with words to match the best first.
	Notes(ctx context.Context, q NoteQuery) ([]Note, error)
}

// NoteQuery chooses notes.
type NoteQuery struct {
	Project string   // the folder that the task is planned in: notes of others are never found
	Run     string   // of this run over the graph alone; empty: of all
	Match   string   // any text: notes that have a word in common with it
	Except  []uint64 // notes that are known already, by cursor
	Limit   int      // at most so many; 0: all
}

// Note is what an iteration left, and whose it was.
type Note struct {
	td.IterationEnded
	Cursor uint64 // of its record
	At     time.Time
	Task   td.TaskID
	Handle string
	Title  string
	// Untrusted says that the task's model had read text that anybody may have written.
	Untrusted bool
}
