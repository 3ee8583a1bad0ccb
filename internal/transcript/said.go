package transcript

import (
	"slices"
	"strings"

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

// maxPieces bounds, in bytes, what is kept of an answer in words. The newest counts most.
const maxPieces = 64 << 10

// piece is what an answer said that called nothing, and after which taskdaemon had the model go on.
type piece struct {
	text string
	cut  bool // it broke off: the next one goes on in the midst of it
}

// urged notes that taskdaemon has the model go on, which had ended its turn: what it said then may be its answer, or the beginning of it.
func (t *Transcript) urged(why td.Why) {
	if why == td.Remind {
		t.Reminded++
	}
	n := len(t.Messages)
	if why != td.Remind && why != td.Continue || n == 0 || t.Messages[n-1].Role != td.Assistant {
		return
	}
	text := t.Messages[n-1].Text()
	if text == "" {
		return
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxPieces)], "")
	t.pieces = append(slices.Clip(t.pieces), piece{text, why == td.Continue})
	total := 0
	for i, p := range slices.Backward(t.pieces) {
		if total += len(p.text); total > maxPieces {
			t.pieces = t.pieces[i+1:]
			break
		}
	}
}

// unsay forgets what an answer said that was dropped.
func (t *Transcript) unsay(text string) {
	if n := len(t.pieces); n > 0 && strings.HasPrefix(text, t.pieces[n-1].text) {
		t.pieces = t.pieces[:n-1]
	}
}

// SaidBefore is what the model said in words in this iteration when it ended its turn without a nomination and was told to go on, and whether
// that broke off. What last repeats is left out.
func (t *Transcript) SaidBefore(last string) (text string, cut bool) {
	var b strings.Builder
	for _, p := range t.pieces {
		if last != "" && !cut && !p.cut && strings.Contains(last, strings.TrimSpace(p.text)) {
			continue
		}
		if b.Len() > 0 && !cut {
			b.WriteString("\n\n")
		}
		b.WriteString(p.text)
		cut = p.cut
	}
	return b.String(), cut
}
