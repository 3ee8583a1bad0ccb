package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

// querying fires KnowledgeQuery: what is looked for among the learnings, and how many at most.
func (r *run) querying(ctx context.Context, key td.StepKey, query string, limit int) (string, int, error) {
	p, _, err := fire(ctx, r, key, hook.KnowledgeQueryPayload{Head: r.head(), Query: query, Limit: limit})
	return p.Query, p.Limit, err
}

// telling fires KnowledgeInjected: the learnings as hooks leave them.
func (r *run) telling(ctx context.Context, key td.StepKey, query string, found []memory.Match) ([]memory.Match, error) {
	if !r.Hooks.Has(hook.KnowledgeInjected) {
		return found, nil
	}
	p := hook.KnowledgeInjectedPayload{Head: r.head(), Query: query, Learnings: []hook.Learning{}}
	for _, m := range found {
		p.Learnings = append(p.Learnings, hook.Learning{ID: m.ID, Kind: m.Kind, Text: m.Text, Source: strings.Join(m.Sources, ", "), Tags: m.Tags})
	}
	p, said, err := fire(ctx, r, key, p)
	if _, is := said.Changes["learnings"]; err != nil || !is {
		return found, err
	}
	told := make([]memory.Match, len(p.Learnings))
	for i, l := range p.Learnings {
		if j := slices.IndexFunc(found, func(m memory.Match) bool { return l.ID != "" && m.ID == l.ID }); j >= 0 {
			told[i] = found[j]
		} else {
			told[i].Title = clip(l.Text, 80)
			if l.Source != "" {
				told[i].Sources = []string{l.Source}
			}
		}
		if l.Kind != "" {
			told[i].Kind = l.Kind
		}
		told[i].Text, told[i].Tags = l.Text, l.Tags
	}
	return told, nil
}

// extracted fires LearningExtracted: the learning as hooks leave it and where it goes, or that it is not to be kept.
func (r *run) extracted(ctx context.Context, key td.StepKey, l memory.Learning, from string) (_ lesson, keep bool, err error) {
	if !r.Hooks.Has(hook.LearningExtracted) {
		return lesson{Learning: l}, true, nil
	}
	p := hook.LearningExtractedPayload{Head: r.head(), Kind: cmp.Or(l.Kind, td.KindLearning), Text: l.Text, Tags: l.Tags, From: from, Store: r.project()}
	for _, f := range l.Files {
		p.Files = append(p.Files, f.Path)
	}
	p, said, err := fire(ctx, r, key, p)
	l.Kind, l.Text, l.Tags = p.Kind, p.Text, p.Tags
	return r.routed(l, p), !said.Blocked, err
}

// project is the folder of the project that keeps what the task learns.
func (r *run) project() string { return knowledge.Top(r.log.Task().Home()) }

// routed is a learning with the store that a hook chose for it. In another project the files that it cites are not there, and it would never hold.
func (r *run) routed(l memory.Learning, p hook.LearningExtractedPayload) lesson {
	if p.Store == "" || p.Store == r.project() {
		return lesson{Learning: l}
	}
	l.Files = nil
	return lesson{Learning: l, Store: p.Store}
}

// keepFound keeps a learning unless a hook objects.
func (r *run) keepFound(ctx context.Context, key td.StepKey, l memory.Learning, from string) error {
	l.Feature = r.feature()
	found, keep, err := r.extracted(ctx, key, l, from)
	if err != nil || !keep {
		return err
	}
	return r.keep(ctx, key, found)
}

// keepWords keeps what hooks say is worth keeping.
func (r *run) keepWords(ctx context.Context, key td.StepKey, words []string) error {
	if r.Knowledge == nil {
		return nil
	}
	for i, w := range words {
		l := memory.Candidate{Text: w}.Learning(r.log.Task().Handle, r.log.Now())
		if err := r.keepFound(ctx, td.StepKey(fmt.Sprintf("%s.learn.%d", key, i)), l, "hook"); err != nil {
			return err
		}
	}
	return nil
}

// learns fires LearningExtracted for a call of the Learn tool. What hooks make of it is the tool's input; the tool itself writes to the task's
// own project only, so that what a hook sends elsewhere is kept in its place.
func (r *run) learns(ctx context.Context, c *transcript.Call) (done bool, err error) {
	if c.Use.Name != "Learn" || c.Use.Malformed != "" || !r.Hooks.Has(hook.LearningExtracted) {
		return false, nil
	}
	var in map[string]json.RawMessage
	var words struct {
		Kind  td.LearningKind `json:"kind"`
		Title string          `json:"title"`
		Text  string          `json:"text"`
		Tags  []string        `json:"tags"`
		Files []string        `json:"files"`
	}
	if json.Unmarshal(c.Use.Input, &in) != nil || json.Unmarshal(c.Use.Input, &words) != nil || words.Text == "" {
		return false, nil // the tool itself says what is wrong with it
	}
	p, said, err := fire(ctx, r, c.Key, hook.LearningExtractedPayload{
		Head: r.head(), Kind: cmp.Or(words.Kind, td.KindLearning), Text: words.Text, Tags: words.Tags, Files: words.Files, From: "tool", Store: r.project(),
	})
	switch {
	case err != nil:
		return true, err
	case said.Blocked:
		return true, r.answerCall(c, said, td.ToolResult{Content: "It is not kept: " + said.Reason, IsError: true})
	case len(said.Changes) == 0:
		return false, nil
	}
	l := memory.Learning{Kind: p.Kind, Title: words.Title, Text: p.Text, Tags: p.Tags, Sources: []string{r.log.Task().Handle}, CreatedAt: r.log.Now()}
	if to := r.routed(l, p); to.Store != "" && r.Knowledge != nil {
		key := c.Key + ".learn"
		if err := r.keep(ctx, key, to); err != nil {
			return true, err
		}
		out := r.log.Transcript().Learning(key).Outcome
		if out == nil || out.Tool == nil {
			return true, r.answerCall(c, said, td.ToolResult{Content: "It was not kept.", IsError: true})
		}
		return true, r.answerCall(c, said, *out.Tool)
	}
	if in["kind"], err = json.Marshal(p.Kind); err == nil {
		in["text"], err = json.Marshal(p.Text)
	}
	if err == nil && len(p.Tags) > 0 {
		in["tags"], err = json.Marshal(p.Tags)
	}
	if err != nil {
		return true, fmt.Errorf("change the learning: %w", err)
	}
	c.Use.Input, err = json.Marshal(in)
	return err != nil, err
}
