package td

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Effect says what a step may do to the world, and so what may be done about it when a crash leaves
// its outcome unknown. Values are on disk.
type Effect string

// The effects.
const (
	Pure   Effect = "pure"   // only looks: run again
	Keyed  Effect = "keyed"  // leaves evidence: probe, then record or run
	Opaque Effect = "opaque" // never run again by itself: adopt its process, else ask
)

// StepKind says what a step is. Values are on disk.
type StepKind string

// The kinds of step.
const (
	ModelStep     StepKind = "model"
	ToolStep      StepKind = "tool"
	ValidatorStep StepKind = "validator"
	SideStep      StepKind = "side"   // a call of a model beside the conversation
	HookStep      StepKind = "hook"   // a hook that is asked
	LearnStep     StepKind = "learn"  // keeps something for later tasks
	NotifyStep    StepKind = "notify" // tells a person of a task; of the daemon's own stream
	VerifyStep    StepKind = "verify" // another agent looks whether the work is done
	PlaceStep     StepKind = "place"  // makes the worktree, or what is to be in it
	CommitStep    StepKind = "commit" // commits what is in the worktree
	RebaseStep    StepKind = "rebase" // brings the task's branch onto a newer commit
	MergeStep     StepKind = "merge"  // merges the task's branch into the integration branch
	FollowStep    StepKind = "follow" // lets the trunk follow the integration branch
	RemoveStep    StepKind = "remove" // removes a worktree, or a branch that had one; of the daemon's own stream
	RewindStep    StepKind = "rewind" // the files of the workspace become those of an earlier step
)

// StepKey names a step within its task, the same in every life of the daemon.
type StepKey string

// Intent is the record before a step runs.
type Intent struct {
	Key       StepKey         `json:"key"`
	Kind      StepKind        `json:"kind"`
	Name      string          `json:"name"` // the model's or the tool's
	Effect    Effect          `json:"effect"`
	Attempt   int             `json:"attempt,omitempty"` // 0 for the first
	InputHash string          `json:"input_hash,omitempty"`
	Evidence  json.RawMessage `json:"evidence,omitempty"` // the state before, for the probe
	Boot      string          `json:"boot,omitempty"`     // boot id of the host, for steps that run under a shim
	Why       string          `json:"why,omitempty"`      // why another model than the one wanted is called
	Reserve   *Reserve        `json:"reserve,omitempty"`  // what the call of a model in it may cost
	Wants     []Want          `json:"wants,omitempty"`    // what it has leased until it ends, sorted
	Reach     []string        `json:"reach,omitempty"`    // hosts and folders outside the workspace that a call goes to, hosts first
	Unlisted  int             `json:"unlisted,omitempty"` // how many more places it goes to
	Online    bool            `json:"online,omitempty"`   // a command that has a network and is not known to do without
}

// Try is the key of one attempt at a step: what is started for an attempt that came to nothing is never
// mistaken for the next one's.
func (k StepKey) Try(attempt int) StepKey {
	if attempt == 0 {
		return k
	}
	return StepKey(fmt.Sprintf("%s~%d", k, attempt))
}

// Base is the key of the step whose attempt this is.
func (k StepKey) Base() StepKey {
	base, _, _ := strings.Cut(string(k), "~")
	return StepKey(base)
}

// Via says how an outcome came to be known. Values are on disk.
type Via string

// The ways.
const (
	Ran      Via = "ran"
	Reran    Via = "reran"    // pure, cut off by a crash and run again
	Probed   Via = "probed"   // keyed, found done after a crash
	Adopted  Via = "adopted"  // its process outlived the daemon
	Answered Via = "answered" // a person said what became of it
)

// Outcome is the record after a step ran. Exactly one of Model, Failure, Tool, Side and Hook is set.
type Outcome struct {
	Key     StepKey       `json:"key"`
	Via     Via           `json:"via"`
	Took    time.Duration `json:"took,omitempty"`
	Model   *ModelResult  `json:"model,omitempty"`
	Failure *ModelFailure `json:"failure,omitempty"`
	Tool    *ToolResult   `json:"tool,omitempty"`
	Side    *SideResult   `json:"side,omitempty"`
	// Hook is what a hook said, as a hook.Result.
	Hook json.RawMessage `json:"hook,omitempty"`
}

