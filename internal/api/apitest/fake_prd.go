package apitest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// CreatePRD makes a PRD, or finds it by its slug.
func (f *Fake) CreatePRD(_ context.Context, in api.CreatePRD) (api.PRD, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.graphOf(in.Dir)
	if err != nil {
		return api.PRD{}, err
	}
	slug, err := td.Slug(in.Name)
	if err != nil {
		return api.PRD{}, err
	}
	given := map[td.DocName]string{td.DocSpec: in.Spec, td.DocPlan: in.Plan}
	for _, text := range given {
		if len(text) > 1<<20 {
			return api.PRD{}, td.Errorf(td.Invalid, "the document has %d bytes", len(text))
		}
	}
	var t *fakeTask
	for _, other := range g.tasks {
		if other.slug == slug {
			t = other
		}
	}
	made := t == nil
	if made {
		id, err := g.add(api.PlanTask{Title: in.Name, Kind: td.KindPRD}, nil, in.By)
		if err != nil {
			return api.PRD{}, err
		}
		t = g.tasks[id]
		t.slug, t.docs = slug, map[td.DocName]string{}
	} else if in.Name != t.Title && in.Name != slug {
		return api.PRD{}, td.Errorf(td.Conflict, "the folder prds/%s is that of %s", slug, t.Handle).WithHint("choose another name")
	}
	for _, name := range td.DocNames {
		if given[name] == "" {
			continue
		}
		if err := t.write(name, given[name], in.Force); err != nil {
			return api.PRD{}, err
		}
	}
	p := f.prd(g, t)
	p.Created = made
	return p, nil
}

func (t *fakeTask) write(name td.DocName, text string, force bool) error {
	switch {
	case t.slug == "":
		return td.Errorf(td.Conflict, "%s is no PRD", t.Handle).WithHint("taskdaemon prd list")
	case !slices.Contains(td.DocNames, name), strings.TrimSpace(text) == "":
		return td.Errorf(td.Invalid, "a PRD has no document %q, or it is empty", string(name))
	case t.docs[name] != "" && t.docs[name] != text && !force:
		return td.Errorf(td.Conflict, "%s has a %s already", t.Handle, name).WithHint("--force replaces it")
	}
	t.docs[name] = text
	return nil
}

func (f *Fake) prd(g *fakeGraph, t *fakeTask) api.PRD {
	p := api.PRD{Task: g.describe([]td.TaskID{t.ID})[0], Slug: t.slug}
	for _, name := range td.DocNames {
		p.Documents = append(p.Documents, api.Document{
			Name: name, Path: filepath.Join(g.root, ".taskdaemon", "prds", t.slug, name.File()), There: t.docs[name] != "", Size: len(t.docs[name]), Text: t.docs[name],
		})
	}
	begun := false
	for id := range g.graph.Within(t.ID) {
		st, _ := g.graph.Standing(id)
		if id == t.ID || st.Container {
			continue
		}
		p.Tasks++
		begun = begun || st.State != td.Queued && st.State != td.Blocked
		switch {
		case st.State == td.Completed:
			p.Completed++
		case st.State.Terminal():
			p.Failed++
		}
	}
	for _, a := range f.tasks {
		if a.Author != nil && a.Author.PRD == t.ID {
			p.Authors = append(p.Authors, api.PRDAuthor{ID: a.ID, Handle: a.Handle, Phase: a.Author.Phase, State: a.Status.State})
		}
	}
	p.Derive(begun)
	return p
}

// PRDs lists PRDs.
func (f *Fake) PRDs(_ context.Context, dir string) ([]api.PRD, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.graphOf(dir)
	if err != nil {
		return nil, err
	}
	out := []api.PRD{}
	for _, t := range g.tasks {
		if t.slug == "" {
			continue
		}
		p := f.prd(g, t)
		for i := range p.Documents {
			p.Documents[i].Text = ""
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b api.PRD) int { return strings.Compare(string(a.Task.ID), string(b.Task.ID)) })
	return out, nil
}

// PRD finds one PRD.
func (f *Fake) PRD(_ context.Context, dir, ref string) (api.PRD, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, t, err := f.findPRD(dir, ref)
	if err != nil {
		return api.PRD{}, err
	}
	return f.prd(g, t), nil
}

func (f *Fake) findPRD(dir, ref string) (*fakeGraph, *fakeTask, error) {
	g, t, err := f.planned(dir, ref)
	if err == nil && t.slug == "" {
		return nil, nil, td.Errorf(td.Conflict, "%s is no PRD", t.Handle).WithHint("taskdaemon prd list")
	}
	return g, t, err
}

// WritePRD gives a PRD a document.
func (f *Fake) WritePRD(_ context.Context, in api.WritePRD) (api.PRD, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, t, err := f.findPRD(in.Dir, in.Ref)
	if err != nil {
		return api.PRD{}, err
	}
	if err := t.write(in.Document, in.Text, in.Force); err != nil {
		return api.PRD{}, err
	}
	return f.prd(g, t), nil
}

// DeletePRD deletes a PRD and what is open in it.
func (f *Fake) DeletePRD(_ context.Context, dir, ref string) (api.PRD, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, t, err := f.findPRD(dir, ref)
	if err != nil {
		return api.PRD{}, err
	}
	p := f.prd(g, t)
	for _, a := range p.Authors {
		if !a.State.Terminal() {
			return api.PRD{}, td.Errorf(td.Conflict, "%s is at work on it", a.Handle).WithHint("taskdaemon task cancel %s", a.Handle)
		}
	}
	for _, id := range slices.Collect(g.graph.Within(t.ID)) {
		if st, _ := g.graph.Standing(id); id == t.ID || st.Container || !st.State.Terminal() {
			delete(g.tasks, id)
			g.graph.Remove(id)
		}
	}
	return p, nil
}

// AuthorPRD queues a task for a phase, which asks if it brings a script; one that has not ended is found.
func (f *Fake) AuthorPRD(_ context.Context, in api.AuthorPRD) (td.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, t, err := f.findPRD(in.Dir, in.Ref)
	if err != nil {
		return td.Task{}, err
	}
	p := f.prd(g, t)
	if !slices.Contains(td.AuthorPhases, in.Phase) {
		return td.Task{}, td.Errorf(td.Invalid, "there is no phase %q", string(in.Phase))
	}
	for _, name := range td.DocNames {
		if (in.Phase == td.AuthorWork || in.Phase == td.AuthorPlan && name == td.DocSpec) && !p.Document(name).There {
			return td.Task{}, td.Errorf(td.Conflict, "%s has no %s yet", t.Handle, name).WithHint("taskdaemon prd create %s --%s FILE", t.slug, name)
		}
	}
	for _, a := range p.Authors {
		if a.Phase == in.Phase && !a.State.Terminal() {
			return *f.task(a.ID), nil
		}
	}
	id := td.NewTaskID()
	f.tasks = append(f.tasks, td.Task{Spec: td.Spec{ID: id}})
	f.append(id, "", td.Created{Spec: td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask, Title: fmt.Sprintf("%s of %s", in.Phase, t.Title),
		Dir: g.root, Mode: td.Autonomous, Tier: td.Worker, Priority: 2, Labels: []string{"prd"}, CreatedAt: now(), CreatedBy: in.By,
		Rehearsal: in.Rehearsal, Author: &td.Author{PRD: t.ID, Phase: in.Phase, Document: p.Document(in.Phase.Document()).Path},
	}})
	if in.Rehearsal != "" {
		f.ask(id)
	}
	return *f.task(id), nil
}
