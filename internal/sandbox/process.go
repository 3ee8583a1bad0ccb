package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
)

// Command is what to run.
type Command struct {
	Shell string   // given to the shell with -c
	Dir   string   // the workspace
	Env   []string // added to the scrubbed environment
	// Timeout bounds the command's life, counted from its start or from the last time it was claimed.
	Timeout time.Duration
	// Background marks a command that outlives its call.
	Background bool
	Task       td.TaskID
	Run        td.RunID
	Step       td.StepKey
	// Room names whose temp folder and layers over caches the command gets (Spool.Room); empty: its task's.
	Room string
	// Own marks a program of the person's, which is not confined: it has no Profile.
	Own bool
	// Alone is one in a folder that agents write in: while it runs, no command does that could change what is in Dir.
	Alone bool
	// Profile is what the command may do; nil: whatever the user may.
	Profile *Profile
}

// direct fails if a symbolic link is on the way to the folder that a command is to run in. The path was resolved when the task
// was made: a link there now would make another folder the workspace, writable and all. A folder that is gone is told of
// by the shim.
func (c Command) direct() error {
	dir, err := beneath.Open(c.Dir)
	if err == nil {
		return dir.Close()
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, beneath.ErrLink) {
		return fmt.Errorf("the folder %s is not the workspace any more: /%s is a symbolic link now", c.Dir, e.Path)
	}
	return nil
}

// ProcessState is what became of a process.
type ProcessState int

// The states of a process.
const (
	NeverStarted ProcessState = iota // and it never will: the name is void now
	StillRunning
	Finished
	Lost // it began, or may have, and neither it nor its result is there
)

func (s ProcessState) String() string {
	return [...]string{"never started", "still running", "finished", "lost"}[s]
}

// ErrLost says that a command began, or may have, and that nobody can tell how it ended.
var ErrLost = errors.New("the command's supervisor is gone and left no result")

// Process is a command under its shim.
type Process interface {
	// Wait returns the result when the process has ended. Output is handed to emit as it comes, if
	// emit is not nil. When ctx ends, Wait returns its cause at once and the process goes on.
	Wait(ctx context.Context, emit func([]byte)) (ProcessResult, error)
	// Output is what was written from offset on, at most limit bytes, and the offset to go on from.
	Output(offset int64, limit int) ([]byte, int64, error)
	// Kill ends the whole process tree and returns when it is gone.
	Kill(ctx context.Context) error
}

// ProcessResult is how a process ended. It is on disk: never rename a field.
type ProcessResult struct {
	Exit     int           `json:"exit"` // 128+n for signal n
	Signal   string        `json:"signal,omitempty"`
	TimedOut bool          `json:"timed_out,omitempty"`
	Killed   bool          `json:"killed,omitempty"` // by Kill
	Limit    string        `json:"limit,omitempty"`  // why it was ended: which limit of its profile it passed
	Took     time.Duration `json:"took"`
	Memory   int64         `json:"memory,omitempty"`  // bytes at most, as far as that was seen: of one process, or of several at once
	CPU      time.Duration `json:"cpu,omitempty"`     // that it computed, with all it started
	Head     []byte        `json:"head,omitempty"`    // the first part of the output
	Tail     []byte        `json:"tail,omitempty"`    // the last part, when the middle is left out
	Omitted  int64         `json:"omitted,omitempty"` // bytes between head and tail
}
