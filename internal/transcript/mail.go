package transcript

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/td"
)

// receive adds a message of another loop, of taskdaemon or of a person to the conversation. What no person says stands
// there as data, and is told again to the next iteration if this one ends before a model has read it.
func (t *Transcript) receive(r td.Received) {
	r.Text = shown(r.Text)
	b := td.Block{Type: td.TextBlock, Text: mailWords(r), Aside: !r.ByPerson()}
	if b.Aside {
		switch room := t.room(); {
		case room < 0:
			return // it was said that more came
		case len(b.Text) > room:
			b.Text = "[taskdaemon] Loops said more to you than can be shown before you answer: the rest is left out."
			t.full = true
		}
	}
	switch {
	case t.Context == nil:
		t.early = append(slices.Clip(t.early), b)
	case b.Aside:
		t.unread = append(slices.Clip(t.unread), b)
	default:
		t.People = append(slices.Clip(t.People), r.Text)
	}
	t.say(b)
}

// mostAside is how much a model reads of what loops say between two of its answers, in bytes. More would leave no room for its own work.
const mostAside = 4 * td.MailShown

// shown is what a model reads of a message.
func shown(text string) string {
	if len(text) <= td.MailShown {
		return text
	}
	at := td.MailShown
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return fmt.Sprintf("%s\n(the first %d of %d bytes; ask for what you need of the rest, or for a file that has it)", text[:at], at, len(text))
}

// room is how much more of what loops say is shown before the model answers, in bytes; less than nothing: it was said that there is no more.
func (t *Transcript) room() int {
	if t.full {
		return -1
	}
	room := mostAside
	for _, blocks := range [][]td.Block{t.early, t.unread} {
		for _, b := range blocks {
			if b.Aside {
				room -= len(b.Text)
			}
		}
	}
	return max(0, room)
}

// mailWords is a message as the model reads it.
func mailWords(r td.Received) string {
	about := ""
	if r.Topic != "" {
		about = " about " + r.Topic
	}
	switch {
	case r.ByPerson() && r.Kind == td.MailNotify:
		return fmt.Sprintf("%s notifies the loops of this project%s:\n\n%s", r.By, about, r.Text)
	case r.ByPerson():
		return fmt.Sprintf("%s shares this with you:\n\n%s", r.By, r.Text)
	case r.From == "":
		return fence.Text("A notice of taskdaemon to the loops of this project"+about, fence.Visible(r.Text))
	case r.Kind == td.MailNotify:
		return fence.Text(fmt.Sprintf("A notice%s of %s, another loop, to the loops of this project", about, r.Handle), fence.Visible(r.Text))
	}
	return fence.Text(fmt.Sprintf("A message of %s, another loop, to you", r.Handle), fence.Visible(r.Text))
}
