package td

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Event is one record of the journal.
type Event struct {
	Cursor uint64    // place in the whole journal, given by the store
	Seq    uint64    // place in its stream, from 1 without gaps
	Task   TaskID    // the stream
	At     time.Time // when it was decided, on the clock of its writer
	Takes  string    // key of the inbox command this event consumes
	Body   Body
}

// Body is what an event says.
type Body interface{ Type() EventType }

// EventType names a body on disk and on the wire: never rename, never reuse.
type EventType string

// The bodies of a task's stream.
type (
	// Created is the first event of a task.
	Created struct {
		Spec Spec `json:"spec"`
	}
	// Moved changes the state; only a Move makes one.
	Moved struct {
		Verb   Verb   `json:"verb"`
		From   State  `json:"from"`
		Status Status `json:"status"`
	}
	// ContextSet opens an iteration: what stands before the conversation, word for word, so that the
	// prefix is the same bytes in every later call and life.
	ContextSet struct {
		Iteration int             `json:"iteration"`
		Provider  string          `json:"provider"`
		System    string          `json:"system"`
		Tools     json.RawMessage `json:"tools"` // the tools' names, descriptions and schemas
		Opening   Message         `json:"opening"`
		Parts     []ContextPart   `json:"parts,omitempty"` // what the system prompt and the opening are made of
		More      json.RawMessage `json:"more,omitempty"`  // what the tools of servers and skills are made of again
		// Tier is the class of model that the iteration gets by the strategy of its run, and Why it gets that.
		Tier Tier   `json:"tier,omitempty"`
		Why  string `json:"why,omitempty"`
		// Untrusted says that the opening holds words of a task that had read untrusted text.
		Untrusted bool `json:"untrusted,omitempty"`
		// Feature is the slug of the PRD that the task is part of: what is learned belongs to it.
		Feature string `json:"feature,omitempty"`
		// Weighed names the learnings that were found for the opening, a line each with a hash of its text, and Knew is when they were looked for.
		Weighed string    `json:"weighed,omitempty"`
		Knew    time.Time `json:"knew,omitzero"`
		// MaxTurns is how many turns the iteration may take, as asked for or as a hook has it; 0: as many as the config says.
		MaxTurns int `json:"max_turns,omitempty"`
	}
	// IterationEnded closes an iteration of a planned task, and is what it leaves for the next ones: its note.
	IterationEnded struct {
		Iteration int           `json:"iteration"`
		Ending    Ending        `json:"ending"`
		Reason    string        `json:"reason,omitempty"` // why it came to nothing
		Notes     string        `json:"notes,omitempty"`  // what the agent wants those after it to know
		Run       string        `json:"run,omitempty"`    // the run over the graph, by name
		Tier      Tier          `json:"tier,omitempty"`
		Model     string        `json:"model,omitempty"`
		Hint      Tier          `json:"hint,omitempty"`  // the class of model the agent wants for the next one
		Files     []string      `json:"files,omitempty"` // that it wrote
		Took      time.Duration `json:"took,omitempty"`
	}
	// Ordered says what a run over the graph wants from here on.
	Ordered struct {
		Order Order `json:"order"`
		// Fresh drops the conversation: the task had ended, and is done again.
		Fresh bool   `json:"fresh,omitempty"`
		By    string `json:"by,omitempty"`
	}
	// FellBehind says that the trunk has a commit that the task's branch does not build on.
	FellBehind struct {
		Commit string `json:"commit"` // empty: that is settled
		By     string `json:"by,omitempty"`
		// Resolve says that it conflicts, and that the agent was told to resolve it before a person is asked.
		Resolve bool `json:"resolve,omitempty"`
		// Resolving is what is left to the agent, or to the merge, from here on; Resolved says that nothing is any more.
		Resolving *Resolving `json:"resolving,omitempty"`
		Resolved  bool       `json:"resolved,omitempty"`
		// Passed is how often what was decided has gone on to a newer commit, this one among them; zero: it has not.
		Passed int `json:"passed,omitempty"`
	}
	// StepIntended is written before a step runs.
	StepIntended struct {
		Intent
	}
	// StepEnded is written after a step ran.
	StepEnded struct {
		Outcome
	}
	// Said is a message to the model from a person, or from taskdaemon itself (a reminder, a nudge).
	Said struct {
		Text string `json:"text"`
		By   string `json:"by"`
		Why  Why    `json:"why,omitempty"` // set when taskdaemon says it
		// Step is what the words come from, so that they are said once however often that is looked at.
		Step StepKey `json:"step,omitempty"`
		// Weighed names the learnings that were found for the words, as in ContextSet.
		Weighed string `json:"weighed,omitempty"`
	}
	// AnswerChanged puts another message in the place of the newest answer, before anything of it was acted on.
	AnswerChanged struct {
		Message Message `json:"message"`
		By      string  `json:"by"` // the hooks
	}
	// Discarded drops the model's last answer, its tool results and all that followed, so that it is
	// asked again.
	Discarded struct {
		By string `json:"by,omitempty"`
	}
	// ModelChosen overrides the model from the next call on.
	ModelChosen struct {
		Model string `json:"model"`
		By    string `json:"by,omitempty"`
	}
	// Decided is a decision of policy or permission about a tool call.
	Decided struct {
		Step     StepKey `json:"step"`
		Tool     string  `json:"tool"`
		Decision string  `json:"decision"` // allow or deny
		Rule     string  `json:"rule"`
	}
	// RequestOpened asks a person.
	RequestOpened struct {
		Request Request `json:"request"`
	}
	// RequestAskedAgain restarts an open request's clock: after a restart, or when a task is resumed.
	RequestAskedAgain struct {
		ID RequestID `json:"id"`
	}
	// RequestAnswered closes a request with an answer.
	RequestAnswered struct {
		Answer Answer `json:"answer"`
	}
	// RequestExpired closes a request that nobody answered in time, or that is of no use any more.
	RequestExpired struct {
		ID  RequestID `json:"id"`
		Why string    `json:"why,omitempty"` // if it is not that time is up
	}
	// JobsEnded records background jobs that are no more.
	JobsEnded struct {
		Jobs []JobID `json:"jobs"`
		Why  string  `json:"why,omitempty"`
	}
	// LeasesReturned gives back what background jobs had leased that have ended, though nobody looked at what
	// they left yet.
	LeasesReturned struct {
		Jobs []JobID `json:"jobs"`
	}
	// Escalated lets a stronger class of model do the work from the next call on.
	Escalated struct {
		Tier Tier   `json:"tier"`
		Why  string `json:"why"`
	}
	// Compacted makes the conversation smaller so that it fits the model's window.
	Compacted struct {
		Compaction
	}
	// RulesKept are rules that an answer made; those of the task's own scope live here and nowhere else.
	RulesKept struct {
		Rules   []KeptRule `json:"rules"`
		Scope   RuleScope  `json:"scope"`
		Request RequestID  `json:"request,omitempty"`
	}

	// PermissionsChosen overrides the task's permission mode from the next call on.
	PermissionsChosen struct {
		Mode PermissionMode `json:"mode"`
		By   string         `json:"by,omitempty"`
	}

	// CompactionWanted asks for the conversation to be made smaller before the next call.
	CompactionWanted struct {
		By string `json:"by,omitempty"`
	}
	// Drifted records a sign that the loop is going nowhere (L-12), and starts its count anew.
	Drifted struct {
		Signal Drift       `json:"signal"`
		Action DriftAction `json:"action"`
		Detail string      `json:"detail"`
	}
	// AnomalyFound records something the task does not usually do (G-7), and starts its count anew.
	AnomalyFound struct {
		Anomaly Anomaly       `json:"anomaly"`
		Action  AnomalyAction `json:"action"`
		Detail  string        `json:"detail"`
	}
	// Ignored consumes an inbox command that had no effect, and says why.
	Ignored struct {
		Command CommandType `json:"command"`
		Why     string      `json:"why"`
	}
)

