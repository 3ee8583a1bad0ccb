package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// CreatePRD makes a PRD, or finds the one of that name, and gives it what it lacks. The task comes first: whoever is cut
// off finds it again, and goes on.
func (d *Daemon) CreatePRD(ctx context.Context, in api.CreatePRD) (api.PRD, error) {
	if err := d.accepting(); err != nil {
		return api.PRD{}, err
	}
	given := map[td.DocName]string{td.DocSpec: in.Spec, td.DocPlan: in.Plan}
	for name, text := range given {
		if text == "" {
			delete(given, name)
		} else if err := graph.CheckDocument(name, text); err != nil {
			return api.PRD{}, err
		}
	}
	s, err := d.projects.of(ctx, in.Dir)
	if err != nil {
		return api.PRD{}, err
	}
	defer d.projects.touch(s.Root())
	t, created, err := s.AddPRD(ctx, graph.Task{Title: in.Name, Priority: 2, CreatedBy: in.By})
	if err != nil {
		return api.PRD{}, err
	}
	for _, name := range td.DocNames {
		if text := given[name]; text != "" {
			if err := s.WriteDocument(ctx, t.ID, name, text, in.Force); err != nil {
				return api.PRD{}, err
			}
		}
	}
	p, err := d.prd(ctx, s, t.ID)
	p.Created = created
	return p, err
}

// WritePRD gives a PRD a document.
func (d *Daemon) WritePRD(ctx context.Context, in api.WritePRD) (api.PRD, error) {
	if err := d.accepting(); err != nil {
		return api.PRD{}, err
	}
	s, id, err := d.findPRD(ctx, in.Dir, in.Ref)
	if err != nil {
		return api.PRD{}, err
	}
	if err := s.WriteDocument(ctx, id, in.Document, in.Text, in.Force); err != nil {
		return api.PRD{}, err
	}
	d.projects.touch(s.Root())
	return d.prd(ctx, s, id)
}

// PRD is one PRD, with its documents.
func (d *Daemon) PRD(ctx context.Context, dir, ref string) (api.PRD, error) {
	s, id, err := d.findPRD(ctx, dir, ref)
	if err != nil {
		return api.PRD{}, err
	}
	return d.prd(ctx, s, id)
}

