// Package transcript folds a task's events into what its loop needs to go on: the conversation, the
// tool calls that have no result yet, and the state of the model call.
//
// It is pure, and the only reader of the conversation in the events: the loop, the history and recovery
// see the same. What the loop does next follows from a Transcript alone, which is why it does not
// matter in which life of the daemon the events were written.
package transcript

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/sigil"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// Transcript is the fold of a task's events. The zero value is that of a task with none.
type Transcript struct {
	Context    *td.ContextSet // nil until the iteration's context was set
	Messages   []td.Message   // complete messages, in the order the model sees them
	Past       []td.Message   // those of the iteration that ended, until the next one has a context
	Calls      []Call         // calls of the newest answer, until all have results
	InWords    Call           // the newest answer where it calls nothing: it may nominate in words
	Wrote      []string       // files that tools wrote in this iteration, the first few
	Began      time.Time      // when the iteration did
	Unanswered []td.Request   // that expired, in all iterations, since a person last let the work be merged without their answers
	Weighed    []string       // learnings that were found for this iteration, each with a hash of its text
	People     []string       // what people said in this iteration and those before it
	Answers    int            // those of this iteration that count, also if they are no longer in Messages
	Turn       int            // answers of the model so far, in all iterations
	Stop       td.StopReason  // why the newest answer ended
	Cut        bool           // the newest answer's stream broke off
	Ended      bool           // the newest answer asked for nothing, and nothing was said since
	Model      ModelCall      // the call for the next answer
	Summary    ModelCall      // the call for the summary that is wanted before it, if that failed
	Reminded   int            // reminders since the model last called a tool
	Bad        int            // records that could not be read
	Refused    int            // nominations the validator did not let pass, in this iteration
	Exceeded   int            // answers in a row that ended because the window was full
	Wanted     int            // estimated tokens that somebody wants the next call to have at most; 0: nobody does
	NoSummary  string         // why the small model had no summary to give for the next call; empty: it was not asked, or gave one
	Gentle     bool           // a person wants the next call smaller: it fits, so nothing is lost for that
	Compacted  int            // times the conversation was made smaller since the newest answer
	AnsweredAt time.Time      // when the model's newest answer came
	Begun      int            // times a person let it go on
	Answered   bool           // since it began or a person let it go on
	Untouched  bool           // nothing of the newest answer was acted on yet
	Newest     *td.Outcome    // that of the newest answer
	Rewrote    string         // what changed the conversation since that call, in words
	Sent       int            // estimated tokens of the newest call that was answered, 0 if not known
	Called     string         // the model it was to
	Scale      window.Scale   // corrects estimates by what the provider counted for that call

	known   map[string]bool
	joined  int        // blocks of the newest message that are of answers before the newest
	said    []td.Block // said while calls were open: follows their results
	held    []td.Block // said while a model was asked: follows its answer
	carried mark       // what the newest call carried, also if it was compacted since
	same    mark       // what of it stands as it was
	early   []td.Block // said before there was a context: follows the opening
	pieces  []piece    // of an answer in words that was not taken for the end
	unread  []td.Block // from other loops, since the newest answer
	full    bool       // more came than is shown
	drift   drift
	floor   int // messages before this one stand for what was compacted, and are not discarded
	hooks   hooks
	noted   sigil.Sigils // notes, and the wish for a model, of answers that a compaction took away

	learning  learning
	anomalies anomalies
	snapshots snapshots
}

// Asked is a request and what became of it.
type Asked struct {
	Request td.Request
	Answer  *td.Answer
	Expired bool
	// AnsweredAt is when; Kept says that the rules that the answer makes are recorded.
	AnsweredAt time.Time
	Kept       bool
}

// Settled reports whether the request needs nobody any more.
func (a *Asked) Settled() bool { return a != nil && (a.Answer != nil || a.Expired) }

// Call is one tool call of the newest answer.
type Call struct {
	Use     td.Block
	Key     td.StepKey
	Intent  *td.Intent // the newest attempt's
	Outcome *td.Outcome
	Asked   *Asked // permission, or the model's question
	Unknown *Asked // what became of the newest attempt, whose process was lost
	// Validation is the validator's step on behalf of a nomination, and Verification the verifier's.
	Validation   Check
	Verification Check
	// Commit, Merge and Follow bring the work of a worktree in: onto its branch, into the integration branch, to the trunk.
	Commit, Merge, Follow Check
}