// The bodies of the daemon's own stream.
type (
	// DaemonStarted is written when a daemon takes over the state folder.
	DaemonStarted struct {
		Version  string `json:"version"`
		Holder   Holder `json:"holder"`
		Config   string `json:"config,omitempty"`   // a hash of its settings
		Notifies bool   `json:"notifies,omitempty"` // people want to be told of tasks by a command
	}
	// DaemonStopped is written at a clean stop.
	DaemonStopped struct {
		Left int `json:"left"` // tasks left in flight for recovery
	}
	// Recovered is the report of what was found at a start.
	Recovered struct {
		Report Report `json:"report"`
	}
	// OrphansKilled records processes of tasks that were ended because nobody looked after them any more.
	OrphansKilled struct {
		Processes []string `json:"processes"` // the command of each, and its pid
	}
	// Retained records a clean-up of old bodies.
	Retained struct {
		Tasks  int `json:"tasks"`
		Events int `json:"events"`
	}
)

// ContextPart is one piece of what stands before the conversation.
type ContextPart struct {
	Name   string `json:"name"` // what it is, for people
	Source string `json:"source,omitempty"`
	Tokens int    `json:"tokens"` // as estimated
}

// Why says what taskdaemon wants when it speaks to the model itself. Values are on disk.
type Why string