// PRDs are all of a project.
func (d *Daemon) PRDs(ctx context.Context, dir string) ([]api.PRD, error) {
	s, err := d.projects.of(ctx, dir)
	if err != nil {
		return nil, err
	}
	ids, err := s.PRDs(ctx)
	if err != nil {
		return nil, err
	}
	authors, err := d.authors(ctx, s)
	if err != nil {
		return nil, err
	}
	out := make([]api.PRD, 0, len(ids))
	for _, id := range ids {
		p, err := d.describePRD(ctx, s, id, authors[id])
		if td.IsKind(err, td.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		for i := range p.Documents {
			p.Documents[i].Text = ""
		}
		out = append(out, p)
	}
	return out, nil
}

// DeletePRD deletes a PRD with what is open in it.
func (d *Daemon) DeletePRD(ctx context.Context, dir, ref string) (api.PRD, error) {
	if err := d.accepting(); err != nil {
		return api.PRD{}, err
	}
	s, id, err := d.findPRD(ctx, dir, ref)
	if err != nil {
		return api.PRD{}, err
	}
	p, err := d.prd(ctx, s, id)
	if err != nil {
		return api.PRD{}, err
	}
	for _, a := range p.Authors {
		if !a.State.Terminal() {
			return api.PRD{}, td.Errorf(td.Conflict, "delete %s: %s is at work on it (%s)", p.Task.Handle, a.Handle, a.Phase).
				WithHint("taskdaemon task cancel %s", a.Handle)
		}
	}
	defer d.projects.touch(s.Root())
	return p, s.DeletePRD(ctx, id)
}

func (d *Daemon) findPRD(ctx context.Context, dir, ref string) (*graph.Store, td.TaskID, error) {
	s, err := d.projects.of(ctx, dir)
	if err != nil {
		return nil, "", err
	}
	id, err := (&refs{s: s}).one(ctx, ref)
	if td.IsKind(err, td.NotFound) {
		return nil, "", td.Errorf(td.NotFound, "no PRD matches %q", ref).WithHint("taskdaemon prd list")
	}
	return s, id, err
}

// prd describes one PRD.
func (d *Daemon) prd(ctx context.Context, s *graph.Store, id td.TaskID) (api.PRD, error) {
	authors, err := d.authors(ctx, s)
	if err != nil {
		return api.PRD{}, err
	}
	return d.describePRD(ctx, s, id, authors[id])
}

// authors are the tasks that prepare or prepared PRDs of a project, by PRD, the oldest first.
func (d *Daemon) authors(ctx context.Context, s *graph.Store) (map[td.TaskID][]api.PRDAuthor, error) {
	all, err := d.journal.Tasks(ctx, store.TaskFilter{Dir: s.Root(), Brief: true})
	if err != nil {
		return nil, err
	}
	out := map[td.TaskID][]api.PRDAuthor{}
	slices.SortFunc(all, func(a, b td.Task) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for _, t := range all {
		if a := t.Author; a != nil {
			out[a.PRD] = append(out[a.PRD], api.PRDAuthor{ID: t.ID, Handle: t.Handle, Phase: a.Phase, State: t.Status.State})
		}
	}
	return out, nil
}

func (d *Daemon) describePRD(ctx context.Context, s *graph.Store, id td.TaskID, authors []api.PRDAuthor) (p api.PRD, err error) {
	t, err := s.Task(ctx, id)
	if err != nil {
		return p, err
	}
	if p.Task, err = d.plannedOne(ctx, s, id); err != nil {
		return p, err
	}
	p.Slug, p.Authors, p.Direct = t.Slug, authors, t.Direct && !p.Task.Container
	for _, name := range td.DocNames {
		text, there, err := s.Document(ctx, id, name)
		doc := api.Document{Name: name, Path: s.DocumentPath(t.Slug, name), There: there && strings.TrimSpace(text) != "", Size: len(text), Text: text}
		if td.IsKind(err, td.Invalid) {
			doc.There, doc.Problem, err = true, err.Error(), nil
		}
		if err != nil {
			return p, err
		}
		p.Documents = append(p.Documents, doc)
	}
	head, err := graph.ReadHead(p.Document(td.DocSpec).Text)
	if err != nil {
		p.Problem = fmt.Sprintf("the head of its spec cannot be read: %v", err)
	}
	p.Criteria, p.Phases, p.AutoInstall = head.Criteria, head.Phases, head.AutoInstall
	at := map[td.TaskID]bool{} // what has not ended
	begun := p.Direct && p.Task.State != td.Queued && p.Task.State != td.Blocked
	err = s.View(ctx, func(g *workgraph.Graph) {
		for part := range g.Within(id) {
			st, _ := g.Standing(part)
			if part == id || st.Container {
				continue
			}
			p.Tasks++
			at[part] = !st.State.Terminal()
			switch {
			case st.State == td.Completed:
				p.Completed++
			case st.State.Terminal():
				p.Failed++
			}
			begun = begun || st.State != td.Queued && st.State != td.Blocked
		}
	})
	p.Derive(begun)
	if err == nil && len(p.Phases) > 0 {
		p.At, err = partNow(ctx, s, at, len(p.Phases))
	}
	return p, err
}

// partNow is the number of the first phase that has a task which has not ended; 0: none has.
func partNow(ctx context.Context, s *graph.Store, open map[td.TaskID]bool, phases int) (at int, err error) {
	for id, is := range open {
		if !is {
			continue
		}
		t, err := s.Task(ctx, id)
		if td.IsKind(err, td.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return 0, err
		}
		if n := td.PartOf(t.Labels); n > 0 && n <= phases && (at == 0 || n < at) {
			at = n
		}
	}
	return at, nil
}