// Check is a step that looks whether a nomination may pass.
type Check struct {
	Key     td.StepKey
	Asked   *Asked // whether it may be made
	Intent  *td.Intent
	Outcome *td.Outcome
}

// Of folds a whole stream.
func Of(events []td.Event) *Transcript {
	t, cuts := &Transcript{}, cutsOf(events)
	for _, ev := range events {
		t.Take(ev, cuts)
	}
	return t
}

// Take folds one event of a stream whose cuts are known.
func (t *Transcript) Take(ev td.Event, cuts td.Cuts) {
	if cuts.Has(ev.Seq) {
		t.pass(ev)
		return
	}
	t.Apply(ev)
}

// ScaleFor corrects estimates for calls to a model. What another one counted says nothing about it.
func (t *Transcript) ScaleFor(model string) window.Scale {
	if t.Called != model {
		return window.Scale{}
	}
	return t.Scale
}

// ModelKey is the step of the call for the next answer.
func (t *Transcript) ModelKey() td.StepKey { return td.StepKey(fmt.Sprintf("t%d.model", t.Turn+1)) }

// Known reports whether the model has seen the content of the file.
func (t *Transcript) Known(path string) bool { return t.known[path] }

// Open reports whether a tool call still needs a result.
func (t *Transcript) Open() bool { return len(t.Calls) > 0 }

// LastText is what the model last said in words.
func (t *Transcript) LastText() string {
	for i := len(t.Messages) - 1; i >= 0; i-- {
		if t.Messages[i].Role == td.Assistant {
			if s := t.Messages[i].Text(); s != "" {
				return s
			}
		}
	}
	return ""
}

// Apply folds one event. Events the conversation does not depend on change nothing. A td.Rewound says where a stretch
// ends that Take must leave out: the fold of a stream that holds a new one is made anew.
func (t *Transcript) Apply(ev td.Event) {
	t.drift.apply(ev)
	t.hooks.apply(ev.Body)
	t.learning.apply(ev.Body)
	t.anomalies.apply(ev)
	t.snapshots.apply(ev.Body)
	switch b := ev.Body.(type) {
	case td.ContextSet:
		turn, opening, people := t.Turn, b.Opening, slices.Clip(t.People)
		if t.Context == nil {
			opening.Blocks = append(slices.Clone(opening.Blocks), t.early...)
		}
		for _, said := range t.early {
			if !said.Aside {
				people = append(people, said.Text)
			}
		}
		*t = Transcript{Context: &b, Began: ev.At, Messages: []td.Message{opening}, Turn: turn, Bad: t.Bad, drift: drift{progress: ev.At}, hooks: t.hooks.opened(t.BeginKey()), anomalies: t.anomalies, snapshots: t.snapshots, Begun: t.Begun, Answered: t.Answered, People: people, Weighed: lines(b.Weighed)}
	case td.Ordered:
		if b.Fresh {
			t.startOver()
		}
	case td.IterationEnded:
		if b.Ending == td.EndedInterrupted { // no move says so: the task rests before and after
			t.startOver()
		}
	case td.StepIntended:
		t.intended(b.Intent)
	case td.StepEnded:
		if b.Model != nil && b.Model.Prefix != nil {
			t.AnsweredAt = ev.At
		}
		if b.Failure != nil && len(t.Model.Failures) == 0 {
			t.Model.Failing = ev.At
		}
		t.ended(b.Outcome)
		if len(t.Summary.Failures) > 0 && t.Summary.Failing.IsZero() {
			t.Summary.Failing = ev.At
		}
	case td.Said:
		t.urged(b.Why)
		if t.Context != nil && b.Why == "" {
			t.People = append(slices.Clip(t.People), b.Text)
		}
		if t.Context == nil && b.Why == "" {
			t.early = append(t.early, td.Block{Type: td.TextBlock, Text: b.Text})
		}
		said := td.Block{Type: td.TextBlock, Text: b.Text, Aside: b.Why != ""}
		if b.Why == td.Learned {
			t.Weighed, t.unread = append(slices.Clip(t.Weighed), lines(b.Weighed)...), append(slices.Clip(t.unread), said)
		}
		t.say(said)
	case td.Received:
		t.receive(b)
	case td.Compacted:
		t.compact(b.Compaction)
	case td.CompactionWanted:
		t.want()
		t.Gentle = b.By != td.ByTaskdaemon
	case td.AnswerChanged:
		t.changed(b.Message)
	case td.Discarded:
		t.discard()
	case td.Rewound:
		t.rewound()
	case td.Forked:
		t.forked(b)
	case td.Moved:
		if b.Verb == td.VerbRetry {
			t.startOver()
		}
		t.moved(b)
		if b.Verb == td.VerbReset || b.Verb == td.VerbResume {
			t.Reminded, t.Compacted = 0, 0
			t.Begun++
			t.Answered = false
		}
	case td.RequestOpened:
		t.asked(b.Request)
	case td.RequestAskedAgain:
		if a := t.find(b.ID); a != nil {
			a.Request.AskedAt = ev.At
		}
	case td.RequestAnswered:
		if a := t.find(b.Answer.Request); a != nil {
			a.Answer, a.AnsweredAt = &b.Answer, ev.At
			t.Unanswered = slices.DeleteFunc(slices.Clone(t.Unanswered), func(q td.Request) bool {
				return a.Request.About == td.AboutMerge && b.Answer.Choice == td.Yes || // the person knows of all
					q.InputHash != "" && q.InputHash == a.Request.InputHash // or has answered the same, asked again
			})
		}
	case td.RulesKept:
		if a := t.find(b.Request); a != nil {
			a.Kept = true
		}
	case td.RequestExpired:
		if a := t.find(b.ID); a != nil {
			a.Expired = true
			if b.Why == "" {
				t.Unanswered = append(t.Unanswered, a.Request)
			}
		}
	case td.Unreadable:
		t.Bad++
	}
}