// The reasons.
const (
	Remind   Why = "remind"   // the turn ended without a nomination
	Continue Why = "continue" // the answer was cut short
	Nudge    Why = "nudge"    // it may be going nowhere
	Inject   Why = "inject"   // a hook adds words
	Reject   Why = "reject"   // a nomination in words did not pass
	Learned  Why = "learned"  // others learned something while it works
	Rebased  Why = "rebased"  // the files changed under it, because the trunk did
)

// Drift names a sign that a loop is going nowhere. Values are on disk.
type Drift string

// The signs.
const (
	DriftTurns      Drift = "turns"       // too many turns in an iteration
	DriftTokens     Drift = "tokens"      // one turn added too many tokens
	DriftFailures   Drift = "failures"    // tool calls keep failing
	DriftNoProgress Drift = "no_progress" // nothing new for too long
	DriftRepeats    Drift = "repeats"     // the same call again and again
	DriftIterations Drift = "iterations"  // too many iterations in a run
)

// DriftAction is what is done about it. Values are on disk.
type DriftAction string

// The actions.
const (
	DriftWarn  DriftAction = "warn"  // the model is told
	DriftStuck DriftAction = "stuck" // a person is asked
)

// Unreadable stands for a record whose body cannot be decoded. It is reported, never acted on.
type Unreadable struct {
	Was EventType
	Raw []byte
	Err string
}

// Trimmed stands for a record whose body was removed by retention; the git mirror still has it.
type Trimmed struct {
	Was EventType
}

func (Created) Type() EventType           { return "created" }
func (Moved) Type() EventType             { return "moved" }
func (ContextSet) Type() EventType        { return "context_set" }
func (IterationEnded) Type() EventType    { return "iteration_ended" }
func (FellBehind) Type() EventType        { return "fell_behind" }
func (Ordered) Type() EventType           { return "ordered" }
func (StepIntended) Type() EventType      { return "step_intended" }
func (StepEnded) Type() EventType         { return "step_ended" }
func (Said) Type() EventType              { return "said" }
func (AnswerChanged) Type() EventType     { return "answer_changed" }
func (Discarded) Type() EventType         { return "discarded" }
func (ModelChosen) Type() EventType       { return "model_chosen" }
func (Decided) Type() EventType           { return "decided" }
func (RequestOpened) Type() EventType     { return "request_opened" }
func (RequestAskedAgain) Type() EventType { return "request_asked_again" }
func (RequestAnswered) Type() EventType   { return "request_answered" }
func (RequestExpired) Type() EventType    { return "request_expired" }
func (JobsEnded) Type() EventType         { return "jobs_ended" }
func (LeasesReturned) Type() EventType    { return "leases_returned" }
func (Escalated) Type() EventType         { return "escalated" }
func (Compacted) Type() EventType         { return "compacted" }
func (CompactionWanted) Type() EventType  { return "compaction_wanted" }
func (RulesKept) Type() EventType         { return "rules_kept" }
func (PermissionsChosen) Type() EventType { return "permissions_chosen" }
func (Drifted) Type() EventType           { return "drifted" }
func (AnomalyFound) Type() EventType      { return "anomaly_found" }
func (Ignored) Type() EventType           { return "ignored" }
func (DaemonStarted) Type() EventType     { return "daemon_started" }
func (DaemonStopped) Type() EventType     { return "daemon_stopped" }
func (Recovered) Type() EventType         { return "recovered" }
func (OrphansKilled) Type() EventType     { return "orphans_killed" }
func (DiskFilled) Type() EventType        { return "disk_filled" }
func (Retained) Type() EventType          { return "retained" }

