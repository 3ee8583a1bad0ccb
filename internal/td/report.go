package td

import (
	"fmt"
	"strings"
	"time"
)

// Report says what a start found and did. A start abandons no task: whether one that is too old goes on is asked, and that is among those
// asked again.
type Report struct {
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took"`
	Clean   bool          `json:"clean"` // the daemon before had stopped cleanly
	Queued  []ReportLine  `json:"queued,omitempty"`
	Retried []ReportLine  `json:"retried,omitempty"` // nothing had happened yet: from the start
	Resumed []ReportLine  `json:"resumed,omitempty"`
	Reasked []ReportLine  `json:"reasked,omitempty"`
	Paused  []ReportLine  `json:"paused,omitempty"`
	Corrupt []ReportLine  `json:"corrupt,omitempty"` // quarantined
	Orphans []string      `json:"orphans,omitempty"` // processes killed
	// Checking is how many of the tasks taken up have records that are still being read. What is found
	// damaged moves to Corrupt; nothing is done about a task before its records are read.
	Checking int `json:"checking,omitempty"`
}

// ReportLine is one task in a report.
type ReportLine struct {
	Task   TaskID `json:"task"`
	Handle string `json:"handle"`
	Title  string `json:"title"`
	What   string `json:"what"` // in words: what was in flight and what is done about it
}

// Empty reports whether nothing needed recovery.
func (r Report) Empty() bool {
	return len(r.Queued)+len(r.Retried)+len(r.Resumed)+len(r.Reasked)+len(r.Paused)+
		len(r.Corrupt)+len(r.Orphans) == 0
}

// String is the report as the owner reads it.
func (r Report) String() string {
	if r.Empty() {
		return "Daemon started. No pending tasks to recover."
	}
	var b strings.Builder
	if r.Clean {
		b.WriteString("Daemon started after a clean stop. Recovery report:\n")
	} else {
		b.WriteString("Daemon started after a crash. Recovery report:\n")
	}
	section := func(lines []ReportLine, one, many string) {
		if len(lines) == 0 {
			return
		}
		noun := many
		if len(lines) == 1 {
			noun = one
		}
		fmt.Fprintf(&b, "- %d %s\n", len(lines), noun)
		for i, l := range lines {
			if i == 10 {
				fmt.Fprintf(&b, "    … and %d more\n", len(lines)-i)
				break
			}
			fmt.Fprintf(&b, "    %s  %s: %s\n", l.Handle, l.Title, l.What)
		}
	}
	section(r.Retried, "task retried", "tasks retried")
	section(r.Resumed, "task resumed", "tasks resumed")
	section(r.Reasked, "request asked again", "requests asked again")
	section(r.Queued, "task still queued", "tasks still queued")
	section(r.Paused, "task still paused", "tasks still paused")
	section(r.Corrupt, "task quarantined", "tasks quarantined")
	if n := len(r.Orphans); n > 0 {
		fmt.Fprintf(&b, "- %d orphaned processes killed\n", n)
	}
	if r.Checking > 0 {
		fmt.Fprintf(&b, "- the records of %d are still being checked\n", r.Checking)
	}
	return strings.TrimRight(b.String(), "\n")
}
