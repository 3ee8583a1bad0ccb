package td

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// TaskKind is what sort of work a task is. Values are on disk.
type TaskKind string

// The kinds of task.
const (
	KindTask TaskKind = "task"
	KindSpec TaskKind = "spec"
	KindPRD  TaskKind = "prd"
)

// Mode is who ends a turn. Values are on disk.
type Mode string

// The modes.
const (
	Autonomous  Mode = "autonomous"  // goes on until it nominates itself done or failed
	Interactive Mode = "interactive" // the end of a turn waits for the person
)

// Tier is a class of model; config maps it to one. Values are on disk.
type Tier string

// The tiers.
const (
	Small  Tier = "small"
	Worker Tier = "worker"
	Expert Tier = "expert"
)

// Spec is what a person asked for. It does not change after the task was created.
type Spec struct {
	ID        TaskID    `json:"id"`
	Handle    string    `json:"handle"`
	Kind      TaskKind  `json:"kind"`
	Title     string    `json:"title"`
	Prompt    string    `json:"prompt"`
	Dir       string    `json:"dir"` // the workspace, absolute, symlinks resolved
	Mode      Mode      `json:"mode"`
	Tier      Tier      `json:"tier"`
	Model     string    `json:"model,omitempty"` // overrides the tier's
	Validator string    `json:"validator,omitempty"`
	Yes       bool      `json:"yes,omitempty"` // permissions are granted without asking
	Priority  int       `json:"priority"`      // 0 first, 4 last
	Labels    []string  `json:"labels,omitempty"`
	MaxTurns  int       `json:"max_turns,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	// PermissionLimit overrides how long a permission request stays open; zero: the config's.
	PermissionLimit time.Duration `json:"permission_limit,omitempty"`
	// Parent is the task this is a subtask of, and Depth how deep it is; a task of its own has neither.
	Parent TaskID `json:"parent,omitempty"`
	Depth  int    `json:"depth,omitempty"`
	// Root is the task of its own at whose root this subtask stands.
	Root TaskID `json:"root,omitempty"`
	// Budget is what the task may cost with its subtasks; zero: what the config says.
	Budget Money `json:"budget,omitempty"`
	// TokenBudget is how many tokens it may take with its subtasks; zero: what the config says.
	TokenBudget Tokens `json:"token_budget,omitempty"`
	// Permissions is the mode it was added with; empty: the config's.
	Permissions PermissionMode `json:"permissions,omitempty"`
	// Inherited are the rules that answers made for the task it is a subtask of.
	Inherited []KeptRule `json:"inherited,omitempty"`
	// Tainted says that who made it, another task, had read untrusted text.
	Tainted bool `json:"tainted,omitempty"`
	// Tools are the only ones it may use; empty: all.
	Tools []string `json:"tools,omitempty"`
	// Source is the workspace that Dir is a throw-away checkout of, for the verifier of what was done there; empty: Dir
	// is the workspace.
	Source string `json:"source,omitempty"`
	// Worktree is set when the task works in a worktree of its own.
	Worktree *Worktree `json:"worktree,omitempty"`
	// Shares is the top folder of a worktree that taskdaemon made and that Worktree does not tell of: that of a fork, or of the task that it is a subtask of.
	Shares string `json:"shares,omitempty"`
	// Project is the folder whose graph it is planned in; empty: it lives in the journal alone.
	Project string `json:"project,omitempty"`
	// Rehearsal is the script, as YAML, that the rehearsal model plays for this task.
	Rehearsal string `json:"rehearsal,omitempty"`
	// Order is what the run over the graph that started it wants.
	Order *Order `json:"order,omitempty"`
	// Author is set for a task that prepares a PRD.
	Author *Author `json:"author,omitempty"`
	// Fork is set for a task that goes on from a step of another one.
	Fork *ForkPoint `json:"fork,omitempty"`
}

// Live is what changes while a task lives: the fold of its events. AppendJSON knows its fields.
type Live struct {
	Status    Status    `json:"status"`
	Head      uint64    `json:"head"` // sequence of the newest event
	UpdatedAt time.Time `json:"updated_at"`
	Run       RunID     `json:"run,omitempty"`
	Iteration int       `json:"iteration"`
	Turns     int       `json:"turns"` // answers of the model, in all iterations
	// TurnsAtResume is Turns when a person last let the task go on; limits count from there.
	TurnsAtResume int        `json:"turns_at_resume,omitempty"`
	Resets        int        `json:"resets,omitempty"`
	Recoveries    int        `json:"recoveries,omitempty"`
	Usage         Usage      `json:"usage"`
	Cost          Money      `json:"cost"`
	Unpriced      int        `json:"unpriced,omitempty"`       // calls that cost nobody knows what
	Estimated     int        `json:"estimated,omitempty"`      // calls of which the provider did not say what they took
	Replayed      int        `json:"replayed,omitempty"`       // calls that a cassette answered
	LastModel     string     `json:"last_model,omitempty"`     // the model that answered last
	LastText      string     `json:"last_text,omitempty"`      // what the model last said in words, or its beginning
	ModelOverride string     `json:"model_override,omitempty"` // set by /model
	Raised        Tier       `json:"raised,omitempty"`         // the tier after escalation
	Rules         []KeptRule `json:"rules,omitempty"`          // that answers made for this task alone
	// Untrusted says that its model has read text that anybody may have written: of the web, of a server of tools, of
	// a task that had.
	Untrusted bool `json:"untrusted,omitempty"`
	// PermissionsOverride is set by /mode.
	PermissionsOverride PermissionMode `json:"permissions_override,omitempty"`
	Requests            []Request      `json:"requests,omitempty"`  // open ones
	InFlight            []StepRef      `json:"in_flight,omitempty"` // intents without an outcome
	Jobs                []Job          `json:"jobs,omitempty"`      // background jobs not known to have ended
	Retrying            *ModelFailure  `json:"retrying,omitempty"`  // the model call is waiting to be tried again
	// Reserved is set aside for calls of models that have no outcome.
	Reserved []Reservation `json:"reserved,omitempty"`
	// Lost is what calls that have no answer may have cost, beside Cost.
	Lost   Money          `json:"lost,omitempty"`
	Warned []BudgetWarned `json:"warned,omitempty"` // the newest warning of each budget
	Place  *Place         `json:"place,omitempty"`  // in the queue for leases

	Ordered    *Order `json:"ordered,omitempty"`    // what a run over the graph wants
	Chosen     Tier   `json:"chosen,omitempty"`     // by the strategy, for this iteration
	Hint       Tier   `json:"hint,omitempty"`       // what the agent wants for the next one
	Tries      []Try  `json:"tries,omitempty"`      // the newest iterations that came to nothing
	Unverified int    `json:"unverified,omitempty"` // how many of all of them the verifier did not let pass
	// Offered is the commit on the task's branch that it wants merged, or that was merged.
	Offered string `json:"offered,omitempty"`
	// SetUp says that the command that makes its worktree ready was run there.
	SetUp bool `json:"set_up,omitempty"`
	// Behind is the commit that the task's branch is to be brought onto.
	Behind string `json:"behind,omitempty"`
	// Resolving is a conflict with the trunk that was decided about; until it is settled the branch is brought onto nothing.
	Resolving *Resolving `json:"resolving,omitempty"`
	// Passed is how often what a person decided about a conflict has gone on to a newer commit of the trunk, Behind being the last.
	Passed int `json:"passed,omitempty"`
	// Resolves is how often the agent was told to resolve a conflict with the trunk, without a person having been asked.
	Resolves int `json:"resolves,omitempty"`
	// IterationsFrom is Iteration when a run took the task up, or a person let it go on: limits count from there.
	IterationsFrom int `json:"iterations_from,omitempty"`
	// Cuts are the records that the conversation goes on without.
	Cuts Cuts `json:"cuts,omitempty"`
}

// StepRef names a step in flight.
type StepRef struct {
	Key     StepKey   `json:"key"`
	Kind    StepKind  `json:"kind"`
	Name    string    `json:"name"`
	Effect  Effect    `json:"effect"`
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at"`
	Kept    bool      `json:"kept,omitempty"` // it runs under a shim
	Wants   []Want    `json:"wants,omitempty"`
}