// Type is that of the record that could not be read.
func (u Unreadable) Type() EventType { return u.Was }

// Type is that of the record whose body is gone.
func (t Trimmed) Type() EventType { return t.Was }

// Audited reports whether records of this type belong to the audit log (S-7).
func (t EventType) Audited() bool {
	switch t {
	case "created", "moved", "decided", "request_opened", "request_answered", "request_expired",
		"model_chosen", "budget_raised", "budget_kept", "rules_kept", "permissions_chosen", "anomaly_found", "rewound", "daemon_started", "daemon_stopped", "recovered", "orphans_killed",
		"ordered", "graph_run_ordered", "graph_run_stopped", "graph_run_ended":
		return true
	}
	return false
}

var (
	decoders = map[EventType]func([]byte) (Body, error){}
	// plain are the types that consist of strings, whole numbers and truth values.
	plain = map[EventType]bool{}
)

func init() {
	register[Created]()
	register[Moved]()
	register[ContextSet]()
	register[IterationEnded]()
	register[FellBehind]()
	register[Ordered]()
	register[StepIntended]()
	register[StepEnded]()
	register[Said]()
	register[AnswerChanged]()
	register[Discarded]()
	register[ModelChosen]()
	register[Decided]()
	register[RequestOpened]()
	register[RequestAskedAgain]()
	register[RequestAnswered]()
	register[RequestExpired]()
	register[JobsEnded]()
	register[LeasesReturned]()
	register[Escalated]()
	register[Compacted]()
	register[CompactionWanted]()
	register[RulesKept]()
	register[PermissionsChosen]()
	register[Drifted]()
	register[AnomalyFound]()
	register[Ignored]()
	register[Snapshotted]()
	register[Rewound]()
	register[Forked]()
	register[DaemonStarted]()
	register[DaemonStopped]()
	register[Recovered]()
	register[OrphansKilled]()
	register[DiskFilled]()
	register[Retained]()
}

func register[B Body]() {
	var zero B
	decoders[zero.Type()] = func(raw []byte) (Body, error) {
		var b B
		err := json.Unmarshal(raw, &b)
		return b, err
	}
	plain[zero.Type()] = isPlain(reflect.TypeFor[B]())
	bodies = append(bodies, zero)
}

// bodies has an empty body of each type.
var bodies []Body

// Bodies yields an empty body of each type there is, for whoever must treat them all alike.
func Bodies() iter.Seq[Body] { return slices.Values(bodies) }

func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() || f.Tag.Get("json") == "" || f.Tag.Get("json") == "-" || !isPlain(f.Type) {
				return false
			}
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
	default:
		return false
	}
	return !t.Implements(reflect.TypeFor[json.Marshaler]()) && !t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// EncodeBody is the form of a body on disk and on the wire.
func EncodeBody(b Body) ([]byte, error) {
	switch u := b.(type) {
	case Unreadable:
		return u.Raw, nil
	case Trimmed:
		return []byte("null"), nil
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.Type(), err)
	}
	return raw, nil
}

