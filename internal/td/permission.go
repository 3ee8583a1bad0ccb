package td

import "time"

// PermissionMode says what a task may do without asking (G-2). Values are on disk.
type PermissionMode string

// The modes.
const (
	AskMode         PermissionMode = "ask"          // edits and commands that change something are asked about
	AcceptEditsMode PermissionMode = "accept-edits" // edits in the workspace are not
	AutoMode        PermissionMode = "auto"         // nor are commands that a sandbox holds
	PlanMode        PermissionMode = "plan"         // nothing is changed
)

// PermissionModes are all of them, from the strictest that works to the most trusting, and plan.
var PermissionModes = []PermissionMode{AskMode, AcceptEditsMode, AutoMode, PlanMode}

// RuleScope is where a rule that a person made by an answer holds. Values are on disk.
type RuleScope string

// The scopes.
const (
	TaskScope    RuleScope = "task"    // kept with the task
	ProjectScope RuleScope = "project" // for this person, in the task's folder
	UserScope    RuleScope = "user"    // for this person, everywhere
)

// RuleScopes are all of them, the narrowest first.
var RuleScopes = []RuleScope{TaskScope, ProjectScope, UserScope}

// KeptRule is a permission rule that a person made: by "always" or "never", or by hand. Package policy knows
// what Match means.
type KeptRule struct {
	Verdict string    `json:"verdict"` // allow, ask or deny
	Match   string    `json:"match"`
	In      string    `json:"in,omitempty"` // the folder it holds in; empty: everywhere
	Why     string    `json:"why,omitempty"`
	By      string    `json:"by,omitempty"`
	From    string    `json:"from,omitempty"` // where it stands, if that is no answer
	At      time.Time `json:"at,omitzero"`
	// Untrusted says that an allow holds for tasks as well that have read untrusted text.
	Untrusted bool `json:"untrusted,omitempty"`
}

// Offer is a rule that "always" and "never" can make of a request.
type Offer struct {
	Rules []string `json:"rules"` // all of them together cover the call
	Words string   `json:"words"` // for people
}
