package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/memory"
	"taskdaemon/internal/notes"
	"taskdaemon/internal/sigil"
	"taskdaemon/internal/td"
)

// addNotes tells an iteration of a planned task what those before it left, and reports whether any of that comes
// from a task that had read untrusted text. What cannot be had is done without.
func (r *run) addNotes(ctx context.Context, t td.Task, opening *prose) (untrusted bool) {
	if !planned(t) {
		return false
	}
	about := notes.About{Project: t.Project, Text: strings.Join(append([]string{t.Title, t.Prompt}, t.Labels...), "\n")}
	if t.Ordered != nil {
		about.Run = t.Ordered.Run
	}
	found, err := notes.Recall(ctx, r.Journal, about)
	if err != nil {
		r.Log.Warn("look for notes", "task", t.Handle, "err", err)
		return false
	}
	told, untrusted := notes.Render(found, notes.Budget)
	var from []string
	for _, n := range found {
		if strings.Contains(told, n.Handle) && !slices.Contains(from, n.Handle) {
			from = append(from, n.Handle)
		}
	}
	opening.add("notes", strings.Join(from, ", "), told)
	return untrusted
}

// feature is the PRD that what this task learns belongs to, by its slug, as it was when the iteration began.
func (r *run) feature() string {
	if set := r.log.Transcript().Context; set != nil {
		return set.Feature
	}
	return ""
}

// keepSaid keeps what the newest answer says in words that is worth keeping, before anything of it is acted on: an
// agent without tools has no other way.
func (r *run) keepSaid(ctx context.Context) error {
	script, t := r.log.Transcript(), r.log.Task()
	if r.searched == script.Turn || r.Knowledge == nil || r.ctl == nil || len(t.Tools) > 0 && !slices.Contains(t.Tools, "Learn") {
		return nil
	}
	var answer string
	for _, m := range slices.Backward(script.Messages) {
		if m.Role == td.Assistant {
			answer = m.Text()
			break
		}
	}
	said := sigil.Parse(answer).Knowledge
	for i, e := range said[:min(len(said), mostLearned)] {
		l := memory.Learning{Kind: e.Kind, Title: e.Title, Text: e.Body, Tags: e.Tags, Sources: []string{t.Handle}, CreatedAt: r.log.Now()}
		if err := r.keepFound(ctx, td.StepKey(fmt.Sprintf("%s.said.%d", script.LearnKey(), i)), l, "conversation"); err != nil {
			return err
		}
	}
	r.searched = script.Turn
	return nil
}
