package hook

import (
	"fmt"
	"path/filepath"
	"strings"

	"taskdaemon/internal/td"
)

// Learning is something kept from an earlier task.
type Learning struct {
	ID     string          `json:"id,omitempty"`
	Kind   td.LearningKind `json:"kind,omitempty"`
	Text   string          `json:"text"`
	Source string          `json:"source,omitempty"` // the handle of the task it comes from
	Tags   []string        `json:"tags,omitempty"`
}

// Lock is something only so many may hold.
type Lock struct {
	Resource string `json:"resource" doc:"what it is: file:/path, repo:/path, host:name"`
	LockMode string `json:"lock_mode" doc:"shared or exclusive"`
	Holder   string `json:"holder,omitempty" doc:"the task that has it"`
	WaitedMS int64  `json:"waited_ms" doc:"how long this task has waited for it, in milliseconds"`
}

// maxLearnings is how many learnings a hook may ask for or add.
const maxLearnings = 50

// LearningExtractedPayload is the payload of LearningExtracted.
type LearningExtractedPayload struct {
	Head
	Kind  td.LearningKind `json:"kind" doc:"learning or decision"`
	Text  string          `json:"text" doc:"what was learnt"`
	Tags  []string        `json:"tags,omitempty" doc:"words to find it by"`
	Files []string        `json:"files,omitempty" doc:"the files it speaks of"`
	From  string          `json:"from" doc:"where it was found: tool, conversation or hook"`
	Store string          `json:"store" doc:"the folder of the project that keeps it; as changed, another one's, without the files"`
}

func (p LearningExtractedPayload) check() error {
	if strings.TrimSpace(p.Text) == "" {
		return fmt.Errorf("text is empty; to keep nothing, block")
	}
	if _, err := td.LearningKindOf(string(p.Kind)); err != nil {
		return err
	}
	if p.Store != "" && !filepath.IsAbs(p.Store) {
		return fmt.Errorf("store %q is not named from the root", p.Store)
	}
	return nil
}

// KnowledgeQueryPayload is the payload of KnowledgeQuery.
type KnowledgeQueryPayload struct {
	Head
	Query string `json:"query" doc:"the words looked for"`
	Limit int    `json:"limit" doc:"how many learnings at most"`
}

func (p KnowledgeQueryPayload) check() error {
	if p.Limit < 0 || p.Limit > maxLearnings {
		return fmt.Errorf("limit is %d, not 0 to %d", p.Limit, maxLearnings)
	}
	return nil
}

// KnowledgeInjectedPayload is the payload of KnowledgeInjected.
type KnowledgeInjectedPayload struct {
	Head
	Query     string     `json:"query" doc:"the words looked for"`
	Learnings []Learning `json:"learnings" doc:"what was found, best first: id, kind, text, source, tags"`
}

func (p KnowledgeInjectedPayload) check() error {
	if len(p.Learnings) > maxLearnings {
		return fmt.Errorf("%d learnings, more than %d", len(p.Learnings), maxLearnings)
	}
	for i, l := range p.Learnings {
		if strings.TrimSpace(l.Text) == "" {
			return fmt.Errorf("learnings[%d]: text is empty", i)
		}
		if _, err := td.LearningKindOf(string(l.Kind)); err != nil {
			return fmt.Errorf("learnings[%d]: %w", i, err)
		}
	}
	return nil
}

// ResourceLockWaitPayload is the payload of ResourceLockWait.
type ResourceLockWaitPayload struct {
	Head
	Lock
}

// ResourceLockAcquiredPayload is the payload of ResourceLockAcquired.
type ResourceLockAcquiredPayload struct {
	Head
	Lock
}

// ResourceLockReleasedPayload is the payload of ResourceLockReleased.
type ResourceLockReleasedPayload struct {
	Head
	Lock
}

// SubtaskSpawnedPayload is the payload of SubtaskSpawned.
type SubtaskSpawnedPayload struct {
	Head
	ToolName    string    `json:"tool_name" doc:"the tool that asked for it: Task or Explore"`
	Child       td.TaskID `json:"child_id" doc:"the child"`
	ChildHandle string    `json:"child_handle" doc:"its short name"`
	Prompt      string    `json:"prompt" doc:"what it was asked to do"`
	Depth       int       `json:"depth" doc:"1 for a child, 2 for a child's child"`
}

// Point is LearningExtracted.
func (LearningExtractedPayload) Point() Point { return LearningExtracted }

// Point is KnowledgeQuery.
func (KnowledgeQueryPayload) Point() Point { return KnowledgeQuery }

// Point is KnowledgeInjected.
func (KnowledgeInjectedPayload) Point() Point { return KnowledgeInjected }

// Point is ResourceLockWait.
func (ResourceLockWaitPayload) Point() Point { return ResourceLockWait }

// Point is ResourceLockAcquired.
func (ResourceLockAcquiredPayload) Point() Point { return ResourceLockAcquired }

// Point is ResourceLockReleased.
func (ResourceLockReleasedPayload) Point() Point { return ResourceLockReleased }

// Point is SubtaskSpawned.
func (SubtaskSpawnedPayload) Point() Point { return SubtaskSpawned }
