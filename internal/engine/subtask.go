package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/fence"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

var (
	fpChildNamed   = failpoint.New("engine.subtask.named")
	fpChildSpawned = failpoint.New("engine.subtask.spawned")
	fpChildEnded   = failpoint.New("engine.subtask.ended")
	fpChildrenTold = failpoint.New("engine.subtask.cancelled")
)

// maxDepth is how deep subtasks may be nested.
const maxDepth = 3

// maxAnswer bounds what is taken over of an agent's words into records of their own: how the task ended, a question to a person.
const maxAnswer = 30_000

// subtask reports whether a task is one that a call of Task or Explore made.
func subtask(t td.Task) bool { return t.Depth > 0 && t.Source == "" }

// child is the evidence of a subtask's call: its id is on disk before the subtask is, so that it is
// created once however often that is tried. A td.Verification names a verifier in the same way.
type child struct {
	Task td.TaskID `json:"task"`
}

// subtask carries out a call of Task or Explore: it creates the child and lets the parent rest, without
// holding a place, until the child has ended. Each time the parent is taken up it comes back here.
func (r *run) subtask(ctx context.Context, c *transcript.Call, t tool.Tool) error {
	parent := r.log.Task()
	call, err := t.Prepare(ctx, r.env(c.Key, t), c.Use.Input)
	if err != nil {
		return r.refuse(ctx, c, err.Error())
	}
	if c.Intent == nil {
		if parent.Depth >= maxDepth {
			return r.refuse(ctx, c, fmt.Sprintf("Subtasks may be %d deep, and this is one at that depth. Do it yourself.", maxDepth))
		}
		evidence, err := json.Marshal(child{td.NewTaskID()})
		if err != nil {
			return fmt.Errorf("name the subtask: %w", err)
		}
		err = r.log.Append(ctx, td.StepIntended{Intent: intent(c, tool.Call{Effect: td.Keyed, Evidence: evidence}, 0, "")})
		if err != nil {
			return err
		}
		fpChildNamed.Hit()
		return nil // the next look finds the intent
	}
	named, err := childOf(*c.Intent)
	if err != nil {
		return r.refuse(ctx, c, err.Error())
	}
	spec, err := childSpec(parent, t, call.Input, named.Task)
	if err != nil {
		return r.refuse(ctx, c, err.Error())
	}
	spec.CreatedAt = r.log.Now()
	task, err := r.Spawn(ctx, spec)
	if err != nil {
		return fmt.Errorf("create the subtask: %w", err)
	}
	fpChildSpawned.Hit()
	if err := r.spawned(ctx, c, task); err != nil {
		return err
	}
	if !task.Status.State.Terminal() {
		if err := r.spawnBeside(ctx, c); err != nil {
			return err
		}
		waits := td.BlockedData{Cause: "waits for its subtask " + task.Handle, Resource: task.Handle, Child: task.ID}
		if r.SubtaskLimit > 0 {
			waits.Until = task.CreatedAt.Add(r.SubtaskLimit)
		}
		return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.BlockOn(t, waits, at) })
	}
	step, done := r.step(ctx)
	defer done()
	told := childResult(task)
	told.Content += call.Ignored
	res, err := r.afterTool(step, c, *told, 0)
	if err != nil {
		return err
	}
	err = r.log.Stage(td.StepEnded{Outcome: td.Outcome{Key: c.Key, Via: td.Ran, Tool: &res}})
	fpChildEnded.Hit()
	if err == nil {
		r.snap(ctx, c.Key, true)
	}
	return err
}

// spawnBeside creates the subtasks that only look of the same turn, so that they are at work while the parent waits for one of them.
func (r *run) spawnBeside(ctx context.Context, waitsFor *transcript.Call) error {
	parent, calls := r.log.Task(), r.log.Transcript().Calls
	for i := range calls {
		c := &calls[i]
		t, known := r.toolbox().Get(c.Use.Name)
		if !known || t.Control != tool.ExploreControl || c == waitsFor || c.Intent == nil || c.Outcome != nil {
			continue
		}
		named, err := childOf(*c.Intent)
		if err != nil {
			continue // it is refused when its turn comes
		}
		call, err := t.Prepare(ctx, r.env(c.Key, t), c.Use.Input)
		if err != nil {
			continue
		}
		spec, err := childSpec(parent, t, call.Input, named.Task)
		if err != nil {
			continue
		}
		spec.CreatedAt = r.log.Now()
		task, err := r.Spawn(ctx, spec)
		if err != nil {
			return fmt.Errorf("create the subtask: %w", err)
		}
		if err := r.spawned(ctx, c, task); err != nil {
			return err
		}
	}
	return nil
}

