package api

import (
	"time"

	"taskdaemon/internal/td"
)

// StatsQuery chooses what is counted.
type StatsQuery struct {
	// Since is rounded down to ten minutes: the past is tallied by those. All that was tallied, when not given.
	Since time.Time `json:"since,omitzero"`
}

// Stats are what loops did in a time, by what the journal tallied.
type Stats struct {
	Since  time.Time        `json:"since" doc:"The first ten minutes in which anything happened, not before those that were asked for."`
	Until  time.Time        `json:"until"`
	Now    map[td.State]int `json:"now" doc:"Tasks in each state at present."`
	Added  int              `json:"added" doc:"Tasks that were added in the time."`
	Ended  map[td.State]int `json:"ended" doc:"How often tasks came to an end in the time, by how."`
	Calls  int              `json:"calls" doc:"Answers of models, beside conversations as well."`
	Usage  td.Usage         `json:"usage" doc:"Their tokens."`
	Cost   td.Money         `json:"cost"`
	Merged int              `json:"merged" doc:"Pieces of work that were merged in the time."`
	// PerMerged is what models cost for each.
	PerMerged td.Money    `json:"cost_per_merged_micro_usd,omitempty" doc:"What models cost in the time, divided by that; failed work is paid for, too."`
	Asked     int         `json:"asked" doc:"Questions and requests to people."`
	Letters   int         `json:"letters" doc:"Messages that loops had from each other, from people and from hooks."`
	Crashes   int         `json:"crashes" doc:"Daemons that were started after one that did not stop by itself."`
	Steps     []StepStats `json:"steps" doc:"By kind; calls of tools by tool."`
}

// StepStats are the steps of one kind.
type StepStats struct {
	Kind   td.StepKind `json:"kind"`
	Name   string      `json:"name,omitempty" doc:"The tool's, of calls of tools."`
	Count  int         `json:"count"`
	Failed int         `json:"failed" doc:"No answer, an error, a validator that did not pass, a conflict."`
	P50    float64     `json:"p50_ms" doc:"Half of them took no longer; it is at most a sixteenth too long."`
	P95    float64     `json:"p95_ms"`
	P99    float64     `json:"p99_ms"`
}

// Hours is how long the time was, at least a minute: rates of less mean nothing.
func (s Stats) Hours() float64 { return max(s.Until.Sub(s.Since), time.Minute).Hours() }
