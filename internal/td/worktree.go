package td

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// WorktreeFolder is the folder of a project in which the worktrees of its tasks lie.
const WorktreeFolder = ".worktrees"

// WorktreeAround is the top of the task's worktree that a folder lies in, by its name; false where it lies in none. A person may have a folder of such a name: it is for what
// tightens and for what is said, never for what a task may do (see Spec.Apart).
func WorktreeAround(dir string) (top string, ok bool) {
	for at := filepath.Clean(dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		if filepath.Base(filepath.Dir(at)) == WorktreeFolder && strings.HasPrefix(filepath.Base(at), string(TaskHandle)+"-") {
			return at, true
		}
	}
	return "", false
}

// Worktree says that a task works in a worktree of its own, on a branch of its own (K-2), and where its work goes. The
// task's Dir is the worktree, or a folder in it. Branches are short names.
type Worktree struct {
	Repo   string `json:"repo"`   // the top folder of the project's own checkout
	Path   string `json:"path"`   // the top folder of the worktree
	Branch string `json:"branch"` // what the task's commits are on
	Into   string `json:"into"`   // the integration branch that its work is merged into
	Trunk  string `json:"trunk"`  // the branch that follows the integration branch
}

// InProgress begins the message of a commit that is made before its work is done, so that the branch can be rebased.
const InProgress = "Work in progress: "

// Home is the folder that a task was added in: the project's own, even if the task works in a worktree of it.
// Rules, learnings and skills are found by it.
func (s Spec) Home() string {
	if s.Worktree == nil {
		return s.Dir
	}
	return s.Worktree.Repo
}

// Apart is the top folder of the worktree that was made for the task, or for the one that it is a subtask of; empty: it works among a person's own files. Records tell,
// never the name of a folder: anybody may call one like that.
func (s Spec) Apart() string {
	if s.Worktree != nil {
		return s.Worktree.Path
	}
	return s.Shares
}

// The steps on a task's worktree that no call of the model stands for.
const (
	PlaceKey  StepKey = "place"
	SetupKey  StepKey = "place.setup"
	RebaseKey StepKey = "rebase"
)

// The answers to a request about a rebase that conflicts.
const (
	RebaseAgent = "agent" // the agent resolves it
	RebaseRetry = "retry"
	RebaseSkip  = "skip" // it is resolved when the work is merged
)

// Resolving is a conflict of a task's branch with the trunk that somebody decided about. The decision holds until it is settled: newer commits of
// the trunk wait.
type Resolving struct {
	Onto  string   `json:"onto"`            // the commit of the trunk that conflicts
	Files []string `json:"files,omitempty"` // in which
	// Later leaves it for when the work is merged; else the agent was told to bring the commit in.
	Later bool `json:"later,omitempty"`
	// Answered says that a person decided so.
	Answered bool `json:"answered,omitempty"`
	// Passed is how often newer commits have taken the place of the one that was decided about.
	Passed int `json:"passed,omitempty"`
}

// answerRebase decides what becomes of a branch that could not be brought onto the trunk.
func answerRebase(t Task, r Request, c Command, at time.Time) (Move, error) {
	m, err := TakeAnswer(t, *c.Answer, at)
	if err != nil || c.Answer.Choice == RebaseRetry {
		return m, err
	}
	left := &Resolving{Onto: t.Behind, Files: r.Files, Later: c.Answer.Choice == RebaseSkip, Answered: true}
	bodies := []Body{FellBehind{By: c.By, Resolving: left}}
	if !left.Later {
		bodies = append(bodies, bringIn(t))
	}
	for _, b := range bodies {
		m.Events = append(m.Events, Event{Task: t.ID, At: at, Body: b})
	}
	return m, nil
}

// MostResolves bounds how often a task's agent gets a conflict with the trunk to resolve before a person is asked.
const MostResolves = 2

// mostPassed bounds how often a person's word that the agent is to resolve a conflict holds for newer commits of the trunk, too.
const mostPassed = 5

// Settled says that a conflict is no more. What the trunk has got meanwhile takes its place: a person's word that the agent resolves it holds for that as well.
func Settled(t Task) FellBehind {
	b := FellBehind{Commit: t.Behind, By: ByTaskdaemon, Resolved: true}
	if left := t.Resolving; t.Behind != "" && t.Behind != left.Onto && left.Answered && !left.Later && left.Passed < mostPassed {
		b.Passed = left.Passed + 1
	}
	return b
}