// Task is a unit of work with one state.
type Task struct {
	Spec
	Live
	// Subtasks is what its subtasks spend. It follows from their records, not from the task's own: whoever
	// shows or ends a task looks it up in the ledger.
	Subtasks Spent `json:"subtasks,omitzero"`
}

// Spent is what calls of models cost.
type Spent struct {
	Cost     Money `json:"cost,omitempty"`
	Lost     Money `json:"lost,omitempty"`     // what calls that have no answer may have cost besides
	Unpriced int   `json:"unpriced,omitempty"` // calls that cost nobody knows what
}

// Add puts a booking's part to the sum.
func (s *Spent) Add(why Cause, amount Money, unpriced int) {
	if why == CauseRepeated || why == CauseStopped {
		s.Lost += amount
	} else {
		s.Cost += amount
	}
	s.Unpriced += unpriced
}

// Exploring are the tools of a subtask that only looks: none of them changes a file.
func Exploring() []string { return []string{"Read", "Glob", "Grep", "Complete", "Fail"} }

// Explores reports whether a task is one that a call of Explore made. What it says at the end is its answer, for it can have left nothing half-done; and others may be at work in its
// folder.
func (s Spec) Explores() bool {
	return s.Depth > 0 && s.Source == "" && slices.Equal(s.Tools, Exploring())
}

