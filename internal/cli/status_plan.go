package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// planStatus is a planned task in a status.
type planStatus struct {
	ID        td.TaskID `json:"id"`
	Handle    string    `json:"handle"`
	Title     string    `json:"title"`
	State     td.State  `json:"state"`
	Depth     int       `json:"depth"`
	Why       string    `json:"why,omitempty"` // it cannot run
	Phase     td.Phase  `json:"phase,omitempty"`
	Iteration int       `json:"iteration,omitempty"`
	Part      int       `json:"part,omitempty"`  // the number of the phase of the PRD that it is in, or that the PRD is in
	Parts     int       `json:"parts,omitempty"` // how many that has
}

// maxPlanStatus bounds how many planned tasks a status shows.
const maxPlanStatus = 50

// project adds what the project of the present folder says, if there is one.
func (o statusOptions) project(ctx context.Context, svc api.Service, st *standing) error {
	dir, err := folderOr("")
	if err != nil {
		return err
	}
	all, err := svc.Planned(ctx, api.PlanQuery{Dir: dir, Tree: true, In: o.target})
	if td.IsKind(err, td.NotFound) && o.target == "" {
		return nil // in no project
	}
	if err != nil {
		return err
	}
	if st.Runs, err = svc.Runs(ctx, api.RunQuery{Dir: dir, Open: true}); err != nil {
		return err
	}
	live, err := svc.Tasks(ctx, api.TaskQuery{States: []td.State{td.Running, td.Waiting, td.Blocked, td.Paused, td.Queued}})
	if err != nil {
		return err
	}
	at := map[td.TaskID]td.Task{}
	for _, t := range live {
		at[t.ID] = t
	}
	parts, err := partsOf(ctx, svc, dir, all)
	if err != nil {
		return err
	}
	// What has ended is of interest only beside what has not.
	top := -1
	for i, p := range all {
		if p.Depth == all[0].Depth {
			top = i
		}
		if o.target == "" && all[top].State.Terminal() {
			continue
		}
		line := planStatusOf(p, at[p.ID])
		line.Part, line.Parts = parts.of(p)
		st.Plan = append(st.Plan, line)
	}
	return nil
}

// parts are the phases of PRDs, and the PRDs of tasks.
type parts struct {
	prds map[td.TaskID]api.PRD
	in   map[td.TaskID]td.TaskID
}

// partsOf looks which phases planned tasks, in the order of the tree, are in. Where there is no PRD nobody is asked.
func partsOf(ctx context.Context, svc api.Service, dir string, all []api.Planned) (parts, error) {
	out := parts{map[td.TaskID]api.PRD{}, map[td.TaskID]td.TaskID{}}
	if !slices.ContainsFunc(all, func(p api.Planned) bool { return td.PartOf(p.Labels) > 0 }) {
		return out, nil
	}
	prds, err := svc.PRDs(ctx, dir)
	if err != nil {
		return out, err
	}
	for _, p := range prds {
		out.prds[p.Task.ID], out.in[p.Task.ID] = p, p.Task.ID
	}
	for _, p := range all {
		if p.Parent != nil && out.in[p.ID] == "" {
			out.in[p.ID] = out.in[p.Parent.ID] // a container comes before what it holds
		}
	}
	return out, nil
}

// of is the phase that a task is in, or that a PRD is in, and how many there are.
func (s parts) of(p api.Planned) (at, of int) {
	prd, known := s.prds[s.in[p.ID]]
	if at = td.PartOf(p.Labels); prd.Task.ID == p.ID {
		at = prd.At
	}
	if !known || at == 0 || at > len(prd.Phases) {
		return 0, 0
	}
	return at, len(prd.Phases)
}

func planStatusOf(p api.Planned, t td.Task) planStatus {
	out := planStatus{ID: p.ID, Handle: p.Handle, Title: p.Title, State: p.State, Depth: p.Depth, Why: obstacleWords(p)}
	if t.ID != "" && !p.State.Terminal() {
		out.State, out.Iteration = t.Status.State, t.Iteration
		if t.Status.Running != nil {
			out.Phase = t.Status.Running.Phase
		}
	}
	return out
}

// printPlanStatus writes the runs and the planned tasks.
func (a *app) printPlanStatus(st standing) {
	if len(st.Runs)+len(st.Plan) > 0 {
		fmt.Fprintln(a.stdout)
	}
	for _, run := range st.Runs {
		fmt.Fprintf(a.stdout, "run %s: %s\n", run.Run, runWords(run))
		for _, o := range run.Later {
			fmt.Fprintln(a.stdout, a.obstacleLine(o))
		}
		if run.Held != nil {
			fmt.Fprintln(a.stdout, a.typeable("  to go on: taskdaemon resume --trunk "+run.Held.Trunk))
		}
	}
	for i, p := range st.Plan {
		if i == maxPlanStatus {
			a.say("and %d more: %s", len(st.Plan)-i, a.typeable("taskdaemon task tree"))
			break
		}
		fmt.Fprintln(a.stdout, a.planLine(p, st.Plan[0].Depth))
	}
}

// planLine is a planned task in a line: its state, and where it is at work its phase and iteration.
func (a *app) planLine(p planStatus, base int) string {
	state := string(p.State)
	if p.State == td.Queued && p.Why != "" {
		state = "blocked"
	}
	line := fmt.Sprintf("%s%s: %s %s", strings.Repeat("  ", max(0, p.Depth-base)), p.Handle, plainLine(p.Title, 70), a.style.state(p.State, "["+state+"]"))
	var more []string
	switch {
	case p.Part > 0 && p.Phase != "":
		more = append(more, fmt.Sprintf("phase %d/%d", p.Part, p.Parts), string(p.Phase))
	case p.Part > 0:
		more = append(more, fmt.Sprintf("phase %d/%d", p.Part, p.Parts))
	case p.Phase != "":
		more = append(more, "phase "+string(p.Phase))
	}
	if p.Iteration > 0 && !p.State.Terminal() {
		more = append(more, fmt.Sprintf("iteration %d", p.Iteration))
	}
	if len(more) > 0 {
		line += " (" + strings.Join(more, ", ") + ")"
	}
	if p.Why != "" {
		line += a.style.dim("  " + p.Why)
	}
	return line
}

// notIn are the tasks that the plan does not show.
func notIn(tasks []td.Task, plan []planStatus) []td.Task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t td.Task) bool {
		return slices.ContainsFunc(plan[:min(len(plan), maxPlanStatus)], func(p planStatus) bool { return p.ID == t.ID })
	})
}
