package td

import (
	"crypto/sha256"
	"log/slog"
	"strings"

	"github.com/google/uuid"
)

// TaskID names a task: a UUIDv7 in its text form.
type TaskID string

// Handle is the short name by which people know the task. Where another one has it, the task has a longer one, which ends with it.
func (id TaskID) Handle() string {
	if id == DaemonStream {
		return "the daemon's own records"
	}
	return Handle(TaskHandle, string(id), HandleLength)
}

// LogValue is what logs say of the task.
func (id TaskID) LogValue() slog.Value { return slog.StringValue(id.Handle()) }

// RunID names one execution of a task.
type RunID string

// RequestID names a durable question to a person.
type RequestID string

// DaemonStream is the journal's one stream that belongs to no task: starts, stops and reports of the
// daemon itself. It is claimed and fenced like a task's.
const DaemonStream TaskID = "00000000-0000-7000-8000-000000000000"

// NewTaskID makes a fresh task id.
func NewTaskID() TaskID { return TaskID(newUUID()) }

// TaskIDFor is the id of the task that a key asks for: the same in every life.
func TaskIDFor(key string) TaskID {
	return TaskID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(key)).String())
}

// PlannedIDFor is the id of the planned task that a source names: the same in every clone. It has the form of a UUIDv7, as the log of
// a graph wants it, but tells no time.
func PlannedIDFor(source string) TaskID {
	return TaskID(uuid.NewHash(sha256.New(), uuid.NameSpaceOID, []byte(source), 7).String())
}

// NewRunID makes a fresh run id.
func NewRunID() RunID { return RunID(newUUID()) }

// NewRequestID makes a fresh request id.
func NewRequestID() RequestID { return RequestID(newUUID()) }

func newUUID() string { return uuid.Must(uuid.NewV7()).String() }

// Handle kinds: the letter in front of a short handle.
const (
	TaskHandle    = 't'
	RequestHandle = 'q'
	RunHandle     = 'r' // of runs over graphs
)

// HandleLength is the number of characters of a handle's tail that is not taken yet.
const HandleLength = 8

// MaxHandleLength is the longest tail Handle can make: 65 bits hold the 62 random ones of a UUIDv7.
const MaxHandleLength = 13

// base32 leaves out i, l, o and u, so that a handle read aloud or copied by hand stays what it was.
const base32 = "0123456789abcdefghjkmnpqrstvwxyz"

// Handle is the short name of id that people see and type: the kind's letter, a dash, and n base32
// characters of the id's random tail. A longer handle of an id ends with its shorter one.
func Handle(kind rune, id string, n int) string {
	u, err := uuid.Parse(id)
	if err != nil || n < 1 || n > MaxHandleLength {
		return string(kind) + "-" + id
	}
	var tail uint64
	for _, b := range u[8:] {
		tail = tail<<8 | uint64(b)
	}
	out := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		out[i] = base32[tail&31]
		tail >>= 5
	}
	return string(kind) + "-" + string(out)
}

// Handle is the request's short name.
func (id RequestID) Handle() string { return Handle(RequestHandle, string(id), HandleLength) }

// MatchesRef reports whether ref, as a person typed it, may mean the thing with this id and handle:
// the whole id, the whole handle, or any fragment of either.
func MatchesRef(ref, id, handle string) (exact, partial bool) {
	ref = strings.ToLower(strings.TrimSpace(ref))
	if ref == "" {
		return false, false
	}
	if ref == id || ref == handle || ref == handle[strings.IndexByte(handle, '-')+1:] {
		return true, true
	}
	return false, strings.Contains(handle, ref) || strings.HasPrefix(id, ref)
}
