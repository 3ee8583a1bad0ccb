package store

import (
	"context"

	"taskdaemon/internal/td"
)

// Runs are the runs over graphs: what the records of td.DaemonStream that name each of them add up to. An open one stays
// however old it grows; one that has ended goes with its records.
type Runs interface {
	// Runs are those that match, the newest first.
	Runs(ctx context.Context, f RunFilter) ([]td.GraphRun, error)
}

// RunFilter chooses runs over graphs; the zero value is all.
type RunFilter struct {
	Run     string // of this name
	Project string // over the graph of this project
	Open    bool   // that have not ended
	Limit   int    // at most so many; 0: all
}
