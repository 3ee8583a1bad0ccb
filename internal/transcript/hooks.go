package transcript

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// Hook is what is known of one hook that is asked on the way to the next answer.
type Hook struct {
	InFlight *td.Intent      // asked, and no answer was recorded
	Attempts int             // times it was asked
	Result   json.RawMessage // what it said
	place    int             // of its answer among those of the turn
}

// hooks is the part of the fold that hooks need: what they said on the way to the next answer, so that
// the same way, gone once more after a crash, does not ask them again.
type hooks struct {
	asked    map[td.StepKey]Hook
	answers  int
	injected map[td.StepKey]bool // whose words are in the conversation
}

// Hook is what is known of the hook asked under this key.
func (t *Transcript) Hook(key td.StepKey) Hook { return t.hooks.asked[key] }

// Heard are the keys under prefix of hooks whose answers are recorded, in the order of the answers.
func (t *Transcript) Heard(prefix string) []td.StepKey {
	var keys []td.StepKey
	for key, h := range t.hooks.asked {
		if h.Result != nil && strings.HasPrefix(string(key), prefix) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b td.StepKey) int { return t.hooks.asked[a].place - t.hooks.asked[b].place })
	return keys
}

// Injected reports whether the words that came from this step are in the conversation.
func (t *Transcript) Injected(step td.StepKey) bool { return t.hooks.injected[step] }

// Failures is how many tool calls failed, one after the other, up to now.
func (t *Transcript) Failures() int { return t.drift.failures }

// apply folds what is about hooks alone. Maps are copied: an older copy of the fold keeps its own.
func (h *hooks) apply(body td.Body) {
	switch b := body.(type) {
	case td.StepIntended:
		if b.Kind == td.HookStep {
			in := b.Intent
			h.set(b.Key, Hook{InFlight: &in, Attempts: in.Attempt + 1})
		}
	case td.StepEnded:
		switch {
		case b.Model != nil:
			*h = hooks{} // a new turn, with keys of its own
		case b.Hook != nil:
			h.answers++
			h.set(b.Key, Hook{Attempts: h.asked[b.Key].Attempts, Result: b.Hook, place: h.answers})
		}
	case td.Said:
		if b.Step != "" {
			h.injected = with(h.injected, b.Step, true)
		}
	case td.Discarded:
		h.overrule()
	case td.Moved:
		if b.Verb == td.VerbResume || b.Verb == td.VerbReset {
			h.overrule()
		}
	}
}

func (h *hooks) set(key td.StepKey, s Hook) { h.asked = with(h.asked, key, s) }

// overrule forgets what blocked: a person who lets the task go on wants the hook to look again.
func (h *hooks) overrule() {
	for key, s := range h.asked {
		var said struct {
			Blocked bool `json:"blocked"`
		}
		if s.Result != nil && json.Unmarshal(s.Result, &said) == nil && said.Blocked {
			h.set(key, Hook{Attempts: s.Attempts})
		}
	}
}

// opened says that the words for the task's beginning stand in the opening.
func (h hooks) opened(begin td.StepKey) hooks {
	h.injected = with(h.injected, begin, true)
	return h
}

func with[V any](m map[td.StepKey]V, key td.StepKey, v V) map[td.StepKey]V {
	next := maps.Clone(m)
	if next == nil {
		next = map[td.StepKey]V{}
	}
	next[key] = v
	return next
}

// BeginKey names the task's beginning: its first, or the newest at which a person let it go on. It is the
// same in every run until then.
func (t *Transcript) BeginKey() td.StepKey { return td.StepKey(fmt.Sprintf("b%d", t.Begun+1)) }

// changed puts another message in the place of the newest answer. Once something of it was acted on it
// stays as it is.
func (t *Transcript) changed(m td.Message) {
	n := len(t.Messages)
	m = window.Worded(m)
	if !t.Untouched || n == 0 || t.Messages[n-1].Role != td.Assistant || len(m.Blocks) == 0 {
		t.Bad++
		return
	}
	t.Messages[n-1] = t.join(m)
	t.Ended = true
	t.call(m)
}
