package api_test

import (
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func TestWhatAuthorsHaveYetToDo(t *testing.T) {
	type author = api.PRDAuthor
	did := func(phase td.AuthorPhase, state td.State) author { return author{Phase: phase, State: state} }
	for name, tc := range map[string]struct {
		spec, plan bool
		tasks      int
		state      td.State
		authors    []author
		phase      td.PRDPhase
		next       td.AuthorPhase
	}{
		"nothing is there":                   {phase: td.PRDDraft, next: td.AuthorSpec},
		"a person wrote the spec":            {spec: true, phase: td.PRDDraft, next: td.AuthorPlan},
		"a person wrote both":                {spec: true, plan: true, phase: td.PRDPlanned, next: td.AuthorWork},
		"only the plan":                      {plan: true, phase: td.PRDDraft, next: td.AuthorSpec},
		"the interview goes on":              {spec: true, authors: []author{did(td.AuthorSpec, td.Waiting)}, phase: td.PRDDraft, next: td.AuthorSpec},
		"the interview is over":              {spec: true, authors: []author{did(td.AuthorSpec, td.Completed)}, phase: td.PRDDraft, next: td.ReviewSpec},
		"the interview failed":               {authors: []author{did(td.AuthorSpec, td.Failed)}, phase: td.PRDDraft, next: td.AuthorSpec},
		"the review failed":                  {spec: true, authors: []author{did(td.AuthorSpec, td.Completed), did(td.ReviewSpec, td.Failed)}, phase: td.PRDDraft, next: td.ReviewSpec},
		"the review was cancelled":           {spec: true, authors: []author{did(td.AuthorSpec, td.Completed), did(td.ReviewSpec, td.Cancelled)}, phase: td.PRDDraft, next: td.AuthorPlan},
		"the plan is reviewed":               {spec: true, plan: true, authors: []author{did(td.AuthorPlan, td.Completed), did(td.ReviewPlan, td.Running)}, phase: td.PRDPlanned, next: td.ReviewPlan},
		"the second interview is over":       {spec: true, plan: true, authors: []author{did(td.AuthorPlan, td.Failed), did(td.AuthorPlan, td.Completed)}, phase: td.PRDPlanned, next: td.ReviewPlan},
		"some tasks are there already":       {spec: true, plan: true, tasks: 1, authors: []author{did(td.AuthorWork, td.Running)}, phase: td.PRDReady, next: td.AuthorWork},
		"the tasks are there":                {spec: true, plan: true, tasks: 2, authors: []author{did(td.AuthorWork, td.Completed)}, phase: td.PRDReady},
		"some are, and their author gave up": {spec: true, plan: true, tasks: 1, authors: []author{did(td.AuthorWork, td.Failed)}, phase: td.PRDReady, next: td.AuthorWork},
		"some are, and that is enough":       {spec: true, plan: true, tasks: 1, authors: []author{did(td.AuthorWork, td.Cancelled)}, phase: td.PRDReady},
		"tasks without documents":            {tasks: 1, phase: td.PRDReady},
		"it is done":                         {tasks: 1, state: td.Completed, phase: td.PRDDone},
		"it failed":                          {state: td.Cancelled, phase: td.PRDFailed},
	} {
		p := api.PRD{
			Task: api.Planned{State: tc.state}, Tasks: tc.tasks, Authors: tc.authors,
			Documents: []api.Document{{Name: td.DocSpec, There: tc.spec}, {Name: td.DocPlan, There: tc.plan}},
		}
		if p.Derive(false); p.Phase != tc.phase || p.Next != tc.next {
			t.Errorf("%s: it is %s, next %q; want %s, %q", name, p.Phase, p.Next, tc.phase, tc.next)
		}
	}
}
