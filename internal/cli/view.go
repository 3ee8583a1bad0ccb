package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/td"
)

// view renders a task as it happens. Live pieces are shown as they come; the record that follows them
// is only shown when it says more.
type view struct {
	app *app
	w   io.Writer
	s   style

	mu       sync.Mutex
	task     td.Task
	calls    map[td.StepKey]td.Block // tool calls, by the step that carries them out
	names    map[td.StepKey]string
	kinds    map[td.StepKey]td.StepKind
	streamed map[td.StepKey]string // what was shown live of each step
	asked    map[td.RequestID]bool // questions that were shown
	current  piece                 // what is being streamed
	fresh    bool                  // the cursor is at the beginning of a line
	thoughts bool                  // what the model thinks is shown
	quiet    bool                  // only what a person is asked is
	verifier td.TaskID             // who was named last to look at the work
	below    *view                 // of that one
	found    td.Task               // as it was when watching began: what it had asked before, and asks no more, is settled
}

// piece names a stream of text on the screen.
type piece struct {
	step td.StepKey
	kind api.LiveKind
}

func newView(a *app, w io.Writer, s style) *view {
	return &view{
		app: a, w: w, s: s, fresh: true, calls: map[td.StepKey]td.Block{}, names: map[td.StepKey]string{},
		kinds:    map[td.StepKey]td.StepKind{},
		streamed: map[td.StepKey]string{}, asked: map[td.RequestID]bool{},
	}
}

// live shows a piece of something on its way. Thinking is not an answer: it is shown to who asks for it, dimmed.
func (v *view) live(l api.Live) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		return
	}
	switch l.Kind {
	case api.LiveText:
		v.streamed[l.Step] += l.Text
		v.stream(piece{l.Step, l.Kind}, v.s.dim(margin), l.Text, v.s.bright)
	case api.LiveThinking:
		if v.thoughts {
			v.stream(piece{l.Step, l.Kind}, v.s.dim("  … "), l.Text, v.s.dim)
		}
	case api.LiveOutput:
		v.streamed[l.Step] += l.Text
		v.stream(piece{l.Step, l.Kind}, v.s.dim(margin), l.Text, as)
	case api.LiveGap:
		v.line(v.s.dim("  (some of what was on its way is left out here)"))
		clear(v.streamed) // so that the records that follow are shown whole
	}
}

// stream writes text that may go on later, with a prefix before each line.
func (v *view) stream(p piece, prefix, text string, colour func(string) string) {
	if v.current != p {
		v.endLine()
		v.current = p
	}
	for part := range strings.SplitAfterSeq(plainText(text), "\n") {
		if part == "" {
			continue
		}
		if v.fresh {
			io.WriteString(v.w, prefix)
		}
		line, whole := strings.CutSuffix(part, "\n")
		io.WriteString(v.w, colour(line))
		if v.fresh = whole; whole {
			io.WriteString(v.w, "\n")
		}
	}
}

// as leaves text as it is.
func as(text string) string { return text }

func (v *view) endLine() {
	if !v.fresh {
		io.WriteString(v.w, "\n")
	}
	v.fresh, v.current = true, piece{}
}

func (v *view) line(text string) {
	v.endLine()
	io.WriteString(v.w, text+"\n")
}

// open are the questions the task asks at present. While what came before is still being shown, they are those that it
// asked when it was found: a person who reads fast answers the question, and not what led to it.
func (v *view) open(found td.Task) []td.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.task.Head < found.Head {
		return found.Requests
	}
	return v.task.Requests
}

// close prints what a person needs when watching ends.
func (v *view) close(t td.Task) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.endLine()
	if v.quiet {
		return
	}
	if next := whatNext(t); next != "" && t.Status.State != td.Completed {
		v.line(v.s.dim("next: " + v.app.typeable(next)))
	}
}

// event shows a record. t is the task after it; a record that is not shown still teaches the view the
// names of calls.
func (v *view) event(ev td.Event, t td.Task, shown bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.task = t
	switch b := ev.Body.(type) {
	case td.StepIntended:
		v.names[b.Key] = b.Name
		v.kinds[b.Key] = b.Kind
		if named := verifierOf(b.Intent); named != "" {
			v.verifier = named
		}
	case td.StepEnded:
		if b.Model != nil {
			v.learnCalls(b.Key, b.Model.Message)
		}
	}
	if shown {
		v.show(ev, t)
	}
}

// learnCalls remembers which step carries out which call: step t3.model asks for t3.0, t3.1 and so on.
func (v *view) learnCalls(model td.StepKey, m td.Message) {
	turn, _, _ := strings.Cut(string(model), ".")
	for i, use := range m.ToolUses() {
		v.calls[td.StepKey(fmt.Sprintf("%s.%d", turn, i))] = use
	}
}

