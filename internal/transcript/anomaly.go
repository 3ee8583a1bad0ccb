package transcript

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// AnomalyLimits say what a task does not usually do (G-7). Zero switches a sign off.
type AnomalyLimits struct {
	Writes   int           // files written in a minute
	Commands int           // commands run in a minute
	Places   bool          // folders outside the workspace and hosts that it reaches for the first time
	Memory   int64         // bytes one command took
	CPU      time.Duration // time one command computed
}

// AnomalySign is something a task does not usually do.
type AnomalySign struct {
	Anomaly td.Anomaly
	Detail  string // in words
}

// anomalies is what the signs are made of, folded from the records alone.
type anomalies struct {
	writes, commands []time.Time // of the last minute before the newest
	seen             []string    // places that were reached before
	fresh            []string    // places that were reached for the first time and not told of yet
	memory           int64       // most that a command took since it was last told
	cpu              time.Duration
	made             []Made // only one of two copies may go on
	found            int
}

// writers are the tools that write files.
var writers = []string{"Write", "Edit", "MultiEdit"}

// maxSeen bounds the places a task is known to have reached; one that goes to more is odd in any case.
const maxSeen = 1000

// Anomaly looks for the first thing the task does not usually do. Whoever finds one records it as
// td.AnomalyFound, which starts its count anew.
func (t *Transcript) Anomaly(l AnomalyLimits) (AnomalySign, bool) {
	a := &t.anomalies
	switch {
	case l.Writes > 0 && len(a.writes) > l.Writes:
		return AnomalySign{td.WriteRate, fmt.Sprintf("%d files were written within a minute; %d are usual at most", len(a.writes), l.Writes)}, true
	case l.Commands > 0 && len(a.commands) > l.Commands:
		return AnomalySign{td.CommandRate, fmt.Sprintf("%d commands were run within a minute; %d are usual at most", len(a.commands), l.Commands)}, true
	case l.Places && len(a.fresh) > 0:
		if host, is := strings.CutPrefix(a.fresh[0], td.ReachHost); is {
			return AnomalySign{td.NewHost, "it reaches the host " + host + " for the first time"}, true
		}
		return AnomalySign{td.OddPath, "it reaches outside its workspace for the first time, to " + a.fresh[0]}, true
	case l.Memory > 0 && a.memory > l.Memory:
		return AnomalySign{td.MemorySpike, fmt.Sprintf("a command took %d MiB of memory; %d are usual at most", a.memory>>20, l.Memory>>20)}, true
	case l.CPU > 0 && a.cpu > l.CPU:
		return AnomalySign{td.CPUSpike, fmt.Sprintf("a command computed for %s; %s is usual at most", a.cpu.Round(time.Second), l.CPU)}, true
	}
	return AnomalySign{}, false
}

func (a *anomalies) apply(ev td.Event) {
	switch b := ev.Body.(type) {
	case td.StepIntended:
		if b.Kind != td.ToolStep || b.Attempt > 0 {
			return
		}
		a.made = append(a.made, Made{b.Name, ev.At})
		a.dropOldest(b.Name)
		switch {
		case slices.Contains(writers, b.Name):
			a.writes = lastMinute(a.writes, ev.At)
		case b.Name == "Bash", b.Boot != "": // under a shim, as the commands of skills
			a.commands = lastMinute(a.commands, ev.At)
		}
		places := b.Reach
		if b.Unlisted > 0 {
			places = append(slices.Clip(places), fmt.Sprintf("%d more places", b.Unlisted))
		}
		for _, place := range places {
			if slices.Contains(a.seen, place) || slices.Contains(a.fresh, place) {
				continue
			}
			a.fresh = append(slices.Clip(a.fresh), place)
			if len(a.seen) < maxSeen {
				a.seen = append(slices.Clip(a.seen), place)
			}
		}
	case td.StepEnded:
		if b.Tool != nil {
			a.memory, a.cpu = max(a.memory, b.Tool.Memory), max(a.cpu, b.Tool.CPU)
		}
	case td.AnomalyFound:
		a.found++
		a.told(b.Anomaly)
	}
}

// dropOldest forgets the oldest calls of a tool that was called very often, many at a time: to move the others costs the same for one.
func (a *anomalies) dropOldest(tool string) {
	n := 0
	for _, m := range a.made {
		if m.Tool == tool {
			n++
		}
	}
	if n < 2*MostMade {
		return
	}
	a.made = slices.DeleteFunc(slices.Clone(a.made), func(m Made) bool {
		drop := m.Tool == tool && n > MostMade
		if drop {
			n--
		}
		return drop
	})
}

// lastMinute adds a moment and lets go of those more than a minute before it.
func lastMinute(times []time.Time, at time.Time) []time.Time {
	kept := slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return at.Sub(t) >= time.Minute })
	return append(kept, at)
}

// told starts the count of a sign anew.
func (a *anomalies) told(what td.Anomaly) {
	switch what {
	case td.WriteRate:
		a.writes = nil
	case td.CommandRate:
		a.commands = nil
	case td.OddPath, td.NewHost:
		if len(a.fresh) > 0 {
			a.fresh = a.fresh[1:]
		}
	case td.MemorySpike:
		a.memory = 0
	case td.CPUSpike:
		a.cpu = 0
	}
}

// Made is a tool call that was begun.
type Made struct {
	Tool string
	At   time.Time
}

// MostMade is how many of the newest calls of each tool are remembered at least, if there were so many.
const MostMade = 256

// Made are the newest calls, oldest first.
func (t *Transcript) Made() []Made { return t.anomalies.made }

// AnomaliesFound is how many were recorded.
func (t *Transcript) AnomaliesFound() int { return t.anomalies.found }
