package transcript

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// DriftLimits say when a loop counts as going nowhere (L-12). Zero switches a signal off.
type DriftLimits struct {
	TurnTokens   int64         // tokens that one turn added to the conversation
	ToolFailures int           // tool calls that failed one after the other
	NoProgress   time.Duration // since something new was last done
	Repeats      int           // same calls among the last driftWindow
}

// driftWindow is how many calls are looked at for repetitions.
const driftWindow = 10

// drift is what the signals are made of. It is folded from the records alone, so that the same
// conversation drifts at the same place in every life.
type drift struct {
	calls    []string     // the newest, oldest first: tool and hash of its input
	fresh    []td.StepKey // of those of the newest answer, what was not done before
	failures int
	progress time.Time // when something new was last done
	tokens   int64     // of the newest turn
	least    int64     // of a turn since it was last told
	warned   map[td.Drift]int
}

// DriftSignal is a sign that a loop is going nowhere.
type DriftSignal struct {
	Signal td.Drift
	Action td.DriftAction
	Detail string // in words, for the person and the model
}

// Drift looks for the first sign that the loop is going nowhere. Whoever finds one records it as
// td.Drifted, which starts the count anew.
func (t *Transcript) Drift(now time.Time, l DriftLimits) (DriftSignal, bool) {
	d := &t.drift
	switch {
	case l.ToolFailures > 0 && d.failures >= l.ToolFailures:
		return DriftSignal{td.DriftFailures, td.DriftStuck, fmt.Sprintf("%d tool calls failed one after the other", d.failures)}, true
	case l.NoProgress > 0 && !d.progress.IsZero() && now.Sub(d.progress) >= l.NoProgress:
		return DriftSignal{td.DriftNoProgress, td.DriftStuck, fmt.Sprintf("nothing new was done for %s", now.Sub(d.progress).Round(time.Second))}, true
	}
	if name, n := d.repeated(); l.Repeats > 0 && n >= l.Repeats {
		action := td.DriftWarn
		if d.warned[td.DriftRepeats] > 0 {
			action = td.DriftStuck // it was told, and went on
		}
		return DriftSignal{td.DriftRepeats, action, fmt.Sprintf("the same call of %s was made %d times in the last %d", name, n, len(d.calls))}, true
	}
	// Told once, it is told again only after a turn that was as it should be.
	if l.TurnTokens > 0 && d.tokens > l.TurnTokens && (d.warned[td.DriftTokens] == 0 || d.least <= l.TurnTokens) {
		return DriftSignal{td.DriftTokens, td.DriftWarn, fmt.Sprintf("one turn added %d tokens; %d are usual at most", d.tokens, l.TurnTokens)}, true
	}
	return DriftSignal{}, false
}

// repeated is the tool whose same call was made most often, and how often.
func (d *drift) repeated() (tool string, n int) {
	for i, c := range d.calls {
		k := 0
		for _, other := range d.calls[i:] {
			if other == c {
				k++
			}
		}
		if k > n {
			tool, n = c[:len(c)-hashLength], k
		}
	}
	return tool, n
}

const hashLength = 16

// isCall reports whether a step is a tool call of the model: see Transcript.call. What is done on its behalf,
// such as the validator's run, and what taskdaemon learns by itself has a longer name.
func isCall(key td.StepKey) bool {
	_, n, _ := strings.Cut(string(key), ".")
	_, err := strconv.Atoi(n)
	return err == nil
}

func (d *drift) apply(ev td.Event) {
	switch b := ev.Body.(type) {
	case td.Moved:
		if b.Verb == td.VerbStart {
			d.progress = ev.At // time in which it did not run does not count
		}
	case td.Said:
		if b.Why == "" {
			d.progress, d.failures = ev.At, 0 // a person gave it something new to go by
		}
	case td.StepEnded:
		d.ended(ev.At, b.Outcome)
	case td.StepIntended:
		if b.Kind == td.ToolStep && len(b.InputHash) == hashLength && isCall(b.Key) && b.Attempt == 0 {
			if !slices.Contains(d.calls, b.Name+b.InputHash) {
				d.progress = ev.At
				d.fresh = append(slices.Clip(d.fresh), b.Key)
			}
			d.calls = append(d.calls, b.Name+b.InputHash)
			if len(d.calls) > driftWindow {
				d.calls = append([]string{}, d.calls[1:]...)
			}
		}
	case td.Drifted:
		d.drifted(ev.At, b)
	}
}

func (d *drift) ended(at time.Time, o td.Outcome) {
	switch {
	case o.Model != nil:
		d.fresh = nil
	case o.Tool != nil:
		// What is new takes its time: a build, a test suite.
		if slices.Contains(d.fresh, o.Key) || strings.HasSuffix(string(o.Key), validateSuffix) {
			d.progress = at
		}
		switch {
		case !isCall(o.Key):
		case o.Tool.IsError:
			d.failures++
		default:
			d.failures = 0
		}
	}
}

// took notes what a turn added: what its call carried for the first time, and the answer. What a cache
// serves or a compaction moves does not matter.
func (d *drift) took(fresh int, r td.ModelResult) {
	if r.Prefix == nil {
		return // a hook answered
	}
	d.tokens = int64(window.Calibrate(r.Usage, r.Prefix.Sent).Of(fresh)) + r.Usage.Output
	d.least = min(d.least, d.tokens)
}

// drifted starts the count of a signal anew.
func (d *drift) drifted(at time.Time, b td.Drifted) {
	warned := map[td.Drift]int{b.Signal: d.warned[b.Signal] + 1}
	for s, n := range d.warned {
		if s != b.Signal {
			warned[s] = n
		}
	}
	d.warned = warned
	switch b.Signal {
	case td.DriftFailures:
		d.failures = 0
	case td.DriftNoProgress:
		d.progress = at
	case td.DriftRepeats:
		d.calls = nil
	case td.DriftTokens:
		d.tokens, d.least = 0, math.MaxInt64
	}
}
