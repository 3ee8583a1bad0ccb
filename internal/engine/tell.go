package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

var fpToldLater = failpoint.New("engine.tell.recorded")

// What a task is told of learnings.
const (
	mostToldTokens = 2000 // at a time
	mostTold       = 5    // learnings at a time
	mostHeard      = 20   // in an iteration
	tellWithin     = 5 * time.Second
)

// addLearnings tells the task what earlier ones learned (L-2), and names what was found. What cannot be had is done without.
func (r *run) addLearnings(ctx context.Context, t td.Task, feature string, opening *prose) (weighed string, err error) {
	if r.Knowledge == nil {
		return "", nil
	}
	found, weighed, err := r.relevant(ctx, t, r.contextKey(), feature, nil)
	if err != nil {
		return "", err
	}
	found, text := bounded(memory.ToldFirst, found)
	var sources []string
	for _, m := range found {
		source := hookName
		if m.ID != "" {
			source = knowledge.File(m.ID)
		}
		if len(m.Sources) > 0 {
			source += " (task " + strings.Join(m.Sources, ", ") + ")"
		}
		sources = append(sources, source)
	}
	if text != "" {
		opening.add("learnings", strings.Join(sources, ", "), text+"\n")
	}
	return weighed, nil
}

// relevant are the learnings that have to do with a task, without those that drop names, as hooks leave them, and their names before that; key is
// where the hooks are asked.
func (r *run) relevant(ctx context.Context, t td.Task, key td.StepKey, feature string, drop func(memory.Match) bool) (found []memory.Match, weighed string, err error) {
	about := strings.Join(append([]string{t.Title, t.Prompt}, t.Labels...), "\n")
	about, most, err := r.querying(ctx, key, about, mostTold)
	if err != nil {
		return nil, "", err
	}
	within, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	found, err = r.Knowledge.Told(within, t.Home(), knowledge.About{
		Text: about, Feature: feature, Files: func(ctx context.Context) []string { return r.Recent(ctx, t.Dir) },
	}, most)
	if err != nil {
		r.Log.Warn("look for learnings", "task", t.Handle, "err", err)
		return nil, "", nil
	}
	if drop != nil {
		if found = slices.DeleteFunc(found, drop); len(found) == 0 {
			return nil, "", nil // hooks at an opening may add some; while a task works there is nothing to add to
		}
	}
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = m.Version()
	}
	found, err = r.telling(ctx, key, about, found)
	return found, strings.Join(names, "\n"), err
}

// bounded is what is told of learnings, the best first, within the limit.
func bounded(head string, found []memory.Match) ([]memory.Match, string) {
	told := memory.Render(head, found, maxInstructions)
	for len(found) > 0 && window.Tokens(told) > mostToldTokens {
		found = found[:len(found)-1]
		told = memory.Render(head, found, maxInstructions)
	}
	return found, told
}

// tellLater tells a task that works what others have learned since it began, if that has to do with it. It stands at the end of
// the conversation: all that was sent before stays the same bytes. It reports whether anything was told.
func (r *run) tellLater(ctx context.Context) (bool, error) {
	t, script := r.log.Task(), r.log.Transcript()
	if r.Knowledge == nil || script.Model.Intent != nil || script.Ended || len(script.Weighed) >= mostHeard || script.Context.Knew.IsZero() {
		return false, nil // a call that was begun is carried through first
	}
	within, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	changed, err := r.Knowledge.Changed(within, t.Home(), script.Context.Knew)
	if err != nil {
		r.Log.Warn("look for new learnings", "task", t.Handle, "err", err)
		return false, context.Cause(ctx)
	}
	if !slices.ContainsFunc(changed, func(c string) bool { return !r.looked[c] }) {
		return false, nil
	}
	isNew := map[string]bool{}
	for _, c := range changed {
		isNew[c[:strings.LastIndexByte(c, '@')]] = true
	}
	found, weighed, err := r.relevant(ctx, t, td.StepKey(fmt.Sprintf("t%d.told", script.Turn+1)), r.feature(), func(m memory.Match) bool {
		own := len(m.Sources) > 0 && m.Sources[len(m.Sources)-1] == t.Handle
		return own || !isNew[m.ID] || slices.Contains(script.Weighed, m.Version())
	})
	if err != nil {
		return true, err
	}
	if r.looked == nil {
		r.looked = map[string]bool{}
	}
	for _, c := range changed {
		r.looked[c] = true
	}
	_, text := bounded(memory.ToldLater, found)
	if text == "" {
		return false, nil
	}
	err = r.log.Append(ctx, td.Said{By: td.ByTaskdaemon, Why: td.Learned, Text: text, Weighed: weighed})
	fpToldLater.Hit()
	return true, err
}