// SideResult is what a model said beside the conversation: a summary, a digest.
type SideResult struct {
	Text  string `json:"text"`
	Model string `json:"model"`
	Usage Usage  `json:"usage"`
	Cost  Money  `json:"cost,omitempty"`
	// Unpriced is set when the model's price is not known: what it cost is not in Cost.
	Unpriced bool `json:"unpriced,omitempty"`
	// Estimated is set when the provider did not say what the call took, or not all of it: Usage and Cost are estimates.
	Estimated bool `json:"estimated,omitempty"`
	// Replayed is set when the answer came from a cassette: it cost nothing.
	Replayed bool   `json:"replayed,omitempty"`
	Error    string `json:"error,omitempty"` // it gave no answer
	// Failures are the tries that came to nothing, where there is no answer, oldest first.
	Failures []ModelFailure `json:"failures,omitempty"`
}

// ModelResult is a model's complete answer.
type ModelResult struct {
	Message    Message       `json:"message"`
	StopReason StopReason    `json:"stop_reason"`
	Model      string        `json:"model"`
	Usage      Usage         `json:"usage"`
	Cost       Money         `json:"cost,omitempty"`
	Unpriced   bool          `json:"unpriced,omitempty"`  // as in SideResult
	Estimated  bool          `json:"estimated,omitempty"` // as in SideResult
	Replayed   bool          `json:"replayed,omitempty"`  // as in SideResult
	FirstToken time.Duration `json:"first_token,omitempty"`
	// Prefix says how much of the call the provider could have had in its cache (B-4).
	Prefix *Prefix `json:"prefix,omitempty"`
	// Cut is set when the stream broke off: Message holds only whole text and no tool call.
	Cut bool `json:"cut,omitempty"`
}

// Prefix is the part of a call that is the same as in the call before it. Numbers are tokens as the provider counts them, where it does.
type Prefix struct {
	Shared int `json:"shared"`
	Sent   int `json:"sent"`
	// Estimated is what Sent was taken for before the provider had counted; zero, in older records: Sent is that estimate.
	Estimated int    `json:"estimated,omitempty"`
	Miss      string `json:"miss,omitempty"` // why the provider's cache could not serve what is shared, or nothing is
}

// StopReason is why a model stopped. Values are the API's and are on disk.
type StopReason string

// The stop reasons of L-5.
const (
	EndTurn        StopReason = "end_turn"
	StopSequence   StopReason = "stop_sequence"
	StopToolUse    StopReason = "tool_use"
	MaxTokens      StopReason = "max_tokens"
	PauseTurn      StopReason = "pause_turn"
	WindowExceeded StopReason = "model_context_window_exceeded"
	Refusal        StopReason = "refusal"
)

// Known reports whether it is one of these. A provider may invent others.
func (r StopReason) Known() bool {
	switch r {
	case EndTurn, StopSequence, StopToolUse, MaxTokens, PauseTurn, WindowExceeded, Refusal:
		return true
	}
	return false
}

// ModelFailure is a model call that gave no answer, and when to try again.
type ModelFailure struct {
	Model   string       `json:"model,omitempty"` // as it was asked for
	Class   FailureClass `json:"class"`
	Status  int          `json:"status,omitempty"`
	Message string       `json:"message"`
	Hint    string       `json:"hint,omitempty"`
	RetryAt time.Time    `json:"retry_at,omitzero"` // zero: this model is not asked again
	// Wait is how long that was from the failure on.
	Wait time.Duration `json:"wait,omitempty"`
	// RetryAfter is how long the provider wants nobody to ask.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Paid is what the call took all the same, if the provider had begun to answer.
	Paid *Paid `json:"paid,omitempty"`
}

// Paid is what a call took that gave no answer.
type Paid struct {
	Model     string `json:"model"`
	Usage     Usage  `json:"usage"`
	Cost      Money  `json:"cost,omitempty"`
	Unpriced  bool   `json:"unpriced,omitempty"`  // nobody knows what the model costs
	Estimated bool   `json:"estimated,omitempty"` // the provider did not say all of what it took
}

