package td

import (
	"slices"
	"strings"
)

// MailKind is how mail finds its receivers. Values are on disk.
type MailKind string

// The kinds of mail.
const (
	MailShare  MailKind = "share"  // to the loops it names
	MailNotify MailKind = "notify" // to all loops of a project that listen
)

// MaxMail bounds the words of one message, in bytes, and MailRate how many a loop may send in a second (K-5). A model reads the first MailShown bytes: a message may be
// longer than its window.
const (
	MaxMail   = 1 << 20
	MailShown = 16 << 10
	MailRate  = 100
)

// ByTaskdaemon is who acts when it is neither a person nor a loop.
const ByTaskdaemon = "taskdaemon"

// Letter is a message before it has found its receivers.
type Letter struct {
	ID    string   `json:"id"`              // whoever gets it twice takes it once
	To    []string `json:"to,omitempty"`    // the loops it is for; none: all of the project that listen
	Topic string   `json:"topic,omitempty"` // what a letter to all is about
	Text  string   `json:"text"`
	// Untrusted says that it may hold words that anybody wrote, whatever the journal knows of its sender.
	Untrusted bool `json:"untrusted,omitempty"`
}

// Kind is how the letter finds its receivers.
func (l Letter) Kind() MailKind {
	if len(l.To) > 0 {
		return MailShare
	}
	return MailNotify
}

// Check says what is wrong with a letter, or nil.
func (l Letter) Check() error {
	switch {
	case strings.TrimSpace(l.Text) == "":
		return Errorf(Invalid, "the message is empty")
	case len(l.Text) > MaxMail:
		return Errorf(Invalid, "the message has %d bytes; %d are allowed", len(l.Text), MaxMail).
			WithHint("put it into a file of the workspace and name the file")
	case l.Topic != "" && len(l.To) > 0:
		return Errorf(Invalid, "a message to named loops has no type: types choose among all loops")
	}
	return CheckTopic(l.Topic)
}

// maxTopic is longer than any name for a kind of event needs to be.
const maxTopic = 64

// CheckTopic says what is wrong with the name of a kind of event, or nil. No name is a name for all.
func CheckTopic(topic string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r)
	}
	if len(topic) > maxTopic || strings.ContainsFunc(topic, func(r rune) bool { return !plain(r) }) {
		return Errorf(Invalid, "the type %.80q: it is made of a-z, 0-9, _, . and -, %d characters at most", topic, maxTopic)
	}
	return nil
}

// Mail is what an inbox holds of a message beside its words, and who hands it over.
type Mail struct {
	ID    string   `json:"id"`
	Kind  MailKind `json:"kind"`
	Topic string   `json:"topic,omitempty"`
	// From is the loop that sends it, and Handle its name; neither: a person does, or taskdaemon itself.
	From   TaskID `json:"from,omitempty"`
	Handle string `json:"handle,omitempty"`
	// Untrusted says that the sender has read text that anybody may have written.
	Untrusted bool `json:"untrusted,omitempty"`
}

// ListenLabel begins the labels by which a task says which notices it wants.
const ListenLabel = "listen:"

// Listens reports whether the task wants notices of a topic: all, unless its labels name some.
func (s Spec) Listens(topic string) bool {
	names := func(l string) bool { return strings.HasPrefix(l, ListenLabel) }
	return !slices.ContainsFunc(s.Labels, names) || topic != "" && s.Subscribes(topic)
}

// Subscribes reports whether the task names the topic among those it wants notices of.
func (s Spec) Subscribes(topic string) bool { return slices.Contains(s.Labels, ListenLabel+topic) }

// The topics of what taskdaemon itself gives notice of.
const (
	TopicCompleted = "task_completed"
	TopicTrunk     = "trunk_moved"
)

// The bodies of what comes from others.
type (
	// Received is a message that the loop reads before its next answer.
	Received struct {
		Mail
		Text string `json:"text"`
		By   string `json:"by"`
	}
	// Queried is a question about the task that a model answered beside its conversation.
	Queried struct {
		ID       string     `json:"id"`
		Question string     `json:"question"`
		By       string     `json:"by,omitempty"`
		Day      string     `json:"day"` // to which it is booked
		Side     SideResult `json:"side"`
		// Lost says that there is no answer: Side says what the call may have cost.
		Lost bool `json:"lost,omitempty"`
		// Tokens is how many of it count towards token budgets.
		Tokens int64 `json:"tokens,omitempty"`
	}
)

// Type names the body on disk.
func (Received) Type() EventType { return "received" }

// Type names the body on disk.
func (Queried) Type() EventType { return "queried" }

func init() {
	register[Received]()
	register[Queried]()
}

// ByPerson reports whether a person says it, and no loop.
func (r Received) ByPerson() bool { return r.From == "" && r.By != ByTaskdaemon }

// booking is what the question costs.
func (q Queried) booking() Booking {
	e := Booking{
		Day: q.Day, Model: q.Side.Model, Cause: CauseQuery, Amount: clampMoney(q.Side.Cost), Unpriced: q.Side.Unpriced, Usage: clampUsage(q.Side.Usage),
	}
	if q.Lost {
		e.Cause = CauseStopped
	}
	if e.Estimated, e.Replayed = q.Side.Estimated, q.Side.Replayed; e.Replayed {
		e.Usage = Usage{}
	}
	e.Tokens = clampTokens(q.Tokens)
	return e
}

// receive takes a message in.
func receive(t Task, c Command) (Body, error) {
	if c.Mail == nil || strings.TrimSpace(c.Text) == "" {
		return nil, Errorf(Invalid, "the message is empty")
	}
	if t.Status.State.Terminal() {
		return nil, Errorf(Conflict, "%s is %s and listens no more", t.Handle, t.Status.State).WithHint("taskdaemon resume %s", t.Handle)
	}
	return Received{Mail: *c.Mail, Text: c.Text, By: c.By}, nil
}