// sibling is another call of the same turn, if there is one: the second of the first, the first of the
// others.
func sibling(key td.StepKey) td.StepKey {
	turn, i, _ := strings.Cut(string(key), ".")
	if i == "0" {
		return td.StepKey(turn + ".1")
	}
	return td.StepKey(turn + ".0")
}

// ask shows a question.
func (v *view) ask(t td.Task, r td.Request) {
	v.endLine()
	v.app.printRequest(v.w, v.s, t, r)
	v.asked[r.ID] = true
}

// askThen shows a question that a record tells of. One that was settled before watching began is named, and cannot be answered.
func (v *view) askThen(seq uint64, t td.Task, r td.Request) {
	if _, open := v.found.Request(r.ID); seq <= v.found.Head && !open {
		v.line(v.s.dim("? " + r.Handle() + " " + plainLine(r.Question(), 200)))
		return
	}
	v.ask(t, r)
}

// remind shows the open questions that were not shown, because they are older than what is: what is typed would answer them unseen.
func (v *view) remind(t td.Task) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range t.Requests {
		if !v.asked[r.ID] {
			v.ask(t, r)
		}
	}
}

func (v *view) show(ev td.Event, t td.Task) {
	if v.quiet && !asks(ev.Body) {
		return
	}
	switch b := ev.Body.(type) {
	case td.Created:
		v.line(v.s.bold(b.Spec.Handle) + " " + plainLine(b.Spec.Title, 100) + v.s.dim(" in "+plainText(b.Spec.Dir)))
	case td.Moved:
		v.moved(b, t)
	case td.ContextSet:
		if b.Iteration > 1 || b.Tier != "" {
			v.line(v.s.dim(iterationWords(b)))
		}
	case td.IterationEnded:
		if words := endingWords[b.Ending]; words != "" {
			v.line(v.s.warn(fmt.Sprintf("↺ iteration %d %s: ", b.Iteration, words)) + plainLine(b.Reason, 300))
		}
	case td.StepIntended:
		if b.Kind == td.VerifyStep {
			v.line(v.s.dim("  verifying " + verificationWords(b.Intent)))
		} else if b.Attempt > 0 {
			v.line(v.s.dim(fmt.Sprintf("  %s, attempt %d", plainLine(b.Name, 60), b.Attempt+1)))
		}
	case td.StepEnded:
		v.ended(b.Outcome)
	case td.Said:
		who := b.By
		if b.Why != "" {
			who = "taskdaemon"
		}
		v.line(v.s.cyan("» "+plainLine(who, 40)+": ") + quoted(b.Text))
	case td.Received:
		v.line(v.s.cyan("» "+plainLine(receivedFrom(b), 100)+": ") + quoted(b.Text))
	case td.Queried:
		v.line(v.s.dim("  "+plainLine(b.By, 40)+" asked: "+plainLine(b.Question, 200)) + "\n" + v.s.dim("  ") + quoted(queriedWords(b)))
	case td.Decided:
		if b.Decision != "allow" {
			v.line(v.s.warn(fmt.Sprintf("  %s was not allowed: %s", plainLine(b.Tool, 40), plainLine(b.Rule, 200))))
		}
	case td.RequestOpened:
		v.askThen(ev.Seq, t, b.Request)
	case td.RequestAskedAgain:
		if r, ok := t.Request(b.ID); ok {
			v.askThen(ev.Seq, t, r)
		}
	case td.RequestAnswered:
		v.line(v.s.cyan(fmt.Sprintf("» %s: %s", plainLine(b.Answer.By, 40), plainLine(b.Answer.Choice+" "+b.Answer.Words, 300))))
	case td.RequestExpired:
		if b.Why != "" {
			v.line(v.s.dim("  " + b.ID.Handle() + " is not asked any more: " + plainLine(b.Why, 200)))
			break
		}
		v.line(v.s.warn("  nobody answered " + b.ID.Handle() + " in time: denied automatically"))
	case td.Compacted:
		v.line(v.s.dim("  " + plainLine(compactedWords(b.Compaction), 400)))
	case td.Discarded:
		v.line(v.s.dim("  the last answer is dropped and asked for again"))
	case td.Rewound:
		v.line(v.s.cyan(fmt.Sprintf("» %s: back to %s; what the workspace held is in %s", plainLine(b.By, 40), plainLine(string(b.To), 40), plainLine(b.Kept, 40))))
	case td.Forked:
		v.line(v.s.dim(fmt.Sprintf("  goes on from %s of %s", plainLine(string(b.Step), 40), td.Handle(td.TaskHandle, string(b.From), td.HandleLength))))
	case td.ModelChosen:
		v.line(v.s.dim("  from the next call on: " + plainLine(b.Model, 80)))
	case td.JobsEnded:
		v.line(v.s.dim("  " + plural(len(b.Jobs), "background job") + " ended: " + plainLine(b.Why, 200)))
	case td.Ignored:
		v.line(v.s.warn("  ignored " + string(b.Command) + ": " + plainLine(b.Why, 200)))
	case td.BudgetWarned:
		v.line(v.s.warn("  " + b.String()))
	case td.BudgetKept:
		v.line(v.s.dim("  " + b.String()))
	case td.BudgetRaised:
		v.line(v.s.dim("  " + b.String()))
	case td.AnomalyFound:
		v.line(v.s.warn("  unusual: " + plainLine(b.Detail, 300)))
	case td.RulesKept:
		for _, r := range b.Rules {
			v.line(v.s.dim(fmt.Sprintf("  kept for the %s: %s %s", b.Scope, r.Verdict, plainLine(r.Match, 200))))
		}
	case td.PermissionsChosen:
		v.line(v.s.dim("  permissions from the next call on: " + string(b.Mode)))
	case td.Unreadable:
		v.line(v.s.red("  a record that cannot be read: " + plainLine(b.Err, 200)))
	}
}

