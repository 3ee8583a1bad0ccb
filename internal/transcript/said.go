package transcript

import (
	"slices"

	"taskdaemon/internal/sigil"
	"taskdaemon/internal/td"
)

// Said is what the answers of this iteration say in words to those who come after, also those that were compacted away: all
// notes, and the newest wish for a model.
func (t *Transcript) Said() (notes []string, next td.Tier) {
	said := join(t.noted, t.Messages)
	return said.Notes, said.Next
}

// join adds what messages say. A summary may repeat a note word for word: it counts once.
func join(s sigil.Sigils, msgs []td.Message) sigil.Sigils {
	for _, m := range msgs {
		if m.Role != td.Assistant {
			continue
		}
		said := sigil.Parse(m.Text())
		for _, n := range said.Notes {
			if !slices.Contains(s.Notes, n) {
				s.Notes = append(slices.Clip(s.Notes), n)
			}
		}
		if said.Next != "" {
			s.Next = said.Next
		}
	}
	return s
}

// Shown is the conversation for people, and whether it is that of an iteration that has ended: between two there is no other.
func (t *Transcript) Shown() (messages []td.Message, ended bool) {
	if t.Context != nil || len(t.Past) == 0 {
		return t.Messages, false
	}
	return slices.Concat(t.Past, t.Messages), true // with what was said since
}
