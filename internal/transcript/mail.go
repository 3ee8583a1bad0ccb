package transcript

import (
	"fmt"
	"slices"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/td"
)

// receive adds a message of another loop, of taskdaemon or of a person to the conversation. What no person says stands
// there as data, and is told again to the next iteration if this one ends before a model has read it.
func (t *Transcript) receive(r td.Received) {
	b := td.Block{Type: td.TextBlock, Text: mailWords(r), Aside: !r.ByPerson()}
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