func childOf(in td.Intent) (named child, err error) {
	if err := json.Unmarshal(in.Evidence, &named); err != nil || named.Task == "" {
		return child{}, td.Errorf(td.Corrupt, "the record of the subtask cannot be read: %s", clip(string(in.Evidence), 100))
	}
	return named, nil
}

// childSpec is what the subtask is asked for.
func childSpec(parent td.Task, t tool.Tool, input json.RawMessage, id td.TaskID) (td.Spec, error) {
	var in struct {
		Title, Prompt, Question string
		Tier                    td.Tier
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return td.Spec{}, fmt.Errorf("read the subtask's input: %w", err)
	}
	s := td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask, Mode: td.Autonomous,
		Parent: parent.ID, Root: parent.Tree(), Budget: parent.Budget, TokenBudget: parent.TokenBudget, Depth: parent.Depth + 1, Dir: parent.Dir, Shares: parent.Apart(), Priority: parent.Priority, Yes: parent.Yes,
		PermissionLimit: parent.PermissionLimit, Permissions: cmp.Or(parent.PermissionsOverride, parent.Permissions),
		Inherited: slices.Concat(parent.Inherited, parent.Rules), Tainted: parent.Untrusted, Rehearsal: parent.Rehearsal, CreatedBy: "task " + parent.Handle,
		Title: in.Title, Prompt: in.Prompt, Tier: parent.Tier, Model: parent.Spec.Model, Tools: parent.Tools,
	}
	if in.Tier != "" {
		s.Tier, s.Model = in.Tier, ""
	}
	if t.Control == tool.ExploreControl {
		s.Prompt, s.Tier, s.Model, s.Tools = fmt.Sprintf(exploreText, in.Question), td.Small, "", td.Exploring()
		s.Title = in.Question
	}
	if s.Title == "" {
		s.Title = s.Prompt
	}
	s.Title = clip(strings.Join(strings.Fields(s.Title), " "), 80)
	return s, nil
}

const exploreText = "Find this out by looking through the workspace. You can only read. When you know it, call Complete; " +
	"your summary is all that is passed on, so put the whole answer there, with the paths and lines it rests on.\n\n%s"

// childResult is what the parent is told of a subtask that has ended.
func childResult(t td.Task) *td.ToolResult {
	out := &td.ToolResult{Child: &td.ChildResult{Task: t.ID, State: t.Status.State}, Untrusted: t.Untrusted}
	switch {
	case t.Status.Completed != nil:
		if out.Content = t.Status.Completed.Summary; t.Untrusted {
			out.Content = fence.Text("What a subtask says that has read such text", out.Content)
		}
	case t.Status.Failed != nil:
		out.Content, out.IsError = fmt.Sprintf("The subtask %s failed: %s", t.Handle, t.Status.Failed.Error), true
	default:
		out.Content, out.IsError = fmt.Sprintf("The subtask %s was %s. %s", t.Handle, t.Status.State, t.Status.Reason), true
	}
	return out
}

// sent are the steps in flight that a subtask or a verifier carries out.
func (r *run) sent() (out []td.Intent) {
	script := r.log.Transcript()
	for _, c := range append(slices.Clone(script.Calls), script.InWords) {
		if v := c.Verification; v.Intent != nil && v.Outcome == nil {
			out = append(out, *v.Intent)
		}
		if c.Intent == nil || c.Outcome != nil {
			continue
		}
		if t, known := r.toolbox().Get(c.Use.Name); known && (t.Control == tool.TaskControl || t.Control == tool.ExploreControl) {
			out = append(out, *c.Intent)
		}
	}
	return out
}

// cancelChildren lets the end of a task flow down to the subtasks and the verifier it waits for.
func (r *run) cancelChildren(ctx context.Context, why string) error {
	for _, in := range r.sent() {
		named, err := childOf(in)
		if err != nil {
			continue
		}
		if err := r.CancelChild(ctx, named.Task, "its parent: "+why); err != nil {
			return fmt.Errorf("cancel the subtask: %w", err)
		}
		fpChildrenTold.Hit()
	}
	return nil
}