// PassOn leaves a conflict with a newer commit of the trunk to the agent, if that was decided about the one before; nil: it was not.
func PassOn(t Task, files []string) []Body {
	if t.Passed == 0 {
		return nil
	}
	return []Body{FellBehind{By: ByTaskdaemon, Resolving: &Resolving{Onto: t.Behind, Files: files, Answered: true, Passed: t.Passed}}, bringIn(t)}
}

// Resolve leaves a conflict with the trunk in some files to the task's agent, unless it had its tries:
// then there is nothing to record, and a person is to be asked.
func Resolve(t Task, files []string) []Body {
	if t.Resolves >= MostResolves {
		return nil
	}
	return []Body{FellBehind{By: ByTaskdaemon, Resolve: true, Resolving: &Resolving{Onto: t.Behind, Files: files}}, bringIn(t)}
}

// bringIn tells the agent to resolve a conflict with the trunk.
func bringIn(t Task) Said {
	return Said{By: ByTaskdaemon, Why: Rebased, Text: fmt.Sprintf(
		"[taskdaemon] %s has commits that conflict with your work. Bring them in now: run `git merge %s`, resolve the conflicts in the files that it names, "+
			"`git add` and `git commit` them, and go on with the task.", t.Worktree.Trunk, t.Behind)}
}

// branched takes in what a step did to the task's worktree and branch.
func (t *Task) branched(step StepRef, r *ToolResult) {
	switch {
	case r.IsError && step.Kind == MergeStep:
		t.Offered = "" // it goes back to the agent
	case r.IsError:
	case step.Kind == MergeStep:
		t.Resolving, t.Passed = nil, 0 // what conflicted is merged
	case step.Key == PlaceKey:
		t.SetUp = false
	case step.Key == SetupKey:
		t.SetUp = true
	case step.Kind == RebaseStep:
		t.Behind, t.Passed = "", 0
	case step.Kind == CommitStep && r.Unchanged:
		t.Offered, t.Resolving = "", nil
	case step.Kind == CommitStep:
		t.Offered = r.Content
	}
}

// CancelMerged decides about a cancellation that comes when the task's work is merged. One that is about to be completed refuses it; one that
// rests is cancelled all the same, and says where its work is.
func CancelMerged(t Task, c Command) (Command, error) {
	switch {
	case t.Status.State == Queued || t.Status.State == Running || t.Place != nil:
		return c, Errorf(Conflict, "the work of %s is in %s already: it is too late to cancel it", t.Handle, t.Worktree.Into).
			WithHint("taskdaemon task show %s", t.Handle)
	case c.Text == "":
		c.Text = "its work is in " + t.Worktree.Into + " already"
	default:
		c.Text += "; its work is in " + t.Worktree.Into + " already"
	}
	return c, nil
}

// Obstacle is what keeps a trunk from being updated, and what a person can type to remove it. The zero value is none.
type Obstacle struct {
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// Line is the reason, and what to type if there is something.
func (o Obstacle) Line() string {
	if o.Hint == "" {
		return o.Reason
	}
	return o.Reason + "; " + o.Hint
}

// ObstacleOf is an error that keeps a trunk from being updated.
func ObstacleOf(err error) Obstacle { return Obstacle{Reason: err.Error(), Hint: HintOf(err)} }

// Unlanded is merged work of tasks that a trunk lacks, though the config wants it there.
type Unlanded struct {
	Repo   string   `json:"repo"`
	Trunk  string   `json:"trunk"`
	Into   string   `json:"into"`   // the integration branch that has it
	Commit string   `json:"commit"` // of that branch, with all of the work
	Tasks  []string `json:"tasks"`  // handles
	Obstacle
}

// Merged is what became of work that was merged.
type Merged struct {
	Into   string `json:"into"`   // the integration branch
	Commit string `json:"commit"` // where the branch was after that
	Tree   string `json:"tree"`   // what it holds
	// Beside are the tasks whose work was merged in the same breath.
	Beside []TaskID `json:"beside,omitempty"`
}