// Booked is what the ledger has of the task itself: what its calls cost, and what those may have cost that have no answer.
func (t Task) Booked() Money { return t.Cost + t.Lost }

// Booked is what was spent with what may have been.
func (s Spent) Booked() Money { return s.Cost + s.Lost }

// TreeSpent is what the task and its subtasks have spent.
func (t Task) TreeSpent() Spent {
	return Spent{t.Cost + t.Subtasks.Cost, t.Lost + t.Subtasks.Lost, t.Unpriced + t.Subtasks.Unpriced}
}

// Request is the open request with this id.
func (t Task) Request(id RequestID) (Request, bool) {
	i := slices.IndexFunc(t.Requests, func(r Request) bool { return r.ID == id })
	if i < 0 {
		return Request{}, false
	}
	return t.Requests[i], true
}

// NewTask is the task as its Created event leaves it.
func NewTask(s Spec) Task {
	return Task{Spec: s, Live: Live{
		Status: Status{State: Queued, Since: s.CreatedAt}, UpdatedAt: s.CreatedAt, Untrusted: s.Tainted,
		Ordered: s.Order,
	}}
}

// Apply folds one event into the task. It fails when the event does not follow from the task's state,
// which an append turns into a conflict and a rebuild into a quarantined record.
func (t Task) Apply(ev Event) (Task, error) {
	err := t.Fold(ev)
	return t, err
}

