package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpBeforePlan = failpoint.New("builtin.plan.before_add")
	fpPlanned    = failpoint.New("builtin.plan.added")
)

// PlanTasks is the name of the tool that plans.
const PlanTasks = "PlanTasks"

// Planner is how PlanTasks reaches the graph.
type Planner interface {
	// Plan adds tasks, all or none, each once by its key. Those without a parent become part of what is planned for.
	Plan(ctx context.Context, tasks []api.PlanTask) ([]api.Planned, error)
	// Planned finds the tasks that were added under these keys; all is false unless every one was.
	Planned(ctx context.Context, keys []string) (found []api.Planned, all bool, err error)
}

type planInput struct {
	Tasks []planTask `json:"tasks" jsonschema:"the tasks, each behind those that it waits for" min:"1" max:"200"`
}

type planTask struct {
	Title     string   `json:"title" jsonschema:"one line" min:"1" max:"300"`
	Text      string   `json:"text" jsonschema:"what to do, for somebody who reads this, the spec and the plan, and nothing else" min:"1"`
	After     []string `json:"after,omitempty" jsonschema:"the tasks that must be completed first: @1 is the first task of this call, or the handle of one that was planned before"`
	Parent    string   `json:"parent,omitempty" jsonschema:"the task that it is a part of, one before it in this call, named like those in after; a task with parts is not worked on itself"`
	Priority  *int     `json:"priority,omitempty" jsonschema:"0 is first, 4 is last; 2 when not given" min:"0" max:"4"`
	Labels    []string `json:"labels,omitempty" jsonschema:"for people"`
	Phase     int      `json:"phase,omitempty" jsonschema:"the number of the phase of the feature that it is in, if that is divided into phases" min:"0" max:"100"`
	Validator string   `json:"validator,omitempty" jsonschema:"a shell command that exits 0 in the project when the task is done"`
	Tier      string   `json:"tier,omitempty" jsonschema:"class of model that can do it" enum:"small,worker,expert"`
}

// PlanTool plans tasks in the graph, through the same checks as a person. The evidence of a call is the keys of its
// tasks, which follow from the step: made again after a crash it adds what is not there yet.
func PlanTool(p Planner) tool.Tool {
	return tool.Define(tool.Tool{
		Name: PlanTasks,
		Description: "Adds tasks to the plan of the project, all of them or, if something is wrong with one, none. Call it once with " +
			"all tasks, or several times; what was added stays.",
	}, func(_ context.Context, env *tool.Env, in planInput) (tool.Call, error) {
		return preparePlan(p, env, in)
	}, func(ctx context.Context, env *tool.Env, in planInput, _ td.Intent) (tool.Resolution, error) {
		found, all, err := p.Planned(ctx, planKeys(env, in))
		if err != nil || !all {
			return tool.Resolution{}, err
		}
		return tool.Resolution{State: tool.Done, Via: td.Probed, Result: planned(found)}, nil
	})
}

func preparePlan(p Planner, env *tool.Env, in planInput) (tool.Call, error) {
	keys := planKeys(env, in)
	evidence, err := json.Marshal(struct{ Keys []string }{keys})
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	tasks := make([]api.PlanTask, len(in.Tasks))
	shown := title(PlanTasks, fmt.Sprintf("(%d)", len(tasks)))
	free := true // nobody is asked, unless there is a command in it: that will be run whenever its task says that it is done
	for i, t := range in.Tasks {
		if t.Validator != "" {
			shown, free = shown+"\n"+title(fmt.Sprintf("%d:", i+1), t.Title+", checked by: "+t.Validator), false
		}
		for _, ref := range append([]string{t.Parent}, t.After...) {
			if n, ok := strings.CutPrefix(ref, "@"); ok {
				if at, err := strconv.Atoi(n); err != nil || at < 1 || at > i {
					return tool.Call{}, td.Errorf(td.Invalid, "task %d (%s) names %s: @1 to @%d are the tasks before it in this call", i+1, t.Title, ref, i)
				}
			}
		}
		if at, err := strconv.Atoi(strings.TrimPrefix(t.Parent, "@")); err == nil && t.Parent[0] == '@' {
			tasks[at-1].Kind = td.KindTask // one that has parts is no spec: nobody works on it itself
		}
		if t.Phase > 0 {
			t.Labels = append(t.Labels, td.PhaseLabel(t.Phase))
		}
		tasks[i] = api.PlanTask{
			Key: keys[i], Title: t.Title, Text: t.Text, Kind: td.KindSpec, Parent: t.Parent, Blockers: t.After, Labels: t.Labels,
			Priority: t.Priority, Validator: t.Validator, Tier: td.Tier(t.Tier),
		}
	}
	return tool.Call{
		Effect: td.Keyed, Evidence: evidence, Title: shown, Free: free,
		Run: func(ctx context.Context) (td.ToolResult, error) {
			fpBeforePlan.Hit()
			added, err := p.Plan(ctx, tasks)
			fpPlanned.Hit()
			if err != nil {
				return td.ToolResult{}, err
			}
			return planned(added), nil
		},
	}, nil
}

// planKeys are what the tasks of a call are known by, the same in every attempt at it. The input is in them, because a
// step has the name of another one whose answer was dropped.
func planKeys(env *tool.Env, in planInput) []string {
	raw, _ := json.Marshal(in) // it came from JSON
	sum := sha256.Sum256(raw)
	keys := make([]string, len(in.Tasks))
	for i := range keys {
		keys[i] = fmt.Sprintf("author/%s/%s/%s/%d", env.Task, env.Step.Base(), hex.EncodeToString(sum[:6]), i+1)
	}
	return keys
}

// planned is the same whether it was seen or found done.
func planned(tasks []api.Planned) td.ToolResult {
	var b strings.Builder
	fmt.Fprintf(&b, "Planned:\n")
	for _, t := range tasks {
		fmt.Fprintf(&b, "%s  %s\n", t.Handle, t.Title)
	}
	return td.ToolResult{Content: b.String()}
}