// asks reports whether a record is about a question to a person.
func asks(b td.Body) bool {
	switch b.(type) {
	case td.RequestOpened, td.RequestAskedAgain, td.RequestAnswered, td.RequestExpired:
		return true
	}
	return false
}

func (v *view) moved(b td.Moved, t td.Task) {
	st := b.Status
	reason := ""
	if st.Reason != "" {
		reason = ": " + plainLine(st.Reason, 300)
	}
	switch {
	case st.Completed != nil:
		v.line(v.s.green("✓ completed") + ": " + quoted(strings.TrimSpace(st.Completed.Summary)))
		v.line(v.s.dim(fmt.Sprintf("  %s, %s", plural(t.Turns, "turn"), costWords(t.Booked(), max(t.Cost, st.Completed.Cost)+t.Lost, t.TreeSpent().Unpriced))))
	case st.Failed != nil:
		v.line(v.s.red("✗ failed") + ": " + quoted(st.Failed.Error))
		if st.Failed.Hint != "" {
			v.line("  " + v.app.typeable(quoted(st.Failed.Hint)))
		}
	case b.Verb == td.VerbRecover:
		v.line(v.s.warn("↻ recovered" + reason))
	case b.Verb == td.VerbStart || b.Verb == td.VerbAnswer || b.Verb == td.VerbAsk || b.Verb == td.VerbRetry:
		v.endLine() // the request, the answer, the end of the iteration and the work itself say enough
	default:
		v.line(v.s.state(st.State, "● "+string(st.State)+reason))
		if st.Blocked != nil && st.Blocked.Child != "" && st.Blocked.Child != v.verifier { // that one may ask something
			v.line(v.s.dim("  see it: " + v.app.typeable(td.Typed("taskdaemon loop attach %s", plainLine(st.Blocked.Resource, 40)))))
		}
		if st.Blocked != nil && st.Blocked.Outage != nil {
			v.line(v.s.dim("  retrying " + v.app.outageWords(*st.Blocked.Outage)))
		}
	}
}

func (v *view) ended(o td.Outcome) {
	switch {
	case o.Model != nil:
		v.answered(o)
	case o.Failure != nil:
		f := o.Failure
		text := fmt.Sprintf("! the model call failed (%s): %s", f.Class, plainLine(f.Message, 300))
		if !f.RetryAt.IsZero() {
			text += "; retrying at " + f.RetryAt.Local().Format("15:04:05")
		}
		v.line(v.s.warn(text))
		delete(v.streamed, o.Key) // the next attempt begins anew
	case o.Hook != nil:
		v.hook(o)
	case o.Tool != nil && v.kinds[o.Key] == td.VerifyStep:
		v.verdict(o.Tool)
	case o.Tool != nil && branchWords(v.kinds[o.Key], o) != "":
		v.line(v.s.dim("  ⑂ " + branchWords(v.kinds[o.Key], o)))
	case o.Tool != nil:
		v.result(o)
	}
}

// hook shows what a hook decided; one that only looked on is not spoken of.
func (v *view) hook(o td.Outcome) {
	var r hook.Result
	if err := json.Unmarshal(o.Hook, &r); err != nil {
		return
	}
	words := decisionWords(r)
	if words == goesOn {
		return
	}
	if via := how[o.Via]; via != "" {
		words += " (" + via + ")"
	}
	v.line(v.s.warn("  ⚑ hook " + plainLine(r.Hook+": "+words, 300)))
}