// startOver drops the conversation: the next iteration begins with a context of its own.
func (t *Transcript) startOver() {
	past := t.Past
	t.Model.InFlight = false
	t.release()
	if t.Context != nil {
		past = t.Messages
	}
	*t = Transcript{Past: past, Turn: t.Turn, Bad: t.Bad, hooks: t.hooks, anomalies: t.anomalies, snapshots: t.snapshots, Begun: t.Begun, Answered: t.Answered, People: t.People, Unanswered: t.Unanswered, early: slices.Concat(t.early, t.unread)}
}

func (t *Transcript) intended(in td.Intent) {
	if in.Kind == td.ModelStep {
		t.Model.Intent, t.Model.InFlight, t.Untouched = &in, true, false
		t.Summary = ModelCall{}
		return
	}
	for _, check := range t.checks() {
		if check.Key == in.Key {
			check.Intent, check.Outcome, t.Untouched = &in, nil, false
		}
	}
	for i := range t.Calls {
		if in.Key == t.Calls[i].Key {
			// A person's word on an attempt says nothing about the next one.
			t.Calls[i].Intent, t.Calls[i].Unknown, t.Untouched = &in, nil, false
		}
	}
}

// checks are the steps that look whether nominations of the newest answer may pass.
func (t *Transcript) checks() []*Check {
	out := t.InWords.checks()
	for i := range t.Calls {
		out = append(out, t.Calls[i].checks()...)
	}
	return out
}

func (c *Call) checks() []*Check {
	return []*Check{&c.Validation, &c.Verification, &c.Commit, &c.Merge, &c.Follow}
}

func (t *Transcript) ended(o td.Outcome) {
	switch {
	case o.Model != nil:
		t.answered(*o.Model)
		t.unread = slices.DeleteFunc(slices.Clone(t.held), func(b td.Block) bool { return !b.Aside })
		t.release()
		t.Newest = &o
	case o.Failure != nil:
		t.Model.InFlight = false
		t.Model.Failures = append(t.Model.Failures, *o.Failure)
		t.release()
		if o.Failure.Class == td.TooLong && !o.Failure.RetryAt.IsZero() {
			t.want() // the estimate was too low
			t.Gentle = false
		}
	case o.Side != nil:
		if strings.HasPrefix(string(o.Key), t.summaries()) {
			t.summed(*o.Side)
		}
	case o.Tool != nil:
		for _, check := range t.checks() {
			if check.Key == o.Key && check.Intent != nil {
				check.Outcome = &o
				if o.Tool.IsError {
					t.Refused++
				}
			}
		}
		for i := range t.Calls {
			if o.Key == t.Calls[i].Key {
				t.Calls[i].Outcome, t.Untouched = &o, false
				t.wrote(t.Calls[i].Use.Name, o.Tool)
			}
		}
		if t.known == nil {
			t.known = map[string]bool{}
		}
		for _, f := range o.Tool.Files {
			t.known[f] = true
		}
		t.closeCalls()
	}
}

