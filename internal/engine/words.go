package engine

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/sigil"
	"taskdaemon/internal/td"
)

// concludeInWords looks whether an answer that calls nothing says in words that the task is done, or that it cannot be
// that is how agents nominate who have no tools for it. It reports whether there was such a word.
func (r *run) concludeInWords(ctx context.Context) (bool, error) {
	t, script := r.log.Task(), r.log.Transcript()
	answers := subtask(t) && (t.Explores() || script.Reminded >= r.Reminders) // with whatever it has said
	if script.InWords.Key == "" {
		// The answer was empty: what was said before it was looked at.
		if before, _ := script.SaidBefore(""); !answers || sigil.Rest(before) == "" {
			return false, nil
		}
		return true, r.conclude(ctx, nomination{call: &script.InWords, inWords: true})
	}
	text := script.Latest().Text()
	said := sigil.Parse(text)
	n := nomination{call: &script.InWords, inWords: true, text: clip(sigil.Rest(text), maxNote)}
	switch {
	case t.Source != "":
		return r.verdictInWords(ctx, n, said.Verdict)
	case said.GivenUp:
		return true, r.giveUp(ctx, n)
	case said.Done != "" && !names(t, said.Done), said.Done == "" && said.Failed != "" && !names(t, said.Failed):
		return r.mistaken(ctx, said)
	case said.Done != "":
		return true, r.conclude(ctx, n)
	case said.Failed != "":
		n.failed = true
		if n.text == "" {
			n.text = "the agent says that it cannot be done"
		}
		return true, r.conclude(ctx, n)
	case answers && n.text != "":
		n.text = clip(sigil.Rest(text), maxAnswer) // it is all that its parent waits for
		return true, r.conclude(ctx, n)
	}
	return false, nil
}

// answer is all that a subtask tells its parent: what it nominates with, behind what it had said as text before it was told to go on. A model takes
// that for its answer, and refers to it afterwards.
func (r *run) answer(n nomination) string {
	script, last := r.log.Transcript(), n.text
	before, cut := script.SaidBefore(last)
	if cut && n.inWords && script.InWords.Key != "" { // it went on in the midst of a sentence
		before, last = before+script.Latest().Text(), ""
	}
	before = sigil.Rest(before)
	switch {
	case before == "":
		return last
	case last == "":
		return clip(before, maxAnswer)
	}
	return clip(before, max(maxAnswer-len(last), maxAnswer/2)) + "\n\n" + clip(last, maxAnswer/2)
}

// verdictInWords is what becomes of the answer of a verifier.
func (r *run) verdictInWords(ctx context.Context, n nomination, v *sigil.Verdict) (bool, error) {
	if v == nil {
		return false, nil // it is reminded, and without a verdict nothing passes
	}
	n.failed = !v.Pass
	if n.failed {
		n.text = v.Reason
	}
	switch {
	case n.text != "":
	case v.Pass:
		n.text = "passed; the verifier did not say what it looked at"
	default:
		n.text = "the verifier gave no reason"
	}
	return true, r.conclude(ctx, n)
}

// names reports whether a word in an answer means this task.
func names(t td.Task, word string) bool { return word == t.Handle || word == string(t.ID) }

// mistaken is what becomes of an answer that speaks of another task: it is warned of, and the iteration is over.
func (r *run) mistaken(ctx context.Context, said sigil.Sigils) (bool, error) {
	t := r.log.Task()
	word := said.Done
	if word == "" {
		word = said.Failed
	}
	r.Log.Warn("an agent spoke of another task", "task", t.Handle, "named", clip(word, 100))
	if t.Ordered == nil {
		return false, nil // it is reminded, like one that said nothing
	}
	return true, r.startOver(ctx, td.EndedMistaken, fmt.Sprintf("the agent spoke of %s and not of %s", clip(word, 100), t.Handle))
}

// giveUp is what becomes of a promise of failure: the task is let go of as it is, and the run over the graph ends. A task
// that no run started fails.
func (r *run) giveUp(ctx context.Context, n nomination) error {
	t := r.log.Task()
	why := n.text
	if why == "" {
		why = "the agent sees no use in going on"
	}
	if t.Ordered == nil {
		return r.fail(ctx, td.FailedData{Error: why, Recoverable: true, Hint: "taskdaemon resume " + t.Handle})
	}
	if err := r.learn(ctx); err != nil {
		return err
	}
	if err := r.reap(ctx, "the agent gave up"); err != nil {
		return err
	}
	return r.pause(ctx, td.ByRun, "given up: "+why, r.note(td.EndedGivenUp, why))
}

// misread says what of a text looks like a word to taskdaemon and is none, for the agent that wrote it.
func misread(text string) string {
	problems := sigil.Parse(text).Problems
	if len(problems) == 0 {
		return ""
	}
	return "\n\nSome of what you wrote was not understood: " + strings.Join(problems, " ")
}
