package rule

import (
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// BodiesBefore is the end before which a task in this state loses the bodies that are not audited; ok
// is false for one that has not ended.
func BodiesBefore(p store.Retention, s td.State) (before time.Time, ok bool) {
	switch s {
	case td.Completed, td.Cancelled:
		return p.Now.Add(-p.Completed), true
	case td.Failed, td.Abandoned:
		return p.Now.Add(-p.Failed), true
	}
	return time.Time{}, false
}

// RecordsBefore is the end before which a task loses whole records, and the time before which the
// daemon's stream does.
func RecordsBefore(p store.Retention) time.Time { return p.Now.Add(-p.Audit) }

// KeepsRecord reports whether a record of a task's stream outlives every retention: those that tell
// the task's story in a line each, so that it can still be listed and folded.
func KeepsRecord(t td.EventType) bool {
	return t == td.Created{}.Type() || t == td.Moved{}.Type()
}

// KeepsBody reports whether a record keeps its body for as long as it stays: audited ones, and the notes that
// iterations leave.
func KeepsBody(t td.EventType) bool {
	return t.Audited() || t == td.IterationEnded{}.Type()
}