// DecodeBody reads a body. It never fails: what it cannot read it returns as Unreadable, and an empty
// body as Trimmed, so that one bad record stops nothing else.
func DecodeBody(t EventType, raw []byte) Body {
	if len(raw) == 0 || string(raw) == "null" {
		return Trimmed{Was: t}
	}
	dec, ok := decoders[t]
	if !ok {
		return Unreadable{Was: t, Raw: raw, Err: "unknown type"}
	}
	b, err := dec(raw)
	if err != nil {
		return Unreadable{Was: t, Raw: raw, Err: err.Error()}
	}
	return b
}

// Sealed is a body with its encoding. The body is what a later read gives, whatever the encoding did to it
// (compacted input, replaced bytes that are no text). Only Seal makes one.
type Sealed struct {
	Body
	raw []byte
}

// Raw is the body's encoding.
func (s Sealed) Raw() []byte { return s.raw }

// notText is what the encoding makes of bytes that are no text. A body that has it as text is written
// otherwise, so this is never found in what needs no replacing.
var notText = []byte(`\ufffd`)

// Seal encodes a body, and reads it back where that may change it.
func Seal(b Body) (Sealed, error) {
	if s, is := b.(Sealed); is {
		return s, nil
	}
	raw, err := EncodeBody(b)
	if err != nil {
		return Sealed{}, &Error{Kind: Invalid, Err: err}
	}
	if plain[b.Type()] && !bytes.Contains(raw, notText) {
		return Sealed{b, raw}, nil
	}
	again := DecodeBody(b.Type(), raw)
	if u, bad := again.(Unreadable); bad {
		return Sealed{}, Errorf(Invalid, "%s does not survive its encoding: %s", u.Was, u.Err)
	}
	if bytes.Contains(raw, notText) { // as whoever reads it would write it
		if raw, err = EncodeBody(again); err != nil {
			return Sealed{}, &Error{Kind: Invalid, Err: err}
		}
	}
	return Sealed{again, raw}, nil
}

// Record is an event as the journal keeps it, with the encoding of its body: the body is exactly what a later read gives, whatever the
// encoding did to it. Whoever changes the body makes another Record.
type Record struct {
	Event
	Raw []byte // nil: not at hand
}

// wireEvent is an event on the wire and in a file.
type wireEvent struct {
	Cursor uint64          `json:"cursor,omitempty"`
	Seq    uint64          `json:"seq"`
	Task   TaskID          `json:"task"`
	At     time.Time       `json:"at"`
	Type   EventType       `json:"type"`
	Takes  string          `json:"takes,omitempty"`
	Body   json.RawMessage `json:"body"`
}

// MarshalJSON writes the event with its body's type beside it, as package json does with a wireEvent, but goes
// through the body once only. It is a line.
func (e Event) MarshalJSON() ([]byte, error) { return Record{Event: e}.MarshalJSON() }

// MarshalJSON writes what that of the event writes, and does not encode again what is encoded.
func (e Record) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends what MarshalJSON writes.
func (e Record) AppendJSON(to []byte) (_ []byte, err error) {
	raw := e.Raw
	if u, is := e.Body.(Unreadable); is {
		raw = line(u.Raw)
	} else if raw == nil {
		if raw, err = EncodeBody(e.Body); err != nil {
			return nil, err
		}
	}
	w := jsonWriter{b: append(slices.Grow(to, len(raw)+256), '{')}
	if e.Cursor != 0 {
		w.key("cursor")
		w.b = strconv.AppendUint(w.b, e.Cursor, 10)
	}
	w.key("seq")
	w.b = strconv.AppendUint(w.b, e.Seq, 10)
	w.text("task", string(e.Task))
	w.time("at", e.At)
	w.text("type", string(e.Body.Type()))
	w.textIf("takes", e.Takes)
	w.key("body")
	w.b = append(append(w.b, raw...), '}')
	return w.b, w.err
}

// line is what stands in a record that cannot be read, if it is JSON at least.
func line(raw []byte) []byte {
	b, err := json.Marshal(json.RawMessage(raw))
	if err != nil {
		return []byte("null")
	}
	return b
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Event) UnmarshalJSON(raw []byte) error {
	var w wireEvent
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	*e = Event{w.Cursor, w.Seq, w.Task, w.At, w.Takes, DecodeBody(w.Type, w.Body)}
	return nil
}
