package api

import (
	"context"
	"slices"

	"taskdaemon/internal/td"
)

// Librarian is what can be asked about PRDs: planned tasks with documents, which hold the tasks that they are made
// into. Dir is any folder of the project; a ref may also be a PRD's slug.
type Librarian interface {
	// CreatePRD makes a PRD, or finds the one of that name, and gives it the documents that it lacks.
	CreatePRD(ctx context.Context, in CreatePRD) (PRD, error)
	// PRDs are all of a project, the oldest first, without the texts of their documents.
	PRDs(ctx context.Context, dir string) ([]PRD, error)
	PRD(ctx context.Context, dir, ref string) (PRD, error)
	WritePRD(ctx context.Context, in WritePRD) (PRD, error)
	// DeletePRD deletes a PRD, its documents and all in it that has not ended, and returns how it was. It is refused
	// while somebody is at work on it.
	DeletePRD(ctx context.Context, dir, ref string) (PRD, error)
	// AuthorPRD starts the task that does a phase of a PRD, or finds the one that does it already.
	AuthorPRD(ctx context.Context, in AuthorPRD) (td.Task, error)
}

// CreatePRD is a PRD to make.
type CreatePRD struct {
	Dir   string `json:"dir" doc:"A folder of the project."`
	Name  string `json:"name" doc:"What it is called. Its folder is named after it; the same name again means the same PRD."`
	Spec  string `json:"spec,omitempty" doc:"What is wanted, as Markdown."`
	Plan  string `json:"plan,omitempty" doc:"How it is done, as Markdown."`
	Force bool   `json:"force,omitempty" doc:"Replace documents that say something else."`
	By    string `json:"by,omitempty"`
}

// WritePRD gives a PRD a document.
type WritePRD struct {
	Dir      string     `json:"dir" doc:"A folder of the project."`
	Ref      string     `json:"ref"`
	Document td.DocName `json:"document" enum:"spec,plan"`
	Text     string     `json:"text" doc:"Markdown."`
	Force    bool       `json:"force,omitempty" doc:"Replace one that says something else."`
}

// AuthorPRD says which phase of a PRD is to be done.
type AuthorPRD struct {
	Dir       string         `json:"dir" doc:"A folder of the project."`
	Ref       string         `json:"ref"`
	Phase     td.AuthorPhase `json:"phase" enum:"spec,review-spec,plan,review-plan,tasks"`
	Yes       bool           `json:"yes,omitempty" doc:"Grant permissions without asking: tasks that are planned may name commands that check them."`
	Rehearsal string         `json:"rehearsal,omitempty" doc:"Script for the rehearsal model, as YAML."`
	By        string         `json:"by,omitempty"`
}

// PRD is a PRD and how far it is.
type PRD struct {
	Task      Planned        `json:"task"`
	Slug      string         `json:"slug"`
	Phase     td.PRDPhase    `json:"phase"`
	Next      td.AuthorPhase `json:"next,omitempty" doc:"What authors have yet to do; none: there is something to run, or it has ended."`
	Documents []Document     `json:"documents"`
	Tasks     int            `json:"tasks"` // in it, that are worked on themselves
	Completed int            `json:"completed"`
	Failed    int            `json:"failed"` // or cancelled
	Authors   []PRDAuthor    `json:"authors,omitempty"`
	Created   bool           `json:"created,omitempty"` // by this call
	// Direct says that it is worked on itself, without tasks.
	Direct bool `json:"direct,omitempty"`

	Criteria    []string     `json:"criteria,omitempty" doc:"How one can tell that it is done, of the head of its spec."`
	Phases      []td.PRDPart `json:"phases,omitempty" doc:"What the work is divided into, of the head of its spec."`
	At          int          `json:"at,omitempty" doc:"The number of the first phase with a task that has not ended; 0: there is none."`
	AutoInstall bool         `json:"auto_install,omitempty" doc:"What the work needs may be installed, as far as the rules allow."`
	Problem     string       `json:"problem,omitempty"` // why that head cannot be read
}

// Document is a document of a PRD.
type Document struct {
	Name    td.DocName `json:"name"`
	Path    string     `json:"path"`
	There   bool       `json:"there"`
	Size    int        `json:"size,omitempty"` // in bytes
	Text    string     `json:"text,omitempty"`
	Problem string     `json:"problem,omitempty"` // why it cannot be read
}

// PRDAuthor is a task that prepares, or prepared, a PRD.
type PRDAuthor struct {
	ID     td.TaskID      `json:"id"`
	Handle string         `json:"handle"`
	Phase  td.AuthorPhase `json:"phase"`
	State  td.State       `json:"state"`
}

// Document is the document of this name.
func (p PRD) Document(name td.DocName) Document {
	for _, d := range p.Documents {
		if d.Name == name {
			return d
		}
	}
	return Document{Name: name}
}

// Derive sets Phase and Next, which follow from the rest. Begun says that a task in it was.
func (p *PRD) Derive(begun bool) { p.Phase, p.Next = p.phase(begun), p.next() }

// phase is how far a PRD is: what there is to run counts, and before there is any, its documents.
func (p PRD) phase(begun bool) td.PRDPhase {
	switch state := p.Task.State; {
	case state == td.Completed:
		return td.PRDDone
	case state.Terminal():
		return td.PRDFailed
	case begun:
		return td.PRDRunning
	case p.Tasks > 0 || p.Direct:
		return td.PRDReady
	case slices.ContainsFunc(p.Documents, func(d Document) bool { return !d.There }):
		return td.PRDDraft
	}
	return td.PRDPlanned
}

// next is what authors have yet to do for a PRD: what one of them is at, else what is missing or came to nothing. What a
// person wrote is not reviewed, and who cancels a review goes on without it.
func (p PRD) next() td.AuthorPhase {
	if p.Task.State.Terminal() {
		return ""
	}
	newest := map[td.AuthorPhase]td.State{}
	for _, a := range p.Authors {
		if newest[a.Phase] = a.State; !a.State.Terminal() {
			return a.Phase
		}
	}
	if p.Direct {
		return ""
	}
	if work := newest[td.AuthorWork]; p.Tasks > 0 && work != td.Failed && work != td.Abandoned {
		return ""
	}
	for i, phase := range td.AuthorPhases {
		switch {
		case phase.Interview() && !p.Document(phase.Document()).There:
			return phase
		case phase.Interview() || phase == td.AuthorWork:
		case newest[td.AuthorPhases[i-1]] == td.Completed && newest[phase] != td.Completed && newest[phase] != td.Cancelled:
			return phase
		}
	}
	return td.AuthorWork
}
