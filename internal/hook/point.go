package hook

import "slices"

// Point is an instant at which hooks fire. Values stand in configs and journals: never rename one.
type Point string

// The thirty points.
const (
	TaskCreated   Point = "TaskCreated"
	TaskScheduled Point = "TaskScheduled"
	TaskStarted   Point = "TaskStarted"
	TaskPaused    Point = "TaskPaused"
	TaskResumed   Point = "TaskResumed"
	TaskCompleted Point = "TaskCompleted"
	TaskFailed    Point = "TaskFailed"
	TaskCancelled Point = "TaskCancelled"

	PreContextAssembly  Point = "PreContextAssembly"
	PostContextAssembly Point = "PostContextAssembly"
	PreLLMCall          Point = "PreLLMCall"
	PostLLMCall         Point = "PostLLMCall"
	PreToolUse          Point = "PreToolUse"
	PostToolUse         Point = "PostToolUse"
	PreUserPrompt       Point = "PreUserPrompt"
	PostUserInput       Point = "PostUserInput"
	LoopIteration       Point = "LoopIteration"

	LearningExtracted    Point = "LearningExtracted"
	KnowledgeQuery       Point = "KnowledgeQuery"
	KnowledgeInjected    Point = "KnowledgeInjected"
	ResourceLockWait     Point = "ResourceLockWait"
	ResourceLockAcquired Point = "ResourceLockAcquired"
	ResourceLockReleased Point = "ResourceLockReleased"
	SubtaskSpawned       Point = "SubtaskSpawned"

	SecurityPolicyCheck Point = "SecurityPolicyCheck"
	SecurityViolation   Point = "SecurityViolation"
	PermissionRequest   Point = "PermissionRequest"
	PermissionGranted   Point = "PermissionGranted"
	PermissionDenied    Point = "PermissionDenied"
	AnomalyDetected     Point = "AnomalyDetected"
)

// Group is a family of points.
type Group string

// The groups.
const (
	Lifecycle Group = "Task lifecycle"
	Loop      Group = "Loop"
	CrossTask Group = "Across tasks"
	Security  Group = "Security"
)

// Trait is what is known of a point: when it fires and what a hook may do there.
type Trait struct {
	Point Point
	Group Group
	Doc   string // a sentence: when it fires
	// Subject is the field of the payload that a matcher is held against, or "".
	Subject string
	// Block says what becomes of things when a hook blocks here; "": it cannot.
	Block string
	// Modify are the fields of the payload that a hook may change.
	Modify []string
	// Inject says where a hook's words go; "": it can add none.
	Inject string
	// Permits: a hook may decide on the permission of a call.
	Permits bool

	sample Payload
}

// TraitOf finds a point's trait.
func TraitOf(p Point) (Trait, bool) {
	i := slices.IndexFunc(Traits, func(t Trait) bool { return t.Point == p })
	if i < 0 {
		return Trait{}, false
	}
	return Traits[i], true
}

// Sample is a realistic example of what a hook at this point is told, for trying hooks out; nil when
// there is no such point.
func Sample(p Point) Payload {
	t, _ := TraitOf(p)
	return t.sample
}
