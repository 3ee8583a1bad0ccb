package hook

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// Permission is a hook's word on whether a call may run. Values are on disk.
type Permission string

// The permissions.
const (
	NoOpinion Permission = ""
	Allow     Permission = "allow" // nobody is asked; the policy still has its say
	Ask       Permission = "ask"   // a person is asked in any case
	Deny      Permission = "deny"  // always together with Blocked
)

// Result is what came of asking one hook, or several in a row. It is on disk: never rename a field.
type Result struct {
	// Hook is the name of the hook; of several, of the one that blocked, or else whose word on the permission counts.
	Hook    string `json:"hook,omitempty"`
	Blocked bool   `json:"blocked,omitempty"`
	// Stop asks, besides the block, that the task pauses with the reason.
	Stop       bool       `json:"stop,omitempty"`
	Reason     string     `json:"reason,omitempty"` // of the block or the permission
	Permission Permission `json:"permission,omitempty"`
	// Changes are the new values of fields of the payload. Apply puts them in.
	Changes map[string]json.RawMessage `json:"changes,omitempty"`
	Inject  []string                   `json:"inject,omitempty"` // words for the model
	Tell    []Tell                     `json:"tell,omitempty"`   // messages to other loops
	// Failure is what went wrong with the hook. With OnError closed the result is Blocked as well.
	Failure string `json:"failure,omitempty"`
}

// What a hook can want of other loops besides that they read something.
const (
	DoQuery = "query" // the text is a question about each: what is known comes to the hook's own loop
	DoStop  = "stop"  // each ends for good: the text is the reason
)

// Tell is a message to other loops of the task's project, in its name, or something else that the hook wants of them.
type Tell struct {
	Do   string   `json:"do,omitempty"`   // DoQuery or DoStop; empty: they read the text
	To   []string `json:"to,omitempty"`   // the loops, by handle; none: all that listen
	Type string   `json:"type,omitempty"` // the kind of event, when nobody is named
	Text string   `json:"text"`
}

// Letter is the message under a name of its own.
func (t Tell) Letter(id string) td.Letter {
	return td.Letter{ID: id, To: t.To, Topic: t.Type, Text: t.Text}
}

// check says what is wrong with it, or nil.
func (t Tell) check() error {
	switch t.Do {
	case "":
	case DoQuery, DoStop:
		if len(t.To) == 0 {
			return fmt.Errorf("%s wants the loops that it is about: to", t.Do)
		}
	default:
		return fmt.Errorf("do is %q: it is %s or %s", clip(t.Do, 40), DoQuery, DoStop)
	}
	return t.Letter("").Check()
}

// maxTells bounds the messages of one answer.
const maxTells = 10

// How much of a hook's words is kept.
const (
	maxInject = 30_000
	maxReason = 8_000
)

// Failed is the result of a hook that could not be asked or gave no usable answer: what its OnError says.
// Pure.
func Failed(s Spec, err error) Result {
	why := clip(fmt.Sprintf("hook %s failed: %v", s.Name, err), maxReason)
	r := Result{Hook: s.Name, Failure: why}
	if s.OnError == Closed {
		r.Blocked, r.Reason = true, why
		if t, _ := TraitOf(s.Point); t.Permits {
			r.Permission = Deny
		}
	}
	return r
}

// settle checks what a hook said against what it may do at the point of p, and makes it tidy.
func settle(s Spec, p Payload, r Result) (Result, error) {
	t, ok := TraitOf(p.Point())
	if !ok || s.Point != p.Point() {
		return Result{}, fmt.Errorf("a hook at %s was given a payload of %s", s.Point, p.Point())
	}
	r.Hook, r.Failure = s.Name, ""
	if r.Permission == Deny {
		r.Blocked = true
	}
	if r.Stop {
		r.Blocked = true
	}
	switch r.Permission {
	case NoOpinion, Allow, Ask, Deny:
	default:
		return Result{}, fmt.Errorf("unknown permission %q", clip(string(r.Permission), 40))
	}
	switch {
	case r.Blocked && t.Block == "":
		return Result{}, fmt.Errorf("it blocks, and nothing can be blocked at %s", t.Point)
	case r.Permission == Ask && !t.Permits:
		return Result{}, fmt.Errorf("it says ask, and no permission is decided at %s", t.Point)
	case !t.Permits:
		r.Permission = NoOpinion // to allow what nobody forbids says nothing
	case r.Blocked:
		r.Permission = Deny
	}
	words := r.Inject
	r.Inject = nil
	for _, w := range words {
		if strings.TrimSpace(w) == "" {
			continue
		}
		if t.Inject == "" {
			return Result{}, fmt.Errorf("it injects words, and %s has no place for them", t.Point)
		}
		r.Inject = append(r.Inject, clip(w, maxInject))
	}
	if len(r.Tell) > maxTells {
		return Result{}, fmt.Errorf("it tells %d things; %d are allowed", len(r.Tell), maxTells)
	}
	for _, m := range r.Tell {
		if err := m.check(); err != nil {
			return Result{}, fmt.Errorf("its tell: %w", err)
		}
	}
	changes, err := checkChanges(t, p, r.Changes)
	if err != nil {
		return Result{}, err
	}
	r.Changes = changes
	r.Reason = clip(strings.TrimSpace(r.Reason), maxReason)
	if r.Blocked && r.Reason == "" {
		r.Reason = fmt.Sprintf("blocked by hook %s", s.Name)
	}
	return r, nil
}

// merge is what two results in a row come to: next was given what the ones in sum left.
func merge(sum, next Result) Result {
	out := sum
	out.Inject = append(append([]string(nil), sum.Inject...), next.Inject...)
	out.Tell = append(append([]Tell(nil), sum.Tell...), next.Tell...)
	out.Failure = joined(sum.Failure, next.Failure)
	if len(next.Changes) > 0 {
		out.Changes = maps.Clone(sum.Changes)
		if out.Changes == nil {
			out.Changes = map[string]json.RawMessage{}
		}
		maps.Copy(out.Changes, next.Changes)
		if out.Permission == Allow {
			out.Hook, out.Permission = "", NoOpinion // what was allowed is not what would run now
		}
	}
	if strictness(next.Permission) > strictness(out.Permission) {
		out.Hook, out.Permission, out.Reason = next.Hook, next.Permission, next.Reason
	}
	if next.Blocked {
		out.Hook, out.Blocked, out.Stop, out.Reason = next.Hook, true, next.Stop, next.Reason
	}
	return out
}

// strictness puts the permissions in order: the strictest of several counts.
func strictness(p Permission) int {
	switch p {
	case Deny:
		return 3
	case Ask:
		return 2
	case Allow:
		return 1
	default:
		return 0
	}
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// clip makes s valid text of at most about n bytes and says how much it left out.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s\n[truncated, %d bytes omitted]", s[:cut], len(s)-cut)
}
