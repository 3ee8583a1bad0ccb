package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/tool/builtin"
	"taskdaemon/internal/workgraph"
)

var fpAuthored = failpoint.New("daemon.author.created")

// authoring is what the author of a phase may use.
type authoring struct {
	title string
	mode  td.Mode
	tools []string
}

var (
	interview = authoring{"Write the %s of %s", td.Interactive, []string{"Read", "Glob", "Grep", "Ask", "Write", "Edit", "Complete", "Fail"}}
	review    = authoring{"Review the %s of %s", td.Autonomous, []string{"Read", "Glob", "Grep", "Write", "Edit", "Complete", "Fail"}}
	decompose = authoring{"Plan the %s of %s", td.Autonomous, []string{"Read", "Glob", "Grep", builtin.PlanTasks, "Complete", "Fail"}}

	authorings = map[td.AuthorPhase]authoring{
		td.AuthorSpec: interview, td.ReviewSpec: review, td.AuthorPlan: interview, td.ReviewPlan: review, td.AuthorWork: decompose,
	}
)

// AuthorPRD starts the task that does a phase of a PRD. One that is at it, or has done it, is found again; after one that
// came to nothing there is another. Their keys count them, so that it is the same for whoever asks twice.
func (d *Daemon) AuthorPRD(ctx context.Context, in api.AuthorPRD) (td.Task, error) {
	if err := d.accepting(); err != nil {
		return td.Task{}, err
	}
	kind, known := authorings[in.Phase]
	if !known {
		return td.Task{}, td.Errorf(td.Invalid, "there is no phase %q", string(in.Phase)).WithHint("one of %v", td.AuthorPhases)
	}
	if in.Rehearsal != "" {
		if _, err := rehearsal.Parse([]byte(in.Rehearsal)); err != nil {
			return td.Task{}, fmt.Errorf("rehearsal script: %w", err)
		}
	}
	s, id, err := d.findPRD(ctx, in.Dir, in.Ref)
	if err != nil {
		return td.Task{}, err
	}
	p, err := d.prd(ctx, s, id)
	if err != nil {
		return td.Task{}, err
	}
	before := slices.DeleteFunc(slices.Clone(p.Authors), func(a api.PRDAuthor) bool { return a.Phase != in.Phase })
	if n := len(before); n > 0 && (!before[n-1].State.Terminal() || before[n-1].State == td.Completed && p.Next != in.Phase) {
		return d.journal.Task(ctx, before[n-1].ID)
	}
	if err := mayAuthor(p, in.Phase); err != nil {
		return td.Task{}, err
	}
	spec, err := d.authorSpec(ctx, s, p, kind, in)
	if err != nil {
		return td.Task{}, err
	}
	t, err := d.create(ctx, spec, fmt.Sprintf("prd/%s/%s/%d", id, in.Phase, len(before)+1))
	if err != nil {
		return td.Task{}, fmt.Errorf("start an author: %w", err)
	}
	fpAuthored.Hit()
	d.sched.Wake(ctx, t, false)
	return t, nil
}

// mayAuthor fails if a phase makes no sense for a PRD as it is.
func mayAuthor(p api.PRD, phase td.AuthorPhase) error {
	if p.Task.State.Terminal() {
		return td.Errorf(td.Conflict, "%s is %s", p.Task.Handle, p.Phase).WithHint("taskdaemon task reset %s", p.Task.Handle)
	}
	needs := map[td.AuthorPhase][]td.DocName{
		td.ReviewSpec: {td.DocSpec}, td.AuthorPlan: {td.DocSpec}, td.ReviewPlan: td.DocNames, td.AuthorWork: td.DocNames,
	}
	for _, name := range needs[phase] {
		if !p.Document(name).There {
			return td.Errorf(td.Conflict, "%s has no %s yet", p.Task.Handle, name).
				WithHint("taskdaemon prd create %s --%s FILE", p.Slug, name)
		}
	}
	return nil
}

func (d *Daemon) authorSpec(ctx context.Context, s *graph.Store, p api.PRD, kind authoring, in api.AuthorPRD) (td.Spec, error) {
	rel := func(name td.DocName) string { return filepath.Join(graph.Folder, graph.PRDFolder, p.Slug, name.File()) }
	told := briefing{name: p.Task.Title, spec: rel(td.DocSpec), plan: rel(td.DocPlan), phases: p.Phases, criteria: p.Criteria}
	author := &td.Author{PRD: p.Task.ID, Phase: in.Phase}
	document := "tasks"
	if doc := in.Phase.Document(); doc != "" {
		document, told.path, author.Document = string(doc), rel(doc), s.DocumentPath(p.Slug, doc)
	} else {
		var err error
		if told.planned, err = d.outlined(ctx, s, p.Task.ID); err != nil {
			return td.Spec{}, err
		}
	}
	id := td.NewTaskID()
	return td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask,
		Title:  oneLine(fmt.Sprintf(kind.title, document, p.Task.Title), 80),
		Prompt: told.prompt(in.Phase), Dir: s.Root(), Mode: kind.mode, Tier: td.Worker, Tools: kind.tools, Priority: 2, Labels: []string{"prd"},
		CreatedAt: time.Now().UTC().Round(0), CreatedBy: in.By, Yes: in.Yes, Rehearsal: in.Rehearsal, Author: author,
	}, nil
}