// Fold is Apply in place: a task is a KiB, and the journal folds every event. One that fails leaves it as it was.
func (t *Task) Fold(ev Event) error {
	if ev.Seq != t.Head+1 {
		return Errorf(Conflict, "event %d does not follow head %d", ev.Seq, t.Head)
	}
	switch b := ev.Body.(type) {
	case Created:
		if t.Head != 0 {
			return Errorf(Conflict, "%s was created already", t.Handle)
		}
		*t = NewTask(b.Spec)
	case Moved:
		if b.From != t.Status.State || !Legal(b.Verb, b.From, b.Status.State) {
			return Errorf(Conflict, "cannot %s %s from %s: it is %s", b.Verb, t.Handle, b.From, t.Status.State)
		}
		if b.Verb == VerbStart && b.Status.Running == nil {
			return Errorf(Conflict, "cannot start %s: the record names no run", t.Handle)
		}
		t.moved(b)
	case ContextSet:
		t.Iteration = b.Iteration
		if b.Tier != "" {
			t.Chosen, t.Raised = b.Tier, "" // an earlier escalation was another iteration's
		}
		t.Untrusted = t.Untrusted || b.Untrusted
		t.phase(AssemblingContext, "")
	case IterationEnded:
		t.iterationEnded(b)
	case Ordered:
		order := b.Order
		if order.Onto != "" {
			t.Behind, t.Resolving, order.Onto = order.Onto, nil, ""
		}
		t.Ordered, t.IterationsFrom = &order, t.Iteration
		*t = t.Renewed()
	case Drifted:
		if b.Signal == DriftIterations {
			t.IterationsFrom = t.Iteration
		}
	case StepIntended:
		t.InFlight = append(withoutStep(t.InFlight, b.Key), StepRef{b.Key, b.Kind, b.Name, b.Effect, b.Attempt, ev.At, b.Boot != "", b.Wants})
		t.leavePlace(b.Key)
		t.Retrying = nil
		// What comes from a host anybody may have written, whichever program fetched it.
		t.Untrusted = t.Untrusted || b.Online || slices.ContainsFunc(b.Reach, func(place string) bool { return strings.HasPrefix(place, ReachHost) })
		t.phase(PhaseOf(b.Kind), b.Name)
	case StepEnded:
		t.ended(b.Outcome)
	case Received:
		t.Untrusted = t.Untrusted || b.Untrusted
	case Queried:
		if !b.Lost {
			t.paid(b.Side)
		}
	case RequestOpened:
		t.Requests = append(slices.Clone(t.Requests), b.Request)
		if b.Request.About == AboutUnknown {
			t.giveBack(b.Request.Step) // nothing of it runs any more
		}
	case RequestAskedAgain:
		t.Requests = slices.Clone(t.Requests)
		for i := range t.Requests {
			if t.Requests[i].ID == b.ID {
				t.Requests[i].AskedAt = ev.At
			}
		}
	case RequestAnswered:
		t.Requests = without(t.Requests, b.Answer.Request)
	case RequestExpired:
		t.Requests = without(t.Requests, b.ID)
	case Discarded:
		t.Requests, t.InFlight, t.Retrying, t.Place = nil, nil, nil, nil
		t.Offered = ""
	case Rewound:
		if b.Seq >= ev.Seq {
			return Errorf(Conflict, "%s cannot be rewound to record %d", t.Handle, b.Seq)
		}
		t.Requests, t.InFlight, t.Retrying, t.Place = nil, nil, nil, nil
		t.Offered = ""
		t.Cuts = t.Cuts.Rewind(b.Seq, ev.Seq)
	case ModelChosen:
		t.ModelOverride = b.Model
	case PermissionsChosen:
		t.PermissionsOverride = b.Mode
	case RulesKept:
		if b.Scope == TaskScope {
			t.Rules = append(slices.Clone(t.Rules), b.Rules...)
		}
	case AnswerChanged:
		t.said(b.Message)
	case Escalated:
		t.Raised = b.Tier
	case LeasesReturned:
		t.returnLeases(b.Jobs)
	case JobsEnded:
		t.endJobs(b.Jobs)
	case FellBehind:
		t.Behind = b.Commit
		if b.Resolve {
			t.Resolves++
		}
		if b.Resolving != nil || b.Resolved {
			t.Resolving, t.Passed = b.Resolving, b.Passed
		}
	}
	t.book(ev)
	t.Head, t.UpdatedAt = ev.Seq, ev.At
	return nil
}

func (t *Task) moved(b Moved) {
	t.Status = b.Status
	t.queue(b)
	switch b.Verb {
	case VerbStart:
		t.Run = b.Status.Running.Run
	case VerbRecover:
		t.Recoveries++
	case VerbResume:
		t.TurnsAtResume = t.Turns
	case VerbReset:
		t.Resets++
		t.TurnsAtResume = t.Turns
		t.Tries, t.Unverified, t.Hint = nil, 0, ""
	case VerbRetry:
		t.TurnsAtResume = t.Turns
		t.Requests, t.InFlight, t.Retrying = nil, nil, nil
	}
	if b.Status.State.Terminal() {
		t.Requests, t.InFlight, t.Retrying = nil, nil, nil
	}
}