// answered adds the model's message. An answer that says nothing is not a message: no provider takes one.
func (t *Transcript) answered(r td.ModelResult) {
	t.Turn++
	m := window.Worded(r.Message)
	t.Answered, t.Untouched = true, len(m.Blocks) > 0
	t.Stop, t.Cut, t.Ended = r.StopReason, r.Cut, true
	t.drift.took(t.Fresh(), r)
	if p := r.Prefix; p != nil { // else nothing was sent: a hook answered
		t.Sent, t.Rewrote = cmp.Or(p.Estimated, p.Sent), ""
		t.Scale = window.Calibrate(r.Usage, t.Sent)
		t.carried = markEnd(t.Messages)
		t.same = t.carried
		if in := t.Model.Intent; in != nil {
			t.Called = in.Name
		}
	}
	t.Model, t.Summary, t.NoSummary, t.Gentle, t.Compacted, t.unread, t.full = ModelCall{}, ModelCall{}, "", false, 0, nil, false
	if r.StopReason != td.WindowExceeded {
		t.Exceeded = 0
	} else {
		t.Exceeded++
	}
	if len(m.Blocks) == 0 {
		t.InWords = Call{} // it says nothing
		return
	}
	t.Answers++
	if n := len(t.Messages); n > 0 && t.Messages[n-1].Role == td.Assistant {
		t.joined = len(t.Messages[n-1].Blocks) // a turn that paused goes on
		t.Messages[n-1] = t.join(m)
	} else {
		t.joined = 0
		t.Messages = append(t.Messages, m)
	}
	t.call(m)
}

// join is the newest message with m in the place of what the newest answer said: the model speaks once in a
// row, so an answer to a turn that paused stands in one message with its beginning.
func (t *Transcript) join(m td.Message) td.Message {
	m.Blocks = slices.Concat(t.Messages[len(t.Messages)-1].Blocks[:t.joined], m.Blocks)
	return m
}

// Latest is the newest answer as it stands in the conversation, without what it goes on from.
func (t *Transcript) Latest() td.Message {
	m := t.Messages[len(t.Messages)-1]
	m.Blocks = m.Blocks[min(t.joined, len(m.Blocks)):]
	return m
}

// maxWrote bounds the files that are kept of an iteration.
const maxWrote = 20

// wrote keeps the files that a call of a writing tool wrote.
func (t *Transcript) wrote(tool string, r *td.ToolResult) {
	if r.IsError || tool != "Write" && tool != "Edit" && tool != "MultiEdit" {
		return
	}
	for _, f := range r.Files {
		if len(t.Wrote) < maxWrote && !slices.Contains(t.Wrote, f) {
			t.Wrote = append(slices.Clip(t.Wrote), f)
		}
	}
}

// The suffixes of the steps that look whether a nomination may pass.
const (
	validateSuffix = ".validate"
	verifySuffix   = ".verify"
	commitSuffix   = ".commit"
	mergeSuffix    = ".merge"
	followSuffix   = ".follow"
)

func newCall(use td.Block, key td.StepKey) Call {
	return Call{
		Use: use, Key: key, Validation: Check{Key: key + validateSuffix}, Verification: Check{Key: key + verifySuffix},
		Commit: Check{Key: key + commitSuffix}, Merge: Check{Key: key + mergeSuffix}, Follow: Check{Key: key + followSuffix},
	}
}

// call makes the calls of a message the ones that need results.
func (t *Transcript) call(m td.Message) {
	t.Calls = nil
	for i, use := range m.ToolUses() {
		key := td.StepKey(fmt.Sprintf("t%d.%d", t.Turn, i))
		t.Calls = append(t.Calls, newCall(use, key))
	}
	t.InWords = newCall(td.Block{}, td.StepKey(fmt.Sprintf("t%d.words", t.Turn)))
	if len(t.Calls) > 0 {
		t.Ended, t.Reminded = false, 0
	}
}

// closeCalls turns the results into the next user message once every call has one, in the order of the
// calls, followed by what was said meanwhile.
func (t *Transcript) closeCalls() {
	if len(t.Calls) == 0 {
		return
	}
	blocks := make([]td.Block, 0, len(t.Calls)+len(t.said))
	for _, c := range t.Calls {
		if c.Outcome == nil {
			return
		}
		r := c.Outcome.Tool
		blocks = append(blocks, td.Block{Type: td.ToolResultBlock, ID: c.Use.ID, Text: r.Content, IsError: r.IsError})
	}
	t.Messages = append(t.Messages, td.Message{Role: td.User, Blocks: append(blocks, t.said...)})
	t.Calls, t.said = nil, nil
}

