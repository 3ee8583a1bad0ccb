package rule

import (
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// MatchesRun reports whether the filter lets a run over a graph through.
func MatchesRun(f store.RunFilter, g td.GraphRun) bool {
	return (f.Run == "" || g.Run == f.Run) && (f.Project == "" || g.Project == f.Project) && (!f.Open || g.Open())
}

// ForgetsRun reports whether retention lets a run over a graph go.
func ForgetsRun(g td.GraphRun, p store.Retention) bool {
	return g.End != nil && g.End.At.Before(RecordsBefore(p))
}