func (t *Task) ended(o Outcome) {
	step := t.inFlight(o.Key)
	t.InFlight = withoutStep(t.InFlight, o.Key)
	t.leavePlace(o.Key)
	switch {
	case o.Model != nil:
		t.Turns++
		t.Usage = t.Usage.Add(o.Model.Usage)
		t.Cost += o.Model.Cost
		t.count(o.Model.Unpriced, o.Model.Estimated, o.Model.Replayed)
		t.LastModel = cmp.Or(o.Model.Model, t.LastModel) // none: a hook answered
		t.said(o.Model.Message)
		t.phase(Processing, "")
	case o.Side != nil:
		t.paid(*o.Side)
	case o.Failure != nil:
		if p := o.Failure.Paid; p != nil {
			t.Usage, t.Cost = t.Usage.Add(p.Usage), t.Cost+p.Cost
			t.count(p.Unpriced, p.Estimated, false)
		}
		if !o.Failure.RetryAt.IsZero() {
			t.Retrying = o.Failure
		}
	case o.Tool != nil:
		t.branched(step, o.Tool)
		t.Untrusted = t.Untrusted || o.Tool.Untrusted
		if o.Tool.Job != nil {
			j := *o.Tool.Job
			j.Wants, j.Step, j.Tool = step.Wants, "", ""
			if len(j.Wants) > 0 {
				j.Step, j.Tool = o.Key, step.Name
			}
			t.Jobs = append(slices.Clone(t.Jobs), j)
		}
		t.endJobs(o.Tool.Killed)
		if o.Tool.Side != nil {
			t.paid(*o.Tool.Side)
		}
	}
}

// paid adds what a call beside the conversation cost.
func (t *Task) paid(s SideResult) {
	t.Usage, t.Cost = t.Usage.Add(s.Usage), t.Cost+s.Cost
	t.count(s.Unpriced, s.Estimated, s.Replayed)
}

// count keeps how many calls are not as usual.
func (t *Task) count(unpriced, estimated, replayed bool) {
	for _, c := range []struct {
		is bool
		n  *int
	}{{unpriced, &t.Unpriced}, {estimated, &t.Estimated}, {replayed, &t.Replayed}} {
		if c.is {
			*c.n++
		}
	}
}

// maxLastText is what is kept of the last words: they stand for a summary where there is none (L-13).
const maxLastText = 500

func (t *Task) said(m Message) {
	text := []rune(strings.TrimSpace(m.Text()))
	switch {
	case len(text) > maxLastText:
		t.LastText = string(text[:maxLastText]) + "…"
	case len(text) > 0:
		t.LastText = string(text)
	}
}

func (t *Task) endJobs(ids []JobID) {
	if len(ids) > 0 {
		t.Jobs = slices.DeleteFunc(slices.Clone(t.Jobs), func(j Job) bool { return slices.Contains(ids, j.ID) })
	}
}

func (t *Task) phase(p Phase, step string) {
	if r := t.Status.Running; r != nil {
		next := *r
		next.Phase, next.Step = p, step
		next.Iteration = max(t.Iteration, 1)
		t.Status.Running = &next
	}
}

// PhaseOf is the phase that a step of this kind is part of.
func PhaseOf(k StepKind) Phase {
	switch k {
	case ModelStep:
		return LLMRequest
	case ValidatorStep, VerifyStep:
		return Verifying
	case PlaceStep:
		return Initializing
	case RebaseStep:
		return Rebasing
	case CommitStep, MergeStep, FollowStep:
		return Merging
	default:
		return ToolExecution
	}
}

func without(rs []Request, id RequestID) []Request {
	return slices.DeleteFunc(slices.Clone(rs), func(r Request) bool { return r.ID == id })
}

func withoutStep(steps []StepRef, key StepKey) []StepRef {
	return slices.DeleteFunc(slices.Clone(steps), func(s StepRef) bool { return s.Key == key })
}
