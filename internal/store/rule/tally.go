package rule

import "taskdaemon/internal/td"

// Tallies add up what happened, by key.
type Tallies map[td.TallyKey]td.Tally

// Add counts the events of one append to a task that had these steps in flight.
func (t Tallies) Add(inFlight []td.StepRef, evs []td.Record) {
	for i := range evs {
		ev := evs[i].Event
		if n, ok := td.TallyOf(inFlight, ev); ok {
			t[n.TallyKey] = t[n.TallyKey].Add(n)
		}
		if i+1 < len(evs) {
			inFlight = td.StepsAfter(inFlight, ev)
		}
	}
}