// say adds words to the conversation: after the answer when a model is asked, who was asked without them; after the results when calls are open;
// to the last user message when no model has answered it, for two in a row no provider takes; else as a message of its own.
func (t *Transcript) say(b td.Block) {
	t.Ended, t.Untouched = false, false
	switch {
	case t.Model.InFlight:
		t.held = append(slices.Clip(t.held), b)
		return
	case len(t.Calls) > 0:
		t.said = append(t.said, b)
		return
	}
	if n := len(t.Messages); n > 0 && t.Messages[n-1].Role == td.User {
		last := t.Messages[n-1]
		blocks := append(append([]td.Block{}, last.Blocks...), b)
		t.Messages[n-1] = td.Message{Role: td.User, Blocks: blocks}
		return
	}
	t.Messages = append(t.Messages, td.Message{Role: td.User, Blocks: []td.Block{b}})
}

// release says what was held while a model was asked.
func (t *Transcript) release() {
	held := t.held
	t.held = nil
	for _, b := range held {
		t.say(b)
	}
}

func (t *Transcript) discard() {
	for i := len(t.Messages) - 1; i >= t.floor; i-- {
		if t.Messages[i].Role == td.Assistant {
			t.unsay(t.Messages[i].Text())
			t.Messages = append([]td.Message{}, t.Messages[:i]...)
			t.Answers = max(t.Answers-1, 0)
			t.carried, t.same = t.carried.upTo(i), t.same.upTo(i)
			break
		}
	}
	t.Calls, t.said, t.held, t.Stop, t.Cut, t.Ended, t.Model, t.Reminded = nil, nil, nil, "", false, false, ModelCall{}, 0
	t.Untouched = false
	t.Rewrote = "the last answer was discarded"
	for _, b := range t.unread {
		t.say(b) // whoever drops an answer knows nothing of what came from elsewhere after it
	}
}

// SummaryKey is the step that asks for a summary before the next call.
func (t *Transcript) SummaryKey() td.StepKey {
	return td.StepKey(fmt.Sprint(t.summaries(), len(t.Messages)))
}

func (t *Transcript) summaries() string { return fmt.Sprintf("t%d.summary", t.Turn+1) }

// want notes the wish that the conversation be made smaller: about half, whatever the window.
func (t *Transcript) want() {
	if t.Context == nil {
		return
	}
	now := window.Count(t.Context.System, t.Context.Tools, t.Messages)
	t.Wanted = now.Total() - now.History/2
}

// compact makes the conversation smaller. One that does not fit it was made for another: the record is
// of no use, and the conversation stays as it is.
func (t *Transcript) compact(c td.Compaction) {
	t.Compacted++
	msgs, err := window.Apply(t.Messages, c)
	if err != nil {
		t.Bad++
		t.Wanted = 0
		return
	}
	t.noted = join(t.noted, t.Messages[c.From:c.To])
	replaces := c.To > 0
	if !replaces && len(c.Edits) == 0 {
		t.Wanted = 0 // there was nothing to leave out
		return
	}
	first := len(t.Messages) // that is touched
	if replaces {
		first, t.floor = c.From, c.From+len(c.With)
		if t.carried.messages >= c.To {
			t.carried.messages += len(msgs) - len(t.Messages)
		}
	}
	for _, e := range c.Edits {
		first = min(first, e.Message)
	}
	t.same = t.same.upTo(first)
	t.Messages, t.Rewrote = msgs, "the conversation was compacted ("+string(c.Strategy)+")"
	if t.Wanted > 0 && t.Estimate() <= t.Wanted {
		t.Wanted = 0
	}
}

func (t *Transcript) asked(r td.Request) {
	t.Untouched = false
	for _, check := range t.checks() {
		if check.Key == r.Step {
			check.Asked = &Asked{Request: r}
		}
	}
	for i := range t.Calls {
		if t.Calls[i].Key != r.Step {
			continue
		}
		if r.About == td.AboutUnknown {
			t.Calls[i].Unknown = &Asked{Request: r}
		} else {
			t.Calls[i].Asked = &Asked{Request: r}
		}
	}
}

func (t *Transcript) find(id td.RequestID) *Asked {
	for _, check := range t.checks() {
		if a := check.Asked; a != nil && a.Request.ID == id {
			return a
		}
	}
	for i := range t.Calls {
		for _, a := range []*Asked{t.Calls[i].Asked, t.Calls[i].Unknown} {
			if a != nil && a.Request.ID == id {
				return a
			}
		}
	}
	return nil
}
