package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxOutput is how much a hook may say. More is a flood, and none of it is believed.
const MaxOutput = 1 << 20

// The words of a decision. No payload has a field of these names; the spellings of other agents that mean
// the same are understood.
const (
	wordDecision = "decision"           // allow, approve, block, deny or ask
	wordReason   = "reason"             // why
	wordInject   = "inject"             // words for the model
	wordContinue = "continue"           // false: block, and pause the task
	wordStop     = "stopReason"         // why, with continue
	wordSpecific = "hookSpecificOutput" // an object with more of them
	wordTell     = "tell"               // messages to other loops
)

var words = []string{wordDecision, wordReason, wordInject, wordContinue, wordStop, wordSpecific, wordTell}

// specific is the object that other agents keep what belongs to one point in.
type specific struct {
	Event      *Point          `json:"hookEventName"`
	Permission *string         `json:"permissionDecision"`
	Reason     string          `json:"permissionDecisionReason"`
	Input      json.RawMessage `json:"updatedInput"`
	Context    string          `json:"additionalContext"`
	Decision   *struct {
		Behavior string          `json:"behavior"`
		Message  string          `json:"message"`
		Input    json.RawMessage `json:"updatedInput"`
	} `json:"decision"`
}

// parse reads what a hook said. Words that are no object are for the model, if the point has a place for
// them and text is set; a hook that only talks says nothing.
func parse(p Payload, said []byte, text bool) (Result, error) {
	if len(said) > MaxOutput {
		return Result{}, fmt.Errorf("it said more than %d bytes", MaxOutput)
	}
	if !utf8.Valid(said) || bytes.IndexByte(said, 0) >= 0 {
		return Result{}, errors.New("what it said is not text")
	}
	said = bytes.TrimSpace(said)
	switch {
	case len(said) == 0:
		return Result{}, nil
	case said[0] == '{':
		return parseObject(p, said)
	case !text:
		return Result{}, errors.New("its answer is no JSON object")
	case hidesDecision(said):
		return Result{}, errors.New("there are other words before its decision; it must stand alone on standard output")
	}
	var r Result
	if t, _ := TraitOf(p.Point()); t.Inject != "" {
		r.Inject = []string{string(said)}
	}
	return r, nil
}

// hidesDecision spots a decision after other words, which would else be taken for words itself: a block
// that is not heard is worse than an error. Only the last line that opens an object is looked at.
func hidesDecision(said []byte) bool {
	i := bytes.LastIndex(said, []byte("\n{"))
	if i < 0 {
		return false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(said[i+1:], &object) != nil {
		return false
	}
	for _, w := range words {
		if _, ok := object[w]; ok {
			return true
		}
	}
	return false
}

func parseObject(p Payload, said []byte) (Result, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(said, &object); err != nil {
		return Result{}, fmt.Errorf("read its decision: %w", err)
	}
	var (
		r        Result
		decision string
		inject   string
		stop     string
		goOn     = true
		more     specific
	)
	for _, w := range []struct {
		name string
		into any
	}{
		{wordDecision, &decision},
		{wordReason, &r.Reason},
		{wordInject, &inject},
		{wordContinue, &goOn},
		{wordStop, &stop},
		{wordSpecific, &more},
		{wordTell, &r.Tell},
	} {
		if raw, ok := object[w.name]; ok {
			if err := json.Unmarshal(raw, w.into); err != nil {
				return Result{}, fmt.Errorf("read its %s: %w", w.name, err)
			}
			delete(object, w.name)
		}
	}
	r.Changes = object
	if err := r.decide(decision); err != nil {
		return Result{}, err
	}
	r.add(inject)
	if err := r.addSpecific(p, more); err != nil {
		return Result{}, err
	}
	if !goOn {
		r.Stop = true
		if r.Reason == "" {
			r.Reason = stop
		}
	}
	return r, nil
}

// addSpecific takes in what came in the object that other agents use.
func (r *Result) addSpecific(p Payload, s specific) error {
	if s.Event != nil && *s.Event != p.Point() {
		return fmt.Errorf("its hookEventName is %q, and it was asked at %s", clip(string(*s.Event), 40), p.Point())
	}
	if s.Permission != nil {
		if err := r.decide(*s.Permission); err != nil {
			return err
		}
	}
	if err := r.change(s.Input); err != nil {
		return err
	}
	reason := s.Reason
	if d := s.Decision; d != nil {
		if err := r.decide(d.Behavior); err != nil {
			return err
		}
		if err := r.change(d.Input); err != nil {
			return err
		}
		if reason == "" {
			reason = d.Message
		}
	}
	if r.Reason == "" {
		r.Reason = reason
	}
	r.add(s.Context)
	return nil
}

// decide takes in one word of decision; of several the strictest counts.
func (r *Result) decide(word string) error {
	var p Permission
	switch word {
	case "":
		return nil
	case "allow", "approve":
		p = Allow
	case "ask":
		p = Ask
	case "block", "deny":
		p, r.Blocked = Deny, true
	default:
		return fmt.Errorf("unknown decision %q: want allow, approve, ask, block or deny", clip(word, 40))
	}
	if strictness(p) > strictness(r.Permission) {
		r.Permission = p
	}
	return nil
}

// change takes in a tool's new input under its other name.
func (r *Result) change(input json.RawMessage) error {
	if len(input) == 0 || string(input) == "null" {
		return nil
	}
	if have, ok := r.Changes["tool_input"]; ok {
		if same, err := equalJSON(have, input, true); err != nil || !same {
			return errors.New("it gives two different inputs for the tool")
		}
	}
	r.Changes["tool_input"] = input
	return nil
}

func (r *Result) add(inject string) {
	if strings.TrimSpace(inject) != "" {
		r.Inject = append(r.Inject, inject)
	}
}