func (v *view) answered(o td.Outcome) {
	text := o.Model.Message.Text()
	switch shown := v.streamed[o.Key]; {
	case text == "":
	case shown == "":
		v.line(quotedWhole(text))
	case strings.ReplaceAll(shown, "\n", "") != strings.ReplaceAll(text, "\n", ""):
		v.line(v.s.dim("  (the whole answer)"))
		v.line(quotedWhole(text))
	}
	delete(v.streamed, o.Key)
	v.endLine()
	if o.Model.Cut {
		v.line(v.s.warn("! the answer broke off; what came is kept"))
	}
	for _, use := range o.Model.Message.ToolUses() {
		v.line(v.s.cyan("▸ "+plainLine(use.Name, 40)) + " " + v.s.dim(callLine(use)))
	}
}

// how says, where it is not the usual way, how an outcome came to be known.
var how = map[td.Via]string{
	td.Reran:    "run again after a crash",
	td.Probed:   "found done after a crash, not done again",
	td.Adopted:  "adopted: its process outlived the daemon",
	td.Answered: "by your answer",
}

func (v *view) result(o td.Outcome) {
	name := plainLine(v.names[o.Key], 40)
	if use, ok := v.calls[o.Key]; ok {
		name = plainLine(use.Name, 40)
		if _, many := v.calls[sibling(o.Key)]; many {
			name += " " + plainLine(callLine(use), 50)
		}
	}
	_, streamed := v.streamed[o.Key]
	delete(v.streamed, o.Key)
	if !o.Tool.IsError && (name == "Complete" || name == "Fail") {
		return // the end of the task says it
	}
	mark := v.s.green("  ✓ ")
	if o.Tool.IsError {
		mark = v.s.red("  ✗ ")
	}
	var notes []string
	if o.Tool.Exit != nil {
		notes = append(notes, fmt.Sprintf("exit %d", *o.Tool.Exit))
	}
	if o.Took >= time.Millisecond {
		notes = append(notes, took(o.Took))
	}
	if h := how[o.Via]; h != "" {
		notes = append(notes, h)
	}
	if o.Tool.Job != nil {
		notes = append(notes, "goes on as job "+string(o.Tool.Job.ID))
	}
	line := mark + name
	if len(notes) > 0 {
		line += v.s.dim(" · " + strings.Join(notes, " · "))
	}
	if !streamed || o.Tool.IsError && o.Tool.Exit == nil {
		lines := plainClip(o.Tool.Content, 6, 3)
		colour := as
		if o.Tool.IsError {
			lines, colour = plainClip(o.Tool.Content, 5, 0), v.s.red
		}
		for _, l := range lines {
			v.line(v.s.dim(margin) + colour(l))
		}
	}
	v.line(line)
}

// iterationWords says that an iteration begins, and on what.
func iterationWords(b td.ContextSet) string {
	words := fmt.Sprintf("  iteration %d", b.Iteration)
	if b.Tier != "" {
		words += fmt.Sprintf(" on %s: %s", b.Tier, plainLine(b.Why, 200))
	}
	return words
}

// endingWords are for iterations after which the task goes on, or might.
var endingWords = map[td.Ending]string{
	td.EndedUnverified:  "was found not to be done",
	td.EndedUnclear:     "ended without a result",
	td.EndedMistaken:    "ended with another task's name",
	td.EndedGivenUp:     "gave up",
	td.EndedInterrupted: "was interrupted",
}

// telling are the inputs that say the most about a call, best first.
var telling = []string{"command", "path", "file_path", "pattern", "question", "title", "prompt", "summary", "reason", "url", "id", "job"}

// callLine is a tool call's input on one line.
func callLine(use td.Block) string {
	if use.Malformed != "" {
		return "(not JSON) " + plainLine(use.Malformed, 100)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(use.Input, &fields) != nil || len(fields) == 0 {
		return ""
	}
	for _, name := range telling {
		var text string
		if json.Unmarshal(fields[name], &text) == nil && text != "" {
			return plainLine(text, 120)
		}
	}
	return plainLine(string(use.Input), 120)
}

// compactedWords say what was done to a conversation so that it fits the window.
func compactedWords(c td.Compaction) string {
	what := "the conversation stays as it is: there is nothing to summarise"
	switch n := plural(c.To-c.From, "message"); {
	case c.Strategy == td.Truncated:
		what = plural(len(c.Edits), "large result") + " cut"
	case c.Strategy == td.Summarised:
		what = n + " summarised"
	case c.To > c.From:
		what = fmt.Sprintf("%s shortened to %d by leaving steps out", n, len(c.With))
	default:
		return what
	}
	if c.Why != "" {
		what += " (" + c.Why + ")"
	}
	return fmt.Sprintf("to fit the window: %s; about %d tokens become %d", what, c.Before, c.After)
}