// outlined lists what is planned in a PRD.
func (d *Daemon) outlined(ctx context.Context, s *graph.Store, id td.TaskID) (string, error) {
	var b strings.Builder
	err := s.View(ctx, func(g *workgraph.Graph) {
		for _, t := range outline(g, id)[1:] {
			n := s.Name(t)
			fmt.Fprintf(&b, "- %s %s\n", n.Handle, oneLine(n.Title, 200))
		}
	})
	return b.String(), err
}

// desk is where authors work: at documents of graphs.
type desk struct{ *Daemon }

// Hold keeps everybody else from writing to the graph that the author's document belongs to. What the author wrote is
// committed afterwards.
func (d desk) Hold(ctx context.Context, t td.Task) (func(), error) {
	s, err := d.projects.at(ctx, t.Dir)
	if err != nil {
		return nil, err
	}
	release, err := s.Hold()
	if err != nil {
		return nil, err
	}
	return func() {
		release()
		d.projects.touch(t.Dir)
	}, nil
}

// Lacks says what an author has yet to do: a document to write, or tasks to plan.
func (d desk) Lacks(ctx context.Context, t td.Task) (string, error) {
	s, err := d.projects.at(ctx, t.Dir)
	if err != nil {
		return "", err
	}
	if name := t.Author.Phase.Document(); name != "" {
		text, _, err := s.Document(ctx, t.Author.PRD, name)
		if err == nil {
			err = graph.CheckDocument(name, text)
		}
		if td.IsKind(err, td.Invalid) {
			return fmt.Sprintf("%v. It is in %s.", err, t.Author.Document), nil
		}
		return "", gone(err)
	}
	p, err := d.prd(ctx, s, t.Author.PRD)
	if err == nil && p.Tasks == 0 {
		return "no task was planned yet. Plan them with " + builtin.PlanTasks + ", or call Fail.", nil
	}
	return "", gone(err)
}

// gone makes nothing of what somebody deleted.
func gone(err error) error {
	if td.IsKind(err, td.NotFound) {
		return nil
	}
	return err
}

// planTools are the tools of a task that makes tasks of a PRD.
func (d *Daemon) planTools(t td.Task) []tool.Tool {
	if t.Author == nil || t.Author.Phase != td.AuthorWork {
		return nil
	}
	return []tool.Tool{builtin.PlanTool(planner{d, t})}
}

// planner plans for a PRD.
type planner struct {
	*Daemon
	task td.Task
}

// Plan adds tasks to the PRD, by the same checks as for a person.
func (p planner) Plan(ctx context.Context, tasks []api.PlanTask) ([]api.Planned, error) {
	s, err := p.projects.at(ctx, p.task.Dir)
	if err != nil {
		return nil, err
	}
	prd := p.task.Author.PRD
	inside := map[td.TaskID]bool{}
	if err := s.View(ctx, func(g *workgraph.Graph) {
		for id := range g.Within(prd) {
			inside[id] = true
		}
	}); err != nil {
		return nil, err
	}
	r := &refs{s: s}
	about, err := p.prd(ctx, s, prd)
	if err != nil {
		return nil, err
	}
	for i, t := range tasks {
		if n := td.PartOf(t.Labels); n > len(about.Phases) {
			return nil, td.Errorf(td.Invalid, "plan %q: there is no phase %d: the feature has %d", oneLine(t.Title, 60), n, len(about.Phases))
		}
		switch {
		case t.Parent == "":
			tasks[i].Parent = string(prd)
		case !strings.HasPrefix(t.Parent, "@"):
			if id, err := r.one(ctx, t.Parent); err != nil {
				return nil, fmt.Errorf("plan %q: %w", oneLine(t.Title, 60), err)
			} else if !inside[id] {
				return nil, td.Errorf(td.Invalid, "plan %q: %s is not in this feature", oneLine(t.Title, 60), t.Parent)
			}
		}
	}
	return p.planIn(ctx, s, api.Plan{Dir: p.task.Dir, Tasks: tasks, By: "task " + p.task.Handle})
}

// Planned finds tasks by their keys.
func (p planner) Planned(ctx context.Context, keys []string) ([]api.Planned, bool, error) {
	s, err := p.projects.at(ctx, p.task.Dir)
	if err != nil {
		return nil, false, err
	}
	ids, all, err := s.Known(ctx, keys)
	if err != nil || !all {
		return nil, false, err
	}
	found, err := p.planned(ctx, s, ids)
	return found, err == nil, err
}
