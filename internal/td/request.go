package td

import (
	"strings"
	"time"
)

// RequestKind says what a person is asked for. Values are on disk.
type RequestKind string

// The kinds of request.
const (
	AskConversation RequestKind = "conversation" // the next message of an interactive task
	AskPermission   RequestKind = "permission"
	AskQuestion     RequestKind = "question"
	AskCredential   RequestKind = "credential"
)

// Request is a durable question to a person. It is answered once, by id, and survives restarts.
type Request struct {
	ID      RequestID   `json:"id"`
	Kind    RequestKind `json:"kind"`
	Prompt  string      `json:"prompt"`
	Options []string    `json:"options,omitempty"`
	Step    StepKey     `json:"step,omitempty"` // the step that waits for it
	About   About       `json:"about,omitempty"`
	Tool    string      `json:"tool,omitempty"`
	// InputHash is that of the call's input that is to be allowed: the answer holds for no other.
	InputHash string `json:"input_hash,omitempty"`
	// Bound is what the tool is, where others may change that: the answer holds for nothing else.
	Bound string `json:"bound,omitempty"`
	// Confined is what holds the command after a yes, as the question says it: it is held to no less when it runs. Empty: what the config says.
	Confined string    `json:"confined,omitempty"`
	Detail   string    `json:"detail,omitempty"` // the command; what changed since; shown, never parsed
	Diff     string    `json:"diff,omitempty"`   // of a call that changes a file: what would change
	Offers   []Offer   `json:"offers,omitempty"` // what Always and Never may keep, the narrowest first
	AskedAt  time.Time `json:"asked_at"`
	// Limit is how long an answer may take before the request counts as denied; zero: for ever.
	Limit time.Duration `json:"limit,omitempty"`
	// Files are those that conflict, of a request about a rebase.
	Files []string `json:"files,omitempty"`
	// Budget is what stands in the way, of a request about a budget.
	Budget *Shortage `json:"budget,omitempty"`
}

// Handle is the request's short name.
func (r Request) Handle() string { return r.ID.Handle() }

// Asks is what is asked, with the call that it is about.
func (r Request) Asks() string {
	if strings.Contains(r.Prompt, strings.TrimSpace(r.Detail)) {
		return r.Question()
	}
	return r.Question() + " " + r.Detail
}

// ExpiresAt is when the request lapses, or zero.
func (r Request) ExpiresAt() time.Time {
	if r.Limit <= 0 {
		return time.Time{}
	}
	return r.AskedAt.Add(r.Limit)
}

// About says which decision a request serves. Values are on disk.
type About string

// The decisions.
const (
	AboutTool    About = "tool"    // may this call run?
	AboutUnknown About = "unknown" // what became of a step cut off by the loss of its host?
	AboutAge     About = "age"     // go on with a task that lay too long?
	AboutModel   About = "model"   // the Ask tool: the model's own question
	AboutTurn    About = "turn"    // an interactive turn ended
	AboutDrift   About = "drift"   // go on with a loop that seems to go nowhere?
	AboutBudget  About = "budget"  // may more be spent?
	AboutRebase  About = "rebase"  // the trunk has what the task's branch conflicts with: what now?
	AboutTrunk   About = "trunk"   // the work is merged: may the trunk follow?
	AboutMerge   About = "merge"   // a question expired on the way: may the work be merged?
)

// The answers that mean something to taskdaemon itself.
const (
	Yes    = "yes"
	No     = "no"
	Always = "always" // yes, and a rule is kept
	Never  = "never"  // no, and a rule is kept
	Retry  = "retry"
	Skip   = "skip"
	Done   = "done"
)

// Answer is what a person said to a request.
type Answer struct {
	Request RequestID `json:"request"`
	Choice  string    `json:"choice"`          // one of the options, or free text for a question
	Words   string    `json:"words,omitempty"` // for the model, with a no
	By      string    `json:"by,omitempty"`
	// Rules and Scope go with Always and Never: what is kept, and where.
	Rules []string `json:"rules,omitempty"`
	// Origin is the key of the one who gave it: all who answer a request post under one key, and the first counts.
	Origin string    `json:"origin,omitempty"`
	Scope  RuleScope `json:"scope,omitempty"`
}

// Question is the prompt as a person reads it. What a model asks begins with who asks, so that its words cannot pass for a
// question of taskdaemon's own, above all for one that asks for permission.
func (r Request) Question() string {
	switch r.About {
	case AboutModel:
		return "the agent asks: " + r.Prompt
	case AboutTurn:
		return "the agent says: " + r.Prompt
	}
	return r.Prompt
}