// Passes reports whether the same call may succeed later, though nobody does anything about it.
func (f ModelFailure) Passes() bool {
	return f.Class == Network || f.Class == Overloaded || f.Class == RateLimited
}

// FailureClass sorts failures of model calls by what is done about them (L-6). Values are on disk.
type FailureClass string

// The classes.
const (
	Network     FailureClass = "network"      // and timeouts, 408, 500, 502, 503, 504, a cut stream
	Overloaded  FailureClass = "overloaded"   // 529 and overloaded_error in a stream
	RateLimited FailureClass = "rate_limited" // 429
	BadRequest  FailureClass = "bad_request"  // 400, 404, 413
	AuthFailed  FailureClass = "auth"         // 401, 402, 403
	TooLong     FailureClass = "too_long"     // 400 because the conversation is over the model's window
	Endless     FailureClass = "endless"      // an answer beyond every bound: asked for once more, and then not
)

// ToolResult is what a tool call gave back.
type ToolResult struct {
	Content string   `json:"content"`
	IsError bool     `json:"is_error,omitempty"`
	Files   []string `json:"files,omitempty"` // the model knows the content of these now
	Exit    *int     `json:"exit,omitempty"`  // of a command
	// Memory and CPU are what a command took at most, with all it started, as far as that was seen.
	Memory int64 `json:"memory,omitempty"`
	// Untrusted says that anybody may have written the content.
	Untrusted bool          `json:"untrusted,omitempty"`
	CPU       time.Duration `json:"cpu,omitempty"`
	Job       *Job          `json:"job,omitempty"`    // a background job that was started
	Killed    []JobID       `json:"killed,omitempty"` // background jobs known to have ended
	// Side is what a model said beside the conversation as part of the call.
	Side *SideResult `json:"side,omitempty"`
	// Unchanged says of a commit that there is nothing to merge: the integration branch or the trunk has all that is on the task's.
	Unchanged bool `json:"unchanged,omitempty"`
	// Child is the subtask whose answer this is.
	Child *ChildResult `json:"child,omitempty"`
}

// ChildResult is what a parent records of a subtask that has ended.
type ChildResult struct {
	Task  TaskID `json:"task"`
	State State  `json:"state"`
}

// JobID names a background job within its task.
type JobID string

// Job is a command that runs on after its tool call returned.
type Job struct {
	ID      JobID     `json:"id"`
	Command string    `json:"command"`
	Spool   string    `json:"spool"` // the shim's folder, relative to the state folder's spool
	Since   time.Time `json:"since"`
	// Wants is what the call that started it had leased: the job has it now. The fold of the events sets it.
	Wants []Want  `json:"wants,omitempty"`
	Step  StepKey `json:"step,omitempty"` // that call
	Tool  string  `json:"tool,omitempty"` // its tool
}

// Evidence is what the finish rule saw when it accepted a nomination (L-11).
type Evidence struct {
	Tree    string `json:"tree,omitempty"` // hash of the workspace's content when the validator began, if it is under git
	Left    string `json:"left,omitempty"` // and when it had passed, if that is another one: it wrote
	Command string `json:"command,omitempty"`
	Exit    int    `json:"exit"`
	// Verdict is what the verifier said of that tree, in its words, and Verifier its task, which cost Cost.
	Verdict  string `json:"verdict,omitempty"`
	Verifier TaskID `json:"verifier,omitempty"`
	Cost     Money  `json:"cost,omitempty"`
	// Merged is where the work went, if it was done in a worktree.
	Merged *Merged `json:"merged,omitempty"`
}

// Validation is the evidence of a validator step's intent: what it looks at.
type Validation struct {
	Tree string `json:"tree,omitempty"` // hash of the workspace's content, if it is under git
	// Again says that an earlier attempt passed and wrote, so that this one looks at what it left.
	Again bool `json:"again,omitempty"`
}

// Verification is the evidence of a verify step's intent: who is to look, and at what.
type Verification struct {
	Task TaskID `json:"task"` // the verifier
	Tree string `json:"tree"` // hash of what it gets a checkout of
}
